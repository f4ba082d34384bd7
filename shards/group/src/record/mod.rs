//! What a coordinator keeps in its store, and its bytes.
//!
//! A record has a kind, a version and a payload; the log that holds it knows no more than its
//! [`key`](Record::key): the last record of a key counts, and a tombstone ends it. Payloads are
//! little-endian; names and blobs carry their length (u16 and u32) in front, an absent name is 0xffff.
//! A group record keeps every protocol of every member, so that a member which rejoins unchanged is seen
//! as unchanged after a restart too. Decoding trusts nothing: it never allocates by a count that the
//! bytes left could not hold.

mod consumer;

use std::sync::Arc;

use bytes::{BufMut, Bytes};

use crate::coordinator::MemberState;
use crate::limits::MEMBERS_SIZED_MAX;
use crate::request::Protocol;
use crate::text::detached;
use crate::{PartitionSet, Text, TopicIdPartition};

/// The version that is written. Every version up to it is read.
pub const RECORD_VERSION: u8 = 1;

const KIND_GROUP: u8 = 1;
const KIND_GROUP_TOMBSTONE: u8 = 2;
const KIND_OFFSET: u8 = 3;
const KIND_OFFSET_TOMBSTONE: u8 = 4;
const KIND_CONSUMER_GROUP: u8 = 5;
const KIND_CONSUMER_MEMBER: u8 = 6;
const KIND_CONSUMER_MEMBER_TOMBSTONE: u8 = 7;

const ABSENT: u16 = u16::MAX;

/// One thing to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A group as of its last completed sync, or empty.
    Group(GroupMetadata),
    /// The group is gone. Its offsets have tombstones of their own.
    GroupTombstone {
        /// The group.
        group_id: Text,
    },
    /// A committed offset.
    Offset {
        /// Whose.
        key: OffsetKey,
        /// What.
        value: OffsetValue,
    },
    /// The offset is gone.
    OffsetTombstone {
        /// Whose.
        key: OffsetKey,
    },
    /// A consumer group (KIP-848). It has the key of a classic group: a group is one or the other.
    ConsumerGroup(ConsumerGroupMetadata),
    /// A member of a consumer group.
    ConsumerMember {
        /// The group.
        group_id: Text,
        /// The member.
        member: Box<ConsumerMember>,
    },
    /// The member is gone.
    ConsumerMemberTombstone {
        /// The group.
        group_id: Text,
        /// The member.
        member_id: Text,
    },
}

/// A consumer group as it is kept, without its members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumerGroupMetadata {
    /// The group.
    pub group_id: Text,
    /// The epoch of the group.
    pub epoch: i32,
    /// The epoch that the members' targets are for.
    pub assignment_epoch: i32,
    /// Of the topics that are subscribed to, and of all members: who they are, what they wish for and what they
    /// shall have. By it a start sees that members' records and this one are not of one write.
    pub wishes_hash: u64,
    /// Since when it is in its state, ms since the epoch.
    pub state_timestamp_ms: i64,
}

/// A member of a consumer group as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerMember {
    /// Its id.
    pub member_id: Text,
    /// Set for static members.
    pub instance_id: Option<Text>,
    /// Where it says it is.
    pub rack_id: Option<Text>,
    /// As of its last heartbeat that was kept.
    pub client_id: Text,
    /// As of its last heartbeat that was kept.
    pub client_host: Text,
    /// Ms.
    pub rebalance_timeout_ms: i32,
    /// By name, sorted, each once.
    pub subscribed_topic_names: Arc<[Text]>,
    /// By pattern.
    pub subscribed_topic_regex: Option<Text>,
    /// The assignor that it wants.
    pub server_assignor: Option<Text>,
    /// Kafka's state of the member.
    pub state: MemberState,
    /// Where it stands.
    pub epoch: i32,
    /// Where it stood before; -1 for nowhere.
    pub previous_epoch: i32,
    /// What it may have.
    pub assigned: PartitionSet,
    /// What it has to give back.
    pub revoking: PartitionSet,
    /// What it shall have.
    pub target: PartitionSet,
    /// As of which of its epochs it has each of its partitions.
    pub since: Vec<(TopicIdPartition, i32)>,
    /// Set where it speaks the classic protocol.
    pub classic: Option<ClassicMember>,
}

/// What is kept beside of a member of a consumer group that speaks the classic protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassicMember {
    /// Ms.
    pub session_timeout_ms: i32,
    /// Of its first protocol's metadata.
    pub version: i16,
    /// All it offers, in its order.
    pub protocols: Arc<[Protocol]>,
}

