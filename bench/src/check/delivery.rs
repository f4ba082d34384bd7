//! Loss, duplicates, order and corruption, told by sequences.

use std::collections::HashMap;
use std::ops::Range;

use super::ranges::Ranges;
use crate::batch::Stamp;
use crate::limits::{CHECK_EXAMPLES_MAX, CHECK_RANGES_MAX};
use crate::result::Checks;

/// What one producer sends to one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// The producer's number in this run.
    pub producer: u32,
    /// The partition's.
    pub partition: u32,
}

/// What the arrival of a record meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Behind everything that had come.
    InOrder,
    /// For the first time, behind one that was sent later.
    Reordered,
    /// It had come before.
    Duplicate,
    /// Never sent in this run.
    Foreign,
}

/// Compares what arrives with what was sent, per producer and partition.
///
/// Senders say [`sent`](Delivery::sent) before a record goes out, and [`excused`](Delivery::excused) of those that the
/// server never acknowledged: they may be missing and may be there. Receivers say [`received`](Delivery::received) in
/// the order in which records come, and [`corrupt`](Delivery::corrupt). When [`open`](Delivery::open) is 0 nothing more
/// is to come. Memory grows with gaps, not with records, and is bounded by [`CHECK_RANGES_MAX`].
#[derive(Debug)]
pub struct Delivery {
    run: u64,
    index: HashMap<StreamId, usize>,
    streams: Vec<(StreamId, Stream)>,
    /// The stream of the last arrival: mostly also that of the next.
    last: usize,
    ranges: usize,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    corrupt: u64,
    foreign: u64,
    /// Sequences excused beyond what was asked for, since there were too many ranges.
    excused_beside: u64,
    examples: Vec<String>,
}

#[derive(Debug, Default)]
struct Stream {
    /// Sequences below were sent.
    sent: u64,
    /// Sequences below have come, but for `missing`.
    next: u64,
    missing: Ranges,
    excused: Ranges,
}

impl Delivery {
    /// Nothing sent yet; `run` is in every stamp.
    pub fn new(run: u64) -> Delivery {
        Delivery {
            run,
            index: HashMap::new(),
            streams: Vec::new(),
            last: 0,
            ranges: 0,
            lost: 0,
            duplicated: 0,
            reordered: 0,
            corrupt: 0,
            foreign: 0,
            excused_beside: 0,
            examples: Vec::new(),
        }
    }

    /// Sequences below `end` are out.
    pub fn sent(&mut self, stream: StreamId, end: u64) {
        let at = *self.index.entry(stream).or_insert_with(|| {
            self.streams.push((stream, Stream::default()));
            self.streams.len() - 1
        });
        let sent = &mut self.streams[at].1.sent;
        *sent = end.max(*sent);
    }

    /// These were not acknowledged, and will not be sent again.
    pub fn excused(&mut self, stream: StreamId, sequences: Range<u64>) {
        let Some(&at) = self.index.get(&stream) else { return };
        let excused = &mut self.streams[at].1.excused;
        let before = excused.ranges();
        excused.insert(sequences);
        self.ranges = self.ranges + excused.ranges() - before;
        if self.ranges > CHECK_RANGES_MAX && excused.ranges() > 1 {
            let kept: u64 = excused.iter().take(2).map(|range| range.end - range.start).sum();
            excused.join_first();
            let joined: u64 = excused.iter().take(1).map(|range| range.end - range.start).sum();
            self.excused_beside += joined - kept;
            self.ranges -= 1;
        }
    }

    /// Nothing was acknowledged, since nobody asked for that: all may be missing.
    pub fn excuse_all(&mut self) {
        for (_, stream) in &mut self.streams {
            stream.excused = Ranges::default();
            stream.excused.insert(0..stream.sent);
        }
        self.ranges = self.streams.iter().map(|(_, stream)| stream.missing.ranges() + stream.excused.ranges()).sum();
    }

    /// A record has come, at this offset of the partition.
    pub fn received(&mut self, stamp: &Stamp, offset: i64) -> Seen {
        let stream = StreamId { producer: stamp.producer, partition: stamp.partition };
        let Some(at) = self.find(stream).filter(|_| stamp.run == self.run) else {
            self.foreign += 1;
            return Seen::Foreign;
        };
        let (_, Stream { sent, next, missing, excused }) = &mut self.streams[at];
        let sequence = stamp.sequence;
        if sequence >= *sent {
            self.foreign += 1;
            return Seen::Foreign;
        }
        if sequence == *next {
            *next += 1;
            return Seen::InOrder;
        }
        if sequence > *next {
            let before = missing.ranges();
            missing.insert(*next..sequence);
            *next = sequence + 1;
            self.ranges = self.ranges + missing.ranges() - before;
            if self.ranges > CHECK_RANGES_MAX
                && let Some(oldest) = missing.pop_first()
            {
                // Given up early: should it come yet, it counts as a duplicate.
                self.ranges -= 1;
                let lost = excused.without(oldest);
                self.lose(stream, &lost);
            }
            return Seen::InOrder;
        }
        let before = missing.ranges();
        let first_time = missing.remove(sequence);
        self.ranges = self.ranges + missing.ranges() - before;
        let StreamId { producer, partition } = stream;
        if first_time {
            self.reordered += 1;
            self.example(|| {
                format!("partition {partition}: offset {offset} has sequence {sequence} of producer {producer}, behind a later one")
            });
            return Seen::Reordered;
        }
        self.duplicated += 1;
        self.example(|| {
            format!("partition {partition}: offset {offset} has sequence {sequence} of producer {producer} again")
        });
        Seen::Duplicate
    }

