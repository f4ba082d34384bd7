//! A coordinator with one group, and its members as their clients know them.

use std::sync::Arc;

use bytes::Bytes;
use ringgate_group::request::*;
use ringgate_group::{
    ConnectionId, Coordinator, Effect, ErrorCode, GroupConfig, Now, PartitionSet, ReplyToken, Request, Response, Text,
    TimerKey, Topics, Totals,
};

const GROUP: &str = "orders-service";
const TOPIC: &str = "orders";
const TOPIC_ID: u128 = 7;
/// Partitions that are committed to.
pub const COMMITTED_PARTITIONS: usize = 1_000;

/// One topic, with as many partitions as there are members.
#[derive(Debug)]
struct OneTopic {
    partitions: i32,
}

impl Topics for OneTopic {
    fn version(&self) -> u64 {
        1
    }

    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        (name == TOPIC).then_some((TOPIC_ID, self.partitions))
    }

    fn name_of(&self, id: u128) -> Option<&str> {
        (id == TOPIC_ID).then_some(TOPIC)
    }

    fn for_each_name<'a>(&'a self, see: &mut dyn FnMut(&'a str)) {
        see(TOPIC);
    }
}

/// What a client knows of its member.
#[derive(Debug, Clone)]
pub struct Member {
    pub id: Text,
    pub epoch: i32,
    pub has: PartitionSet,
}

/// The coordinator and its group's members.
pub struct Fleet {
    coordinator: Coordinator,
    now: Now,
    next_token: u64,
    join_timer: Option<TimerKey>,
    answers: Vec<Response>,
    pub members: Vec<Member>,
}

