//! A consumer group by hand: a member's requests, and those of whoever administers the group.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerProtocolSubscription, DeleteGroupsRequest, DescribeGroupsRequest, GroupId,
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::Encodable;

use super::raw::{Raw, string, topic_name};

/// The assignment that a [`Member`] which leads gives itself.
pub const ASSIGNMENT: &[u8] = b"all of it";
/// Longer than any test: nobody is expelled for being slow.
const SESSION_MS: i32 = 300_000;

pub fn group_id(group: &str) -> GroupId {
    GroupId(string(group))
}

/// What a member of a group says of the topics that it wants.
pub fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(1);
    let subscription =
        ConsumerProtocolSubscription::default().with_topics(topics.iter().map(|topic| string(topic)).collect());
    subscription.encode(&mut bytes, 1).expect("an encodable subscription");
    bytes.freeze()
}

/// The join of `member` ("" for one that has no id yet), with one protocol, `range`.
pub fn join_request(group: &str, member: &str, protocol_type: &str, metadata: Bytes) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(string("range")).with_metadata(metadata);
    JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_session_timeout_ms(SESSION_MS)
        .with_rebalance_timeout_ms(SESSION_MS)
        .with_member_id(string(member))
        .with_protocol_type(string(protocol_type))
        .with_protocols(vec![protocol])
}

/// The heartbeat by which a member of a consumer group (KIP-848) joins.
pub fn consumer_joins(group: &str, member: &str, topics: &[&str]) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(string(member))
        .with_member_epoch(0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(topics.iter().map(|topic| topic_name(topic)).collect()))
        .with_topic_partitions(Some(Vec::new()))
}

/// The id that a dynamic member is given before it joins.
pub fn ask_for_member_id(raw: &mut Raw, group: &str, protocol_type: &str) -> String {
    let response = raw.call(9, &join_request(group, "", protocol_type, subscription(&[])));
    assert_eq!(response.error_code, 79, "a dynamic member is told its id first");
    response.member_id.to_string()
}

/// A member that has joined.
#[derive(Clone, Debug)]
pub struct Member {
    pub group: String,
    pub id: String,
    pub generation: i32,
}

impl Member {
    /// Joins a group that has no other member, and takes all; the group is stable then.
    pub fn alone(raw: &mut Raw, group: &str, protocol_type: &str, metadata: Bytes) -> Member {
        let id = ask_for_member_id(raw, group, protocol_type);
        let joined = raw.call(9, &join_request(group, &id, protocol_type, metadata));
        assert_eq!((joined.error_code, &joined.leader), (0, &joined.member_id));
        let member = Member { group: group.to_owned(), id, generation: joined.generation_id };
        member.lead(raw, protocol_type);
        member
    }

    /// A member of protocol type `consumer` that wants `topics`.
    pub fn consumer(raw: &mut Raw, group: &str, topics: &[&str]) -> Member {
        Member::alone(raw, group, "consumer", subscription(topics))
    }

    fn lead(&self, raw: &mut Raw, protocol_type: &str) {
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(string(&self.id))
            .with_assignment(Bytes::from_static(ASSIGNMENT));
        let request = SyncGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(string(&self.id))
            .with_protocol_type(Some(string(protocol_type)))
            .with_protocol_name(Some(string("range")))
            .with_assignments(vec![assignment]);
        let response = raw.call(5, &request);
        assert_eq!((response.error_code, &response.assignment[..]), (0, ASSIGNMENT));
    }

    pub fn heartbeat(&self, raw: &mut Raw) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_member_id(string(&self.id))
            .with_generation_id(self.generation);
        raw.call(4, &request).error_code
    }

    pub fn leave(self, raw: &mut Raw) {
        let member = MemberIdentity::default().with_member_id(string(&self.id));
        let request = LeaveGroupRequest::default().with_group_id(group_id(&self.group)).with_members(vec![member]);
        let response = raw.call(5, &request);
        assert_eq!((response.error_code, response.members[0].error_code), (0, 0));
    }

    /// Commits as this member; the code of each partition.
    pub fn commit(&self, raw: &mut Raw, topic: &str, offsets: &[(i32, i64)]) -> Vec<i16> {
        let request = commit_request(&self.group, topic, offsets)
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(string(&self.id));
        commit_codes(raw, 8, &request)
    }
}

