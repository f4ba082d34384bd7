//! The gateway: shards with their coordinators, timers and logs, and connections with their pipelines.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ringgate_group::pipeline::{Pipeline, RequestId, RequestKind};
use ringgate_group::route::Route;
use ringgate_group::{
    ConnectionId, Effect, GroupConfig, Record, ReplyToken, Request, Response, StoreError, TimerKey, Totals,
    resolve_regexes,
};

use super::checks::Asked;
use super::client::Sent;
use super::event::Event;
use super::mailboxes::{Mail, Mailbox, Notice};
use super::mutation::Core;
use super::world::World;

/// The connection of requests that the world itself asks.
pub const NOBODY: u64 = 0;

/// A connection, from both its ends.
pub struct Connection {
    pub client: usize,
    pub shard: usize,
    pub pipeline: Pipeline<(u64, Response)>,
    /// Frames that have arrived and were not read.
    pub unread: VecDeque<(u64, Request)>,
    /// Read and not started, or started and not answered.
    pub requests: HashMap<RequestId, (u64, Option<Request>)>,
    /// The owners that it has asked something.
    pub owners: BTreeSet<usize>,
    /// What the client has sent and was not answered, in order.
    pub outstanding: VecDeque<(u64, Sent)>,
    pub next_seq: u64,
    pub is_closed: bool,
    /// When the last byte in each direction arrives.
    pub to_gateway_us: u64,
    pub to_client_us: u64,
}

impl Connection {
    pub fn new(client: usize, shard: usize) -> Connection {
        Connection {
            client,
            shard,
            pipeline: Pipeline::new(16),
            unread: VecDeque::new(),
            requests: HashMap::new(),
            owners: BTreeSet::new(),
            outstanding: VecDeque::new(),
            next_seq: 0,
            is_closed: false,
            to_gateway_us: 0,
            to_client_us: 0,
        }
    }
}

/// A request that is not answered.
pub struct Open {
    pub connection: u64,
    request: Option<RequestId>,
    pub shard: usize,
    pub since_us: u64,
    pub asked: Asked,
}

/// How a write will go.
pub struct Writing {
    records: Vec<(Record, Option<usize>)>,
    /// So many of them are on disk when the write is over, or when the process dies before.
    keeps: usize,
    result: Result<(), StoreError>,
}

pub struct Shard {
    pub core: Core,
    pub timers: HashMap<TimerKey, u64>,
    /// A slice of effects is under way; the rest comes with the next.
    pumping: bool,
    pub writing: Option<Writing>,
    /// Until the next start.
    pub log_is_closed: bool,
    pub mailbox: Mailbox,
}

/// What is on disk.
#[derive(Default)]
pub struct Disk {
    /// Everything ever written, in order.
    log: Vec<Record>,
    /// The last of each key, with its place.
    pub kept: BTreeMap<Bytes, (usize, Record)>,
}

impl Disk {
    fn write(&mut self, record: &Record) {
        let place = self.log.len();
        self.log.push(record.clone());
        if record.is_tombstone() {
            self.kept.remove(&record.key());
        } else {
            self.kept.insert(record.key(), (place, record.clone()));
        }
    }

    /// As a start finds it: by key, as after a compaction, or in the order written, with or without what was
    /// overwritten. Through the bytes of the records.
    fn records(&self, order: u64) -> Vec<Record> {
        let mut records: Vec<&(usize, Record)> = self.kept.values().collect();
        let found: Vec<&Record> = match order {
            0 => self.log.iter().collect(),
            1 => {
                records.sort_by_key(|(place, _)| *place);
                records.iter().map(|(_, record)| record).collect()
            }
            _ => records.iter().map(|(_, record)| record).collect(),
        };
        let through_bytes = |record: &Record| {
            let mut payload = Vec::new();
            record.encode(&mut payload);
            Record::decode(record.kind(), record.version(), &payload).expect("reads what it wrote")
        };
        found.into_iter().map(through_bytes).collect()
    }
}

