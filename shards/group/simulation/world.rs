//! Time, the network, what goes wrong, and the course of the day.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ringgate_group::pipeline::RequestId;
use ringgate_group::request::*;
use ringgate_group::route::Route;
use ringgate_group::{
    ErrorCode, GroupConfig, MigrationPolicy, Now, PartitionSet, Request, Response, Text, TimerKey, Totals,
};

use super::checks::Checks;
use super::classic::{Classic, Flaw};
use super::client::{Client, Io, Knowledge, Line, Status, Wake};
use super::consumer::Consumer;
use super::gateway::{Connection, Disk, Gateway, NOBODY};
use super::hostile::Hostile;
use super::queue::Queue;
use super::random::Random;
use super::topics::Catalogue;
use super::{Options, Summary, classic, consumer};

/// A request is answered within this: two rebalances and what the store takes, us.
const ANSWERED_WITHIN_US: u64 = 150_000_000;

/// From the end of all faults until everything has to be at rest: connections that nobody noticed to be gone,
/// then sessions, join phases and syncs one after the other.
const COMES_TO_REST_US: u64 = 180_000_000;

/// How long it then has to stay so. Longer than offsets are retained.
const STAYS_AT_REST_US: u64 = 100_000_000;

/// From the last client's leave until nothing is left.
const EMPTIES_US: u64 = 120_000_000;

const RETENTION_US: u64 = 60_000_000;

const WALL_MS: i64 = 1_700_000_000_000;

/// What happens.
pub enum Event {
    Wake { client: usize, wake: Wake },
    Arrive { connection: u64, seq: u64, request: Request },
    GatewaySeesClose { connection: u64 },
    Answer { connection: u64, seq: u64, response: Response },
    ClientSeesClose { client: usize, connection: u64 },
    Timer { run: u64, shard: usize, key: TimerKey, deadline_ms: u64 },
    Pump { run: u64, shard: usize },
    Drain { run: u64, shard: usize },
    Answered { run: u64, connection: u64, request: RequestId, response: Response },
    Written { run: u64, shard: usize },
    Linger { run: u64, shard: usize },
    Computed { run: u64, shard: usize, group: (u32, u64), asked: Vec<(u32, u64)>, targets: Vec<PartitionSet> },
    Resolved { run: u64, shard: usize, group: (u32, u64), resolved: Vec<(Text, Vec<Text>)> },
    Topics { run: u64, shard: usize, catalogue: Arc<Catalogue> },
    Expire,
    Look,
    Thaw { run: u64, stood_ms: u64 },
    Trouble,
    Start,
    Calm,
    AtRest,
    StillAtRest,
    Farewell,
    Delete,
    End,
}

impl Event {
    /// In which life of the process it happens, where it happens inside of it.
    fn run(&self) -> Option<u64> {
        match self {
            Event::Timer { run, .. }
            | Event::Pump { run, .. }
            | Event::Drain { run, .. }
            | Event::Answered { run, .. }
            | Event::Written { run, .. }
            | Event::Linger { run, .. }
            | Event::Computed { run, .. }
            | Event::Resolved { run, .. }
            | Event::Topics { run, .. } => Some(*run),
            _ => None,
        }
    }

    fn is_of_gateway(&self) -> bool {
        self.run().is_some() || matches!(self, Event::Arrive { .. } | Event::GatewaySeesClose { .. } | Event::Expire)
    }
}

/// How long bytes are under way.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    usual_us: u64,
    slow_us: u64,
    slow_percent: u64,
}

impl Delays {
    pub fn of(&self, random: &mut Random) -> u64 {
        if random.percent(self.slow_percent) {
            return random.between(self.usual_us, self.slow_us);
        }
        random.between(20, self.usual_us)
    }
}

struct Place {
    client: Option<Box<dyn Client>>,
    connection: Option<u64>,
}

