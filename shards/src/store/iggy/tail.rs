//! The newest records of a partition, as they came from the server: what consumers at the tail read.

use std::collections::VecDeque;

use bytes::Bytes;
use ringgate_wire::records::BatchHeader;

/// Batches without a gap between them.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// The offset behind the last batch.
    end: i64,
}

#[derive(Debug)]
struct Batch {
    /// The offset from which on it is read.
    from: i64,
    /// The offset behind it.
    next: i64,
    records: Bytes,
}

impl Tail {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in what was read from `from` on, up to `next`. What it had and what does not go on with it is let go.
    pub(crate) fn push(&mut self, from: i64, next: i64, batches: &[Bytes]) {
        if from != self.end {
            self.clear();
        }
        let mut at = from;
        for (nth, records) in batches.iter().enumerate() {
            let behind = BatchHeader::parse(records).map_or(next, |header| header.last_offset() + 1);
            let behind = if nth + 1 == batches.len() { next } else { behind };
            self.bytes += records.len();
            self.batches.push_back(Batch { from: at, next: behind, records: records.clone() });
            at = behind;
        }
        self.end = next;
    }

    /// The batches from an offset on, as many as fit, and one at least if `one`; `None` when it does not have the
    /// offset. The offset behind the last of them is told, too.
    pub(crate) fn read(&self, from: i64, bytes_max: usize, one: bool) -> Option<(Vec<Bytes>, i64)> {
        let first = self.batches.partition_point(|batch| batch.next <= from);
        if self.batches.get(first)?.from > from {
            return None;
        }
        let (mut found, mut bytes, mut next) = (Vec::new(), 0, from);
        for batch in self.batches.range(first..) {
            bytes += batch.records.len();
            if bytes > bytes_max && !(one && found.is_empty()) {
                break;
            }
            found.push(batch.records.clone());
            next = batch.next;
        }
        Some((found, next))
    }

    /// Lets go of the oldest batches until so many bytes have gone.
    pub(crate) fn trim(&mut self, bytes: usize) {
        let left = self.bytes.saturating_sub(bytes);
        while self.bytes > left {
            let Some(batch) = self.batches.pop_front() else { break };
            self.bytes -= batch.records.len();
        }
    }

    /// Lets go of what lies below an offset.
    pub(crate) fn starts_at(&mut self, offset: i64) {
        while self.batches.front().is_some_and(|batch| batch.next <= offset) {
            if let Some(batch) = self.batches.pop_front() {
                self.bytes -= batch.records.len();
            }
        }
    }

    /// Lets go of all.
    pub(crate) fn clear(&mut self) {
        self.batches.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches whose bytes are no Kafka batch: one for each push, so that `next` is its end.
    fn batch(bytes: usize) -> Vec<Bytes> {
        vec![Bytes::from(vec![0; bytes])]
    }

    fn lens(read: Option<(Vec<Bytes>, i64)>) -> Option<(Vec<usize>, i64)> {
        read.map(|(batches, next)| (batches.iter().map(Bytes::len).collect(), next))
    }

    #[test]
    fn reads_begin_with_the_batch_that_has_the_offset_and_end_with_the_budget() {
        let mut tail = Tail::default();
        tail.push(10, 13, &batch(5));
        tail.push(13, 14, &batch(7));
        assert_eq!(lens(tail.read(10, 100, false)), Some((vec![5, 7], 14)));
        assert_eq!(lens(tail.read(12, 100, false)), Some((vec![5, 7], 14)));
        assert_eq!(lens(tail.read(13, 100, false)), Some((vec![7], 14)));
        assert_eq!(lens(tail.read(10, 5, false)), Some((vec![5], 13)));
        assert_eq!(lens(tail.read(10, 4, false)), Some((vec![], 10)));
        assert_eq!(lens(tail.read(10, 4, true)), Some((vec![5], 13)));
        assert_eq!((lens(tail.read(9, 100, true)), lens(tail.read(14, 100, true))), (None, None));
    }

    #[test]
    fn what_does_not_go_on_with_it_takes_its_place() {
        let mut tail = Tail::default();
        tail.push(0, 3, &batch(5));
        tail.push(4, 6, &batch(7));
        assert_eq!((lens(tail.read(0, 100, true)), tail.bytes()), (None, 7));
        assert_eq!(lens(tail.read(4, 100, true)), Some((vec![7], 6)));
    }

    #[test]
    fn the_oldest_go_first() {
        let mut tail = Tail::default();
        (0..4).for_each(|nth| tail.push(nth, nth + 1, &batch(10)));
        tail.trim(15);
        assert_eq!((tail.bytes(), lens(tail.read(1, 100, true))), (20, None));
        tail.starts_at(3);
        assert_eq!((tail.bytes(), lens(tail.read(3, 100, true))), (10, Some((vec![10], 4))));
    }
}
