//! Members of the classic protocol: those of the Java client and of librdkafka, dynamic and static, and some
//! that are broken in a way of their own.

use std::collections::BTreeMap;

use ringgate_group::request::*;
use ringgate_group::response::*;
use ringgate_group::{ErrorCode, PartitionSet, Request, Response, Text};

use super::client::{Client, Io, Line, Seen, Sent, Status, Wake};
use super::wire::{Given, assignment, read_assignment, read_subscription, subscription};

/// What a member has wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    NeverSyncs,
    NeverHeartbeats,
    JoinsTwice,
    WrongGeneration,
    /// Has itself given an id and does not join with it, while its connection stays.
    NeverComesBack,
}

/// How a member behaves.
#[derive(Debug, Clone)]
pub struct Manner {
    pub group: Text,
    pub topics: Vec<Text>,
    pub instance: Option<Text>,
    /// Gives up only what it has to (KIP-429); else everything, before every rebalance.
    pub cooperative: bool,
    /// Others of its group speak the consumer protocol: what its leader gives is of the form that coordinators know.
    pub mixed: bool,
    /// Heartbeats also while its join waits, as librdkafka does.
    pub heartbeats_always: bool,
    pub join_version: i16,
    pub session_ms: u64,
    pub rebalance_ms: u64,
    pub heartbeat_ms: u64,
    pub commit_ms: u64,
    pub flaw: Flaw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Away,
    Joining,
    Syncing,
    Stable,
}

/// One member and the process that it lives in.
pub struct Classic {
    manner: Manner,
    phase: Phase,
    member_id: Text,
    generation: i32,
    protocol: Text,
    owned: Vec<(Text, i32)>,
    heartbeat_at_us: u64,
    commit_at_us: u64,
    whim_at_us: u64,
    come_at_us: u64,
    retry_at_us: u64,
    heartbeats_out: usize,
    /// As the leader it left something out that a member claimed, who may be away and not give it up by itself.
    follows_up: bool,
    over: bool,
}

impl Classic {
    pub fn new(manner: Manner) -> Classic {
        Classic {
            manner,
            phase: Phase::Away,
            member_id: Text::EMPTY,
            generation: -1,
            protocol: Text::EMPTY,
            owned: Vec::new(),
            heartbeat_at_us: 0,
            commit_at_us: 0,
            whim_at_us: 0,
            come_at_us: 0,
            retry_at_us: 0,
            heartbeats_out: 0,
            follows_up: false,
            over: false,
        }
    }

    fn is_good(&self) -> bool {
        self.manner.flaw == Flaw::None
    }

    fn wake(&mut self, io: &mut Io<'_>, ms: u64, wake: Wake) {
        let at = io.now_us + ms * 1000;
        match wake {
            Wake::Come => self.come_at_us = at,
            Wake::Retry => self.retry_at_us = at,
            Wake::Heartbeat => self.heartbeat_at_us = at,
            Wake::Commit => self.commit_at_us = at,
            Wake::Whim => self.whim_at_us = at,
            Wake::Revoked => {}
        }
        io.wake_in_ms(ms, wake);
    }

    fn protocols(&self) -> Vec<Protocol> {
        let owned: &[(Text, i32)] = if self.manner.cooperative { &self.owned } else { &[] };
        let metadata = subscription(&self.manner.topics, owned);
        let names: &[&str] = if self.manner.cooperative { &["cooperative-sticky"] } else { &["range", "roundrobin"] };
        names.iter().map(|name| Protocol { name: (*name).into(), metadata: metadata.clone() }).collect()
    }

    fn join(&mut self, io: &mut Io<'_>) {
        if !io.connected {
            return self.reconnect(io);
        }
        if !self.manner.cooperative {
            self.owned.clear();
        }
        self.phase = Phase::Joining;
        self.retry_at_us = 0;
        self.follows_up = false;
        let request = JoinGroupRequest {
            api_version: self.manner.join_version,
            group_id: self.manner.group.clone(),
            member_id: self.member_id.clone(),
            group_instance_id: self.manner.instance.clone(),
            protocol_type: "consumer".into(),
            protocols: self.protocols(),
            session_timeout_ms: self.manner.session_ms as i32,
            rebalance_timeout_ms: self.manner.rebalance_ms as i32,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
        };
        if self.manner.flaw == Flaw::JoinsTwice {
            io.send(Sent::Join, Request::Join(request.clone()));
        }
        io.send(Sent::Join, Request::Join(request));
    }

