//! The classic protocol: JoinGroup, SyncGroup, Heartbeat.

use std::time::Instant;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Answered, CallError, decode};

use super::assignor;
use super::codes::{
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED, NOT_COORDINATOR, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
};
use super::driver::Fleet;
use super::inbox::{Ask, Asked};
use super::member::State;
use super::operations::{record, record_none};

/// Kafka's name of the protocol type of consumers.
const CONSUMER: StrBytes = StrBytes::from_static_str("consumer");

fn ms(time: std::time::Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

impl Fleet {
    pub(super) fn asked(&self, member: u32, what: Ask, intended: Instant) -> Asked {
        Asked { member, life: self.members[member as usize].life, what, intended }
    }

    pub(super) fn send_join(&mut self, member: u32, place: u32) {
        let version = self.versions.join;
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(self.plan.assignor.name()))
            .with_metadata(self.subscription.clone());
        let row = &mut self.members[member as usize];
        row.state = State::Joining;
        let mut request = JoinGroupRequest::default()
            .with_session_timeout_ms(ms(self.plan.session_timeout))
            .with_member_id(row.id.clone())
            .with_protocol_type(CONSUMER)
            .with_protocols(vec![protocol]);
        if version >= 1 {
            request.rebalance_timeout_ms = ms(self.plan.rebalance_timeout);
        }
        let (group, is_new) = (row.group, row.generation == 0);
        request.group_id = self.group_id(member);
        if version >= 5 {
            request.group_instance_id = self.instance_id(member);
        }
        let now = self.now();
        if is_new {
            self.groups[group as usize].group.joins(now);
        } else {
            self.groups[group as usize].group.joins_again(now);
        }
        let asked = self.asked(member, Ask::Join, Instant::now());
        self.send(place, version, &request, asked);
    }

    pub(super) fn joined(&mut self, asked: Asked, came: Result<Answered, CallError>, known: Instant) {
        let at = self.measured(asked.intended);
        let answer = came.and_then(|answered| {
            decode::<JoinGroupRequest>(answered.body.clone(), self.versions.join).map(|answer| (answered, answer))
        });
        let current = self.is_current(&asked, State::Joining);
        let (answered, answer) = match answer {
            Ok(came) => came,
            Err(error) => {
                record_none(&self.recorder, &self.operations.join, &asked, &error, at, known);
                if current {
                    self.lost_contact(asked.member);
                }
                return;
            }
        };
        let operation =
            if answer.error_code == MEMBER_ID_REQUIRED { &self.operations.join_id } else { &self.operations.join };
        record(&self.recorder, operation, &asked, &answered, at);
        match answer.error_code {
            _ if !current => {}
            // It has left while it waited, or is about to.
            0 | UNKNOWN_MEMBER_ID if self.leaving => {}
            0 => self.in_generation(asked.member, answer),
            MEMBER_ID_REQUIRED => {
                let row = &mut self.members[asked.member as usize];
                row.id = own(&answer.member_id);
                row.state = State::ToJoin;
                self.advance(asked.member);
            }
            code => {
                self.failed("join", code, at);
                self.refused(asked.member, code);
            }
        }
    }

    fn in_generation(&mut self, member: u32, answer: JoinGroupResponse) {
        let row = &mut self.members[member as usize];
        row.state = State::Syncing;
        row.generation = answer.generation_id;
        if row.id != answer.member_id {
            row.id = own(&answer.member_id);
        }
        let (group, leads) = (row.group as usize, answer.leader == row.id && !answer.skip_assignment);
        let partitions = self.topics.partitions * self.topics.names.len() as u32;
        let before = self.groups[group].group.generation();
        let unexpected = self.groups[group].group.told(answer.generation_id, partitions);
        if self.groups[group].group.generation() > before {
            self.count("rebalances", 1);
        }
        if unexpected {
            self.count("rebalances.unexpected", 1);
        }
        if leads {
            self.groups[group].leader = member;
        }
        let assignments = if leads { self.assign(answer.members) } else { Vec::new() };
        let version = self.versions.sync;
        let mut request = SyncGroupRequest::default()
            .with_group_id(self.group_id(member))
            .with_generation_id(answer.generation_id)
            .with_member_id(self.members[member as usize].id.clone())
            .with_assignments(assignments);
        if version >= 3 {
            request.group_instance_id = self.instance_id(member);
        }
        if version >= 5 {
            request.protocol_type = Some(CONSUMER);
            request.protocol_name = answer.protocol_name;
        }
        let asked = self.asked(member, Ask::Sync, Instant::now());
        let broker = self.groups[group].coordinator;
        match broker.and_then(|broker| self.lobby(member, broker)) {
            Some(place) => self.send(place, version, &request, asked),
            // The connection of the join was lost between its answer and this.
            None => self.rejoin(member, false, true),
        }
    }

    /// What the leader gives to whom.
    fn assign(&self, mut members: Vec<JoinGroupResponseMember>) -> Vec<SyncGroupRequestAssignment> {
        members.sort_unstable_by(|one, other| one.member_id.cmp(&other.member_id));
        let topics = &self.topics.names;
        let shares = self.plan.assignor.assign(members.len(), topics.len() as u32, self.topics.partitions);
        let assignment = |(member, share): (JoinGroupResponseMember, Vec<u32>)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(member.member_id)
                .with_assignment(assignor::assignment(topics, &share))
        };
        members.into_iter().zip(shares).map(assignment).collect()
    }

    pub(super) fn synced(&mut self, asked: Asked, came: Result<Answered, CallError>, known: Instant) {
        let at = self.measured(asked.intended);
        let answer = came.and_then(|answered| {
            let answer = decode::<SyncGroupRequest>(answered.body.clone(), self.versions.sync)?;
            let assigned = assignor::assigned(answer.assignment, &self.topics.names).map_err(CallError::BadResponse)?;
            Ok((answered, answer.error_code, assigned))
        });
        let current = self.is_current(&asked, State::Syncing);
        let (answered, code, assigned) = match answer {
            Ok(came) => came,
            Err(error) => {
                record_none(&self.recorder, &self.operations.sync, &asked, &error, at, known);
                if current {
                    self.lost_contact(asked.member);
                }
                return;
            }
        };
        record(&self.recorder, &self.operations.sync, &asked, &answered, at);
        match code {
            _ if !current => {}
            0 => {
                let row = &mut self.members[asked.member as usize];
                let (group, generation) = (row.group, row.generation);
                row.assignment = assigned;
                row.counted = true;
                let assigned = row.assignment.clone();
                let place = &mut self.groups[group as usize].group;
                place.holds(generation);
                if generation == place.generation() {
                    place.ownership.take(asked.member, assigned.iter().copied());
                }
                self.settle_down(asked.member);
                self.look_at(group);
            }
            REBALANCE_IN_PROGRESS => {
                self.count("rebalance_signals", 1);
                self.rejoin(asked.member, false, false);
            }
            code => {
                self.failed("sync", code, at);
                self.refused(asked.member, code);
            }
        }
    }

    pub(super) fn send_classic_heartbeat(&mut self, member: u32, place: u32, what: Ask, intended: Instant) {
        let row = &self.members[member as usize];
        let mut request = HeartbeatRequest::default()
            .with_group_id(self.group_id(member))
            .with_generation_id(row.generation)
            .with_member_id(row.id.clone());
        if self.versions.heartbeat >= 3 {
            request.group_instance_id = self.instance_id(member);
        }
        let asked = self.asked(member, what, intended);
        self.send(place, self.versions.heartbeat, &request, asked);
    }

    pub(super) fn beaten(&mut self, asked: Asked, came: Result<Answered, CallError>, known: Instant) {
        let version = self.versions.heartbeat;
        let answer = came.and_then(|answered| {
            decode::<HeartbeatRequest>(answered.body.clone(), version).map(|answer| (answered, answer.error_code))
        });
        let code = self.heard(&asked, answer, known);
        let row = &mut self.members[asked.member as usize];
        if row.life != asked.life || row.state != State::Stable {
            return;
        }
        row.heartbeat_out = false;
        match code {
            Some(0) => {
                self.is_well(asked.member);
                self.beats_again(asked.member);
            }
            Some(REBALANCE_IN_PROGRESS) => {
                self.count("rebalance_signals", 1);
                self.rejoin(asked.member, false, false);
            }
            Some(code) => self.refused(asked.member, code),
            None => self.lost_contact(asked.member),
        }
        self.advance(asked.member);
    }

    /// Records what came of a heartbeat; its code, if there is one.
    pub(super) fn heard(
        &mut self,
        asked: &Asked,
        answer: Result<(Answered, i16), CallError>,
        known: Instant,
    ) -> Option<i16> {
        let scheduled = asked.what == Ask::Heartbeat;
        let (operation, at) = if scheduled {
            (&self.operations.heartbeat, asked.intended)
        } else {
            (&self.operations.extra_heartbeat, self.measured(asked.intended))
        };
        match answer {
            Ok((answered, code)) => {
                record(&self.recorder, operation, asked, &answered, at);
                if code != 0 && code != REBALANCE_IN_PROGRESS {
                    self.recorder.error(operation.name, code, at);
                }
                Some(code)
            }
            Err(error) => {
                record_none(&self.recorder, operation, asked, &error, at, known);
                None
            }
        }
    }

    /// The coordinator knows the member, after its connection was lost or since ever.
    pub(super) fn is_well(&mut self, member: u32) {
        let row = &mut self.members[member as usize];
        if row.counted {
            return;
        }
        row.counted = true;
        let (group, generation) = (row.group, row.generation);
        self.groups[group as usize].group.holds(generation);
        self.look_at(group);
    }

    /// Whether an answer is to what the member waits for.
    fn is_current(&self, asked: &Asked, state: State) -> bool {
        let row = &self.members[asked.member as usize];
        row.life == asked.life && row.state == state
    }

    /// A member was refused with an error code.
    pub(super) fn refused(&mut self, member: u32, code: i16) {
        let was_stable = self.members[member as usize].state == State::Stable;
        match code {
            UNKNOWN_MEMBER_ID => {
                if was_stable {
                    self.count("session_expiries", 1);
                }
                self.rejoin(member, true, false);
            }
            ILLEGAL_GENERATION => self.rejoin(member, false, false),
            FENCED_INSTANCE_ID => self.rejoin(member, true, true),
            NOT_COORDINATOR | COORDINATOR_NOT_AVAILABLE => {
                self.moved(member);
                self.try_again(member);
            }
            COORDINATOR_LOAD_IN_PROGRESS => self.try_again(member),
            // Nothing that joining again would change.
            _ if was_stable => {}
            _ => self.rejoin(member, false, true),
        }
    }

    /// A stable member heartbeats again in a while, any other joins again.
    fn try_again(&mut self, member: u32) {
        let row = &mut self.members[member as usize];
        if row.state == State::Stable {
            row.owes_heartbeat = true;
            self.pause(member);
        } else {
            self.rejoin(member, false, true);
        }
    }

    /// There was no answer: as clients do, the member looks for its coordinator again.
    pub(super) fn lost_contact(&mut self, member: u32) {
        self.leave_lobby(member);
        self.moved(member);
        self.try_again(member);
    }

    /// Every member of a group leaves, in one request.
    pub(super) fn leave_all(&mut self, group: u32, vanished: Vec<StrBytes>, place: u32) {
        // A static one is known by its instance id, also while it is away.
        let known = |member: &u32| self.plan.is_static || !self.members[*member as usize].id.is_empty();
        let leaving = self.members_of(group).filter(known);
        let leaving = leaving.map(|member| (self.members[member as usize].id.clone(), self.instance_id(member)));
        let all: Vec<_> = leaving.chain(vanished.into_iter().map(|id| (id, None))).collect();
        if all.is_empty() {
            return;
        }
        let (version, any) = (self.versions.leave, self.members_of(group).start);
        let request = LeaveGroupRequest::default().with_group_id(self.group_id(any));
        let mut requests = Vec::new();
        if version >= 3 {
            let member = |(id, instance)| MemberIdentity::default().with_member_id(id).with_group_instance_id(instance);
            requests.push(request.with_members(all.into_iter().map(member).collect()));
        } else {
            requests.extend(all.into_iter().map(|(id, _)| request.clone().with_member_id(id)));
        }
        for request in requests {
            let asked = self.asked(any, Ask::Leave, Instant::now());
            self.send(place, version, &request, asked);
        }
    }

    /// One member leaves.
    pub(super) fn leave_classic(&mut self, member: u32, place: u32) {
        let version = self.versions.leave;
        let id = self.members[member as usize].id.clone();
        let mut request = LeaveGroupRequest::default().with_group_id(self.group_id(member));
        if version >= 3 {
            let identity =
                MemberIdentity::default().with_member_id(id).with_group_instance_id(self.instance_id(member));
            request.members = vec![identity];
        } else {
            request.member_id = id;
        }
        let asked = self.asked(member, Ask::Leave, Instant::now());
        self.send(place, version, &request, asked);
    }

    pub(super) fn left_classic(&mut self, answered: &Answered) -> Result<i16, CallError> {
        decode::<LeaveGroupRequest>(answered.body.clone(), self.versions.leave).map(|answer| answer.error_code)
    }
}

/// A copy of its own: a slice of an answer would keep the block in which it came.
fn own(id: &StrBytes) -> StrBytes {
    StrBytes::from_string(id.to_string())
}