impl Fleet {
    fn empty(partitions: usize) -> Fleet {
        let config = GroupConfig {
            max_members_per_group: usize::MAX,
            max_total_members: usize::MAX,
            max_group_memory: usize::MAX,
            max_member_blob_bytes: usize::MAX,
            initial_rebalance_delay: std::time::Duration::ZERO,
            ..GroupConfig::default()
        };
        let mut seed = 0_u128;
        let random = move || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            seed ^ (seed >> 67)
        };
        let mut coordinator = Coordinator::new(config, Arc::new(Totals::default()), random);
        let now = Now { mono_ms: 1_000, wall_ms: 1_700_000_000_000 };
        coordinator.finish_loading(now);
        coordinator.handle_topics(Arc::new(OneTopic { partitions: partitions as i32 }));
        Fleet { coordinator, now, next_token: 0, join_timer: None, answers: Vec::new(), members: Vec::new() }
    }

    /// A stable classic group: all have joined and synced, and have committed.
    pub fn classic(members: usize) -> Fleet {
        let mut fleet = Fleet::empty(members);
        (0..members).for_each(|n| fleet.ask(n, fleet.first_join()));
        fleet.complete_join_phase();
        fleet.ask(0, fleet.sync(0, true));
        (1..members).for_each(|n| fleet.ask(n, fleet.sync(n, false)));
        (0..COMMITTED_PARTITIONS).for_each(|n| fleet.ask(n % members, fleet.commit(n % members, n)));
        fleet.all_answered_well();
        fleet
    }

    /// A stable consumer group (KIP-848) with a partition for each member, that has committed.
    pub fn consumers(members: usize) -> Fleet {
        let mut fleet = Fleet::empty(members);
        for n in 0..members {
            fleet.ask(n, consumer_join(n));
            fleet.take_assignment(n);
        }
        // The first member was given everything: it gives back what is for others, and these get it.
        for _ in 0..4 {
            fleet.now.mono_ms += 1_000;
            for n in 0..members {
                fleet.ask(n, fleet.consumer_heartbeat(n, true));
                fleet.take_assignment(n);
            }
        }
        assert!(fleet.members.iter().all(|member| member.has.len() == 1), "the group has not come to rest");
        (0..COMMITTED_PARTITIONS).for_each(|n| fleet.ask(n % members, fleet.commit(n % members, n)));
        fleet.all_answered_well();
        fleet
    }

    /// A consumer group of one member that has so many partitions.
    pub fn shared_out(partitions: usize) -> Fleet {
        let mut fleet = Fleet::empty(partitions);
        fleet.ask(0, consumer_join(0));
        fleet.take_assignment(0);
        for _ in 0..2 {
            fleet.now.mono_ms += 1_000;
            fleet.ask(0, fleet.consumer_heartbeat(0, true));
            fleet.take_assignment(0);
        }
        assert_eq!(fleet.members[0].has.len(), partitions);
        fleet
    }

    /// A consumer group of one member that names so many topics.
    pub fn names(topics: usize) -> Fleet {
        let mut fleet = Fleet::empty(1);
        let Request::ConsumerGroupHeartbeat(mut join) = consumer_join(0) else { unreachable!("it is a heartbeat") };
        join.subscribed_topic_names = Some((0..topics).map(|n| Text::from(format!("topic-{n:010}"))).collect());
        fleet.ask(0, Request::ConsumerGroupHeartbeat(join));
        fleet.take_assignment(0);
        fleet
    }

    /// Ids that were given out, to whose members nothing else has happened.
    pub fn pending(members: usize) -> Fleet {
        let mut fleet = Fleet::empty(1);
        for n in 0..members {
            fleet.ask(n, Request::Join(join_request(9, Text::EMPTY, TOPIC)));
            assert!(matches!(fleet.answers.pop(), Some(Response::Join(told)) if told.error_code.0 == 79));
        }
        fleet
    }

    /// One group of no members that has committed to so many partitions.
    pub fn offsets(partitions: usize) -> Fleet {
        let mut fleet = Fleet::empty(1);
        for n in 0..partitions {
            fleet.ask(0, Request::OffsetCommit(commit_request(GROUP.into(), n)));
            fleet.all_answered_well();
        }
        fleet
    }

    /// Groups of no members that have committed to one partition each.
    pub fn groups(groups: usize) -> Fleet {
        let mut fleet = Fleet::empty(1);
        for n in 0..groups {
            fleet.ask(0, Request::OffsetCommit(commit_request(format!("{GROUP}-{n:06}").into(), 0)));
            fleet.all_answered_well();
        }
        fleet
    }

    /// Lets go of everything but the coordinator.
    pub fn forget_clients(&mut self) {
        (self.members, self.answers) = (Vec::new(), Vec::new());
    }

    /// The leader joins again: everybody has to.
    pub fn prepare_rebalance(&mut self) {
        self.ask(0, self.join(0, "leader's other subscription"));
    }

    /// Has a request done with all that follows from it.
    pub fn ask(&mut self, member: usize, request: Request) {
        self.next_token += 1;
        let token = ReplyToken(self.next_token);
        self.coordinator.handle_request(self.now, token, ConnectionId(member as u64), request);
        self.carry_out();
    }

    /// As [`Fleet::ask`]; what is called from here on is what is counted.
    #[inline(never)]
    pub fn counted(&mut self, member: usize, request: Request) {
        self.ask(member, request);
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.coordinator.poll_effect() {
            match effect {
                Effect::Reply { response, .. } => self.answers.push(response),
                Effect::Persist { id, .. } => self.coordinator.handle_persisted(self.now, id, Ok(())),
                Effect::ArmTimer { key: key @ TimerKey::Join { .. }, .. } => self.join_timer = Some(key),
                Effect::ComputeAssignment { group, uid, assignor, question, asked } => {
                    let targets = assignor.assign(&question);
                    self.coordinator.handle_assignment_computed(self.now, group, uid, asked, targets);
                }
                _ => {}
            }
        }
    }

    /// All have joined: the first generation begins.
    fn complete_join_phase(&mut self) {
        let timer = self.join_timer.take().expect("the group waits for more members");
        self.coordinator.handle_timer(self.now, timer);
        self.carry_out();
        for answer in self.answers.drain(..) {
            let Response::Join(joined) = answer else { panic!("{answer:?}") };
            assert_eq!(joined.error_code, ErrorCode::NONE);
            let (id, epoch) = (joined.member_id, joined.generation_id);
            self.members.push(Member { id, epoch, has: PartitionSet::EMPTY });
        }
    }

    fn take_assignment(&mut self, n: usize) {
        let Some(Response::ConsumerGroupHeartbeat(told)) = self.answers.pop() else { panic!("no answer") };
        assert_eq!(told.error_code, ErrorCode::NONE, "{:?}", told.error_message);
        if n == self.members.len() {
            self.members.push(Member { id: consumer_id(n), epoch: 0, has: PartitionSet::EMPTY });
        }
        let member = &mut self.members[n];
        member.epoch = told.member_epoch;
        if let Some(assignment) = told.assignment {
            member.has = assignment;
        }
    }

    /// How many answers there were, none of which was an error.
    pub fn all_answered_well(&mut self) -> usize {
        let answers = self.answers.len();
        for answer in self.answers.drain(..) {
            let error = match &answer {
                Response::Join(joined) => joined.error_code,
                Response::Sync(synced) => synced.error_code,
                Response::Heartbeat(error) => *error,
                Response::Leave(left) => left.members[0].error_code,
                Response::OffsetCommit(committed) => committed.topics[0].partitions[0].1,
                Response::ConsumerGroupHeartbeat(told) => told.error_code,
                other => panic!("{other:?}"),
            };
            assert_eq!(error, ErrorCode::NONE);
        }
        answers
    }

    pub fn heartbeat(&self, n: usize) -> Request {
        let Member { id, epoch, .. } = &self.members[n];
        Request::Heartbeat(HeartbeatRequest {
            group_id: GROUP.into(),
            generation_id: *epoch,
            member_id: id.clone(),
            group_instance_id: None,
        })
    }

    /// A commit to one partition of those that are committed to already.
    pub fn commit(&self, n: usize, partition: usize) -> Request {
        let Member { id, epoch, .. } = &self.members[n];
        Request::OffsetCommit(OffsetCommitRequest {
            generation_id_or_member_epoch: *epoch,
            member_id: id.clone(),
            ..commit_request(GROUP.into(), partition % COMMITTED_PARTITIONS)
        })
    }

    /// A member that nobody knows joins in one step, as clients before KIP-394 do.
    pub fn first_join(&self) -> Request {
        Request::Join(join_request(3, Text::EMPTY, TOPIC))
    }

    /// A known member joins again.
    pub fn join(&self, n: usize, topic: &str) -> Request {
        Request::Join(join_request(9, self.members[n].id.clone(), topic))
    }

    /// As a member has always joined.
    pub fn join_unchanged(&self, n: usize) -> Request {
        self.join(n, TOPIC)
    }

    pub fn leave(&self, n: usize) -> Request {
        let member = LeavingMember { member_id: self.members[n].id.clone(), group_instance_id: None };
        Request::Leave(LeaveGroupRequest { api_version: 5, group_id: GROUP.into(), members: vec![member] })
    }

    /// The leader's gives a partition to everybody.
    pub fn sync(&self, n: usize, leads: bool) -> Request {
        let Member { id, epoch, .. } = &self.members[n];
        let given = |(n, member): (usize, &Member)| Assignment { member_id: member.id.clone(), assignment: part(n) };
        let receivers = if leads { &*self.members } else { &[] };
        let assignments = receivers.iter().enumerate().map(given).collect();
        Request::Sync(SyncGroupRequest {
            api_version: 5,
            group_id: GROUP.into(),
            generation_id: *epoch,
            member_id: id.clone(),
            group_instance_id: None,
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments,
        })
    }

    /// `says`: with the partitions that it has, as clients do now and then.
    pub fn consumer_heartbeat(&self, n: usize, says: bool) -> Request {
        let Member { id, epoch, has } = &self.members[n];
        Request::ConsumerGroupHeartbeat(Box::new(ConsumerGroupHeartbeatRequest {
            api_version: 1,
            group_id: GROUP.into(),
            member_id: id.clone(),
            member_epoch: *epoch,
            rebalance_timeout_ms: -1,
            topic_partitions: says.then(|| has.clone()),
            client_id: "consumer-orders-service-1".into(),
            client_host: "/10.20.30.40".into(),
            ..Default::default()
        }))
    }
}