    /// The member is none any more.
    fn start_over(&mut self, io: &mut Io<'_>) {
        self.forget();
        self.join(io);
    }

    fn forget(&mut self) {
        self.member_id = Text::EMPTY;
        self.generation = -1;
        self.owned.clear();
    }

    /// The process ends, and comes back after a while without what it knew.
    fn die(&mut self, io: &mut Io<'_>, line: Line) {
        self.forget();
        self.phase = Phase::Away;
        self.heartbeats_out = 0;
        self.retry_at_us = 0;
        io.line = Some(line);
        let ms = io.random.between(200, 12_000);
        self.wake(io, ms, Wake::Come);
    }

    fn reconnect(&mut self, io: &mut Io<'_>) {
        let ms = io.random.between(20, 800);
        self.wake(io, ms, Wake::Come);
    }

    fn retry(&mut self, io: &mut Io<'_>) {
        let ms = io.random.between(50, 600);
        self.wake(io, ms, Wake::Retry);
    }

    fn joined(&mut self, io: &mut Io<'_>, answer: JoinGroupResponse) {
        if self.phase != Phase::Joining {
            return;
        }
        match answer.error_code {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.member_id = answer.member_id;
                // One is enough: its connection idles from then on, whatever becomes of the day.
                self.over = self.manner.flaw == Flaw::NeverComesBack;
                if self.over {
                    return;
                }
                return self.join(io);
            }
            ErrorCode::REBALANCE_IN_PROGRESS => return self.join(io),
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => {
                self.forget();
                return self.retry(io);
            }
            ErrorCode::FENCED_INSTANCE_ID => return self.die(io, Line::Close),
            ErrorCode::GROUP_MAX_SIZE_REACHED => self.forget(),
            _ => {}
        }
        if answer.error_code != ErrorCode::NONE {
            return self.retry(io);
        }
        self.member_id = answer.member_id.clone();
        self.generation = answer.generation_id;
        self.protocol = answer.protocol_name.clone().unwrap_or_default();
        self.phase = Phase::Syncing;
        io.knowledge.gossip(Seen {
            group: self.manner.group.clone(),
            member_id: self.member_id.clone(),
            instance: self.manner.instance.clone(),
            generation: self.generation,
            topics: self.manner.topics.clone(),
        });
        self.wake(io, self.manner.heartbeat_ms, Wake::Heartbeat);
        if self.manner.flaw == Flaw::NeverSyncs {
            return;
        }
        let leads = answer.leader == answer.member_id && !answer.skip_assignment;
        // A static leader that starts again is not asked to assign (KIP-814), and knows nothing of what it left out for
        // the next generation. Nobody else does.
        self.follows_up |= answer.skip_assignment && self.manner.cooperative;
        let assignments = if leads { self.assign(io, &answer) } else { Vec::new() };
        let v5 = self.manner.join_version >= 7;
        let request = SyncGroupRequest {
            api_version: if v5 { 5 } else { 3 },
            group_id: self.manner.group.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.manner.instance.clone(),
            protocol_type: v5.then(|| "consumer".into()),
            protocol_name: v5.then(|| self.protocol.clone()),
            assignments,
        };
        io.send(Sent::Sync, Request::Sync(request));
    }

    /// Everything subscribed to is shared out; what moves in a cooperative group has to be given up first.
    fn assign(&mut self, io: &Io<'_>, answer: &JoinGroupResponse) -> Vec<Assignment> {
        let known: Vec<_> = answer.members.iter().map(|m| (m, read_subscription(&m.metadata))).collect();
        let mut topics: Vec<&Text> = known.iter().filter_map(|(_, it)| it.as_ref()).flat_map(|it| &it.0).collect();
        topics.sort();
        topics.dedup();
        let mut given: BTreeMap<usize, Vec<(Text, i32)>> = BTreeMap::new();
        let mut next = answer.generation_id as usize;
        for topic in topics {
            let able: Vec<usize> = (0..known.len())
                .filter(|n| known[*n].1.as_ref().is_some_and(|(topics, _)| topics.contains(topic)))
                .collect();
            let all = io.catalogue.partitions_of(topic.as_str());
            let most = (all as usize).div_ceil(able.len());
            let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
            for partition in 0..all {
                let place = (topic.clone(), partition);
                let owners: Vec<usize> = able
                    .iter()
                    .copied()
                    .filter(|n| known[*n].1.as_ref().is_some_and(|(_, owned)| owned.contains(&place)))
                    .collect();
                if self.manner.cooperative && !owners.is_empty() {
                    // Who has it keeps it; who has too many gives it up, and it is given in the next generation.
                    let owner = owners[0];
                    let count = counts.entry(owner).or_default();
                    if owners.len() == 1 && *count < most {
                        *count += 1;
                        given.entry(owner).or_default().push(place);
                    } else {
                        self.follows_up = true;
                    }
                    continue;
                }
                let fewest = able.iter().copied().min_by_key(|n| {
                    let turn = (n + known.len() - next % known.len()) % known.len();
                    (counts.get(n).copied().unwrap_or_default(), turn)
                });
                if let Some(n) = fewest {
                    *counts.entry(n).or_default() += 1;
                    given.entry(n).or_default().push(place);
                }
            }
            next += 1;
        }
        let to_member = |(n, (member, _)): (usize, &(&JoinGroupResponseMember, _))| {
            let partitions = given.get(&n).cloned().unwrap_or_default();
            let assignment = match self.manner.mixed {
                true => assignment(&partitions),
                false => Given {
                    generation: answer.generation_id,
                    leader: answer.member_id.clone(),
                    member_id: member.member_id.clone(),
                    instance: member.group_instance_id.clone(),
                    partitions,
                }
                .write(),
            };
            Assignment { member_id: member.member_id.clone(), assignment }
        };
        known.iter().enumerate().map(to_member).collect()
    }

    fn synced(&mut self, io: &mut Io<'_>, answer: SyncGroupResponse) {
        if self.phase != Phase::Syncing {
            return;
        }
        match answer.error_code {
            ErrorCode::NONE => {}
            ErrorCode::REBALANCE_IN_PROGRESS => return self.join(io),
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => return self.start_over(io),
            ErrorCode::FENCED_INSTANCE_ID => return self.die(io, Line::Close),
            _ => return self.retry(io),
        }
        let given = match self.manner.mixed {
            true => read_assignment(&answer.assignment),
            false => Given::read(&answer.assignment).map(|given| given.partitions),
        };
        let Some(given) = given else {
            // Somebody has meddled with the group.
            io.send(Sent::Leave, self.leaving());
            self.forget();
            return self.retry(io);
        };
        self.phase = Phase::Stable;
        let lost = self.owned.iter().any(|partition| !given.contains(partition));
        self.owned = given;
        self.wake(io, self.manner.heartbeat_ms, Wake::Heartbeat);
        self.wake(io, self.manner.commit_ms, Wake::Commit);
        if self.manner.cooperative && lost {
            return self.join(io);
        }
        if self.follows_up {
            self.wake(io, 1_500, Wake::Retry);
        }
        io.send(Sent::Fetch, self.fetching(io));
    }

    fn leaving(&self) -> Request {
        let member =
            LeavingMember { member_id: self.member_id.clone(), group_instance_id: self.manner.instance.clone() };
        Request::Leave(LeaveGroupRequest { api_version: 5, group_id: self.manner.group.clone(), members: vec![member] })
    }

    fn fetching(&self, io: &Io<'_>) -> Request {
        let mut topics: BTreeMap<Text, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &self.owned {
            topics.entry(topic.clone()).or_default().push(*partition);
        }
        let topics = topics.into_iter().map(|(name, partition_indexes)| FetchTopic {
            topic_id: io.catalogue.id_of(name.as_str()),
            name,
            partition_indexes,
        });
        Request::OffsetFetch(OffsetFetchRequest {
            group_id: self.manner.group.clone(),
            member_id: None,
            member_epoch: -1,
            require_stable: false,
            topics: Some(topics.collect()),
        })
    }

    fn commit(&mut self, io: &mut Io<'_>) {
        let owned = self.owned.clone();
        let mut topics: BTreeMap<Text, Vec<CommitPartition>> = BTreeMap::new();
        for (topic, partition_index) in owned {
            if io.random.percent(70) {
                let committed_offset = io.next_offset();
                topics.entry(topic).or_default().push(CommitPartition {
                    partition_index,
                    committed_offset,
                    committed_leader_epoch: 1,
                    committed_metadata: None,
                });
            }
        }
        if topics.is_empty() {
            return;
        }
        let topics = topics.into_iter().map(|(name, partitions)| CommitTopic {
            topic_id: io.catalogue.id_of(name.as_str()),
            name,
            partitions,
        });
        let off_by = i32::from(self.manner.flaw == Flaw::WrongGeneration);
        let request = OffsetCommitRequest {
            api_version: 8,
            group_id: self.manner.group.clone(),
            generation_id_or_member_epoch: self.generation - off_by,
            member_id: self.member_id.clone(),
            group_instance_id: self.manner.instance.clone(),
            retention_time_ms: -1,
            topics: topics.collect(),
        };
        io.send(Sent::Commit, Request::OffsetCommit(request));
    }

    fn committed(&mut self, io: &mut Io<'_>, answer: &OffsetCommitResponse) {
        let codes = answer.topics.iter().flat_map(|topic| &topic.partitions).map(|(_, code)| *code);
        self.heard(io, codes.max_by_key(|code| code.0).unwrap_or(ErrorCode::NONE));
    }

    /// What a heartbeat or a commit is answered, of a member that is stable.
    fn heard(&mut self, io: &mut Io<'_>, code: ErrorCode) {
        if self.phase != Phase::Stable {
            return;
        }
        match code {
            ErrorCode::REBALANCE_IN_PROGRESS => {
                if !self.manner.cooperative && io.random.percent(50) {
                    self.commit(io);
                }
                self.join(io);
            }
            ErrorCode::ILLEGAL_GENERATION => {
                self.generation = -1;
                self.owned.clear();
                self.join(io);
            }
            ErrorCode::UNKNOWN_MEMBER_ID => self.start_over(io),
            ErrorCode::FENCED_INSTANCE_ID => self.die(io, Line::Close),
            _ => {}
        }
    }

    fn heartbeat(&mut self, io: &mut Io<'_>) {
        self.wake(io, self.manner.heartbeat_ms, Wake::Heartbeat);
        let is_member = self.generation >= 0 && !self.member_id.is_empty();
        let speaks = match self.phase {
            Phase::Stable => true,
            Phase::Syncing => is_member,
            Phase::Joining => is_member && self.manner.heartbeats_always,
            Phase::Away => false,
        };
        let silent = self.manner.flaw == Flaw::NeverHeartbeats && self.phase == Phase::Stable;
        if !io.connected || !speaks || silent || self.heartbeats_out > 3 {
            return;
        }
        let off_by = i32::from(self.manner.flaw == Flaw::WrongGeneration && io.random.percent(30));
        self.heartbeats_out += 1;
        io.send(
            Sent::Heartbeat,
            Request::Heartbeat(HeartbeatRequest {
                group_id: self.manner.group.clone(),
                generation_id: self.generation + off_by,
                member_id: self.member_id.clone(),
                group_instance_id: self.manner.instance.clone(),
            }),
        );
    }

    fn whim(&mut self, io: &mut Io<'_>) {
        if io.is_calm {
            return;
        }
        let ms = io.random.between(8_000, 90_000);
        self.wake(io, ms, Wake::Whim);
        if !io.connected || self.phase == Phase::Away {
            return;
        }
        match io.random.below(10) {
            0 | 1 => {
                // A static member is away for a while; others leave.
                if self.manner.instance.is_none() && !self.member_id.is_empty() {
                    io.send(Sent::Leave, self.leaving());
                }
                self.die(io, Line::Close);
            }
            2 | 3 => self.die(io, Line::Vanish),
            4 => self.die(io, Line::Close),
            // The connection breaks, the member does not.
            5 | 6 => {
                io.line = Some(if io.random.percent(50) { Line::Vanish } else { Line::Close });
                self.lost(io);
            }
            7 if self.phase == Phase::Stable => self.join(io),
            8 if self.phase == Phase::Stable => (0..5).for_each(|_| self.commit(io)),
            _ => {}
        }
    }

    fn lost(&mut self, io: &mut Io<'_>) {
        self.heartbeats_out = 0;
        self.retry_at_us = 0;
        if self.phase != Phase::Away && !self.over {
            self.reconnect(io);
        }
    }
}