/// All of one life of the process.
pub struct Gateway {
    pub run: u64,
    pub is_up: bool,
    pub route: Route,
    pub shards: Vec<Shard>,
    pub totals: Arc<Totals>,
    pub config: GroupConfig,
    /// The bounds from the evening on, when everybody has to have room.
    pub wide: GroupConfig,
    /// Groups and members as of the last start.
    pub least: (usize, usize),
    pub linger: Duration,
    pub mailbox_capacity: usize,
    pub slice_max: u64,
    pub disk: Disk,
    /// Of a write that failed in this life something is on disk, which memory rightly knows nothing of.
    pub has_unknown_writes: bool,
    /// Ordered, so that looking through them is the same each time.
    pub open: BTreeMap<u64, Open>,
    /// Parked requests of closed connections and until when they must be answered.
    pub withdrawn: Vec<(u64, u64)>,
    pub answers_to_nobody: BTreeMap<u64, Response>,
    pub next_token: u64,
}

fn kind_of(request: &Request) -> RequestKind {
    match request {
        Request::Join(_) | Request::Sync(_) => RequestKind::JoinOrSync,
        Request::Heartbeat(_) => RequestKind::Heartbeat,
        _ => RequestKind::Other,
    }
}

impl World {
    /// The process starts with what is on disk.
    pub fn start_gateway(&mut self, shards: u16) {
        let now = self.now();
        let totals = Arc::new(Totals::default());
        self.gateway.totals = totals.clone();
        self.gateway.route = Route::new(shards);
        self.gateway.is_up = true;
        self.gateway.has_unknown_writes = false;
        let order = self.random.below(3);
        let records = self.gateway.disk.records(order);
        self.trace(|| format!("starts with {shards} shards and {} records", records.len()));
        let mut cores: Vec<Core> = (0..shards).map(|_| self.new_core(totals.clone())).collect();
        for record in records {
            let owner = self.owner(record.group_id().as_str());
            cores[owner].load(now, record);
        }
        for mut core in cores {
            core.finish_loading(now);
            core.topics(Arc::new(self.catalogue.clone()));
            self.gateway.shards.push(Shard {
                core,
                timers: HashMap::new(),
                pumping: false,
                writing: None,
                log_is_closed: false,
                mailbox: Mailbox::new(usize::from(shards)),
            });
        }
        self.gateway.least = (totals.groups(), totals.members());
        for shard in 0..usize::from(shards) {
            self.pump(shard);
        }
    }

    pub fn new_core(&mut self, totals: Arc<Totals>) -> Core {
        let mut random = self.random.fork();
        let random = move || u128::from(random.next()) << 64 | u128::from(random.next());
        Core::new(self.gateway.config.clone(), totals, self.gateway.linger, random, self.options.mutation)
    }

    /// What the store has, taken in by a coordinator of its own: what memory should be counted as.
    pub fn recount(&mut self) -> Arc<Totals> {
        let now = self.now();
        let totals = Arc::new(Totals::default());
        let mut core = self.new_core(totals.clone());
        for record in self.gateway.disk.records(1) {
            core.load(now, record);
        }
        core.finish_loading(now);
        totals
    }

    /// The process dies. Of what is being written some records are on disk, from the first on.
    pub fn crash(&mut self) {
        self.trace(|| "dies".to_owned());
        for shard in std::mem::take(&mut self.gateway.shards) {
            let Some(writing) = shard.writing else { continue };
            let keeps = self.random.below(writing.records.len() as u64 + 1) as usize;
            self.keep(&writing.records[..keeps]);
        }
        self.gateway.is_up = false;
        self.gateway.run += 1;
        self.gateway.open.clear();
        self.gateway.withdrawn.clear();
        self.gateway.answers_to_nobody.clear();
        self.checks.crashed(self.gateway.disk.kept.values().map(|(_, record)| record));
        let open: Vec<u64> = self.connections.keys().copied().collect();
        for connection in open {
            let client = self.connections[&connection].client;
            let after_us = self.random.between(100, 200_000);
            self.queue.add(self.now_us + after_us, Event::ClientSeesClose { client, connection });
        }
        self.connections.clear();
    }

