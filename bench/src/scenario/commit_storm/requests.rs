//! OffsetCommit and OffsetFetch of one group and topic.

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{
    GroupId, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

/// Who commits what.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The group.
    pub group: GroupId,
    /// The member's id; empty for nobody's.
    pub member: StrBytes,
    /// The generation; -1 for nobody's.
    pub generation: i32,
    /// The topic.
    pub topic: TopicName,
    /// The member's partitions.
    pub partitions: Vec<i32>,
}

/// The same offset for all partitions.
pub fn commit(who: &Identity, offset: i64) -> OffsetCommitRequest {
    let partition = |index: &i32| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(*index)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(StrBytes::default()))
    };
    let topic = OffsetCommitRequestTopic::default()
        .with_name(who.topic.clone())
        .with_partitions(who.partitions.iter().map(partition).collect());
    OffsetCommitRequest::default()
        .with_group_id(who.group.clone())
        .with_member_id(who.member.clone())
        .with_generation_id_or_member_epoch(who.generation)
        .with_topics(vec![topic])
}

/// The first error code of any partition; `None` when not every partition of the request is answered.
pub fn committed(who: &Identity, answer: &OffsetCommitResponse) -> Option<i16> {
    let partitions = || answer.topics.iter().flat_map(|topic| &topic.partitions);
    if let Some(failed) = partitions().find(|partition| partition.error_code != 0) {
        return Some(failed.error_code);
    }
    (partitions().count() == who.partitions.len()).then_some(0)
}

/// The version from which on a request names several groups (KIP-709).
const SEVERAL_GROUPS: i16 = 8;

/// What the group has for the member's partitions.
pub fn fetch(who: &Identity, version: i16) -> OffsetFetchRequest {
    let partitions = who.partitions.clone();
    if version < SEVERAL_GROUPS {
        let topic = OffsetFetchRequestTopic::default().with_name(who.topic.clone()).with_partition_indexes(partitions);
        return OffsetFetchRequest::default().with_group_id(who.group.clone()).with_topics(Some(vec![topic]));
    }
    let topic = OffsetFetchRequestTopics::default().with_name(who.topic.clone()).with_partition_indexes(partitions);
    // Without a member: offsets of a group are anybody's to read.
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(who.group.clone())
        .with_member_epoch(-1)
        .with_topics(Some(vec![topic]));
    OffsetFetchRequest::default().with_groups(vec![group])
}

/// The offset of every partition that is answered, or the first error code.
pub fn fetched(answer: &OffsetFetchResponse, version: i16) -> Result<Vec<(i32, i64)>, i16> {
    let refused = |code: i16| if code == 0 { Ok(()) } else { Err(code) };
    let mut found = Vec::new();
    if version < SEVERAL_GROUPS {
        refused(answer.error_code)?;
        for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
            refused(partition.error_code)?;
            found.push((partition.partition_index, partition.committed_offset));
        }
        return Ok(found);
    }
    for group in &answer.groups {
        refused(group.error_code)?;
        for partition in group.topics.iter().flat_map(|topic| &topic.partitions) {
            refused(partition.error_code)?;
            found.push((partition.partition_index, partition.committed_offset));
        }
    }
    Ok(found)
}