impl Client for Classic {
    fn name(&self) -> String {
        let Manner { group, instance, flaw, cooperative, .. } = &self.manner;
        let kind = if *cooperative { "cooperative" } else { "eager" };
        let instance = instance.as_ref().map(|it| format!(" {it}")).unwrap_or_default();
        let flaw = if *flaw == Flaw::None { String::new() } else { format!(" {flaw:?}") };
        format!("{group} {kind}{instance}{flaw}")
    }

    fn group(&self) -> Text {
        self.manner.group.clone()
    }

    fn begin(&mut self, io: &mut Io<'_>, in_ms: u64) {
        self.wake(io, in_ms, Wake::Come);
    }

    fn woken(&mut self, io: &mut Io<'_>, wake: Wake) {
        let due_us = match wake {
            Wake::Come => self.come_at_us,
            Wake::Retry => self.retry_at_us,
            Wake::Heartbeat => self.heartbeat_at_us,
            Wake::Commit => self.commit_at_us,
            Wake::Whim => self.whim_at_us,
            Wake::Revoked => return,
        };
        if due_us != io.now_us || self.over {
            return;
        }
        match wake {
            Wake::Come => {
                if self.whim_at_us == 0 {
                    let ms = io.random.between(5_000, 60_000);
                    self.wake(io, ms, Wake::Whim);
                }
                if !io.connected {
                    io.connect = true;
                    io.connected = true;
                }
                if self.phase != Phase::Stable || self.follows_up {
                    self.join(io);
                } else {
                    self.wake(io, 0, Wake::Heartbeat);
                }
            }
            Wake::Retry => self.join(io),
            Wake::Heartbeat => self.heartbeat(io),
            Wake::Commit => {
                let ms = self.manner.commit_ms;
                self.wake(io, ms, Wake::Commit);
                // What nobody commits for long is what could expire.
                let commits = !io.is_calm || io.random.percent(5);
                if io.connected && self.phase == Phase::Stable && commits {
                    self.commit(io);
                }
            }
            Wake::Whim => self.whim(io),
            Wake::Revoked => {}
        }
    }

