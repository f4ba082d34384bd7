//! What clients ask of a coordinator, in Kafka's field names. One value asks about one group (but for
//! [`ListGroupsRequest`]): where a Kafka request names several, its caller asks the owner of each and
//! joins the answers in request order.
//!
//! The caller has decoded and bounded the bytes, checked the principal, and checked that named topics and
//! partitions exist; everything that depends on the group or on the version is decided here.

use bytes::Bytes;

use crate::{PartitionSet, Text};

/// A request to the coordinator of a group.
#[derive(Debug, Clone)]
pub enum Request {
    /// JoinGroup (11).
    Join(JoinGroupRequest),
    /// SyncGroup (14).
    Sync(SyncGroupRequest),
    /// Heartbeat (12).
    Heartbeat(HeartbeatRequest),
    /// LeaveGroup (13).
    Leave(LeaveGroupRequest),
    /// OffsetCommit (8).
    OffsetCommit(OffsetCommitRequest),
    /// OffsetFetch (9), one group of it.
    OffsetFetch(OffsetFetchRequest),
    /// DescribeGroups (15), one group of it.
    DescribeGroup(DescribeGroupRequest),
    /// ListGroups (16), one slice of this shard's groups.
    ListGroups(ListGroupsRequest),
    /// DeleteGroups (42), one group of it.
    DeleteGroup(DeleteGroupRequest),
    /// OffsetDelete (47).
    OffsetDelete(OffsetDeleteRequest),
    /// ConsumerGroupHeartbeat (68).
    ConsumerGroupHeartbeat(Box<ConsumerGroupHeartbeatRequest>),
    /// ConsumerGroupDescribe (69), one group of it: the group.
    ConsumerGroupDescribe(Text),
}

/// JoinGroup, versions 0 to 9.
#[derive(Debug, Clone, Default)]
pub struct JoinGroupRequest {
    /// The request's version.
    pub api_version: i16,
    /// The group.
    pub group_id: Text,
    /// "" where the member has none yet.
    pub member_id: Text,
    /// Set by static members (v5, KIP-345).
    pub group_instance_id: Option<Text>,
    /// `consumer`, `connect`, ...
    pub protocol_type: Text,
    /// Assignors that the member knows, best first.
    pub protocols: Vec<Protocol>,
    /// Ms without a heartbeat after which the member is given up.
    pub session_timeout_ms: i32,
    /// Ms that the member gets to rejoin. v0 has none: -1.
    pub rebalance_timeout_ms: i32,
    /// From the request's header; "" where it was null.
    pub client_id: Text,
    /// The peer's address as Kafka shows it: `/127.0.0.1`.
    pub client_host: Text,
}

/// One assignor of a member and what the member tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    /// The assignor's name.
    pub name: Text,
    /// Opaque; a subscription where the protocol type is `consumer`.
    pub metadata: Bytes,
}

/// SyncGroup, versions 0 to 5.
#[derive(Debug, Clone, Default)]
pub struct SyncGroupRequest {
    /// The request's version.
    pub api_version: i16,
    /// The group.
    pub group_id: Text,
    /// The generation that the member's join was answered with.
    pub generation_id: i32,
    /// The member.
    pub member_id: Text,
    /// Set by static members (v3).
    pub group_instance_id: Option<Text>,
    /// v5; `None` before.
    pub protocol_type: Option<Text>,
    /// v5; `None` before.
    pub protocol_name: Option<Text>,
    /// Who gets what: from the leader, ignored from anybody else.
    pub assignments: Vec<Assignment>,
}

/// What the leader gives one member.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The member.
    pub member_id: Text,
    /// Opaque.
    pub assignment: Bytes,
}

/// Heartbeat, versions 0 to 4.
#[derive(Debug, Clone, Default)]
pub struct HeartbeatRequest {
    /// The group.
    pub group_id: Text,
    /// The member's generation.
    pub generation_id: i32,
    /// The member.
    pub member_id: Text,
    /// Set by static members (v3).
    pub group_instance_id: Option<Text>,
}

/// LeaveGroup, versions 0 to 5.
#[derive(Debug, Clone, Default)]
pub struct LeaveGroupRequest {
    /// The request's version.
    pub api_version: i16,
    /// The group.
    pub group_id: Text,
    /// Who leaves. Up to v2 exactly one, without an instance id.
    pub members: Vec<LeavingMember>,
}

/// One entry of a LeaveGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeavingMember {
    /// "" where a static member is named by its instance id alone.
    pub member_id: Text,
    /// Set for static members.
    pub group_instance_id: Option<Text>,
}