    /// The record at this offset is not as it was sent.
    pub fn corrupt(&mut self, partition: u32, offset: i64, what: &str) {
        self.corrupt += 1;
        self.example(|| format!("partition {partition}: offset {offset}: {what}"));
    }

    /// How many records are still to come: sent, not excused, not there.
    pub fn open(&self) -> u64 {
        self.streams.iter().flat_map(|(_, stream)| stream.open()).map(|range| range.end - range.start).sum()
    }

    /// What was found; what is still open is lost.
    pub fn finish(mut self) -> Checks {
        for at in 0..self.streams.len() {
            let (stream, open) = (self.streams[at].0, self.streams[at].1.open());
            self.lose(stream, &open);
        }
        let violations = [
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("corrupt", self.corrupt),
        ];
        Checks { violations: violations.map(|(kind, count)| (kind.to_owned(), count)).into(), examples: self.examples }
    }

    /// Records that this run did not send, such as those of an earlier one in the same topic.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Records that were never acknowledged, of all streams.
    pub fn excused_records(&self) -> u64 {
        let excused = self.streams.iter().flat_map(|(_, stream)| stream.excused.iter());
        excused.map(|range| range.end - range.start).sum()
    }

    /// Records that could not be judged, since more gaps were there than are kept.
    pub fn unjudged(&self) -> u64 {
        self.excused_beside
    }

    fn find(&mut self, stream: StreamId) -> Option<usize> {
        if self.streams.get(self.last).is_none_or(|(id, _)| *id != stream) {
            self.last = *self.index.get(&stream)?;
        }
        Some(self.last)
    }

    fn lose(&mut self, stream: StreamId, sequences: &[Range<u64>]) {
        let StreamId { producer, partition } = stream;
        for range in sequences {
            self.lost += range.end - range.start;
            let (first, last) = (range.start, range.end - 1);
            self.example(|| {
                format!("partition {partition}: sequences {first} to {last} of producer {producer} are lost")
            });
        }
    }

    fn example(&mut self, example: impl FnOnce() -> String) {
        if self.examples.len() < CHECK_EXAMPLES_MAX {
            self.examples.push(example());
        }
    }
}