    fn answered(&mut self, io: &mut Io<'_>, sent: Sent, response: Response) {
        if sent == Sent::Heartbeat {
            self.heartbeats_out = self.heartbeats_out.saturating_sub(1);
        }
        match response {
            Response::Join(answer) => self.joined(io, answer),
            Response::Sync(answer) => self.synced(io, answer),
            Response::Heartbeat(code) => self.heard(io, code),
            Response::OffsetCommit(answer) => self.committed(io, &answer),
            _ => {}
        }
    }

    fn disconnected(&mut self, io: &mut Io<'_>) {
        self.lost(io);
    }

    fn calm(&mut self, io: &mut Io<'_>) {
        if !self.is_good() {
            self.over = true;
            if self.manner.flaw != Flaw::NeverComesBack {
                io.line = Some(Line::Close);
            }
        }
    }

    fn farewell(&mut self, io: &mut Io<'_>) {
        self.over = true;
        if io.connected && !self.member_id.is_empty() && self.manner.instance.is_none() {
            io.send(Sent::Leave, self.leaving());
        }
        io.line = Some(Line::Close);
        io.holds = Some((Text::EMPTY, PartitionSet::EMPTY));
    }

    fn status(&self) -> Option<Status> {
        self.is_good().then(|| Status {
            group: self.manner.group.clone(),
            member_id: self.member_id.clone(),
            generation: self.generation,
            is_stable: self.phase == Phase::Stable,
            partitions: self.owned.clone(),
            topics: self.manner.topics.clone(),
            prefix: None,
        })
    }
}