/// A group as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupMetadata {
    /// The group.
    pub group_id: Text,
    /// "" where no member ever joined.
    pub protocol_type: Text,
    /// The last generation that was completed.
    pub generation: i32,
    /// `None` while empty.
    pub protocol_name: Option<Text>,
    /// `None` while empty.
    pub leader: Option<Text>,
    /// Since when it is in its state, ms since the epoch: an empty group's offsets expire from here.
    pub state_timestamp_ms: i64,
    /// In join order. Empty: the group is Empty, else Stable.
    pub members: Vec<MemberMetadata>,
}

/// A member as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberMetadata {
    /// Its id.
    pub member_id: Text,
    /// Set for static members.
    pub group_instance_id: Option<Text>,
    /// As it joined.
    pub client_id: Text,
    /// As it joined.
    pub client_host: Text,
    /// Ms.
    pub session_timeout_ms: i32,
    /// Ms.
    pub rebalance_timeout_ms: i32,
    /// All it offered, in its order.
    pub protocols: Arc<[Protocol]>,
    /// What the leader gave it.
    pub assignment: Bytes,
}

/// What an offset is committed for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OffsetKey {
    /// The group.
    pub group_id: Text,
    /// The topic's name.
    pub topic: Text,
    /// The partition.
    pub partition: i32,
}

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetValue {
    /// The next offset to read.
    pub offset: i64,
    /// -1: unknown.
    pub leader_epoch: i32,
    /// The client's own; often "".
    pub metadata: Text,
    /// Ms since the epoch.
    pub commit_timestamp_ms: i64,
    /// The topic's id at the time; 0: unknown.
    pub topic_id: u128,
    /// Ms since the epoch; -1: by the gateway's retention.
    pub expire_timestamp_ms: i64,
}

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A newer gateway wrote it, or it is damaged.
    #[error("unknown record kind {kind} version {version}")]
    Unknown {
        /// As found.
        kind: u8,
        /// As found.
        version: u8,
    },
    /// The payload ends too early, goes on too long, or holds text that is no UTF-8.
    #[error("damaged record of kind {kind}")]
    Damaged {
        /// As found.
        kind: u8,
    },
}

impl Record {
    /// The number of its kind.
    pub fn kind(&self) -> u8 {
        match self {
            Record::Group(_) => KIND_GROUP,
            Record::GroupTombstone { .. } => KIND_GROUP_TOMBSTONE,
            Record::Offset { .. } => KIND_OFFSET,
            Record::OffsetTombstone { .. } => KIND_OFFSET_TOMBSTONE,
            Record::ConsumerGroup(_) => KIND_CONSUMER_GROUP,
            Record::ConsumerMember { .. } => KIND_CONSUMER_MEMBER,
            Record::ConsumerMemberTombstone { .. } => KIND_CONSUMER_MEMBER_TOMBSTONE,
        }
    }

    /// The version of its payload.
    pub fn version(&self) -> u8 {
        RECORD_VERSION
    }

    /// Whether it ends its key.
    pub fn is_tombstone(&self) -> bool {
        matches!(
            self,
            Record::GroupTombstone { .. } | Record::OffsetTombstone { .. } | Record::ConsumerMemberTombstone { .. }
        )
    }

    /// The group it belongs to: what decides the shard.
    pub fn group_id(&self) -> &Text {
        match self {
            Record::Group(group) => &group.group_id,
            Record::GroupTombstone { group_id } => group_id,
            Record::Offset { key, .. } | Record::OffsetTombstone { key } => &key.group_id,
            Record::ConsumerGroup(group) => &group.group_id,
            Record::ConsumerMember { group_id, .. } | Record::ConsumerMemberTombstone { group_id, .. } => group_id,
        }
    }

    /// What the last record counts of. The bytes are the same in every version.
    pub fn key(&self) -> Bytes {
        let mut key = Vec::new();
        match self {
            Record::Group(GroupMetadata { group_id, .. })
            | Record::ConsumerGroup(ConsumerGroupMetadata { group_id, .. })
            | Record::GroupTombstone { group_id } => {
                key.push(KIND_GROUP);
                put_text(&mut key, group_id);
            }
            Record::Offset { key: offset, .. } | Record::OffsetTombstone { key: offset } => {
                key.push(KIND_OFFSET);
                put_offset_key(&mut key, offset);
            }
            Record::ConsumerMember { group_id, member } => put_member_key(&mut key, group_id, &member.member_id),
            Record::ConsumerMemberTombstone { group_id, member_id } => put_member_key(&mut key, group_id, member_id),
        }
        Bytes::from(key)
    }

