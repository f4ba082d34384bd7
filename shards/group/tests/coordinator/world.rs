//! A world around one coordinator: two clocks, timers, a store that can be slow or fail, and clients.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use ringgate_group::request::*;
use ringgate_group::response::*;
use ringgate_group::{
    ConnectionId, Coordinator, Effect, ErrorCode, GroupConfig, Now, PartitionSet, PersistId, Record, ReplyToken,
    Request, Response, StoreError, Text, TimerKey, Totals, member_visits, resolve_regexes,
};

pub const GROUP: &str = "g";
pub const SESSION_MS: i32 = 10_000;
pub const REBALANCE_MS: i32 = 60_000;

/// What the store does with a write.
#[derive(Clone, Copy, PartialEq)]
pub enum Store {
    Keeps,
    Waits,
    Fails(StoreError),
}

/// What was asked of an assignor, as it is told to the coordinator.
struct Computed {
    group: u32,
    uid: u64,
    asked: Vec<(u32, u64)>,
    targets: Vec<PartitionSet>,
}

pub struct World {
    pub coordinator: Coordinator,
    pub config: GroupConfig,
    pub totals: Arc<Totals>,
    pub now: Now,
    pub timers: HashMap<TimerKey, u64>,
    pub answers: HashMap<ReplyToken, Response>,
    pub open: usize,
    pub store: Store,
    pub waiting: VecDeque<(PersistId, Vec<Record>)>,
    /// What is kept, by key.
    pub kept: BTreeMap<Bytes, Record>,
    pub writes: usize,
    /// Assignments that are made elsewhere wait until [`World::assign`].
    pub assigns_later: bool,
    assignments: Vec<Computed>,
    /// Most members that were looked at in one go.
    pub most_visits: u64,
    next_token: u64,
}

impl World {
    /// Without initial delay, and with short sessions allowed.
    pub fn new() -> World {
        World::with(|config| config.initial_rebalance_delay = std::time::Duration::ZERO)
    }

    pub fn with(change: impl FnOnce(&mut GroupConfig)) -> World {
        let mut config = GroupConfig::default();
        change(&mut config);
        World::of(config, Arc::new(Totals::default()))
    }

    /// Another shard of the same gateway.
    pub fn beside(&self) -> World {
        World::of(self.config.clone(), self.totals.clone())
    }

    fn of(config: GroupConfig, totals: Arc<Totals>) -> World {
        let mut coordinator = coordinator(&config, &totals, 0);
        let now = Now { mono_ms: 1_000, wall_ms: 1_700_000_000_000 };
        coordinator.finish_loading(now);
        World {
            coordinator,
            config,
            totals,
            now,
            timers: HashMap::new(),
            answers: HashMap::new(),
            open: 0,
            store: Store::Keeps,
            waiting: VecDeque::new(),
            kept: BTreeMap::new(),
            writes: 0,
            assigns_later: false,
            assignments: Vec::new(),
            most_visits: 0,
            next_token: 0,
        }
    }

    /// Begins anew with what the store has kept, through its bytes.
    pub fn restart(&mut self) {
        let seed = u128::from(self.next_token) << 64;
        self.totals = Arc::new(Totals::default());
        self.coordinator = coordinator(&self.config, &self.totals, seed);
        self.timers.clear();
        self.waiting.clear();
        self.open = 0;
        for record in self.kept.values() {
            let mut payload = Vec::new();
            record.encode(&mut payload);
            let read = Record::decode(record.kind(), record.version(), &payload).expect("reads what it wrote");
            assert_eq!(read, *record);
            self.coordinator.load(self.now, read);
        }
        self.coordinator.finish_loading(self.now);
        self.carry_out();
    }

