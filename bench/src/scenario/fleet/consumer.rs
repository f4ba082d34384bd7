//! The consumer protocol of KIP-848: ConsumerGroupHeartbeat joins, heartbeats, acknowledges and leaves.

use std::collections::BTreeMap;
use std::time::Instant;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::consumer_group_heartbeat_response::Assignment;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Answered, CallError, decode};

use super::assignor::number_of;
use super::codes::{FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID};
use super::driver::Fleet;
use super::inbox::{Ask, Asked};
use super::member::State;
use super::operations::{record, record_none};

/// Member epochs that say something else: a leaving member, and a static one that will be back.
const LEAVES: i32 = -1;
const LEAVES_FOR_A_WHILE: i32 = -2;

impl Fleet {
    fn consumer_heartbeat(&self, member: u32) -> ConsumerGroupHeartbeatRequest {
        let row = &self.members[member as usize];
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.group_id(member))
            .with_member_id(row.id.clone())
            .with_member_epoch(row.generation)
            .with_instance_id(self.instance_id(member))
            .with_rebalance_timeout_ms(-1)
            .with_subscribed_topic_names(None)
            .with_topic_partitions(None)
    }

    /// The heartbeat with which a member joins: it says everything.
    pub(super) fn send_first(&mut self, member: u32, place: u32) {
        let now = self.now();
        if self.members[member as usize].id.is_empty() {
            // As clients make theirs from version 1 on; before, the coordinator takes them as well.
            let id = format!("{:016x}{:016x}", self.random.next_u64(), self.random.next_u64());
            self.members[member as usize].id = StrBytes::from_string(id);
            let group = self.members[member as usize].group;
            self.groups[group as usize].group.joins(now);
        }
        let row = &mut self.members[member as usize];
        row.state = State::Joining;
        row.generation = 0;
        let names = self.topics.names.iter().map(|name| TopicName(name.clone())).collect();
        let rebalance_ms = i32::try_from(self.plan.rebalance_timeout.as_millis()).unwrap_or(i32::MAX);
        let request = self
            .consumer_heartbeat(member)
            .with_rebalance_timeout_ms(rebalance_ms)
            .with_subscribed_topic_names(Some(names))
            .with_topic_partitions(Some(Vec::new()));
        let asked = self.asked(member, Ask::Join, Instant::now());
        self.send(place, self.versions.consumer, &request, asked);
    }

    pub(super) fn send_consumer_heartbeat(&mut self, member: u32, place: u32, what: Ask, intended: Instant) {
        let mut request = self.consumer_heartbeat(member);
        let row = &mut self.members[member as usize];
        if std::mem::take(&mut row.owes_heartbeat) {
            let released = std::mem::take(&mut row.to_release);
            let mut by_topic: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
            let topics = self.topics.ids.len();
            for partition in &row.assignment {
                by_topic.entry(*partition as usize % topics).or_default().push((*partition as usize / topics) as i32);
            }
            let owned = by_topic.into_iter().map(|(topic, partitions)| {
                TopicPartitions::default().with_topic_id(self.topics.ids[topic]).with_partitions(partitions)
            });
            request.topic_partitions = Some(owned.collect());
            let group = row.group;
            self.groups[group as usize].group.ownership.release(member, released.iter().copied());
        }
        let asked = self.asked(member, what, intended);
        self.send(place, self.versions.consumer, &request, asked);
    }

    /// What came of any heartbeat.
    pub(super) fn told(&mut self, asked: Asked, came: Result<Answered, CallError>, known: Instant) {
        let version = self.versions.consumer;
        let answer = came.and_then(|answered| {
            decode::<ConsumerGroupHeartbeatRequest>(answered.body.clone(), version).map(|answer| (answered, answer))
        });
        let (heard, answer) = match answer {
            Ok((answered, answer)) => (Ok((answered, answer.error_code)), Some(answer)),
            Err(error) => (Err(error), None),
        };
        let code = if asked.what == Ask::Join {
            let at = self.measured(asked.intended);
            match heard {
                Ok((answered, code)) => {
                    record(&self.recorder, &self.operations.join, &asked, &answered, at);
                    if code != 0 {
                        self.failed("join", code, at);
                    }
                    Some(code)
                }
                Err(error) => {
                    record_none(&self.recorder, &self.operations.join, &asked, &error, at, known);
                    None
                }
            }
        } else {
            self.heard(&asked, heard, known)
        };
        let row = &mut self.members[asked.member as usize];
        let waits_for_it = match row.state {
            State::Joining => asked.what == Ask::Join,
            State::Stable => true,
            _ => false,
        };
        if row.life != asked.life || !waits_for_it {
            return;
        }
        row.heartbeat_out = false;
        match (code, answer) {
            (Some(0), Some(answer)) => {
                self.in_epoch(asked.member, answer.member_epoch, answer.assignment);
                self.beats_again(asked.member);
            }
            (Some(FENCED_MEMBER_EPOCH), _) => self.rejoin(asked.member, true, false),
            (Some(UNRELEASED_INSTANCE_ID), _) => self.rejoin(asked.member, true, true),
            (Some(code), _) => self.refused(asked.member, code),
            (None, _) => {
                // Whether an acknowledgement has arrived is not known: the next heartbeat says it again.
                self.lost_contact(asked.member);
            }
        }
        self.advance(asked.member);
    }

    fn in_epoch(&mut self, member: u32, epoch: i32, assignment: Option<Assignment>) {
        let partitions = self.topics.partitions * self.topics.names.len() as u32;
        let joins = self.members[member as usize].state == State::Joining;
        let group = self.members[member as usize].group;
        if epoch != self.members[member as usize].generation || assignment.is_some() || joins {
            self.unsettle(member);
            self.members[member as usize].generation = epoch;
            let before = self.groups[group as usize].group.generation();
            let unexpected = self.groups[group as usize].group.told(epoch, partitions);
            if self.groups[group as usize].group.generation() > before {
                self.count("rebalances", 1);
            }
            if unexpected {
                self.count("rebalances.unexpected", 1);
            }
        }
        if joins {
            self.settle_down(member);
        }
        if let Some(assignment) = assignment {
            let topics = self.topics.ids.len();
            let mut new = Vec::new();
            for topic in assignment.topic_partitions {
                let number = self.topics.ids.iter().position(|id| *id == topic.topic_id);
                new.extend(topic.partitions.iter().map(|partition| number_of(number, *partition, topics)));
            }
            new.sort_unstable();
            let row = &mut self.members[member as usize];
            // What an acknowledgement that was never sent would have released is still held.
            let mut gone: Vec<u32> = row.assignment.iter().chain(&row.to_release).copied().collect();
            gone.retain(|partition| new.binary_search(partition).is_err());
            row.to_release = gone.into_boxed_slice();
            row.assignment = new.clone().into_boxed_slice();
            row.owes_heartbeat = true;
            self.groups[group as usize].group.ownership.take(member, new);
            self.fetch_owned(member);
        }
        if !self.members[member as usize].owes_heartbeat {
            self.is_well(member);
        }
    }

    /// One member leaves.
    pub(super) fn leave_consumer(&mut self, member: u32, place: u32) {
        // At the end nobody comes back.
        let returns = self.plan.is_static && !self.closing;
        let epoch = if returns { LEAVES_FOR_A_WHILE } else { LEAVES };
        let request = self.consumer_heartbeat(member).with_member_epoch(epoch);
        let asked = self.asked(member, Ask::Leave, Instant::now());
        self.send(place, self.versions.consumer, &request, asked);
    }

    /// Members that vanished leave, by whoever still has a connection.
    pub(super) fn leave_vanished(&mut self, group: u32, vanished: Vec<StrBytes>, place: u32) {
        let any = self.members_of(group).start;
        for id in vanished {
            let request =
                self.consumer_heartbeat(any).with_member_id(id).with_instance_id(None).with_member_epoch(LEAVES);
            let asked = self.asked(any, Ask::Leave, Instant::now());
            self.send(place, self.versions.consumer, &request, asked);
        }
    }

    pub(super) fn left_consumer(&mut self, answered: &Answered) -> Result<i16, CallError> {
        let answer = decode::<ConsumerGroupHeartbeatRequest>(answered.body.clone(), self.versions.consumer)?;
        Ok(answer.error_code)
    }
}