    fn keep(&mut self, records: &[(Record, Option<usize>)]) {
        for (record, tombstone) in records {
            self.gateway.disk.write(record);
            self.checks.durable(record, *tombstone);
        }
    }

    pub fn owner(&self, group: &str) -> usize {
        usize::from(self.gateway.route.group(group).0)
    }

    /// Frames are read, started and answered as far as that goes.
    pub fn go_on(&mut self, id: u64) {
        loop {
            let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.is_closed) else {
                return;
            };
            let shard = connection.shard;
            // A shard with a backlog reads nothing that could make it longer.
            let has_room = self.gateway.shards[shard].mailbox.may_read();
            let mut worked = false;
            while has_room && connection.pipeline.may_read() {
                let Some((seq, request)) = connection.unread.pop_front() else { break };
                let read = connection.pipeline.read(kind_of(&request), 100);
                connection.requests.insert(read, (seq, Some(request)));
                worked = true;
            }
            if let Some(started) = connection.pipeline.poll_start() {
                self.start_request(id, started);
                continue;
            }
            if let Some(seen) = connection.pipeline.poll_heartbeat_seen() {
                if let Some((_, Some(Request::Heartbeat(heartbeat)))) = connection.requests.get(&seen) {
                    let heartbeat = heartbeat.clone();
                    let owner = self.owner(heartbeat.group_id.as_str());
                    self.send(shard, owner, Mail::HeartbeatSeen(heartbeat));
                }
                continue;
            }
            while let Some((seq, response)) = connection.pipeline.poll_ready() {
                worked = true;
                let delay_us = self.delays.of(&mut self.random);
                connection.to_client_us = connection.to_client_us.max(self.now_us + delay_us);
                let at_us = connection.to_client_us;
                self.queue.add(at_us, Event::Answer { connection: id, seq, response });
            }
            if !worked {
                return;
            }
        }
    }

    fn start_request(&mut self, id: u64, started: RequestId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(request) = connection.requests.get_mut(&started).and_then(|(_, request)| request.take()) else {
            return;
        };
        let (shard, parks) = (connection.shard, kind_of(&request) == RequestKind::JoinOrSync);
        let owner = match group_of(&request) {
            Some(group) => self.owner(group),
            None => shard,
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.owners.insert(owner);
        }
        self.summary.requests += 1;
        let token = self.open_request(id, Some(started), owner, &request);
        self.send(shard, owner, Mail::Request(token, ConnectionId(id), Box::new(request)));
        if parks && let Some(connection) = self.connections.get_mut(&id) {
            connection.pipeline.handle_waiting(started);
        }
    }

    fn open_request(
        &mut self,
        connection: u64,
        request: Option<RequestId>,
        shard: usize,
        content: &Request,
    ) -> ReplyToken {
        self.gateway.next_token += 1;
        let token = self.gateway.next_token;
        let asked = self.checks.asked(self.now_us, content);
        let since_us = self.now_us;
        self.gateway.open.insert(token, Open { connection, request, shard, since_us, asked });
        ReplyToken(token)
    }

    /// The world asks by itself; the answer waits in `answers_to_nobody`.
    pub fn ask(&mut self, group: &str, request: Request) -> u64 {
        let owner = self.owner(group);
        let token = self.open_request(NOBODY, None, owner, &request);
        let now = self.now();
        self.gateway.shards[owner].core.request(now, token, ConnectionId(NOBODY), request);
        self.pump(owner);
        token.0
    }

    pub fn deliver(&mut self, shard: usize, mail: Mail) {
        let now = self.now();
        match mail {
            Mail::Request(token, connection, request) => {
                // What counts is what was known when the coordinator took it in.
                if let Some(open) = self.gateway.open.get_mut(&token.0) {
                    open.asked = self.checks.asked(self.now_us, &request);
                }
                self.trace(|| format!("{shard} <- {token:?} of {} {request:?}", connection.0));
                self.gateway.shards[shard].core.request(now, token, connection, *request);
            }
            Mail::HeartbeatSeen(heartbeat) => {
                self.gateway.shards[shard].core.heartbeat_seen(now, &heartbeat);
            }
            Mail::Closed(connection) => {
                self.trace(|| format!("{shard} <- {} is closed", connection.0));
                let until_us = self.now_us + 20_000_000;
                let parked = self
                    .gateway
                    .open
                    .iter()
                    .filter(|(_, open)| open.connection == connection.0 && open.shard == shard && open.asked.parks);
                let parked: Vec<(u64, u64)> = parked.map(|(token, _)| (*token, until_us)).collect();
                self.gateway.withdrawn.extend(parked);
                self.gateway.shards[shard].core.connection_closed(now, connection);
            }
        }
        self.pump(shard);
    }

    pub fn close_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.is_closed = true;
        connection.pipeline.close();
        let (shard, owners) = (connection.shard, std::mem::take(&mut connection.owners));
        self.connections.remove(&id);
        for owner in owners {
            self.send(shard, owner, Mail::Closed(ConnectionId(id)));
        }
    }

    pub fn timer(&mut self, shard: usize, key: TimerKey, deadline_ms: u64) {
        if self.gateway.shards[shard].timers.get(&key) != Some(&deadline_ms) {
            return;
        }
        self.gateway.shards[shard].timers.remove(&key);
        self.trace(|| format!("{shard} <- {key:?}"));
        let now = self.now();
        self.gateway.shards[shard].core.timer(now, key);
        self.pump(shard);
    }

    /// Carries out what the coordinator wants, unless a slice of that is under way.
    pub fn pump(&mut self, shard: usize) {
        if !self.gateway.shards[shard].pumping {
            self.carry_out(shard);
        }
    }

    pub fn carry_out(&mut self, shard: usize) {
        let run = self.gateway.run;
        let slice = self.random.between(1, self.gateway.slice_max);
        self.gateway.shards[shard].pumping = false;
        for _ in 0..slice {
            let Some(effect) = self.gateway.shards[shard].core.poll_effect() else {
                return self.write(shard);
            };
            match effect {
                Effect::Reply { token, response } => self.reply(shard, token, response),
                Effect::Persist { id, mut records } => {
                    // Tombstones come in no particular order, and a day must be the same each time it is lived.
                    for some in records.chunk_by_mut(|a, b| is_offset_tombstone(a) && is_offset_tombstone(b)) {
                        some.sort_by_key(Record::key);
                    }
                    self.trace(|| format!("{shard} -> {id:?} {records:?}"));
                    self.checks.persisted(self.now_us, &records);
                    let (now_us, now) = (self.now_us, self.now());
                    self.gateway.shards[shard].core.push(now_us, id, records);
                    self.gateway.shards[shard].core.done_early(now, id);
                }
                Effect::ArmTimer { key, deadline_ms } => {
                    self.gateway.shards[shard].timers.insert(key, deadline_ms);
                    let late_us = self.random.below(15_000);
                    let at_us = (deadline_ms * 1000).max(self.now_us) + late_us;
                    self.queue.add(at_us, Event::Timer { run, shard, key, deadline_ms });
                }
                Effect::CancelTimer { key } => {
                    self.gateway.shards[shard].timers.remove(&key);
                }
                Effect::ComputeAssignment { group, uid, assignor, question, asked } => {
                    let targets = assignor.assign(&question);
                    let after_us = self.random.between(10, 50_000);
                    let event = Event::Computed { run, shard, group: (group, uid), asked, targets };
                    self.queue.add(self.now_us + after_us, event);
                }
                Effect::ResolveRegex { group, uid, patterns, topics } => {
                    let resolved = resolve_regexes(&patterns, &*topics);
                    let after_us = self.random.between(10, 50_000);
                    let event = Event::Resolved { run, shard, group: (group, uid), resolved };
                    self.queue.add(self.now_us + after_us, event);
                }
                Effect::Worked => {}
            }
        }
        self.write(shard);
        self.gateway.shards[shard].pumping = true;
        let after_us = self.random.between(1, 400);
        self.queue.add(self.now_us + after_us, Event::Pump { run, shard });
    }

    fn reply(&mut self, shard: usize, token: ReplyToken, response: Response) {
        if self.gateway.open.get(&token.0).is_none_or(|open| open.connection != NOBODY) {
            self.trace(|| format!("{shard} -> {token:?} {response:?}"));
        }
        let Some(open) = self.gateway.open.remove(&token.0) else {
            return self.checks.fail("a request is answered once", format!("{token:?} with {response:?}"));
        };
        self.count(&response);
        self.checks.answered(self.now_us, &open.asked, &response);
        let Some(request) = open.request else {
            self.gateway.answers_to_nobody.insert(token.0, response);
            return;
        };
        let Some(home) = self.connections.get(&open.connection).map(|connection| connection.shard) else { return };
        let connection = open.connection;
        if home != shard {
            return self.notify(home, Notice { connection, request, response });
        }
        self.queue.add(self.now_us, Event::Answered { run: self.gateway.run, connection, request, response });
    }

    /// The answer is back at its connection's shard.
    pub fn answered(&mut self, id: u64, request: RequestId, response: Response) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((seq, _)) = connection.requests.remove(&request) else {
            return self.checks.fail("a request is answered once", format!("{request:?} of {id} with {response:?}"));
        };
        connection.pipeline.handle_answered(request, Some((seq, response)));
        self.go_on(id);
    }

    /// The next batch goes out when none is.
    pub fn write(&mut self, shard: usize) {
        let now_us = self.now_us;
        let run = self.gateway.run;
        let this = &mut self.gateway.shards[shard];
        if this.writing.is_some() {
            return;
        }
        let Some(batch) = this.core.poll_batch(now_us) else {
            if let Some(due_us) = this.core.next_deadline_us() {
                self.queue.add(due_us.max(now_us), Event::Linger { run, shard });
            }
            return;
        };
        let records: Vec<_> = batch.records.into_iter().map(|r| (self.checks.last_tombstone(&r), r)).collect();
        let records: Vec<(Record, Option<usize>)> = records.into_iter().map(|(place, r)| (r, place)).collect();
        let fails = this.log_is_closed || self.random.percent(self.store_fails_percent);
        let keeps = match (fails, this.log_is_closed) {
            (false, _) => records.len(),
            (true, true) => 0,
            // Nobody knows what of a failed write is there.
            (true, false) => self.random.below(records.len() as u64 + 1) as usize,
        };
        if fails && !this.log_is_closed {
            this.log_is_closed = self.random.percent(30);
        }
        let result = if fails { Err(StoreError::Unavailable) } else { Ok(()) };
        this.writing = Some(Writing { records, keeps, result });
        let slow = self.random.percent(self.store_slow_percent);
        let after_us = if slow { self.random.between(50_000, 2_500_000) } else { self.random.between(50, 8_000) };
        self.queue.add(now_us + after_us, Event::Written { run, shard });
    }

    pub fn written(&mut self, shard: usize) {
        let Some(writing) = self.gateway.shards[shard].writing.take() else { return };
        self.gateway.has_unknown_writes |= writing.result.is_err() && writing.keeps > 0;
        self.keep(&writing.records[..writing.keeps]);
        let now = self.now();
        self.gateway.shards[shard].core.written(now, writing.result);
        self.pump(shard);
        self.write(shard);
    }
}

fn is_offset_tombstone(record: &Record) -> bool {
    matches!(record, Record::OffsetTombstone { .. })
}

fn group_of(request: &Request) -> Option<&str> {
    let group = match request {
        Request::Join(it) => &it.group_id,
        Request::Sync(it) => &it.group_id,
        Request::Heartbeat(it) => &it.group_id,
        Request::Leave(it) => &it.group_id,
        Request::OffsetCommit(it) => &it.group_id,
        Request::OffsetFetch(it) => &it.group_id,
        Request::DescribeGroup(it) => &it.group_id,
        Request::DeleteGroup(it) => &it.group_id,
        Request::OffsetDelete(it) => &it.group_id,
        Request::ConsumerGroupHeartbeat(it) => &it.group_id,
        Request::ConsumerGroupDescribe(group) => group,
        Request::ListGroups(_) => return None,
    };
    Some(group.as_str())
}
