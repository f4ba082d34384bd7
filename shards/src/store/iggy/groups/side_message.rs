//! A message of the side topic, and its bytes.
//!
//! Little-endian: `u8` layout version (1), `u8` what it is, and its fields. Texts carry their length (u16, blobs u32)
//! in front. Decoding trusts nothing.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ringgate_group::record::RecordError;
use ringgate_group::{Record, Text};

use super::lease::{LeaseRecord, Owner, Process};

/// The version that is written, and the only one that is read.
pub const LAYOUT_VERSION: u8 = 1;

const RECORD: u8 = 1;
const DELETED: u8 = 2;
const CLAIM: u8 = 3;
const RENEWAL: u8 = 4;
const RELEASE: u8 = 5;

const NOT_RESTATED: u64 = u64::MAX;
const NOTHING_BEFORE: u64 = u64::MAX;

/// Which write a message belongs to. A message behind one of a later lease, or behind a later one of its own
/// writer, came late and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// The lease under which it was written.
    pub term: u64,
    /// The shard that wrote it; [`u16::MAX`] restates.
    pub writer: u16,
    /// Counts the writer's messages to the partition within the lease, from 0.
    pub sequence: u64,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideMessage {
    /// Something to keep.
    Kept {
        /// Which write.
        stamp: Stamp,
        /// `Some`: a snapshot says it again, as of this offset. What came after that offset is newer.
        as_of: Option<u64>,
        /// What.
        what: Kept,
    },
    /// Who coordinates.
    Lease(LeaseRecord),
}

/// Something to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// A group, a member, a commit with a metadata string, or that one of them is gone.
    Record(Record),
    /// The offsets of the group whose tombstone came before are gone from Iggy too.
    Deleted {
        /// The group.
        group_id: Text,
    },
}

/// Why bytes are no message of the side topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SideMessageError {
    /// A newer gateway wrote it, or somebody else.
    #[error("it is of layout {0}, which this version does not know")]
    Layout(u8),
    /// It ends too early, goes on too long, or contradicts itself.
    #[error("it is damaged")]
    Damaged,
    /// The record in it is not one.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Kept {
    /// The group it belongs to.
    pub fn group_id(&self) -> &Text {
        match self {
            Kept::Record(record) => record.group_id(),
            Kept::Deleted { group_id } => group_id,
        }
    }

    /// About how many bytes it takes.
    pub fn size_hint(&self) -> usize {
        32 + match self {
            Kept::Record(record) => record.size_hint(),
            Kept::Deleted { group_id } => group_id.len(),
        }
    }
}

impl SideMessage {
    /// The message's payload.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(LAYOUT_VERSION);
        match self {
            SideMessage::Kept { stamp, as_of, what } => {
                out.reserve(what.size_hint());
                out.put_u8(match what {
                    Kept::Record(_) => RECORD,
                    Kept::Deleted { .. } => DELETED,
                });
                out.put_u64_le(stamp.term);
                out.put_u16_le(stamp.writer);
                out.put_u64_le(stamp.sequence);
                out.put_u64_le(as_of.unwrap_or(NOT_RESTATED));
                match what {
                    Kept::Record(record) => {
                        out.put_u8(record.kind());
                        out.put_u8(record.version());
                        record.encode(&mut out);
                    }
                    Kept::Deleted { group_id } => out.put_slice(group_id.as_bytes()),
                }
            }
            SideMessage::Lease(LeaseRecord::Claim { owner, after }) => {
                out.put_u8(CLAIM);
                out.put_u64_le(after.unwrap_or(NOTHING_BEFORE));
                put_owner(&mut out, owner);
            }
            SideMessage::Lease(LeaseRecord::Renewal { owner, term }) => {
                out.put_u8(RENEWAL);
                out.put_u64_le(*term);
                put_owner(&mut out, owner);
            }
            SideMessage::Lease(LeaseRecord::Release { term }) => {
                out.put_u8(RELEASE);
                out.put_u64_le(*term);
            }
        }
        out.freeze()
    }

    /// Reads a payload whole.
    ///
    /// # Errors
    /// It was not written by [`SideMessage::encode`] of this version.
    pub fn decode(payload: &[u8]) -> Result<SideMessage, SideMessageError> {
        let mut input = payload;
        let version = input.try_get_u8().map_err(|_| SideMessageError::Damaged)?;
        if version != LAYOUT_VERSION {
            return Err(SideMessageError::Layout(version));
        }
        let damaged = SideMessageError::Damaged;
        match input.try_get_u8().map_err(|_| damaged)? {
            kind @ (RECORD | DELETED) => {
                let (stamp, as_of) = stamp(&mut input).ok_or(damaged)?;
                let what = if kind == DELETED {
                    let group_id = Text::from_utf8(Bytes::copy_from_slice(input)).map_err(|_| damaged)?;
                    Kept::Deleted { group_id }
                } else {
                    let (kind, version) = (input.try_get_u8(), input.try_get_u8());
                    let (kind, version) = (kind.map_err(|_| damaged)?, version.map_err(|_| damaged)?);
                    Kept::Record(Record::decode(kind, version, input)?)
                };
                Ok(SideMessage::Kept { stamp, as_of, what })
            }
            kind @ (CLAIM | RENEWAL | RELEASE) => {
                lease(kind, &mut input).filter(|_| input.is_empty()).map(SideMessage::Lease).ok_or(damaged)
            }
            _ => Err(damaged),
        }
    }
}

