//! The Fetch response, written in segments: record bytes go out as they lie in memory.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

/// The first flexible version.
const FLEXIBLE_SINCE: i16 = 12;
/// The first version that names topics by id.
const TOPIC_IDS_SINCE: i16 = 13;

/// What the whole response says.
#[derive(Debug, Clone, Copy)]
pub struct Response {
    /// Kafka's code for all of it (from version 7).
    pub error_code: i16,
    /// The fetch session, 0 for none (from version 7).
    pub session_id: i32,
}

/// One partition's part.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Its index.
    pub partition: i32,
    /// Kafka's code.
    pub error_code: i16,
    /// The end of what can be read.
    pub high_watermark: i64,
    /// The end of what a transactional reader can read.
    pub last_stable_offset: i64,
    /// The first offset that is still there (from version 5).
    pub log_start_offset: i64,
    /// Epoch and end offset from where on the client's log differs (from version 12).
    pub diverging_epoch: Option<(i32, i64)>,
    /// Whole record batches.
    pub records: Vec<Bytes>,
}

/// A topic and its partitions.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Up to version 12.
    pub name: String,
    /// From version 13.
    pub id: Uuid,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// The response's frame, length and header included, in segments that share the records' memory.
/// `None` when it would be larger than a frame can be.
pub fn encode(version: i16, correlation_id: i32, response: Response, topics: Vec<Topic>) -> Option<Vec<Bytes>> {
    let mut out = Segments {
        flexible: version >= FLEXIBLE_SINCE,
        head: None,
        done: Vec::new(),
        meta: BytesMut::with_capacity(256),
    };
    out.meta.put_i32(0);
    out.meta.put_i32(correlation_id);
    out.tags();
    // Nobody is throttled.
    out.meta.put_i32(0);
    if version >= 7 {
        out.meta.put_i16(response.error_code);
        out.meta.put_i32(response.session_id);
    }
    out.count(topics.len());
    for topic in topics {
        if version >= TOPIC_IDS_SINCE {
            out.meta.put_slice(topic.id.as_bytes());
        } else {
            out.string(&topic.name);
        }
        out.count(topic.partitions.len());
        for partition in topic.partitions {
            out.partition(version, partition);
        }
        out.tags();
    }
    out.tags();
    out.finish()
}

struct Segments {
    flexible: bool,
    /// What comes before the first records; it begins with the length, which is known last.
    head: Option<BytesMut>,
    /// What follows it.
    done: Vec<Bytes>,
    /// What is being written.
    meta: BytesMut,
}

impl Segments {
    fn partition(&mut self, version: i16, partition: Partition) {
        self.meta.put_i32(partition.partition);
        self.meta.put_i16(partition.error_code);
        self.meta.put_i64(partition.high_watermark);
        self.meta.put_i64(partition.last_stable_offset);
        if version >= 5 {
            self.meta.put_i64(partition.log_start_offset);
        }
        // No aborted transactions: null.
        if self.flexible {
            self.meta.put_u8(0);
        } else {
            self.meta.put_i32(-1);
        }
        if version >= 11 {
            // No preferred read replica.
            self.meta.put_i32(-1);
        }
        let bytes: usize = partition.records.iter().map(Bytes::len).sum();
        if self.flexible {
            self.uvarint(bytes + 1);
        } else {
            self.meta.put_i32(i32::try_from(bytes).unwrap_or(i32::MAX));
        }
        if bytes > 0 {
            let meta = self.meta.split();
            match self.head {
                None => self.head = Some(meta),
                Some(_) => self.done.push(meta.freeze()),
            }
            self.done.extend(partition.records);
        }
        match partition.diverging_epoch {
            Some((epoch, end_offset)) if self.flexible => {
                self.meta.put_u8(1);
                // Tag 0, 13 bytes: epoch, end offset, no tags of its own.
                self.meta.put_slice(&[0, 13]);
                self.meta.put_i32(epoch);
                self.meta.put_i64(end_offset);
                self.meta.put_u8(0);
            }
            _ => self.tags(),
        }
    }

    fn tags(&mut self) {
        if self.flexible {
            self.meta.put_u8(0);
        }
    }

    fn count(&mut self, count: usize) {
        if self.flexible {
            self.uvarint(count + 1);
        } else {
            self.meta.put_i32(count as i32);
        }
    }

    fn string(&mut self, text: &str) {
        if self.flexible {
            self.uvarint(text.len() + 1);
        } else {
            self.meta.put_i16(text.len() as i16);
        }
        self.meta.put_slice(text.as_bytes());
    }

    fn uvarint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.meta.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.meta.put_u8(value as u8);
    }

    fn finish(self) -> Option<Vec<Bytes>> {
        let total: usize = self.done.iter().map(Bytes::len).sum();
        let (mut head, tail) = match self.head {
            Some(head) => (head, self.meta),
            None => (self.meta, BytesMut::new()),
        };
        let length = i32::try_from(head.len() - 4 + total + tail.len()).ok()?;
        head[..4].copy_from_slice(&length.to_be_bytes());
        let mut segments = Vec::with_capacity(self.done.len() + 2);
        segments.push(head.freeze());
        segments.extend(self.done);
        if !tail.is_empty() {
            segments.push(tail.freeze());
        }
        Some(segments)
    }
}
