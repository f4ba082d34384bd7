//! Commits of members, and their leave-taking.

use std::time::Instant;

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::{OffsetCommitRequest, TopicName};
use ringgate_client::{Answered, CallError, decode};

use super::codes::{REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID};
use super::driver::Fleet;
use super::inbox::{Ask, Asked};
use super::member::State;
use super::operations::{record, record_none};
use super::plan::Protocol;

impl Fleet {
    pub(super) fn send_commit(&mut self, member: u32, place: u32) {
        let intended = self.next_commit(member);
        let topics = self.topics.names.len();
        let row = &mut self.members[member as usize];
        row.commit_waits = false;
        let count = row.assignment.len().min(self.plan.commit_partitions as usize);
        if count == 0 {
            self.recorder.count("commits.nothing_owned", intended, 1);
            return;
        }
        row.commit_out = true;
        row.offset = row.offset.wrapping_add(1);
        let mut by_topic: Vec<OffsetCommitRequestTopic> = Vec::new();
        let mut last = None;
        for number in &row.assignment[..count] {
            let (topic, partition) = (*number as usize % topics, *number as usize / topics);
            if last != Some(topic) {
                last = Some(topic);
                let name = TopicName(self.topics.names[topic].clone());
                by_topic.push(OffsetCommitRequestTopic::default().with_name(name));
            }
            if let Some(topic) = by_topic.last_mut() {
                let partition = OffsetCommitRequestPartition::default()
                    .with_partition_index(partition as i32)
                    .with_committed_offset(i64::from(row.offset));
                topic.partitions.push(partition);
            }
        }
        let mut request = OffsetCommitRequest::default()
            .with_generation_id_or_member_epoch(row.generation)
            .with_member_id(row.id.clone())
            .with_topics(by_topic);
        request.group_id = self.group_id(member);
        if self.versions.commit >= 7 {
            request.group_instance_id = self.instance_id(member);
        }
        let asked = self.asked(member, Ask::Commit, intended);
        self.send(place, self.versions.commit, &request, asked);
    }

    pub(super) fn committed(&mut self, asked: Asked, came: Result<Answered, CallError>, known: Instant) {
        let at = asked.intended;
        let answer = came.and_then(|answered| {
            let answer = decode::<OffsetCommitRequest>(answered.body.clone(), self.versions.commit)?;
            let mut codes =
                answer.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code);
            Ok((answered, codes.find(|code| *code != 0).unwrap_or(0)))
        });
        let code = match answer {
            Ok((answered, code)) => {
                record(&self.recorder, &self.operations.commit, &asked, &answered, at);
                if code != 0 && code != REBALANCE_IN_PROGRESS {
                    self.failed("commit", code, at);
                }
                Some(code)
            }
            Err(error) => {
                record_none(&self.recorder, &self.operations.commit, &asked, &error, at, known);
                None
            }
        };
        let row = &mut self.members[asked.member as usize];
        if row.life != asked.life || row.state != State::Stable {
            return;
        }
        row.commit_out = false;
        match (code, self.plan.protocol) {
            (Some(0), _) => {}
            (Some(REBALANCE_IN_PROGRESS), Protocol::Classic) => {
                self.count("rebalance_signals", 1);
                self.rejoin(asked.member, false, false);
            }
            (Some(code), Protocol::Classic) => self.refused(asked.member, code),
            // With KIP-848 a heartbeat tells what is to be done about it.
            (Some(_), Protocol::Consumer) => {}
            (None, _) => self.lost_contact(asked.member),
        }
        self.advance(asked.member);
    }

    /// A member leaves its group as it should, if there is a connection to say so.
    pub(super) fn leave(&mut self, member: u32) {
        let group = self.members[member as usize].group;
        let Some(broker) = self.groups[group as usize].coordinator else { return };
        let Some(place) = self.home(member, broker) else { return };
        match self.plan.protocol {
            Protocol::Classic => self.leave_classic(member, place),
            Protocol::Consumer => self.leave_consumer(member, place),
        }
    }

    /// Every member leaves, also those that vanished: what comes after the run on the same target is to find no members that expire.
    pub(super) fn leave_everything(&mut self) {
        for group in 0..self.groups.len() as u32 {
            let Some(broker) = self.groups[group as usize].coordinator else { continue };
            let Some(place) = self.standing(group, broker) else { continue };
            let vanished = self.groups[group as usize].vanished.take(Instant::now());
            match self.plan.protocol {
                Protocol::Classic => self.leave_all(group, vanished, place),
                Protocol::Consumer => {
                    for member in self.members_of(group) {
                        if !self.members[member as usize].id.is_empty() {
                            self.leave_consumer(member, place);
                        }
                    }
                    self.leave_vanished(group, vanished, place);
                }
            }
        }
    }

    pub(super) fn left(&mut self, asked: Asked, came: Result<Answered, CallError>, known: Instant) {
        let at = self.measured(asked.intended);
        let answer = came.and_then(|answered| {
            let code = match self.plan.protocol {
                Protocol::Classic => self.left_classic(&answered),
                Protocol::Consumer => self.left_consumer(&answered),
            }?;
            Ok((answered, code))
        });
        match answer {
            Ok((answered, code)) => {
                record(&self.recorder, &self.operations.leave, &asked, &answered, at);
                // At the end those leave, too, that the coordinator may have dropped already.
                if code != 0 && !(self.closing && code == UNKNOWN_MEMBER_ID) {
                    self.failed("leave", code, at);
                }
            }
            Err(error) => record_none(&self.recorder, &self.operations.leave, &asked, &error, at, known),
        }
    }
}