/// A commit of no member.
fn commit_request(group_id: Text, partition: usize) -> OffsetCommitRequest {
    let partition = CommitPartition {
        partition_index: partition as i32,
        committed_offset: 1_000_000,
        committed_leader_epoch: 3,
        committed_metadata: None,
    };
    OffsetCommitRequest {
        api_version: 9,
        group_id,
        generation_id_or_member_epoch: -1,
        retention_time_ms: -1,
        topics: vec![CommitTopic { name: TOPIC.into(), topic_id: 0, partitions: vec![partition] }],
        ..Default::default()
    }
}

/// The first heartbeat of the n-th member.
pub fn consumer_join(n: usize) -> Request {
    Request::ConsumerGroupHeartbeat(Box::new(ConsumerGroupHeartbeatRequest {
        api_version: 1,
        group_id: GROUP.into(),
        member_id: consumer_id(n),
        rebalance_timeout_ms: 300_000,
        subscribed_topic_names: Some(vec![TOPIC.into()]),
        topic_partitions: Some(PartitionSet::EMPTY),
        client_id: "consumer-orders-service-1".into(),
        client_host: "/10.20.30.40".into(),
        ..Default::default()
    }))
}

/// As long as the ids that clients make: a uuid in base64.
fn consumer_id(n: usize) -> Text {
    format!("{n:022}").into()
}

fn join_request(api_version: i16, member_id: Text, topic: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        api_version,
        group_id: GROUP.into(),
        member_id,
        group_instance_id: None,
        protocol_type: "consumer".into(),
        protocols: vec![Protocol { name: "range".into(), metadata: subscription(topic) }],
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        client_id: "consumer-orders-service-1".into(),
        client_host: "/10.20.30.40".into(),
    }
}

/// A subscription (version 0) to one topic.
fn subscription(topic: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    bytes.extend((topic.len() as i16).to_be_bytes());
    bytes.extend(topic.as_bytes());
    bytes.extend([0xff; 4]);
    bytes.into()
}

/// An assignment (version 0) of one partition.
fn part(partition: usize) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    bytes.extend((TOPIC.len() as i16).to_be_bytes());
    bytes.extend(TOPIC.as_bytes());
    bytes.extend(1_i32.to_be_bytes());
    bytes.extend((partition as i32).to_be_bytes());
    bytes.extend([0xff; 4]);
    bytes.into()
}
