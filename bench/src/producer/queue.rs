//! What waits for one partition: records that are not in a batch yet, and batches that go out once more.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::content::Due;

/// When a batch is full, and when one goes out that is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Bytes of a batch before compression, if more than one record is in it.
    pub bytes: usize,
    /// Records of a batch.
    pub records: usize,
    /// How long a record waits for others (Kafka's `linger.ms`).
    pub linger: Duration,
}

/// What a record takes in a batch beside key and value, at most, and mostly some less.
pub const RECORD_OVERHEAD: usize = 21;

/// A batch that was made.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Of all of the run's.
    pub partition: usize,
    /// As it is sent.
    pub bytes: Bytes,
    /// When its records were meant to be sent: moments and how many records each.
    pub moments: Vec<(Instant, u32)>,
    /// How many records.
    pub records: u32,
    /// Bytes of their keys and values.
    pub record_bytes: u64,
    /// Of stamped records.
    pub sequences: Range<u64>,
    /// Its place among the partition's batches.
    pub order: u64,
    /// When it was first sent.
    pub first_sent: Instant,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Queue {
    due: VecDeque<Due>,
    due_bytes: usize,
    again: VecDeque<Batch>,
    /// Batches that are out.
    pub out: usize,
    /// A batch failed: nothing goes out until all that is out is answered and the leader was looked up again.
    pub recovering: bool,
    /// The next batch's place.
    pub order: u64,
    /// An idempotent producer's next sequence.
    pub sequence: i32,
    /// Whether it is on its leader's list of those that have something.
    pub listed: bool,
}

/// What to do with a partition now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Nothing waits, or what waits cannot go.
    No,
    /// A batch goes out.
    Now,
    /// One goes out then, unless it is full earlier.
    At(Instant),
}

impl Queue {
    /// A record more.
    pub fn push(&mut self, due: Due) {
        self.due_bytes += size(&due);
        self.due.push_back(due);
    }

    /// Whether there is enough for a whole batch.
    pub fn is_full(&self, batching: &Batching) -> bool {
        self.due.len() >= batching.records || self.due_bytes + ringgate_wire::records::HEADER_BYTES >= batching.bytes
    }

    /// Whether a batch is to go out.
    pub fn ready(&self, batching: &Batching, now: Instant) -> Ready {
        if self.recovering {
            return Ready::No;
        }
        if !self.again.is_empty() || self.is_full(batching) && !self.due.is_empty() {
            return Ready::Now;
        }
        match self.due.front() {
            None => Ready::No,
            Some(oldest) if oldest.intended + batching.linger <= now => Ready::Now,
            Some(oldest) => Ready::At(oldest.intended + batching.linger),
        }
    }

    /// The next record, if it is wanted.
    pub fn pop_if(&mut self, wanted: impl FnOnce(&Due) -> bool) -> Option<Due> {
        let due = *self.due.front()?;
        if !wanted(&due) {
            return None;
        }
        self.due_bytes -= size(&due);
        self.due.pop_front()
    }

    /// A batch that goes out once more, in its old place.
    pub fn push_again(&mut self, batch: Batch) {
        let at = self.again.partition_point(|other| other.order < batch.order);
        self.again.insert(at, batch);
    }

    /// The first batch that goes out once more.
    pub fn pop_again(&mut self) -> Option<Batch> {
        self.again.pop_front()
    }

    /// All batches that go out once more.
    pub fn again_mut(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.again.iter_mut()
    }

    /// Takes out what was first sent so long ago.
    pub fn take_again_from_before(&mut self, now: Instant, age: Duration) -> Vec<Batch> {
        let is_old = |batch: &Batch| now.saturating_duration_since(batch.first_sent) >= age;
        let (old, kept): (VecDeque<Batch>, VecDeque<Batch>) = self.again.drain(..).partition(is_old);
        self.again = kept;
        old.into()
    }

    /// Bytes of the records that are in no batch, about.
    pub fn due_bytes(&self) -> usize {
        self.due_bytes
    }

    /// Records that are in no batch.
    pub fn due(&self) -> usize {
        self.due.len()
    }

    /// Whether nothing waits.
    pub fn has_nothing_to_send(&self) -> bool {
        self.due.is_empty() && self.again.is_empty()
    }
}

/// What a record adds to a batch, about.
fn size(due: &Due) -> usize {
    let key = due.key.map_or(0, |key| crate::batch::key_bytes(key).len());
    due.value_bytes as usize + key + RECORD_OVERHEAD / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCHING: Batching = Batching { bytes: 1_000, records: 3, linger: Duration::from_millis(5) };

    fn due(intended: Instant, value_bytes: u32) -> Due {
        Due { intended, number: 0, value_bytes, key: None }
    }

    fn batch(order: u64, now: Instant) -> Batch {
        let (bytes, moments) = (Bytes::new(), Vec::new());
        Batch { partition: 0, bytes, moments, records: 1, record_bytes: 1, sequences: 0..1, order, first_sent: now }
    }

    #[test]
    fn a_record_waits_for_others_no_longer_than_linger() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        assert_eq!(queue.ready(&BATCHING, now), Ready::No);
        queue.push(due(now, 10));
        assert_eq!(queue.ready(&BATCHING, now), Ready::At(now + BATCHING.linger));
        assert_eq!(queue.ready(&BATCHING, now + BATCHING.linger), Ready::Now);
    }

    #[test]
    fn enough_records_or_bytes_go_at_once() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        (0..3).for_each(|_| queue.push(due(now, 1)));
        assert_eq!(queue.ready(&BATCHING, now), Ready::Now);
        let mut queue = Queue::default();
        queue.push(due(now, 990));
        assert_eq!(queue.ready(&BATCHING, now), Ready::Now);
        assert!(queue.pop_if(|due| due.value_bytes == 990).is_some());
        assert_eq!((queue.ready(&BATCHING, now), queue.due_bytes), (Ready::No, 0));
    }

    #[test]
    fn batches_go_out_again_in_their_old_order_and_before_others_but_not_while_recovering() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        [4, 2, 3].into_iter().for_each(|order| queue.push_again(batch(order, now)));
        queue.recovering = true;
        assert_eq!(queue.ready(&BATCHING, now), Ready::No);
        queue.recovering = false;
        assert_eq!(queue.ready(&BATCHING, now), Ready::Now);
        let orders: Vec<u64> = std::iter::from_fn(|| queue.pop_again()).map(|batch| batch.order).collect();
        assert_eq!(orders, [2, 3, 4]);
    }
}
