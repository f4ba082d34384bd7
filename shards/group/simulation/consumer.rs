//! Members of the consumer protocol (KIP-848): one heartbeat at a time, partitions given back before others
//! come, static members that leave for a while.

use ringgate_group::request::*;
use ringgate_group::response::*;
use ringgate_group::{ErrorCode, PartitionSet, Request, Response, Text, Topics};

use super::client::{Client, Io, Line, Sent, Status, Wake};

/// How a member behaves.
#[derive(Debug, Clone)]
pub struct Manner {
    pub group: Text,
    pub topics: Vec<Text>,
    pub regex: Option<Text>,
    pub instance: Option<Text>,
    pub assignor: Option<Text>,
    pub rebalance_ms: u64,
    pub commit_ms: u64,
    /// Ms that it takes to give partitions back, at most.
    pub revokes_in_ms: u64,
    /// Does not give partitions back at all.
    pub never_revokes: bool,
}

/// One member and the process that it lives in.
pub struct Consumer {
    manner: Manner,
    member_id: Text,
    epoch: i32,
    has: PartitionSet,
    /// What it shall have when it has given back the rest.
    next: Option<PartitionSet>,
    waits: bool,
    says_all: bool,
    is_away: bool,
    interval_ms: u64,
    wakes: [u64; 6],
    names: Vec<(Text, i32)>,
    over: bool,
}

impl Consumer {
    pub fn new(manner: Manner) -> Consumer {
        Consumer {
            manner,
            member_id: Text::EMPTY,
            epoch: 0,
            has: PartitionSet::EMPTY,
            next: None,
            waits: false,
            says_all: true,
            is_away: true,
            interval_ms: 1_000,
            wakes: [0; 6],
            names: Vec::new(),
            over: false,
        }
    }

    fn is_good(&self) -> bool {
        !self.manner.never_revokes
    }

    fn wake(&mut self, io: &mut Io<'_>, ms: u64, wake: Wake) {
        self.wakes[wake as usize] = io.now_us + ms * 1000;
        io.wake_in_ms(ms, wake);
    }

    fn hold(&mut self, io: &mut Io<'_>, has: PartitionSet) {
        self.has = has;
        io.holds = Some((self.member_id.clone(), self.has.clone()));
        let name_of = |id| io.catalogue.name_of(id).map(Text::from);
        self.names = self.has.iter().filter_map(|(id, p)| Some((name_of(id)?, p))).collect();
    }

    /// Another process in the place of this one.
    fn be_born(&mut self, io: &mut Io<'_>) {
        self.drop_all(io);
        let (a, b) = (io.random.next(), io.random.next());
        self.member_id = format!("{a:016x}{b:016x}").into();
        self.is_away = false;
    }

    fn drop_all(&mut self, io: &mut Io<'_>) {
        self.hold(io, PartitionSet::EMPTY);
        self.next = None;
        self.epoch = 0;
        self.says_all = true;
    }

    fn request(&self, member_epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            api_version: 1,
            group_id: self.manner.group.clone(),
            member_id: self.member_id.clone(),
            member_epoch,
            instance_id: self.manner.instance.clone(),
            rebalance_timeout_ms: -1,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            ..ConsumerGroupHeartbeatRequest::default()
        }
    }

    fn heartbeat(&mut self, io: &mut Io<'_>) {
        if self.waits || !io.connected || self.is_away {
            return;
        }
        let mut request = self.request(self.epoch);
        if self.says_all || self.epoch == 0 {
            request.rebalance_timeout_ms = self.manner.rebalance_ms as i32;
            request.subscribed_topic_names = Some(self.manner.topics.clone());
            request.subscribed_topic_regex = self.manner.regex.clone();
            request.server_assignor = self.manner.assignor.clone();
        }
        if self.says_all || self.epoch == 0 || io.random.percent(30) {
            request.topic_partitions = Some(self.has.clone());
        }
        self.waits = true;
        io.send(Sent::Heartbeat, Request::ConsumerGroupHeartbeat(Box::new(request)));
    }

    fn heard(&mut self, io: &mut Io<'_>, answer: ConsumerGroupHeartbeatResponse) {
        self.waits = false;
        if self.is_away {
            return;
        }
        match answer.error_code {
            ErrorCode::NONE => {
                self.epoch = answer.member_epoch;
                self.interval_ms = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(1_000).max(1);
                self.says_all = false;
                self.wake(io, self.interval_ms, Wake::Heartbeat);
                if let Some(assignment) = answer.assignment {
                    self.take(io, assignment);
                }
            }
            ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::GROUP_ID_NOT_FOUND => {
                self.drop_all(io);
                self.wake(io, 50, Wake::Heartbeat);
            }
            ErrorCode::FENCED_INSTANCE_ID => self.die(io, Line::Close),
            _ => {
                self.says_all = true;
                let ms = io.random.between(100, 900);
                self.wake(io, ms, Wake::Heartbeat);
            }
        }
    }

    /// What is to go goes first, which takes a while; then comes what is new.
    fn take(&mut self, io: &mut Io<'_>, assignment: PartitionSet) {
        if self.has.is_subset(&assignment) {
            self.next = None;
            let is_new = self.has != assignment;
            self.hold(io, assignment);
            self.says_all |= is_new;
            return;
        }
        let is_new = self.next.is_none();
        self.next = Some(assignment);
        if is_new && !self.manner.never_revokes {
            let ms = io.random.below(self.manner.revokes_in_ms + 1);
            self.wake(io, ms, Wake::Revoked);
        }
    }

    fn revoked(&mut self, io: &mut Io<'_>) {
        let Some(next) = self.next.take() else { return };
        self.hold(io, next);
        self.says_all = true;
        self.heartbeat(io);
    }

    fn die(&mut self, io: &mut Io<'_>, line: Line) {
        self.drop_all(io);
        self.is_away = true;
        self.waits = false;
        io.line = Some(line);
        let ms = io.random.between(200, 12_000);
        self.wake(io, ms, Wake::Come);
    }

    fn commit(&mut self, io: &mut Io<'_>) {
        let has = self.has.clone();
        let mut topics = Vec::new();
        for (id, partitions) in has.by_topic() {
            let Some(name) = io.catalogue.name_of(id).map(Text::from) else { continue };
            let mut commits = Vec::new();
            for partition_index in partitions {
                let committed_offset = io.next_offset();
                commits.push(CommitPartition {
                    partition_index,
                    committed_offset,
                    committed_leader_epoch: 1,
                    committed_metadata: None,
                });
            }
            topics.push(CommitTopic { name, topic_id: id, partitions: commits });
        }
        if topics.is_empty() || self.epoch <= 0 {
            return;
        }
        let request = OffsetCommitRequest {
            api_version: 9,
            group_id: self.manner.group.clone(),
            generation_id_or_member_epoch: self.epoch,
            member_id: self.member_id.clone(),
            group_instance_id: None,
            retention_time_ms: -1,
            topics,
        };
        io.send(Sent::Commit, Request::OffsetCommit(request));
    }

    fn whim(&mut self, io: &mut Io<'_>) {
        if io.is_calm {
            return;
        }
        let ms = io.random.between(8_000, 90_000);
        self.wake(io, ms, Wake::Whim);
        if !io.connected || self.is_away {
            return;
        }
        match io.random.below(8) {
            0 | 1 => {
                let epoch = if self.manner.instance.is_some() { -2 } else { -1 };
                // What it has is given up before it says that it goes.
                let leaving = self.request(epoch);
                io.send(Sent::Leave, Request::ConsumerGroupHeartbeat(Box::new(leaving)));
                self.die(io, Line::Close);
            }
            2 => self.die(io, Line::Vanish),
            3 => self.die(io, Line::Close),
            4 | 5 => {
                io.line = Some(if io.random.percent(50) { Line::Vanish } else { Line::Close });
                self.lost(io);
            }
            6 => self.says_all = true,
            _ => {}
        }
    }

    fn lost(&mut self, io: &mut Io<'_>) {
        self.waits = false;
        self.says_all = true;
        if !self.is_away && !self.over {
            let ms = io.random.between(20, 800);
            self.wake(io, ms, Wake::Come);
        }
    }
}