    /// Members that it tells of.
    pub fn members(&self) -> usize {
        match self {
            Record::Group(group) => group.members.len(),
            Record::ConsumerMember { .. } => 1,
            Record::GroupTombstone { .. }
            | Record::Offset { .. }
            | Record::OffsetTombstone { .. }
            | Record::ConsumerGroup(_)
            | Record::ConsumerMemberTombstone { .. } => 0,
        }
    }

    /// About how many bytes [`Record::encode`] writes; never fewer than the blobs in it, but for a group of more than
    /// [`MEMBERS_SIZED_MAX`] members, of whom it looks at some.
    pub fn size_hint(&self) -> usize {
        match self {
            Record::Group(group) => {
                let names = [group.protocol_name.as_ref(), group.leader.as_ref()].into_iter().flatten().map(Text::len);
                let texts = group.group_id.len() + group.protocol_type.len() + names.sum::<usize>();
                64 + texts + members_size(&group.members)
            }
            Record::GroupTombstone { group_id } => 2 + group_id.len(),
            Record::Offset { key, value } => 64 + key.group_id.len() + key.topic.len() + value.metadata.len(),
            Record::OffsetTombstone { key } => 16 + key.group_id.len() + key.topic.len(),
            Record::ConsumerGroup(group) => 64 + group.group_id.len(),
            Record::ConsumerMember { group_id, member } => 2 + group_id.len() + consumer::size_hint(member),
            Record::ConsumerMemberTombstone { group_id, member_id } => 4 + group_id.len() + member_id.len(),
        }
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut impl BufMut) {
        match self {
            Record::Group(group) => encode_group(out, group),
            Record::GroupTombstone { group_id } => put_text(out, group_id),
            Record::Offset { key, value } => {
                put_offset_key(out, key);
                out.put_i64_le(value.offset);
                out.put_i32_le(value.leader_epoch);
                put_blob(out, value.metadata.as_bytes());
                out.put_i64_le(value.commit_timestamp_ms);
                out.put_u128_le(value.topic_id);
                out.put_i64_le(value.expire_timestamp_ms);
            }
            Record::OffsetTombstone { key } => put_offset_key(out, key),
            Record::ConsumerGroup(group) => consumer::encode_group(out, group),
            Record::ConsumerMember { group_id, member } => {
                put_text(out, group_id);
                consumer::encode_member(out, member);
            }
            Record::ConsumerMemberTombstone { group_id, member_id } => {
                put_text(out, group_id);
                put_text(out, member_id);
            }
        }
    }

    /// Reads a payload whole.
    pub fn decode(kind: u8, version: u8, payload: &[u8]) -> Result<Record, RecordError> {
        if version == 0 || version > RECORD_VERSION {
            return Err(RecordError::Unknown { kind, version });
        }
        let mut input = Input(payload);
        let record = match kind {
            KIND_GROUP => decode_group(&mut input).map(Record::Group),
            KIND_GROUP_TOMBSTONE => input.text().map(|group_id| Record::GroupTombstone { group_id }),
            KIND_OFFSET => decode_offset(&mut input),
            KIND_OFFSET_TOMBSTONE => input.offset_key().map(|key| Record::OffsetTombstone { key }),
            KIND_CONSUMER_GROUP => consumer::decode_group(&mut input).map(Record::ConsumerGroup),
            KIND_CONSUMER_MEMBER => consumer::decode_member(&mut input),
            KIND_CONSUMER_MEMBER_TOMBSTONE => consumer::decode_member_tombstone(&mut input),
            _ => return Err(RecordError::Unknown { kind, version }),
        };
        record.filter(|_| input.0.is_empty()).ok_or(RecordError::Damaged { kind })
    }
}

fn members_size(members: &[MemberMetadata]) -> usize {
    let step = members.len().div_ceil(MEMBERS_SIZED_MAX).max(1);
    members.iter().step_by(step).map(member_size).sum::<usize>() * step
}

fn member_size(member: &MemberMetadata) -> usize {
    let texts = member.member_id.len() + member.client_id.len() + member.client_host.len();
    let instance = member.group_instance_id.as_ref().map_or(0, Text::len);
    let protocols: usize = member.protocols.iter().map(|p| 6 + p.name.len() + p.metadata.len()).sum();
    32 + texts + instance + protocols + member.assignment.len()
}