pub struct World {
    pub options: Options,
    pub random: Random,
    pub now_us: u64,
    pub queue: Queue<Event>,
    pub gateway: Gateway,
    pub connections: BTreeMap<u64, Connection>,
    pub checks: Checks,
    pub catalogue: Catalogue,
    pub delays: Delays,
    pub store_fails_percent: u64,
    pub store_slow_percent: u64,
    pub summary: Summary,
    clients: Vec<Place>,
    knowledge: Knowledge,
    next_connection: u64,
    is_calm: bool,
    /// How likely each kind of trouble is in this world.
    troubles: [u64; 6],
    frozen_until_us: u64,
    looks: u64,
    /// What every group came to when it was at rest.
    at_rest: BTreeMap<Text, i32>,
    trace: VecDeque<String>,
    is_over: bool,
}

impl World {
    pub fn new(seed: u64, options: Options) -> World {
        let mut random = Random::new(seed);
        let delay_ms = *random.of(&[0, 0, 500, 3_000]);
        let config = GroupConfig {
            min_session_timeout: Duration::from_secs(1),
            max_rebalance_timeout: Duration::from_secs(30),
            initial_rebalance_delay: Duration::from_millis(delay_ms),
            offsets_retention: Duration::from_micros(RETENTION_US),
            consumer_session_timeout: Duration::from_secs(12),
            consumer_heartbeat_interval: Duration::from_secs(2),
            consumer_assignment_interval: Duration::from_millis(*random.of(&[0, 1_000])),
            consumer_regex_refresh_interval: Duration::from_secs(20),
            // The checks know groups of one protocol at a time.
            consumer_migration_policy: MigrationPolicy::Disabled,
            ..GroupConfig::default()
        };
        let gateway = Gateway {
            run: 1,
            is_up: false,
            route: Route::new(1),
            shards: Vec::new(),
            totals: Arc::new(Totals::default()),
            config,
            linger: Duration::from_millis(*random.of(&[0, 0, 5, 40])),
            mailbox_capacity: *random.of(&[1, 4, 64]),
            slice_max: *random.of(&[1, 3, 64, 128]),
            disk: Disk::default(),
            has_unknown_writes: false,
            open: BTreeMap::new(),
            withdrawn: Vec::new(),
            answers_to_nobody: BTreeMap::new(),
            next_token: 0,
        };
        let delays = Delays {
            usual_us: *random.of(&[200, 2_000, 40_000]),
            slow_us: *random.of(&[200_000, 4_000_000]),
            slow_percent: *random.of(&[0, 1, 5]),
        };
        // Some worlds know no trouble of a kind, so that others show.
        let mut often = |choices: &[u64]| *random.of(choices);
        let troubles =
            [often(&[0, 10, 40]), often(&[0, 0, 5, 15]), often(&[0, 0, 5]), often(&[0, 10]), often(&[0, 10]), 20];
        let (store_fails_percent, store_slow_percent) = (often(&[0, 0, 0, 2]), often(&[0, 5, 30]));
        let mut catalogue = Catalogue::default();
        for (name, partitions) in [("c-a", 6), ("c-b", 4), ("k-a", 5), ("k-b", 3)] {
            catalogue.set(name, partitions);
        }
        let checks = Checks::new(RETENTION_US);
        let mut world = World {
            options,
            random,
            now_us: 1_000_000,
            queue: Queue::new(),
            gateway,
            connections: BTreeMap::new(),
            checks,
            catalogue,
            delays,
            store_fails_percent,
            store_slow_percent,
            summary: Summary { seeds: 1, ..Summary::default() },
            clients: Vec::new(),
            knowledge: Knowledge::default(),
            next_connection: NOBODY + 1,
            is_calm: false,
            troubles,
            frozen_until_us: 0,
            looks: 0,
            at_rest: BTreeMap::new(),
            trace: VecDeque::new(),
            is_over: false,
        };
        world.populate();
        world
    }