    pub fn carry_out(&mut self) {
        loop {
            let effect = self.in_one_go(Coordinator::poll_effect);
            let Some(effect) = effect else { break };
            match effect {
                Effect::Reply { token, response } => {
                    self.open -= 1;
                    assert!(self.answers.insert(token, response).is_none(), "{token:?} was answered twice");
                }
                Effect::Persist { id, records } => {
                    self.writes += 1;
                    self.waiting.push_back((id, records));
                    match self.store {
                        Store::Keeps => self.complete(Ok(())),
                        Store::Fails(error) => self.complete(Err(error)),
                        Store::Waits => {}
                    }
                }
                Effect::ArmTimer { key, deadline_ms } => {
                    self.timers.insert(key, deadline_ms);
                }
                Effect::CancelTimer { key } => {
                    self.timers.remove(&key);
                }
                Effect::ComputeAssignment { group, uid, assignor, question, asked } => {
                    let targets = assignor.assign(&question);
                    self.assignments.push(Computed { group, uid, asked, targets });
                    if !self.assigns_later {
                        self.take_assignments();
                    }
                }
                Effect::ResolveRegex { group, uid, patterns, topics } => {
                    let resolved = resolve_regexes(&patterns, &*topics);
                    self.coordinator.handle_regex_resolved(self.now, group, uid, resolved);
                }
                Effect::Worked => {}
            }
        }
    }

    /// Tells what assignors have made.
    pub fn assign(&mut self) {
        self.assigns_later = false;
        self.take_assignments();
        self.carry_out();
    }

    fn take_assignments(&mut self) {
        for Computed { group, uid, asked, targets } in std::mem::take(&mut self.assignments) {
            self.coordinator.handle_assignment_computed(self.now, group, uid, asked, targets);
        }
    }

    /// Decides the oldest write that waits.
    pub fn complete(&mut self, result: Result<(), StoreError>) {
        let (id, records) = self.waiting.pop_front().expect("a write that waits");
        if result.is_ok() {
            for record in records {
                if record.is_tombstone() {
                    self.kept.remove(&record.key());
                } else {
                    self.kept.insert(record.key(), record);
                }
            }
        }
        let now = self.now;
        self.in_one_go(|coordinator| coordinator.handle_persisted(now, id, result));
    }

    fn in_one_go<R>(&mut self, step: impl FnOnce(&mut Coordinator) -> R) -> R {
        let before = member_visits();
        let result = step(&mut self.coordinator);
        self.most_visits = self.most_visits.max(member_visits() - before);
        result
    }

    pub fn complete_all(&mut self, result: Result<(), StoreError>) {
        while !self.waiting.is_empty() {
            self.complete(result);
            self.carry_out();
        }
    }

    pub fn ask(&mut self, connection: u64, request: Request) -> ReplyToken {
        self.next_token += 1;
        let token = ReplyToken(self.next_token);
        self.open += 1;
        let now = self.now;
        self.in_one_go(|it| it.handle_request(now, token, ConnectionId(connection), request));
        self.carry_out();
        token
    }

    /// Lets time pass, and what is due happen at its time.
    pub fn advance(&mut self, ms: u64) {
        let end = self.now.mono_ms + ms;
        loop {
            let due =
                self.timers.iter().filter(|(_, at)| **at <= end).min_by_key(|(key, at)| (**at, format!("{key:?}")));
            let Some((key, at)) = due.map(|(key, at)| (*key, *at)) else { break };
            self.timers.remove(&key);
            self.pass_until(at.max(self.now.mono_ms));
            self.coordinator.handle_timer(self.now, key);
            self.carry_out();
        }
        self.pass_until(end);
    }

    fn pass_until(&mut self, mono_ms: u64) {
        self.now.wall_ms += (mono_ms - self.now.mono_ms) as i64;
        self.now.mono_ms = mono_ms;
    }

    pub fn close(&mut self, connection: u64) {
        self.coordinator.handle_connection_closed(self.now, ConnectionId(connection));
        self.carry_out();
    }

    #[track_caller]
    pub fn parked(&self, token: ReplyToken) {
        assert!(!self.answers.contains_key(&token), "answered with {:?}", self.answers[&token]);
    }

    #[track_caller]
    pub fn answer(&mut self, token: ReplyToken) -> Response {
        self.answers.remove(&token).expect("an answer")
    }

