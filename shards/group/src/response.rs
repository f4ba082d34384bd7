//! A coordinator's answers, in Kafka's field names; one kind per kind of [`Request`](crate::Request).
//! Fields that a version lacks are filled all the same and left out by the caller, unless it says otherwise.

use std::sync::Arc;

use bytes::Bytes;

use crate::{ErrorCode, PartitionSet, Text};

/// The answer to one request.
#[derive(Debug, Clone)]
pub enum Response {
    /// JoinGroup (11).
    Join(JoinGroupResponse),
    /// SyncGroup (14).
    Sync(SyncGroupResponse),
    /// Heartbeat (12): the error.
    Heartbeat(ErrorCode),
    /// LeaveGroup (13).
    Leave(LeaveGroupResponse),
    /// OffsetCommit (8).
    OffsetCommit(OffsetCommitResponse),
    /// OffsetFetch (9).
    OffsetFetch(OffsetFetchResponse),
    /// DescribeGroups (15).
    DescribeGroup(DescribedGroup),
    /// ListGroups (16).
    ListGroups(ListGroupsResponse),
    /// DeleteGroups (42): the error.
    DeleteGroup(ErrorCode),
    /// OffsetDelete (47).
    OffsetDelete(OffsetDeleteResponse),
    /// ConsumerGroupHeartbeat (68).
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse),
    /// ConsumerGroupDescribe (69), one group of it.
    ConsumerGroupDescribe(ConsumerGroupDescribed),
}

/// The answer to a JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroupResponse {
    /// Success, or why not.
    pub error_code: ErrorCode,
    /// -1 on errors.
    pub generation_id: i32,
    /// v7. `None` on errors.
    pub protocol_type: Option<Text>,
    /// On errors `None` from v7 and "" before, when null did not exist.
    pub protocol_name: Option<Text>,
    /// "" on errors.
    pub leader: Text,
    /// v9 (KIP-814): the leader shall compute no assignment.
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: Text,
    /// All members in join order, for the leader; empty for others.
    pub members: Vec<JoinGroupResponseMember>,
}

/// A member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroupResponseMember {
    /// Its id.
    pub member_id: Text,
    /// v5. Set for static members.
    pub group_instance_id: Option<Text>,
    /// What it said for the chosen protocol.
    pub metadata: Bytes,
}

/// The answer to a SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroupResponse {
    /// Success, or why not.
    pub error_code: ErrorCode,
    /// v5. `None` on errors.
    pub protocol_type: Option<Text>,
    /// v5. `None` on errors.
    pub protocol_name: Option<Text>,
    /// Never null; of length 0 where the leader gave nothing.
    pub assignment: Bytes,
}

/// The answer to a LeaveGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveGroupResponse {
    /// Up to v2 the one member's error.
    pub error_code: ErrorCode,
    /// v3: in request order. Empty before, and where `error_code` is set.
    pub members: Vec<LeftMember>,
}

/// What became of one entry of a LeaveGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftMember {
    /// As asked.
    pub member_id: Text,
    /// As asked.
    pub group_instance_id: Option<Text>,
    /// Success, or why not.
    pub error_code: ErrorCode,
}

/// The answer to an OffsetCommit: topics and partitions as asked, in the order asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitResponse {
    /// A line per topic.
    pub topics: Vec<CommittedTopic>,
}

/// What became of the commits to one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedTopic {
    /// The topic.
    pub name: Text,
    /// As asked.
    pub topic_id: u128,
    /// (partition, error).
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// The answer to an OffsetFetch of one group. Version 1 has no group error: its caller repeats the error
/// on each partition it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFetchResponse {
    /// The group.
    pub group_id: Text,
    /// Where it is set there are no topics.
    pub error_code: ErrorCode,
    /// Topics and partitions as asked and in the order asked. Where all were asked for: what the group
    /// has, with the topic id that each was committed with, which the caller compares with the topic
    /// that now has the name.
    pub topics: Vec<FetchedTopic>,
}

/// Offsets of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedTopic {
    /// The topic.
    pub name: Text,
    /// As asked, or as committed; 0: unknown.
    pub topic_id: u128,
    /// Its partitions.
    pub partitions: Vec<FetchedOffset>,
}