    /// The groups of this world and who is in them.
    fn populate(&mut self) {
        let (classic, consumer) = (self.random.between(1, 2), self.random.below(3));
        self.knowledge.classic_groups = (0..classic).map(|n| format!("c{n}").into()).collect();
        self.knowledge.consumer_groups = (0..consumer).map(|n| format!("k{n}").into()).collect();
        for group in self.knowledge.classic_groups.clone() {
            let (cooperative, both) = (self.random.percent(50), self.random.percent(50));
            let topics: Vec<Text> = if both { vec!["c-a".into(), "c-b".into()] } else { vec!["c-a".into()] };
            let members = self.random.between(1, 5);
            let broken = if self.random.percent(50) { self.random.between(1, 2) } else { 0 };
            for n in 0..members + broken {
                let flaws = [
                    Flaw::NeverSyncs,
                    Flaw::NeverHeartbeats,
                    Flaw::JoinsTwice,
                    Flaw::WrongGeneration,
                    Flaw::NeverComesBack,
                ];
                let is_static = n < members && self.random.percent(30);
                let manner = classic::Manner {
                    group: group.clone(),
                    topics: topics.clone(),
                    instance: is_static.then(|| format!("i{n}").into()),
                    cooperative,
                    heartbeats_always: self.random.percent(40),
                    // Before 9 a static leader that starts again is not told that it leads (KIP-814), and nobody
                    // notices then that a topic has grown.
                    join_version: *self.random.of(if is_static { &[9, 9, 9] } else { &[1, 3, 4, 7, 9] }),
                    session_ms: *self.random.of(&[6_000, 9_000, 12_000]),
                    rebalance_ms: *self.random.of(&[4_000, 15_000, 30_000]),
                    heartbeat_ms: self.random.between(1_500, 2_500),
                    commit_ms: self.random.between(2_000, 6_000),
                    flaw: if n < members { Flaw::None } else { *self.random.of(&flaws) },
                };
                self.add_client(Box::new(Classic::new(manner)));
            }
        }
        for group in self.knowledge.consumer_groups.clone() {
            let members = self.random.between(1, 5);
            let broken = u64::from(self.random.percent(30));
            for n in 0..members + broken {
                let regex = self.random.percent(30);
                let manner = consumer::Manner {
                    group: group.clone(),
                    topics: if regex { Vec::new() } else { vec!["k-a".into(), "k-b".into()] },
                    regex: regex.then(|| "k-.*".into()),
                    instance: self.random.percent(30).then(|| format!("i{n}").into()),
                    assignor: self.random.percent(40).then(|| (*self.random.of(&["uniform", "range"])).into()),
                    rebalance_ms: *self.random.of(&[5_000, 20_000]),
                    commit_ms: self.random.between(2_000, 6_000),
                    revokes_in_ms: *self.random.of(&[0, 300, 4_000]),
                    never_revokes: n >= members,
                };
                self.add_client(Box::new(Consumer::new(manner)));
            }
        }
        if self.random.percent(50) {
            let group = self.knowledge.classic_groups[0].clone();
            self.add_client(Box::new(Hostile::new(group)));
        }
    }

    fn add_client(&mut self, client: Box<dyn Client>) {
        let at_ms = self.random.below(8_000);
        let number = self.clients.len();
        self.clients.push(Place { client: Some(client), connection: None });
        self.with_client(number, |client, io| client.begin(io, at_ms));
    }

    /// The whole day.
    pub fn live(&mut self) {
        let shards = self.random.between(1, 4) as u16;
        self.start_gateway(shards);
        let calm_us = self.now_us + self.random.between(30_000_000, 110_000_000);
        self.queue.add(self.now_us + 1_000_000, Event::Look);
        self.queue.add(self.now_us + 20_000_000, Event::Expire);
        self.queue.add(self.now_us + 3_000_000, Event::Trouble);
        self.queue.add(calm_us, Event::Calm);
        while !self.is_over && self.checks.failure.is_none() {
            let Some((at_us, event)) = self.queue.pop() else { break };
            self.now_us = self.now_us.max(at_us);
            if self.now_us < self.frozen_until_us && event.is_of_gateway() {
                self.queue.add(self.frozen_until_us, event);
                continue;
            }
            self.summary.steps += 1;
            self.step(event);
        }
        self.summary.simulated_us = self.now_us;
    }

    pub fn failure(&mut self) -> Option<(&'static str, String)> {
        self.checks.failure.take()
    }

    pub fn summary(&self) -> Summary {
        self.summary
    }

    pub fn into_trace(self) -> (u64, Vec<String>) {
        (self.now_us, self.trace.into())
    }

