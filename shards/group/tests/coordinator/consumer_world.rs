//! Members of consumer groups (KIP-848) and topics for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringgate_group::request::*;
use ringgate_group::response::*;
use ringgate_group::{ErrorCode, PartitionSet, Request, Response, Text, Topics};

use crate::world::{GROUP, World};

/// Topics by name, with id and partitions.
#[derive(Debug, Default, Clone)]
pub struct Known {
    version: u64,
    topics: BTreeMap<String, (u128, i32)>,
}

impl Topics for Known {
    fn version(&self) -> u64 {
        self.version
    }

    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        self.topics.get(name).copied()
    }

    fn name_of(&self, id: u128) -> Option<&str> {
        self.topics.iter().find(|(_, topic)| topic.0 == id).map(|(name, _)| name.as_str())
    }

    fn for_each_name<'a>(&'a self, see: &mut dyn FnMut(&'a str)) {
        self.topics.keys().for_each(|name| see(name));
    }
}

impl Known {
    /// Topics with these numbers of partitions; their ids are from 1 in order of appearance.
    pub fn set(&mut self, world: &mut World, name: &str, partitions: i32) {
        let next = self.topics.len() as u128 + 1;
        self.topics.entry(name.to_owned()).or_insert((next, 0)).1 = partitions;
        self.tell(world);
    }

    /// So many topics of one partition each, and nothing else.
    pub fn set_many(&mut self, world: &mut World, topics: usize) {
        self.topics = (0..topics).map(|n| (format!("topic-{n:06}"), (n as u128 + 1, 1))).collect();
        self.tell(world);
    }

    pub fn delete(&mut self, world: &mut World, name: &str) {
        self.topics.remove(name);
        self.tell(world);
    }

    /// As after a start.
    pub fn tell(&mut self, world: &mut World) {
        self.version += 1;
        world.coordinator.handle_topics(Arc::new(self.clone()));
    }
}

/// One member, as a client of it.
#[derive(Debug, Clone, Default)]
pub struct Consumer {
    pub member_id: Text,
    pub instance: Option<Text>,
    pub epoch: i32,
    pub has: PartitionSet,
    pub names: Option<Vec<Text>>,
    pub regex: Option<Text>,
    pub assignor: Option<Text>,
}

impl Consumer {
    pub fn new(member_id: &str, topics: &[&str]) -> Consumer {
        Consumer {
            member_id: member_id.into(),
            names: Some(topics.iter().map(|topic| Text::from(*topic)).collect()),
            ..Consumer::default()
        }
    }

    /// The first request of a member, and of one that starts over.
    pub fn joining(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            api_version: 1,
            group_id: GROUP.into(),
            member_id: self.member_id.clone(),
            member_epoch: 0,
            instance_id: self.instance.clone(),
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: self.names.clone(),
            subscribed_topic_regex: self.regex.clone(),
            server_assignor: self.assignor.clone(),
            topic_partitions: Some(PartitionSet::EMPTY),
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            ..ConsumerGroupHeartbeatRequest::default()
        }
    }

    /// Nothing is new.
    pub fn beating(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            member_epoch: self.epoch,
            rebalance_timeout_ms: -1,
            subscribed_topic_names: None,
            subscribed_topic_regex: None,
            server_assignor: None,
            topic_partitions: None,
            ..self.joining()
        }
    }

    /// It says what it has.
    pub fn owning(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest { topic_partitions: Some(self.has.clone()), ..self.beating() }
    }

    pub fn leaving(&self, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest { member_epoch: epoch, ..self.beating() }
    }

    /// Joins, and takes what it is given.
    #[track_caller]
    pub fn join(&mut self, world: &mut World) {
        let answer = world.beat(self.joining());
        self.take(answer);
    }

    /// Heartbeats, says what it has, and does what it is told. Returns whether it was told anything.
    #[track_caller]
    pub fn beat(&mut self, world: &mut World) -> bool {
        let answer = world.beat(self.owning());
        self.take(answer)
    }

    #[track_caller]
    fn take(&mut self, answer: ConsumerGroupHeartbeatResponse) -> bool {
        assert_eq!(answer.error_code, ErrorCode::NONE, "{:?}", answer.error_message);
        assert!(answer.heartbeat_interval_ms > 0);
        self.member_id = answer.member_id.expect("a member id");
        self.epoch = answer.member_epoch;
        let told = answer.assignment.is_some();
        if let Some(assignment) = answer.assignment {
            self.has = assignment;
        }
        told
    }

    pub fn numbers(&self) -> Vec<i32> {
        self.has.iter().map(|(_, partition)| partition).collect()
    }
}

impl World {
    #[track_caller]
    pub fn beat(&mut self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
        let token = self.ask(700, Request::ConsumerGroupHeartbeat(Box::new(request)));
        match self.answer(token) {
            Response::ConsumerGroupHeartbeat(response) => response,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn beat_error(&mut self, request: ConsumerGroupHeartbeatRequest) -> i16 {
        self.beat(request).error_code.0
    }

    #[track_caller]
    pub fn consumers(&mut self) -> ConsumerGroupDescribed {
        let token = self.ask(701, Request::ConsumerGroupDescribe(GROUP.into()));
        match self.answer(token) {
            Response::ConsumerGroupDescribe(response) => response,
            other => panic!("{other:?}"),
        }
    }

    /// Heartbeats of all until nobody is told anything any more and all stand at one epoch.
    pub fn come_to_rest(&mut self, members: &mut [Consumer]) {
        for _ in 0..50 {
            self.advance(1_000);
            let mut told = 0;
            for member in members.iter_mut() {
                told += usize::from(member.beat(self));
            }
            if told == 0 && self.consumers().group_state.as_str() == "Stable" {
                assert!(members.iter().all(|member| member.epoch == members[0].epoch), "{members:?}");
                return;
            }
        }
        panic!("the group does not come to rest: {members:?}");
    }
}

/// Every partition of one topic has exactly one owner.
#[track_caller]
pub fn assert_shared_out(members: &[Consumer], partitions: i32) {
    let mut all: Vec<i32> = members.iter().flat_map(Consumer::numbers).collect();
    all.sort_unstable();
    assert_eq!(all, (0..partitions).collect::<Vec<_>>(), "{members:?}");
}