fn stamp(input: &mut &[u8]) -> Option<(Stamp, Option<u64>)> {
    let stamp = Stamp {
        term: input.try_get_u64_le().ok()?,
        writer: input.try_get_u16_le().ok()?,
        sequence: input.try_get_u64_le().ok()?,
    };
    let as_of = input.try_get_u64_le().ok()?;
    Some((stamp, (as_of != NOT_RESTATED).then_some(as_of)))
}

fn lease(kind: u8, input: &mut &[u8]) -> Option<LeaseRecord> {
    let number = input.try_get_u64_le().ok()?;
    Some(match kind {
        CLAIM => {
            let after = (number != NOTHING_BEFORE).then_some(number);
            LeaseRecord::Claim { owner: owner(input)?, after }
        }
        RENEWAL => LeaseRecord::Renewal { owner: owner(input)?, term: number },
        _ => LeaseRecord::Release { term: number },
    })
}

fn put_owner(out: &mut BytesMut, owner: &Owner) {
    out.put_u128_le(owner.id);
    let name = &owner.name.as_bytes()[..owner.name.floor_char_boundary(usize::from(u16::MAX))];
    out.put_u16_le(name.len() as u16);
    out.put_slice(name);
    match &owner.process {
        None => out.put_u8(0),
        Some(process) => {
            out.put_u8(1);
            out.put_u128_le(process.boot);
            out.put_u64_le(process.pid_namespace);
            out.put_u32_le(process.pid);
            out.put_u64_le(process.started);
        }
    }
}

fn owner(input: &mut &[u8]) -> Option<Owner> {
    let id = input.try_get_u128_le().ok()?;
    let length = usize::from(input.try_get_u16_le().ok()?);
    let (name, rest) = input.split_at_checked(length)?;
    *input = rest;
    let name = std::str::from_utf8(name).ok()?.to_owned();
    let process = match input.try_get_u8().ok()? {
        0 => None,
        1 => Some(Process {
            boot: input.try_get_u128_le().ok()?,
            pid_namespace: input.try_get_u64_le().ok()?,
            pid: input.try_get_u32_le().ok()?,
            started: input.try_get_u64_le().ok()?,
        }),
        _ => return None,
    };
    Some(Owner { id, name, process })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringgate_group::record::{OffsetKey, OffsetValue};

    fn some() -> Vec<SideMessage> {
        let key = OffsetKey { group_id: "g".into(), topic: "orders".into(), partition: 3 };
        let value = OffsetValue {
            offset: 42,
            leader_epoch: 7,
            metadata: "so far".into(),
            commit_timestamp_ms: 1,
            topic_id: 9,
            expire_timestamp_ms: -1,
        };
        let stamp = Stamp { term: 11, writer: 2, sequence: 5 };
        let process = Process { boot: 1 << 100, pid_namespace: 2, pid: 3, started: 4 };
        let owner = Owner { id: 77, name: "gateway 1 on häuschen".into(), process: Some(process) };
        let kept = |as_of, what| SideMessage::Kept { stamp, as_of, what };
        vec![
            kept(None, Kept::Record(Record::Offset { key: key.clone(), value })),
            kept(Some(0), Kept::Record(Record::OffsetTombstone { key })),
            kept(None, Kept::Deleted { group_id: "g".into() }),
            SideMessage::Lease(LeaseRecord::Claim { owner: owner.clone(), after: None }),
            SideMessage::Lease(LeaseRecord::Claim { owner: Owner { process: None, ..owner.clone() }, after: Some(0) }),
            SideMessage::Lease(LeaseRecord::Renewal { owner, term: 12 }),
            SideMessage::Lease(LeaseRecord::Release { term: 12 }),
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in some() {
            assert_eq!(SideMessage::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn no_part_of_a_message_is_taken_for_one_but_of_a_name_at_its_end() {
        for message in some() {
            let bytes = message.encode();
            for length in 0..bytes.len() {
                let ends_with_name = matches!(&message, SideMessage::Kept { what: Kept::Deleted { .. }, .. });
                let is_read = SideMessage::decode(&bytes[..length]).is_ok();
                assert!(!is_read || ends_with_name && length + 1 == bytes.len(), "{length} bytes of {message:?}");
            }
        }
    }

    #[test]
    fn a_later_layout_is_named_and_not_guessed() {
        let mut bytes = some()[0].encode().to_vec();
        bytes[0] = 2;
        assert_eq!(SideMessage::decode(&bytes), Err(SideMessageError::Layout(2)));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_decided_without_a_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = SideMessage::decode(&bytes);
            let mut known = vec![LAYOUT_VERSION];
            known.extend(bytes);
            let _ = SideMessage::decode(&known);
        }
    }
}