/// The committed offset of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The partition.
    pub partition_index: i32,
    /// -1: none.
    pub committed_offset: i64,
    /// v5. -1: unknown.
    pub committed_leader_epoch: i32,
    /// "" where none was given.
    pub metadata: Text,
    /// Always NONE so far; there are no transactional offsets.
    pub error_code: ErrorCode,
}

/// The answer to a DescribeGroups of one group. Authorized operations are the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Success; 69 from v6 for a group that does not exist.
    pub error_code: ErrorCode,
    /// v6, with 69.
    pub error_message: Option<Text>,
    /// The group.
    pub group_id: Text,
    /// Kafka's name of the state; "" on errors but 69.
    pub group_state: Text,
    /// "" for a group that only commits.
    pub protocol_type: Text,
    /// The chosen protocol, while Stable.
    pub protocol_data: Text,
    /// In join order; ids that have not joined are none.
    pub members: Vec<DescribedGroupMember>,
}

/// A member as DescribeGroups shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroupMember {
    /// Its id.
    pub member_id: Text,
    /// v4. Set for static members.
    pub group_instance_id: Option<Text>,
    /// As it joined.
    pub client_id: Text,
    /// As it joined.
    pub client_host: Text,
    /// For the chosen protocol, while Stable; else empty.
    pub member_metadata: Bytes,
    /// The last that it was given.
    pub member_assignment: Bytes,
}

/// The answer to a slice of ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListGroupsResponse {
    /// 14 while loading, 15 when stopped.
    pub error_code: ErrorCode,
    /// This slice's groups that pass the filters.
    pub groups: Vec<ListedGroup>,
    /// The cursor to go on with; `None` at the end.
    pub next: Option<usize>,
}

/// A group as ListGroups shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group.
    pub group_id: Text,
    /// "" for a group that only commits.
    pub protocol_type: Text,
    /// v4. Kafka's name of the state.
    pub group_state: Text,
    /// v5. `classic`.
    pub group_type: Text,
}

/// The answer to an OffsetDelete: topics and partitions in the order asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDeleteResponse {
    /// Where it is set there are no topics.
    pub error_code: ErrorCode,
    /// (topic, [(partition, error)]).
    pub topics: Vec<(Text, Vec<(i32, ErrorCode)>)>,
}

/// The answer to a ConsumerGroupHeartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatResponse {
    /// Success, or why not.
    pub error_code: ErrorCode,
    /// For the client's log.
    pub error_message: Option<Text>,
    /// `None` on errors.
    pub member_id: Option<Text>,
    /// What the member's next heartbeat has to say; 0 on errors.
    pub member_epoch: i32,
    /// Ms until then; 0 on errors and for members that leave.
    pub heartbeat_interval_ms: i32,
    /// What the member may have; `None` where it is as it was.
    pub assignment: Option<PartitionSet>,
}

/// A consumer group as ConsumerGroupDescribe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupDescribed {
    /// Success, or why not; then there is nothing else.
    pub error_code: ErrorCode,
    /// For the client's log.
    pub error_message: Option<Text>,
    /// The group.
    pub group_id: Text,
    /// Kafka's name of its state.
    pub group_state: Text,
    /// Grows with every change of what members wish or of what topics there are.
    pub group_epoch: i32,
    /// The epoch that the targets are for.
    pub assignment_epoch: i32,
    /// The assignor in use.
    pub assignor_name: Text,
    /// Its members.
    pub members: Vec<ConsumerGroupMember>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupMember {
    /// Its id.
    pub member_id: Text,
    /// Set for static members.
    pub instance_id: Option<Text>,
    /// Where it says it is.
    pub rack_id: Option<Text>,
    /// Where it stands.
    pub member_epoch: i32,
    /// As of its last heartbeat.
    pub client_id: Text,
    /// As of its last heartbeat.
    pub client_host: Text,
    /// By name.
    pub subscribed_topic_names: Arc<[Text]>,
    /// By pattern.
    pub subscribed_topic_regex: Option<Text>,
    /// What it may have now.
    pub assignment: PartitionSet,
    /// What it shall have.
    pub target_assignment: PartitionSet,
    /// Whether it speaks the classic protocol.
    pub is_classic: bool,
}