    #[track_caller]
    pub fn joined(&mut self, token: ReplyToken) -> JoinGroupResponse {
        match self.answer(token) {
            Response::Join(response) => response,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn synced(&mut self, token: ReplyToken) -> SyncGroupResponse {
        match self.answer(token) {
            Response::Sync(response) => response,
            other => panic!("{other:?}"),
        }
    }

    pub fn join(&mut self, connection: u64, request: JoinGroupRequest) -> ReplyToken {
        self.ask(connection, Request::Join(request))
    }

    pub fn sync(&mut self, member: &Client, assignments: &[(&Text, &str)]) -> ReplyToken {
        self.ask(member.connection, Request::Sync(member.sync_request(assignments)))
    }

    #[track_caller]
    pub fn heartbeat(&mut self, member: &Client) -> ErrorCode {
        let token = self.ask(member.connection, Request::Heartbeat(member.heartbeat_request()));
        match self.answer(token) {
            Response::Heartbeat(error) => error,
            other => panic!("{other:?}"),
        }
    }

    pub fn leave(&mut self, members: Vec<LeavingMember>) -> LeaveGroupResponse {
        self.leave_version(5, members)
    }

    #[track_caller]
    pub fn leave_version(&mut self, api_version: i16, members: Vec<LeavingMember>) -> LeaveGroupResponse {
        let request = LeaveGroupRequest { api_version, group_id: GROUP.into(), members };
        let token = self.ask(999, Request::Leave(request));
        match self.answer(token) {
            Response::Leave(response) => response,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn describe(&mut self) -> DescribedGroup {
        let request = DescribeGroupRequest { api_version: 5, group_id: GROUP.into() };
        let token = self.ask(999, Request::DescribeGroup(request));
        match self.answer(token) {
            Response::DescribeGroup(response) => response,
            other => panic!("{other:?}"),
        }
    }

    pub fn state(&mut self) -> String {
        self.describe().group_state.as_str().to_owned()
    }

    /// The error of the only partition.
    #[track_caller]
    pub fn committed(&mut self, token: ReplyToken) -> ErrorCode {
        match self.answer(token) {
            Response::OffsetCommit(response) => response.topics[0].partitions[0].1,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn commit(&mut self, request: OffsetCommitRequest) -> ErrorCode {
        let token = self.ask(998, Request::OffsetCommit(request));
        self.committed(token)
    }

    #[track_caller]
    pub fn fetch(&mut self, topics: Option<Vec<FetchTopic>>) -> OffsetFetchResponse {
        let request = OffsetFetchRequest { group_id: GROUP.into(), topics, member_epoch: -1, ..Default::default() };
        let token = self.ask(998, Request::OffsetFetch(request));
        match self.answer(token) {
            Response::OffsetFetch(response) => response,
            other => panic!("{other:?}"),
        }
    }

    /// The committed offset of partition 0 of `t`.
    pub fn offset(&mut self) -> i64 {
        let topic = FetchTopic { name: "t".into(), topic_id: 0, partition_indexes: vec![0] };
        self.fetch(Some(vec![topic])).topics[0].partitions[0].committed_offset
    }

    /// Joins of all clients, answered in one generation; each knows its id and generation then.
    pub fn form(&mut self, clients: &mut [Client]) -> Vec<JoinGroupResponse> {
        let tokens: Vec<_> = clients.iter_mut().map(|client| self.enter(client)).collect();
        self.advance(0);
        let answers: Vec<_> = tokens.into_iter().map(|token| self.joined(token)).collect();
        for (client, answer) in clients.iter_mut().zip(&answers) {
            client.takes(answer);
        }
        answers
    }

    /// A join in two steps, as clients of this day do it; the second is parked.
    pub fn enter(&mut self, client: &mut Client) -> ReplyToken {
        let token = self.join(client.connection, client.join_request());
        if client.member_id.is_empty() && client.instance.is_none() && client.join_version >= 4 {
            let answer = self.joined(token);
            assert_eq!(answer.error_code, ErrorCode::MEMBER_ID_REQUIRED);
            client.member_id = answer.member_id;
            return self.join(client.connection, client.join_request());
        }
        token
    }

    /// Syncs of all; the first is the leader and gives `a<n>` to the n-th.
    pub fn settle(&mut self, clients: &[Client]) {
        let given: Vec<(Text, String)> =
            clients.iter().enumerate().map(|(n, client)| (client.member_id.clone(), format!("a{n}"))).collect();
        let given: Vec<(&Text, &str)> = given.iter().map(|(id, text)| (id, text.as_str())).collect();
        let tokens: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(n, client)| self.sync(client, if n == 0 { &given } else { &[] }))
            .collect();
        for (n, token) in tokens.into_iter().enumerate() {
            let answer = self.synced(token);
            assert_eq!((answer.error_code, answer.assignment), (ErrorCode::NONE, Bytes::from(format!("a{n}"))));
        }
    }

    /// A stable group of dynamic members, the first of which leads.
    pub fn stable(&mut self, members: usize) -> Vec<Client> {
        let mut clients: Vec<Client> = (0..members).map(|n| Client::new(n as u64 + 1)).collect();
        self.form(&mut clients);
        self.settle(&clients);
        assert_eq!(self.state(), "Stable");
        clients
    }
}

fn coordinator(config: &GroupConfig, totals: &Arc<Totals>, mut seed: u128) -> Coordinator {
    let random = move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        seed ^ (seed >> 67)
    };
    Coordinator::new(config.clone(), totals.clone(), random)
}

/// A member as its client knows it.
#[derive(Clone)]
pub struct Client {
    pub connection: u64,
    pub member_id: Text,
    pub instance: Option<Text>,
    pub generation: i32,
    pub join_version: i16,
    pub protocols: Vec<Protocol>,
    pub session_ms: i32,
    pub rebalance_ms: i32,
}

impl Client {
    pub fn new(connection: u64) -> Client {
        Client {
            connection,
            member_id: Text::EMPTY,
            instance: None,
            generation: -1,
            join_version: 9,
            protocols: vec![protocol("range", &["t"])],
            session_ms: SESSION_MS,
            rebalance_ms: REBALANCE_MS,
        }
    }

    pub fn with_instance(connection: u64, instance: &str) -> Client {
        Client { instance: Some(instance.into()), ..Client::new(connection) }
    }

    pub fn takes(&mut self, answer: &JoinGroupResponse) {
        assert_eq!(answer.error_code, ErrorCode::NONE);
        self.member_id = answer.member_id.clone();
        self.generation = answer.generation_id;
    }

    pub fn join_request(&self) -> JoinGroupRequest {
        JoinGroupRequest {
            api_version: self.join_version,
            group_id: GROUP.into(),
            member_id: self.member_id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: "consumer".into(),
            protocols: self.protocols.clone(),
            session_timeout_ms: self.session_ms,
            rebalance_timeout_ms: self.rebalance_ms,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
        }
    }

    pub fn sync_request(&self, assignments: &[(&Text, &str)]) -> SyncGroupRequest {
        let assignment = |(member, given): &(&Text, &str)| Assignment {
            member_id: (*member).clone(),
            assignment: Bytes::copy_from_slice(given.as_bytes()),
        };
        SyncGroupRequest {
            api_version: 5,
            group_id: GROUP.into(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments: assignments.iter().map(assignment).collect(),
        }
    }

    pub fn heartbeat_request(&self) -> HeartbeatRequest {
        HeartbeatRequest {
            group_id: GROUP.into(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance.clone(),
        }
    }

    pub fn commit_request(&self, offset: i64) -> OffsetCommitRequest {
        OffsetCommitRequest {
            generation_id_or_member_epoch: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance.clone(),
            ..commit_request(offset)
        }
    }

    pub fn leaving(&self) -> LeavingMember {
        LeavingMember { member_id: self.member_id.clone(), group_instance_id: self.instance.clone() }
    }
}

/// A commit of no member, to partition 0 of `t`.
pub fn commit_request(offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        api_version: 8,
        group_id: GROUP.into(),
        generation_id_or_member_epoch: -1,
        retention_time_ms: -1,
        topics: vec![CommitTopic {
            name: "t".into(),
            topic_id: 0,
            partitions: vec![CommitPartition {
                partition_index: 0,
                committed_offset: offset,
                committed_leader_epoch: -1,
                committed_metadata: None,
            }],
        }],
        ..Default::default()
    }
}

/// A protocol with a subscription (version 0) to these topics.
pub fn protocol(name: &str, topics: &[&str]) -> Protocol {
    let mut metadata = vec![0, 0];
    metadata.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        metadata.extend((topic.len() as i16).to_be_bytes());
        metadata.extend(topic.as_bytes());
    }
    Protocol { name: name.into(), metadata: metadata.into() }
}