impl Stream {
    fn open(&self) -> Vec<Range<u64>> {
        let tail = (self.next < self.sent).then_some(self.next..self.sent);
        self.missing.iter().chain(tail).flat_map(|range| self.excused.without(range)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: u64 = 42;
    const STREAM: StreamId = StreamId { producer: 1, partition: 2 };

    fn stamp(sequence: u64) -> Stamp {
        Stamp { run: RUN, producer: 1, partition: 2, sequence, intended_ns: 0, sent_ns: 0 }
    }

    /// Ten were sent, these came.
    fn of_ten(came: &[u64]) -> Delivery {
        let mut delivery = Delivery::new(RUN);
        delivery.sent(STREAM, 10);
        for (offset, sequence) in came.iter().enumerate() {
            delivery.received(&stamp(*sequence), offset as i64);
        }
        delivery
    }

    fn counts(checks: &Checks) -> [u64; 4] {
        ["lost", "duplicated", "reordered", "corrupt"].map(|kind| checks.violations[kind])
    }

    #[test]
    fn what_comes_whole_and_in_order_is_fine() {
        let delivery = of_ten(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(delivery.open(), 0);
        let checks = delivery.finish();
        assert_eq!((counts(&checks), checks.examples.len()), ([0; 4], 0));
    }

    #[test]
    fn a_lost_record_is_found_in_the_middle_and_at_the_end() {
        let delivery = of_ten(&[0, 1, 3, 4, 5, 6, 7]);
        assert_eq!(delivery.open(), 3);
        let checks = delivery.finish();
        assert_eq!(counts(&checks), [3, 0, 0, 0]);
        assert_eq!(checks.examples[0], "partition 2: sequences 2 to 2 of producer 1 are lost");
    }

    #[test]
    fn a_doubled_record_is_found() {
        let checks = of_ten(&[0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 0]).finish();
        assert_eq!(counts(&checks), [0, 2, 0, 0]);
        assert!(checks.examples[0].contains("offset 3 has sequence 2 of producer 1 again"), "{:?}", checks.examples);
    }

    #[test]
    fn swapped_records_are_one_out_of_order_and_none_lost() {
        let checks = of_ten(&[0, 2, 1, 3, 4, 5, 6, 7, 8, 9]).finish();
        assert_eq!(counts(&checks), [0, 0, 1, 0]);
    }

    #[test]
    fn a_corrupt_record_is_found_and_named() {
        let mut delivery = of_ten(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        delivery.corrupt(2, 7, "its bytes are not those that were sent");
        let checks = delivery.finish();
        assert_eq!(counts(&checks), [0, 0, 0, 1]);
        assert_eq!(checks.examples, ["partition 2: offset 7: its bytes are not those that were sent"]);
    }

    #[test]
    fn what_was_not_acknowledged_may_be_missing_and_may_be_there() {
        let mut delivery = of_ten(&[0, 1, 2, 3, 6, 7]);
        delivery.excused(STREAM, 3..6);
        delivery.excused(STREAM, 8..10);
        assert_eq!((delivery.open(), delivery.excused_records()), (0, 5));
        assert_eq!(counts(&delivery.finish()), [0; 4]);
    }

    #[test]
    fn nothing_is_lost_of_what_nobody_acknowledges() {
        let mut delivery = of_ten(&[1, 2, 5]);
        delivery.excuse_all();
        assert_eq!((delivery.open(), delivery.excused_records()), (0, 10));
        assert_eq!(counts(&delivery.finish()), [0; 4]);
    }

    #[test]
    fn records_of_others_are_no_violation() {
        let mut delivery = of_ten(&[0]);
        let other_run = Stamp { run: 7, ..stamp(1) };
        assert_eq!(delivery.received(&other_run, 1), Seen::Foreign);
        assert_eq!(delivery.received(&Stamp { producer: 9, ..stamp(1) }, 2), Seen::Foreign);
        assert_eq!(delivery.received(&stamp(10), 3), Seen::Foreign);
        assert_eq!((delivery.foreign(), delivery.open()), (3, 9));
    }

    #[test]
    fn streams_are_judged_each_for_itself() {
        let mut delivery = Delivery::new(RUN);
        let other = StreamId { producer: 1, partition: 3 };
        delivery.sent(STREAM, 2);
        delivery.sent(other, 2);
        for (partition, sequence) in [(2, 0), (3, 0), (3, 1), (2, 1)] {
            assert_eq!(delivery.received(&Stamp { partition, ..stamp(sequence) }, 0), Seen::InOrder);
        }
        assert_eq!(delivery.open(), 0);
    }

    #[test]
    fn more_gaps_than_are_kept_cost_no_memory_and_still_count() {
        let gaps = CHECK_RANGES_MAX as u64 + 1_000;
        let mut delivery = Delivery::new(RUN);
        delivery.sent(STREAM, 2 * gaps);
        for gap in 0..gaps {
            delivery.received(&stamp(2 * gap + 1), 0);
        }
        assert!(delivery.streams[0].1.missing.ranges() <= CHECK_RANGES_MAX);
        let checks = delivery.finish();
        assert_eq!((counts(&checks), checks.examples.len()), ([gaps, 0, 0, 0], CHECK_EXAMPLES_MAX));
        let mut delivery = Delivery::new(RUN);
        delivery.sent(STREAM, 2 * gaps);
        (0..gaps).for_each(|gap| delivery.excused(STREAM, 2 * gap..2 * gap + 1));
        assert!(delivery.streams[0].1.excused.ranges() <= CHECK_RANGES_MAX);
        assert!(delivery.unjudged() >= 1_000 && delivery.open() + delivery.unjudged() == gaps);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_plain_list(
            came in prop::collection::vec(0u64..40, 0..80),
            excused in prop::collection::vec((0u64..40, 0u64..6), 0..5),
        ) {
            let mut delivery = Delivery::new(RUN);
            delivery.sent(STREAM, 40);
            let (mut seen, mut duplicated, mut reordered) = (std::collections::BTreeSet::new(), 0, 0);
            for sequence in came {
                let late = seen.last().is_some_and(|last| sequence < *last);
                let expected = match (seen.insert(sequence), late) {
                    (false, _) => { duplicated += 1; Seen::Duplicate }
                    (true, true) => { reordered += 1; Seen::Reordered }
                    (true, false) => Seen::InOrder,
                };
                prop_assert_eq!(delivery.received(&stamp(sequence), 0), expected);
            }
            for (from, length) in &excused {
                delivery.excused(STREAM, *from..(from + length).min(40));
            }
            let may_be_missing = |sequence: u64| excused.iter().any(|(from, length)| (*from..from + length).contains(&sequence));
            let lost = (0..40).filter(|sequence| !seen.contains(sequence) && !may_be_missing(*sequence)).count() as u64;
            prop_assert_eq!(delivery.open(), lost);
            prop_assert_eq!(counts(&delivery.finish()), [lost, duplicated, reordered, 0]);
        }
    }
}
