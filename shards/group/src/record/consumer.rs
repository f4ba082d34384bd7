//! The bytes of consumer groups and their members.

use std::sync::Arc;

use bytes::BufMut;

use super::{
    ClassicMember, ConsumerGroupMetadata, ConsumerMember, Input, Record, put_optional, put_protocols, put_text,
};
use crate::coordinator::MemberState;
use crate::{PartitionSet, Text, TopicIdPartition};

const STATES: [MemberState; 3] =
    [MemberState::Stable, MemberState::UnrevokedPartitions, MemberState::UnreleasedPartitions];

/// Bytes of a partition as it is written, and with an epoch behind it.
const PARTITION_BYTES: usize = 20;
const SINCE_BYTES: usize = PARTITION_BYTES + 4;

pub(super) fn size_hint(member: &ConsumerMember) -> usize {
    let optional = |text: &Option<Text>| text.as_ref().map_or(0, Text::len);
    let texts = member.member_id.len()
        + member.client_id.len()
        + member.client_host.len()
        + optional(&member.instance_id)
        + optional(&member.rack_id)
        + optional(&member.subscribed_topic_regex)
        + optional(&member.server_assignor)
        + member.subscribed_topic_names.iter().map(|name| 2 + name.len()).sum::<usize>();
    let partitions = member.assigned.len() + member.revoking.len() + member.target.len();
    let protocols = member.classic.iter().flat_map(|classic| classic.protocols.iter());
    let protocols: usize = protocols.map(|p| 6 + p.name.len() + p.metadata.len()).sum();
    64 + texts + protocols + partitions * PARTITION_BYTES + member.since.len() * SINCE_BYTES
}

pub(super) fn encode_group(out: &mut impl BufMut, group: &ConsumerGroupMetadata) {
    put_text(out, &group.group_id);
    out.put_i32_le(group.epoch);
    out.put_i32_le(group.assignment_epoch);
    out.put_u64_le(group.wishes_hash);
    out.put_i64_le(group.state_timestamp_ms);
}

pub(super) fn decode_group(input: &mut Input<'_>) -> Option<ConsumerGroupMetadata> {
    Some(ConsumerGroupMetadata {
        group_id: input.text()?,
        epoch: input.i32()?,
        assignment_epoch: input.i32()?,
        wishes_hash: u64::from_le_bytes(input.array()?),
        state_timestamp_ms: input.i64()?,
    })
}

pub(super) fn encode_member(out: &mut impl BufMut, member: &ConsumerMember) {
    put_text(out, &member.member_id);
    put_optional(out, member.instance_id.as_ref());
    put_optional(out, member.rack_id.as_ref());
    put_text(out, &member.client_id);
    put_text(out, &member.client_host);
    out.put_i32_le(member.rebalance_timeout_ms);
    out.put_u32_le(member.subscribed_topic_names.len() as u32);
    member.subscribed_topic_names.iter().for_each(|name| put_text(out, name));
    put_optional(out, member.subscribed_topic_regex.as_ref());
    put_optional(out, member.server_assignor.as_ref());
    out.put_u8(STATES.iter().position(|state| *state == member.state).unwrap_or_default() as u8);
    out.put_i32_le(member.epoch);
    out.put_i32_le(member.previous_epoch);
    for partitions in [&member.assigned, &member.revoking, &member.target] {
        out.put_u32_le(partitions.len() as u32);
        partitions.iter().for_each(|partition| put_partition(out, partition));
    }
    out.put_u32_le(member.since.len() as u32);
    for (partition, epoch) in &member.since {
        put_partition(out, *partition);
        out.put_i32_le(*epoch);
    }
    out.put_u8(u8::from(member.classic.is_some()));
    if let Some(classic) = &member.classic {
        out.put_i32_le(classic.session_timeout_ms);
        out.put_i16_le(classic.version);
        put_protocols(out, &classic.protocols);
    }
}

fn put_partition(out: &mut impl BufMut, (topic, partition): TopicIdPartition) {
    out.put_u128_le(topic);
    out.put_i32_le(partition);
}

pub(super) fn decode_member(input: &mut Input<'_>) -> Option<Record> {
    let group_id = input.text()?;
    let member = ConsumerMember {
        member_id: input.text()?,
        instance_id: input.optional()?,
        rack_id: input.optional()?,
        client_id: input.text()?,
        client_host: input.text()?,
        rebalance_timeout_ms: input.i32()?,
        subscribed_topic_names: names(input)?,
        subscribed_topic_regex: input.optional()?,
        server_assignor: input.optional()?,
        state: *STATES.get(usize::from(input.array::<1>()?[0]))?,
        epoch: input.i32()?,
        previous_epoch: input.i32()?,
        assigned: partitions(input)?,
        revoking: partitions(input)?,
        target: partitions(input)?,
        since: since(input)?,
        classic: classic(input)?,
    };
    Some(Record::ConsumerMember { group_id, member: Box::new(member) })
}

/// The outer `None` is damage.
fn classic(input: &mut Input<'_>) -> Option<Option<ClassicMember>> {
    if input.array::<1>()?[0] == 0 {
        return Some(None);
    }
    let classic = ClassicMember {
        session_timeout_ms: input.i32()?,
        version: i16::from_le_bytes(input.array()?),
        protocols: input.protocols()?,
    };
    Some(Some(classic))
}

fn names(input: &mut Input<'_>) -> Option<Arc<[Text]>> {
    let count = input.u32()? as usize;
    let mut names = Vec::with_capacity(count.min(input.0.len() / 2));
    for _ in 0..count {
        names.push(input.text()?);
    }
    Some(names.into())
}

fn partition(input: &mut Input<'_>) -> Option<TopicIdPartition> {
    Some((u128::from_le_bytes(input.array()?), input.i32()?))
}

fn partitions(input: &mut Input<'_>) -> Option<PartitionSet> {
    let count = input.u32()? as usize;
    let mut partitions = Vec::with_capacity(count.min(input.0.len() / PARTITION_BYTES));
    for _ in 0..count {
        partitions.push(partition(input)?);
    }
    Some(partitions.into_iter().collect())
}

fn since(input: &mut Input<'_>) -> Option<Vec<(TopicIdPartition, i32)>> {
    let count = input.u32()? as usize;
    let mut since = Vec::with_capacity(count.min(input.0.len() / SINCE_BYTES));
    for _ in 0..count {
        since.push((partition(input)?, input.i32()?));
    }
    since.sort_unstable();
    Some(since)
}

pub(super) fn decode_member_tombstone(input: &mut Input<'_>) -> Option<Record> {
    Some(Record::ConsumerMemberTombstone { group_id: input.text()?, member_id: input.text()? })
}