impl Client for Consumer {
    fn name(&self) -> String {
        let instance = self.manner.instance.as_ref().map(|it| format!(" {it}")).unwrap_or_default();
        let flaw = if self.manner.never_revokes { " NeverRevokes" } else { "" };
        format!("{} consumer{instance}{flaw}", self.manner.group)
    }

    fn group(&self) -> Text {
        self.manner.group.clone()
    }

    fn begin(&mut self, io: &mut Io<'_>, in_ms: u64) {
        self.wake(io, in_ms, Wake::Come);
    }

    fn woken(&mut self, io: &mut Io<'_>, wake: Wake) {
        if self.wakes[wake as usize] != io.now_us || self.over {
            return;
        }
        match wake {
            Wake::Come => {
                if self.wakes[Wake::Whim as usize] == 0 {
                    let ms = io.random.between(5_000, 60_000);
                    self.wake(io, ms, Wake::Whim);
                    self.wake(io, self.manner.commit_ms, Wake::Commit);
                }
                if self.is_away {
                    self.be_born(io);
                }
                if !io.connected {
                    io.connect = true;
                    io.connected = true;
                }
                self.heartbeat(io);
            }
            Wake::Heartbeat => self.heartbeat(io),
            Wake::Revoked => self.revoked(io),
            Wake::Commit => {
                let ms = self.manner.commit_ms;
                self.wake(io, ms, Wake::Commit);
                let commits = !io.is_calm || io.random.percent(5);
                if io.connected && !self.is_away && commits {
                    self.commit(io);
                }
            }
            Wake::Whim => self.whim(io),
            Wake::Retry => {}
        }
    }

    fn answered(&mut self, io: &mut Io<'_>, sent: Sent, response: Response) {
        if let (Sent::Heartbeat, Response::ConsumerGroupHeartbeat(answer)) = (sent, response) {
            self.heard(io, answer);
        }
    }

    fn disconnected(&mut self, io: &mut Io<'_>) {
        self.lost(io);
    }

    fn calm(&mut self, io: &mut Io<'_>) {
        if !self.is_good() {
            self.over = true;
            self.drop_all(io);
            io.line = Some(Line::Close);
        }
    }

    fn farewell(&mut self, io: &mut Io<'_>) {
        self.over = true;
        if io.connected && !self.is_away {
            let leaving = self.request(-1);
            io.send(Sent::Leave, Request::ConsumerGroupHeartbeat(Box::new(leaving)));
        }
        self.drop_all(io);
        io.line = Some(Line::Close);
    }

    fn status(&self) -> Option<Status> {
        self.is_good().then(|| Status {
            group: self.manner.group.clone(),
            member_id: self.member_id.clone(),
            generation: self.epoch,
            is_stable: !self.is_away && self.epoch > 0 && self.next.is_none(),
            partitions: self.names.clone(),
            topics: self.manner.topics.clone(),
            prefix: self.manner.regex.as_ref().map(|_| "k-"),
        })
    }
}