fn encode_group(out: &mut impl BufMut, group: &GroupMetadata) {
    put_text(out, &group.group_id);
    put_text(out, &group.protocol_type);
    out.put_i32_le(group.generation);
    put_optional(out, group.protocol_name.as_ref());
    put_optional(out, group.leader.as_ref());
    out.put_i64_le(group.state_timestamp_ms);
    out.put_u32_le(group.members.len() as u32);
    for member in &group.members {
        put_text(out, &member.member_id);
        put_optional(out, member.group_instance_id.as_ref());
        put_text(out, &member.client_id);
        put_text(out, &member.client_host);
        out.put_i32_le(member.session_timeout_ms);
        out.put_i32_le(member.rebalance_timeout_ms);
        put_protocols(out, &member.protocols);
        put_blob(out, &member.assignment);
    }
}

fn put_protocols(out: &mut impl BufMut, protocols: &[Protocol]) {
    out.put_u16_le(protocols.len() as u16);
    for protocol in protocols {
        put_text(out, &protocol.name);
        put_blob(out, &protocol.metadata);
    }
}

fn decode_group(input: &mut Input<'_>) -> Option<GroupMetadata> {
    let mut group = GroupMetadata {
        group_id: input.text()?,
        protocol_type: input.text()?,
        generation: input.i32()?,
        protocol_name: input.optional()?,
        leader: input.optional()?,
        state_timestamp_ms: input.i64()?,
        members: Vec::new(),
    };
    let members = input.u32()? as usize;
    // A member takes at least 22 bytes and a protocol 6.
    group.members.reserve_exact(members.min(input.0.len() / 22));
    for _ in 0..members {
        let mut member = MemberMetadata {
            member_id: input.text()?,
            group_instance_id: input.optional()?,
            client_id: input.text()?,
            client_host: input.text()?,
            session_timeout_ms: input.i32()?,
            rebalance_timeout_ms: input.i32()?,
            ..MemberMetadata::default()
        };
        member.protocols = input.protocols()?;
        member.assignment = input.blob()?;
        group.members.push(member);
    }
    Some(group)
}

fn decode_offset(input: &mut Input<'_>) -> Option<Record> {
    Some(Record::Offset {
        key: input.offset_key()?,
        value: OffsetValue {
            offset: input.i64()?,
            leader_epoch: input.i32()?,
            metadata: Text::from_utf8(input.blob()?).ok()?,
            commit_timestamp_ms: input.i64()?,
            topic_id: u128::from_le_bytes(input.array()?),
            expire_timestamp_ms: input.i64()?,
        },
    })
}

/// Texts are bounded well below 64 KiB before they are stored; a longer one would be cut here rather
/// than damage the record.
fn put_text(out: &mut impl BufMut, text: &Text) {
    debug_assert!(text.len() < usize::from(ABSENT));
    let length = text.len().min(usize::from(ABSENT) - 1);
    let length = text.as_str().floor_char_boundary(length);
    out.put_u16_le(length as u16);
    out.put_slice(&text.as_bytes()[..length]);
}

fn put_optional(out: &mut impl BufMut, text: Option<&Text>) {
    match text {
        Some(text) => put_text(out, text),
        None => out.put_u16_le(ABSENT),
    }
}

fn put_blob(out: &mut impl BufMut, blob: &[u8]) {
    out.put_u32_le(blob.len() as u32);
    out.put_slice(blob);
}

fn put_member_key(out: &mut Vec<u8>, group_id: &Text, member_id: &Text) {
    out.push(KIND_CONSUMER_MEMBER);
    put_text(out, group_id);
    put_text(out, member_id);
}

fn put_offset_key(out: &mut impl BufMut, key: &OffsetKey) {
    put_text(out, &key.group_id);
    put_text(out, &key.topic);
    out.put_i32_le(key.partition);
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn text(&mut self) -> Option<Text> {
        self.optional()?
    }

    /// The outer `None` is damage, the inner one an absent text.
    fn optional(&mut self) -> Option<Option<Text>> {
        let length = self.u16()?;
        if length == ABSENT {
            return Some(None);
        }
        let bytes = detached(self.take(usize::from(length))?);
        Text::from_utf8(bytes).ok().map(Some)
    }

    fn blob(&mut self) -> Option<Bytes> {
        let length = self.u32()? as usize;
        self.take(length).map(detached)
    }

    fn protocols(&mut self) -> Option<Arc<[Protocol]>> {
        let count = usize::from(self.u16()?);
        let mut protocols = Vec::with_capacity(count.min(self.0.len() / 6));
        for _ in 0..count {
            protocols.push(Protocol { name: self.text()?, metadata: self.blob()? });
        }
        Some(protocols.into())
    }

    fn offset_key(&mut self) -> Option<OffsetKey> {
        Some(OffsetKey { group_id: self.text()?, topic: self.text()?, partition: self.i32()? })
    }
}