/// OffsetCommit, versions 2 to 10.
#[derive(Debug, Clone, Default)]
pub struct OffsetCommitRequest {
    /// The request's version.
    pub api_version: i16,
    /// The group; "" is a group like any other here.
    pub group_id: Text,
    /// -1 from clients that are no members.
    pub generation_id_or_member_epoch: i32,
    /// "" from clients that are no members.
    pub member_id: Text,
    /// Set by static members (v7).
    pub group_instance_id: Option<Text>,
    /// v2 to v4: ms after which these offsets expire; -1 (and always from v5): the gateway's retention.
    pub retention_time_ms: i64,
    /// Partitions that exist and may be read. The caller answers the others (3, 29, 100) by itself.
    pub topics: Vec<CommitTopic>,
}

/// Commits to one topic.
#[derive(Debug, Clone, Default)]
pub struct CommitTopic {
    /// The name, whatever the version.
    pub name: Text,
    /// The id of the topic that now has this name, whatever the version; 0 where it has none. An
    /// offset whose topic was deleted and made again is no offset.
    pub topic_id: u128,
    /// The commits.
    pub partitions: Vec<CommitPartition>,
}

/// One commit.
#[derive(Debug, Clone, Default)]
pub struct CommitPartition {
    /// The partition.
    pub partition_index: i32,
    /// The next offset to read. Any value is stored.
    pub committed_offset: i64,
    /// v6; -1 before.
    pub committed_leader_epoch: i32,
    /// Null is stored as "".
    pub committed_metadata: Option<Text>,
}

/// OffsetFetch of one group.
#[derive(Debug, Clone, Default)]
pub struct OffsetFetchRequest {
    /// The group; "" is a group like any other here.
    pub group_id: Text,
    /// v9; `None` before.
    pub member_id: Option<Text>,
    /// v9; -1 before.
    pub member_epoch: i32,
    /// v7. There are no transactional offsets, so it changes nothing.
    pub require_stable: bool,
    /// `None`: all that the group has.
    pub topics: Option<Vec<FetchTopic>>,
}

/// Offsets wanted of one topic.
#[derive(Debug, Clone, Default)]
pub struct FetchTopic {
    /// The name, whatever the version.
    pub name: Text,
    /// The id of the topic that now has this name; 0 where there is none.
    pub topic_id: u128,
    /// The partitions.
    pub partition_indexes: Vec<i32>,
}

/// DescribeGroups of one group.
#[derive(Debug, Clone, Default)]
pub struct DescribeGroupRequest {
    /// The request's version.
    pub api_version: i16,
    /// The group.
    pub group_id: Text,
}

/// ListGroups, one slice. Ask again with the answer's `next` until that is `None`.
#[derive(Debug, Clone, Default)]
pub struct ListGroupsRequest {
    /// v4; case and surrounding space do not matter; empty: all.
    pub states_filter: Vec<Text>,
    /// v5; case does not matter; empty: all.
    pub types_filter: Vec<Text>,
    /// Where to go on; 0 at first.
    pub cursor: usize,
}

/// DeleteGroups of one group.
#[derive(Debug, Clone, Default)]
pub struct DeleteGroupRequest {
    /// The group.
    pub group_id: Text,
}

/// OffsetDelete, version 0.
#[derive(Debug, Clone, Default)]
pub struct OffsetDeleteRequest {
    /// The group.
    pub group_id: Text,
    /// Partitions that exist and may be read. The caller answers the others by itself.
    pub topics: Vec<DeleteTopicOffsets>,
}

/// Offsets of one topic to delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteTopicOffsets {
    /// The name.
    pub name: Text,
    /// The partitions.
    pub partition_indexes: Vec<i32>,
}

/// ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848). What is `None` or -1 is as it was.
#[derive(Debug, Clone, Default)]
pub struct ConsumerGroupHeartbeatRequest {
    /// The request's version.
    pub api_version: i16,
    /// The group.
    pub group_id: Text,
    /// Made by the member itself from v1 on; "" in its first v0 request.
    pub member_id: Text,
    /// 0 to join, -1 to leave, -2 for a static member that leaves for a while, else what it was told last.
    pub member_epoch: i32,
    /// Set by static members.
    pub instance_id: Option<Text>,
    /// Where the member is.
    pub rack_id: Option<Text>,
    /// Ms that the member gets to give partitions back; -1: as it was.
    pub rebalance_timeout_ms: i32,
    /// The topics by name.
    pub subscribed_topic_names: Option<Vec<Text>>,
    /// The topics by pattern (v1); "" for none any more.
    pub subscribed_topic_regex: Option<Text>,
    /// The assignor that the member wants.
    pub server_assignor: Option<Text>,
    /// What the member has.
    pub topic_partitions: Option<PartitionSet>,
    /// From the request's header; "" where it was null.
    pub client_id: Text,
    /// Where the connection comes from.
    pub client_host: Text,
}
