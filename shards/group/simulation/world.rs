//! Time, and the course of the day.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ringgate_group::request::OffsetFetchRequest;
use ringgate_group::route::Route;
use ringgate_group::{ErrorCode, GroupConfig, MigrationPolicy, Now, Request, Response, Text, Totals};

use super::checks::Checks;
use super::client::{Client, Knowledge};
use super::event::Event;
use super::gateway::{Connection, Disk, Gateway, NOBODY};
use super::network::Delays;
use super::queue::Queue;
use super::random::Random;
use super::topics::Catalogue;
use super::{Options, Summary};

/// A request is answered within this: two rebalances and what the store takes, us.
const ANSWERED_WITHIN_US: u64 = 150_000_000;

const RETENTION_US: u64 = 60_000_000;

const WALL_MS: i64 = 1_700_000_000_000;

pub struct Place {
    pub client: Option<Box<dyn Client>>,
    pub connection: Option<u64>,
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
    pub clients: Vec<Place>,
    pub knowledge: Knowledge,
    pub next_connection: u64,
    pub is_calm: bool,
    /// How likely each kind of trouble is in this world.
    pub troubles: [u64; 6],
    pub frozen_until_us: u64,
    pub looks: u64,
    /// What every group came to when it was at rest.
    pub at_rest: BTreeMap<Text, i32>,
    pub trace: VecDeque<String>,
    pub is_over: bool,
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
            // With the others a classic group need not become a consumer group when a consumer comes, and not all can
            // be at rest.
            consumer_migration_policy: *random.of(&[
                MigrationPolicy::Disabled,
                MigrationPolicy::Disabled,
                MigrationPolicy::Bidirectional,
                MigrationPolicy::Upgrade,
            ]),
            ..GroupConfig::default()
        };
        let wide = config.clone();
        let mut config = config;
        if random.percent(30) {
            config.max_groups = random.between(2, 4) as usize;
            config.max_total_members = random.between(3, 9) as usize;
            config.max_members_per_group = random.between(2, 4) as usize;
            config.max_group_memory = *random.of(&[6_000, 20_000, 60_000]);
        }
        let gateway = Gateway {
            run: 1,
            is_up: false,
            route: Route::new(1),
            shards: Vec::new(),
            totals: Arc::new(Totals::default()),
            config,
            wide,
            least: (0, 0),
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
        self.summary.migrations = self.checks.migrations;
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
            Event::Topics { shard, catalogue, deleted, .. } => {
                let now = self.now();
                self.gateway.shards[shard].core.topics(catalogue);
                self.gateway.shards[shard].core.topics_deleted(now, deleted);
                self.pump(shard);
            }
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
        // What was accepted once is not refused at a start.
        let max_groups = self.gateway.config.max_groups.max(self.gateway.least.0);
        let max_members = self.gateway.config.max_total_members.max(self.gateway.least.1);
        if self.gateway.is_up && (totals.groups() > max_groups || totals.members() > max_members) {
            self.checks.fail("no bound is passed", format!("{totals:?} with {:?}", self.gateway.config));
        }
        if self.gateway.is_up && (totals.groups() != groups || totals.members() < members) {
            let details = format!("{groups} groups, {members} members, counted {totals:?}");
            self.checks.fail("what is counted is there", details);
        }
        let counts = self.gateway.shards.iter().try_for_each(|shard| shard.core.coordinator().check_counts());
        if let Some(details) = counts.err() {
            self.checks.fail("the gauges are what there is", details);
        }
        if self.looks.is_multiple_of(10) && self.gateway.is_up && self.now_us >= self.frozen_until_us {
            self.fetch_all();
        }
    }

    /// What has become of every acknowledged commit; the checks look at the answers.
    pub fn fetch_all(&mut self) {
        // Of groups that are deleted at the end of the day the answers are looked at then.
        self.gateway.answers_to_nobody.retain(|_, response| matches!(response, Response::DeleteGroup(_)));
        for group in self.checks.group_ids() {
            let request = OffsetFetchRequest { group_id: group.clone(), member_epoch: -1, ..Default::default() };
            self.ask(group.as_str(), Request::OffsetFetch(request));
        }
    }
}