/// A commit of (partition, offset) by nobody in particular.
pub fn commit_request(group: &str, topic: &str, offsets: &[(i32, i64)]) -> OffsetCommitRequest {
    let partition = |&(index, offset): &(i32, i64)| {
        OffsetCommitRequestPartition::default().with_partition_index(index).with_committed_offset(offset)
    };
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(offsets.iter().map(partition).collect());
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

/// Sends a commit; the code of each partition.
pub fn commit_codes(raw: &mut Raw, version: i16, request: &OffsetCommitRequest) -> Vec<i16> {
    let response = raw.call(version, request);
    response.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
}

/// Commits without being a member, which must be taken.
pub fn commit(raw: &mut Raw, group: &str, topic: &str, offsets: &[(i32, i64)]) {
    let codes = commit_codes(raw, 8, &commit_request(group, topic, offsets));
    assert!(codes.iter().all(|code| *code == 0), "{group}, {topic}: {codes:?}");
}

/// The committed offset of each partition, -1 for none.
pub fn committed(raw: &mut Raw, group: &str, topic: &str, partitions: &[i32]) -> Vec<i64> {
    try_committed(raw, group, topic, partitions).expect("no error code")
}

/// As [`committed`], or the group's code.
pub fn try_committed(raw: &mut Raw, group: &str, topic: &str, partitions: &[i32]) -> Result<Vec<i64>, i16> {
    let topic =
        OffsetFetchRequestTopics::default().with_name(topic_name(topic)).with_partition_indexes(partitions.to_vec());
    let group = OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(Some(vec![topic]));
    let response = raw.call(8, &OffsetFetchRequest::default().with_groups(vec![group]));
    match response.groups[0].error_code {
        0 => Ok(response.groups[0].topics[0].partitions.iter().map(|it| it.committed_offset).collect()),
        code => Err(code),
    }
}

/// Deletes single offsets: the code of the whole, and of each partition.
pub fn delete_offsets(raw: &mut Raw, group: &str, topics: &[(&str, &[i32])]) -> (i16, Vec<i16>) {
    let partition = |&index: &i32| OffsetDeleteRequestPartition::default().with_partition_index(index);
    let topic = |&(name, partitions): &(&str, &[i32])| {
        OffsetDeleteRequestTopic::default()
            .with_name(topic_name(name))
            .with_partitions(partitions.iter().map(partition).collect())
    };
    let request =
        OffsetDeleteRequest::default().with_group_id(group_id(group)).with_topics(topics.iter().map(topic).collect());
    let response = raw.call(0, &request);
    let codes = response.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code);
    (response.error_code, codes.collect())
}

/// Deletes groups: each group that was answered, with its code, by name.
pub fn delete_groups(raw: &mut Raw, version: i16, groups: &[&str]) -> Vec<(String, i16)> {
    let names = groups.iter().map(|group| group_id(group)).collect();
    let response = raw.call(version, &DeleteGroupsRequest::default().with_groups_names(names));
    let mut results: Vec<_> =
        response.results.iter().map(|result| (result.group_id.to_string(), result.error_code)).collect();
    results.sort();
    results
}

/// Describes groups, in the order in which they are asked for.
pub fn describe_groups(raw: &mut Raw, version: i16, groups: &[&str]) -> Vec<DescribedGroup> {
    let names = groups.iter().map(|group| group_id(group)).collect();
    let described = raw.call(version, &DescribeGroupsRequest::default().with_groups(names)).groups;
    let told: Vec<&str> = described.iter().map(|group| group.group_id.as_str()).collect();
    assert_eq!(told, groups);
    described
}

/// The state of one group; `Dead` where there is none.
pub fn state(raw: &mut Raw, group: &str) -> String {
    describe_groups(raw, 5, &[group])[0].group_state.to_string()
}