    pub fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.options.trace > 0 {
            if self.trace.len() == self.options.trace {
                self.trace.pop_front();
            }
            self.trace.push_back(format!("{:>11.4} {}", self.now_us as f64 / 1e6, line()));
        }
    }

    pub fn now(&self) -> Now {
        let ms = self.now_us / 1000;
        Now { mono_ms: ms, wall_ms: WALL_MS + ms as i64 }
    }

    /// What the summary counts.
    pub fn count(&mut self, response: &Response) {
        match response {
            Response::OffsetCommit(answer) => {
                let codes = answer.topics.iter().flat_map(|topic| &topic.partitions);
                self.summary.commits += codes.filter(|(_, code)| *code == ErrorCode::NONE).count() as u64;
            }
            Response::Join(answer) if !answer.members.is_empty() => self.summary.rebalances += 1,
            _ => {}
        }
    }

    fn step(&mut self, event: Event) {
        if event.run().is_some_and(|run| run != self.gateway.run) {
            return;
        }
        match event {
            Event::Wake { client, wake } => self.with_client(client, |client, io| client.woken(io, wake)),
            Event::Arrive { connection, seq, request } => {
                if let Some(known) = self.connections.get_mut(&connection) {
                    known.unread.push_back((seq, request));
                    self.go_on(connection);
                }
            }
            Event::GatewaySeesClose { connection } => self.close_connection(connection),
            Event::Answer { connection, seq, response } => self.answer_arrives(connection, seq, response),
            Event::ClientSeesClose { client, connection } => {
                if self.clients[client].connection == Some(connection) {
                    self.clients[client].connection = None;
                    self.with_client(client, |client, io| client.disconnected(io));
                }
            }
            Event::Timer { shard, key, deadline_ms, .. } => self.timer(shard, key, deadline_ms),
            Event::Pump { shard, .. } => self.carry_out(shard),
            Event::Drain { shard, .. } => self.drain(shard),
            Event::Answered { connection, request, response, .. } => self.answered(connection, request, response),
            Event::Written { shard, .. } => self.written(shard),
            Event::Linger { shard, .. } => self.write(shard),
            Event::Computed { shard, group, asked, targets, .. } => {
                let now = self.now();
                self.gateway.shards[shard].core.assignment_computed(now, group, asked, targets);
                self.pump(shard);
            }
            Event::Resolved { shard, group, resolved, .. } => {
                let now = self.now();
                self.gateway.shards[shard].core.regex_resolved(now, group, resolved);
                self.pump(shard);
            }
            Event::Topics { shard, catalogue, .. } => self.gateway.shards[shard].core.topics(catalogue),
            Event::Expire => self.expire(),
            Event::Look => self.look(),
            Event::Thaw { run, stood_ms } => {
                if run == self.gateway.run {
                    self.gateway.shards.iter_mut().for_each(|shard| shard.core.stall(stood_ms));
                }
            }
            Event::Trouble => self.trouble(),
            Event::Start => self.restart(),
            Event::Calm => self.calm_down(),
            Event::AtRest => self.is_at_rest(),
            Event::StillAtRest => self.is_still_at_rest(),
            Event::Farewell => self.farewell(),
            Event::Delete => self.delete_groups(),
            Event::End => self.end(),
        }
    }

    /// Lets a client do something, and does what it wants done.
    fn with_client(&mut self, number: usize, act: impl FnOnce(&mut dyn Client, &mut Io<'_>)) {
        let Some(mut client) = self.clients[number].client.take() else { return };
        let mut io = Io {
            now_us: self.now_us,
            random: &mut self.random,
            catalogue: &self.catalogue,
            knowledge: &mut self.knowledge,
            is_calm: self.is_calm,
            connected: self.clients[number].connection.is_some(),
            connect: false,
            sends: Vec::new(),
            line: None,
            wakes: Vec::new(),
            holds: None,
        };
        act(&mut *client, &mut io);
        let Io { connect, sends, line, wakes, holds, .. } = io;
        let group = client.group();
        if let Some((member_id, has)) = holds {
            self.checks.holds(number, &group, member_id, has);
        }
        if self.options.trace > 0 && (connect || line.is_some()) {
            let name = client.name();
            self.trace(|| format!("client {number} ({name}) connects: {connect}, ends: {line:?}"));
        }
        self.clients[number].client = Some(client);
        if connect {
            self.connect(number, &group);
        }
        for (sent, request) in sends {
            let Some(id) = self.clients[number].connection else { break };
            let delay_us = self.delays.of(&mut self.random);
            let Some(connection) = self.connections.get_mut(&id) else { break };
            let seq = connection.next_seq;
            connection.next_seq += 1;
            connection.outstanding.push_back((seq, sent));
            connection.to_gateway_us = connection.to_gateway_us.max(self.now_us + delay_us);
            let at_us = connection.to_gateway_us;
            self.queue.add(at_us, Event::Arrive { connection: id, seq, request });
        }
        if let Some(line) = line
            && let Some(id) = self.clients[number].connection.take()
            && let Some(connection) = self.connections.get(&id)
        {
            let noticed_us = match line {
                Line::Close => self.delays.of(&mut self.random),
                Line::Vanish => self.random.between(5_000_000, 40_000_000),
            };
            let at_us = connection.to_gateway_us.max(self.now_us + noticed_us);
            self.queue.add(at_us, Event::GatewaySeesClose { connection: id });
        }
        for (at_us, wake) in wakes {
            self.queue.add(at_us, Event::Wake { client: number, wake });
        }
    }

    fn connect(&mut self, client: usize, group: &Text) {
        let id = self.next_connection;
        self.next_connection += 1;
        self.clients[client].connection = Some(id);
        if !self.gateway.is_up {
            let after_us = self.random.between(100, 100_000);
            return self.queue.add(self.now_us + after_us, Event::ClientSeesClose { client, connection: id });
        }
        let shard = match self.random.percent(60) {
            true => self.owner(group.as_str()),
            false => self.random.below(self.gateway.shards.len() as u64) as usize,
        };
        self.connections.insert(id, Connection::new(client, shard));
    }

    fn answer_arrives(&mut self, id: u64, seq: u64, response: Response) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let client = connection.client;
        if self.clients[client].connection != Some(id) {
            return;
        }
        let Some((expected, sent)) = connection.outstanding.pop_front().filter(|(expected, _)| *expected == seq) else {
            return self.checks.fail("answers come in the order of requests", format!("{id}: {seq} {response:?}"));
        };
        debug_assert_eq!(expected, seq);
        self.with_client(client, |client, io| client.answered(io, sent, response));
    }

    fn expire(&mut self) {
        self.queue.add(self.now_us + 20_000_000, Event::Expire);
        let now = self.now();
        for shard in 0..self.gateway.shards.len() {
            self.gateway.shards[shard].core.expiry(now);
            self.pump(shard);
        }
    }

    /// What has to hold at any time, looked at every second.
    fn look(&mut self) {
        self.queue.add(self.now_us + 1_000_000, Event::Look);
        self.looks += 1;
        let late = self.gateway.open.iter().find(|(_, open)| self.now_us > open.since_us + ANSWERED_WITHIN_US);
        if let Some((token, open)) = late {
            let details = format!("{token} of connection {} is not: {:?}", open.connection, open.asked);
            self.checks.fail("every request is answered", details);
        }
        self.gateway.withdrawn.retain(|(token, _)| self.gateway.open.contains_key(token));
        if let Some((token, _)) = self.gateway.withdrawn.iter().find(|(_, until_us)| self.now_us > *until_us) {
            let details = format!("{token} still waits");
            self.checks.fail("what a closed connection has parked is withdrawn", details);
        }
        let shards = &self.gateway.shards;
        let groups: usize = shards.iter().map(|shard| shard.core.coordinator().group_count()).sum();
        let members: usize = shards.iter().map(|shard| shard.core.coordinator().member_count()).sum();
        let totals = &self.gateway.totals;
        if self.gateway.is_up && (totals.groups() != groups || totals.members() < members) {
            let details = format!("{groups} groups, {members} members, counted {totals:?}");
            self.checks.fail("what is counted is there", details);
        }
        if self.looks.is_multiple_of(10) && self.gateway.is_up && self.now_us >= self.frozen_until_us {
            self.fetch_all();
        }
    }

    /// What has become of every acknowledged commit; the checks look at the answers.
    fn fetch_all(&mut self) {
        self.gateway.answers_to_nobody.clear();
        for group in self.checks.group_ids() {
            let request = OffsetFetchRequest { group_id: group.clone(), member_epoch: -1, ..Default::default() };
            self.ask(group.as_str(), Request::OffsetFetch(request));
        }
    }

    fn trouble(&mut self) {
        if self.is_calm {
            return;
        }
        let after_us = self.random.between(500_000, 4_000_000);
        self.queue.add(self.now_us + after_us, Event::Trouble);
        let kind = self.random.below(self.troubles.len() as u64) as usize;
        let often = self.troubles[kind];
        if !self.gateway.is_up || !self.random.percent(often) {
            return;
        }
        match kind {
            0 => self.cut_connection(),
            1 => self.die(),
            // The machine stands still.
            2 if self.now_us < self.frozen_until_us => {}
            2 => {
                let stood_us = self.random.between(1_000_000, 20_000_000);
                self.trace(|| format!("stands still for {stood_us} us"));
                self.frozen_until_us = self.now_us + stood_us;
                let (run, stood_ms) = (self.gateway.run, stood_us / 1000);
                self.queue.add(self.frozen_until_us, Event::Thaw { run, stood_ms });
            }
            3 => self.change_topics(),
            4 => (0..3).for_each(|_| self.cut_connection()),
            // A log that is closed stays so until somebody starts the gateway again.
            _ => {
                if self.gateway.shards.iter().any(|shard| shard.log_is_closed) {
                    self.die();
                }
            }
        }
    }

    fn cut_connection(&mut self) {
        let open: Vec<u64> = self.connections.keys().copied().collect();
        if open.is_empty() {
            return;
        }
        let id = *self.random.of(&open);
        self.trace(|| format!("connection {id} is cut"));
        let client = self.connections[&id].client;
        let (sooner, later) = (self.random.between(10, 2_000_000), self.random.between(10, 20_000_000));
        let (gateway_us, client_us) = if self.random.percent(50) { (sooner, later) } else { (later, sooner) };
        self.queue.add(self.now_us + gateway_us, Event::GatewaySeesClose { connection: id });
        self.queue.add(self.now_us + client_us, Event::ClientSeesClose { client, connection: id });
    }

    fn die(&mut self) {
        self.crash();
        self.frozen_until_us = 0;
        self.summary.crashes += 1;
        let after_us = self.random.between(50_000, 6_000_000);
        self.queue.add(self.now_us + after_us, Event::Start);
    }

    fn restart(&mut self) {
        let shards = self.random.between(1, 4) as u16;
        self.start_gateway(shards);
        self.fetch_all();
    }

    /// A topic grows, or another comes.
    fn change_topics(&mut self) {
        match self.random.percent(50) {
            true => self.catalogue.set("k-a", self.catalogue.partitions_of("k-a") + 1),
            false => self.catalogue.set("k-c", 2),
        }
        let catalogue = Arc::new(self.catalogue.clone());
        for shard in 0..self.gateway.shards.len() {
            let after_us = self.random.between(10, 100_000);
            let event = Event::Topics { run: self.gateway.run, shard, catalogue: catalogue.clone() };
            self.queue.add(self.now_us + after_us, event);
        }
    }

    /// From now on nothing goes wrong.
    fn calm_down(&mut self) {
        self.trace(|| "calms down".to_owned());
        self.is_calm = true;
        self.store_fails_percent = 0;
        self.store_slow_percent = 0;
        self.delays.slow_percent = 0;
        if self.gateway.is_up && self.gateway.shards.iter().any(|shard| shard.log_is_closed) {
            self.die();
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, io| client.calm(io));
        }
        self.queue.add(self.now_us + COMES_TO_REST_US, Event::AtRest);
    }

    fn statuses(&self) -> Vec<Status> {
        self.clients.iter().filter_map(|place| place.client.as_ref()?.status()).collect()
    }

    /// All groups are at rest, and everything that is subscribed to is with somebody.
    fn check_rest(&mut self) -> BTreeMap<Text, i32> {
        let statuses = self.statuses();
        let mut generations = BTreeMap::new();
        for group in statuses.iter().map(|status| status.group.clone()).collect::<BTreeSet<_>>() {
            let members: Vec<&Status> = statuses.iter().filter(|status| status.group == group).collect();
            let generation = members[0].generation;
            if !members.iter().all(|member| member.is_stable && member.generation == generation) {
                self.checks.fail("groups come to rest when faults end", format!("{group}: {members:#?}"));
            }
            let mut wanted: BTreeSet<(Text, i32)> = BTreeSet::new();
            for member in &members {
                let by_prefix = member.prefix.iter().flat_map(|prefix| self.catalogue.named(prefix)).map(Text::from);
                for topic in member.topics.iter().cloned().chain(by_prefix) {
                    let all = self.catalogue.partitions_of(topic.as_str());
                    wanted.extend((0..all).map(|partition| (topic.clone(), partition)));
                }
            }
            let ids: BTreeSet<&Text> = members.iter().map(|member| &member.member_id).collect();
            if ids.len() != members.len() {
                self.checks.fail("every member has an id of its own", format!("{group}: {ids:?}"));
            }
            let had: Vec<(Text, i32)> = members.iter().flat_map(|member| member.partitions.clone()).collect();
            let distinct: BTreeSet<(Text, i32)> = had.iter().cloned().collect();
            if distinct.len() != had.len() || distinct != wanted {
                let details = format!("{group}: has {had:?}, wants {wanted:?}");
                self.checks.fail("at rest every partition is with one member", details);
            }
            generations.insert(group, generation);
        }
        generations
    }

    fn is_at_rest(&mut self) {
        self.at_rest = self.check_rest();
        self.checks.is_settled = true;
        self.fetch_all();
        self.queue.add(self.now_us + STAYS_AT_REST_US, Event::StillAtRest);
    }

    fn is_still_at_rest(&mut self) {
        let now = self.check_rest();
        if now != self.at_rest {
            let details = format!("{:?} became {now:?}", self.at_rest);
            self.checks.fail("what is at rest stays so", details);
        }
        self.fetch_all();
        let (counted, recounted) = (self.gateway.totals.clone(), self.recount());
        let of = |totals: &Totals| (totals.groups(), totals.members(), totals.bytes());
        let can_tell = self.gateway.open.is_empty() && !self.gateway.has_unknown_writes;
        if can_tell && of(&counted) != of(&recounted) {
            let details = format!("(groups, members, bytes) {:?}, but {:?}", of(&counted), of(&recounted));
            self.checks.fail("memory is counted as what there is", details);
        }
        self.queue.add(self.now_us, Event::Farewell);
    }

    fn farewell(&mut self) {
        self.checks.is_settled = false;
        for client in 0..self.clients.len() {
            self.with_client(client, |client, io| client.farewell(io));
        }
        self.queue.add(self.now_us + EMPTIES_US, Event::Delete);
    }

    fn delete_groups(&mut self) {
        if let Some((token, open)) = self.gateway.open.first_key_value() {
            let details = format!("{token} of connection {} is not: {:?}", open.connection, open.asked);
            self.checks.fail("every request is answered", details);
        }
        self.gateway.answers_to_nobody.clear();
        for group in self.checks.group_ids() {
            self.ask(group.as_str(), Request::DeleteGroup(DeleteGroupRequest { group_id: group.clone() }));
        }
        self.queue.add(self.now_us + 10_000_000, Event::End);
    }

    fn end(&mut self) {
        let refused = |response: &&Response| matches!(response, Response::DeleteGroup(code) if ![ErrorCode::NONE, ErrorCode::GROUP_ID_NOT_FOUND].contains(code));
        let refused = self.gateway.answers_to_nobody.values().find(refused).cloned();
        if let Some(response) = refused {
            self.checks.fail("a group is empty when all have gone", format!("{response:?}"));
        }
        let totals = &self.gateway.totals;
        if (totals.groups(), totals.members(), totals.bytes()) != (0, 0, 0) {
            self.checks.fail("nothing is left of what is gone", format!("{totals:?}"));
        }
        let timers: Vec<&TimerKey> = self.gateway.shards.iter().flat_map(|shard| shard.timers.keys()).collect();
        if !timers.is_empty() {
            let details = format!("{timers:?}");
            self.checks.fail("no timer is left of what is gone", details);
        }
        self.is_over = true;
    }
}
