//! A batch as the store keeps it: whichever protocol it came by.

use bytes::Bytes;
use ringgate_wire::iggy::IggyBatchHeader;
use ringgate_wire::records::BatchHeader;

/// A whole batch with its place. Who speaks the other protocol converts it: see [`super::mapping`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredBatch {
    /// A record batch of Kafka's, format 2.
    Kafka(Bytes),
    /// A message batch of Iggy's.
    Iggy {
        /// The batch.
        batch: Bytes,
        /// The epoch of the leader that appended it, which Iggy's form has no room for.
        leader_epoch: i32,
    },
}

impl StoredBatch {
    /// The batch, of whatever form.
    pub fn bytes(&self) -> &Bytes {
        match self {
            StoredBatch::Kafka(batch) | StoredBatch::Iggy { batch, .. } => batch,
        }
    }

    /// The batch alone.
    pub fn into_bytes(self) -> Bytes {
        match self {
            StoredBatch::Kafka(batch) | StoredBatch::Iggy { batch, .. } => batch,
        }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether it has none, which no batch is.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// The offset of its first and of its last record; `None` when it is no batch.
    pub fn offsets(&self) -> Option<(i64, i64)> {
        match self {
            StoredBatch::Kafka(batch) => BatchHeader::parse(batch).map(|h| (h.base_offset, h.last_offset())),
            StoredBatch::Iggy { batch, .. } => {
                let header = IggyBatchHeader::parse(batch).ok()?;
                let base = i64::try_from(header.base_offset).ok()?;
                Some((base, base.checked_add(i64::from(header.messages.checked_sub(1)?))?))
            }
        }
    }
}
