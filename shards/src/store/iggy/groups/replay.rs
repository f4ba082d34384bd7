//! What the messages of a partition of the side topic come to.
//!
//! [`Replay::take`] each message in the order of offsets. Of a key the last message counts, where one that restates
//! (`as_of`) stands for the offset that it names: a snapshot is appended behind writes that it has not seen.
//! A partition is compacted by restating what is live as of the end that was read, and then deleting the segments
//! that were closed before: whatever a crash leaves comes to the same.

use std::collections::HashMap;

use bytes::Bytes;
use ringgate_group::record::{OffsetKey, OffsetValue};
use ringgate_group::{Record, Text};

use super::lease::LeaseRecord;
use super::side_message::{Kept, SideMessage, Stamp};

/// Commits of one key that are kept. One is written before its offset is stored, so if that fails the one before it is
/// the one in force; what failed more often than this loses its metadata string, never its offset.
pub const COMMITS_PER_KEY: usize = 4;

/// Bytes of a partition below which it is not compacted: reading them takes no time.
pub const COMPACT_BYTES_MIN: u64 = 4 << 20;

/// How many times what is live a partition may hold.
pub const COMPACT_RATIO: u64 = 4;

/// Bytes of a message beside its payload, in a batch of its own.
const MESSAGE_BYTES: u64 = 304;

/// What was committed for a key with a metadata string, oldest first; the one whose offset Iggy has is in force.
pub type Commits = Vec<OffsetValue>;

#[derive(Debug, Default)]
struct Entry {
    /// As of when it was ended last.
    ended: Option<u64>,
    /// Those since, with the offset as of which each was written, in that order. Only commits are more than one.
    live: Vec<(u64, Record)>,
}

/// As of when a group was deleted, and its offsets in Iggy too.
#[derive(Debug, Clone, Copy, Default)]
struct Deletion {
    decided: Option<u64>,
    finished: Option<u64>,
}

impl Deletion {
    fn is_unfinished(&self) -> bool {
        self.decided > self.finished
    }
}

/// A partition, as far as it was read.
#[derive(Debug, Default)]
pub struct Replay {
    next: u64,
    term: u64,
    /// The next sequence of each writer of the term.
    sequences: HashMap<u16, u64>,
    entries: HashMap<Bytes, Entry>,
    deletions: HashMap<Text, Deletion>,
    late: u64,
}

/// What a partition holds of the groups of one shard, or of all.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Groups and members, in the order in which they were written.
    pub records: Vec<Record>,
    /// Commits with a metadata string.
    pub commits: Vec<(OffsetKey, Commits)>,
    /// Groups whose offsets are still to be deleted.
    pub unfinished: Vec<Text>,
}

impl Replay {
    /// Where to read on.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Messages that came too late to count.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Takes in a message.
    pub fn take(&mut self, offset: u64, message: SideMessage) {
        if offset < self.next {
            return;
        }
        self.next = offset + 1;
        let (stamp, as_of, what) = match message {
            SideMessage::Kept { stamp, as_of, what } => (stamp, as_of, what),
            // Every partition begins a lease with one.
            SideMessage::Lease(LeaseRecord::Renewal { term, .. }) => return self.begin(term),
            SideMessage::Lease(LeaseRecord::Claim { .. } | LeaseRecord::Release { .. }) => return,
        };
        if !self.is_in_turn(stamp) {
            self.late += 1;
            return;
        }
        let at = as_of.unwrap_or(offset);
        match what {
            Kept::Deleted { group_id } => {
                let finished = &mut self.deletions.entry(group_id).or_default().finished;
                *finished = (*finished).max(Some(at));
            }
            Kept::Record(record) => self.take_record(at, record),
        }
    }

    /// What was written under earlier leases does not count from here on.
    fn begin(&mut self, term: u64) {
        if term > self.term {
            self.term = term;
            self.sequences.clear();
        }
    }

    fn is_in_turn(&mut self, stamp: Stamp) -> bool {
        self.begin(stamp.term);
        let next = self.sequences.entry(stamp.writer).or_default();
        let is_in_turn = stamp.term == self.term && stamp.sequence >= *next;
        if is_in_turn {
            *next = stamp.sequence + 1;
        }
        is_in_turn
    }

    fn take_record(&mut self, at: u64, record: Record) {
        if let Record::GroupTombstone { group_id } = &record {
            let decided = &mut self.deletions.entry(group_id.clone()).or_default().decided;
            *decided = (*decided).max(Some(at));
        }
        let entry = self.entries.entry(record.key()).or_default();
        if record.is_tombstone() {
            entry.ended = entry.ended.max(Some(at));
            entry.live.retain(|(known, _)| *known > at);
            return;
        }
        // One that is restated is there once.
        let is_newer = |(known, other): &(u64, Record)| *known > at && *other == record;
        if entry.ended > Some(at) || entry.live.iter().any(is_newer) {
            return;
        }
        entry.live.retain(|(_, other)| *other != record);
        let most = if let Record::Offset { .. } = record { COMMITS_PER_KEY } else { 1 };
        let place = entry.live.partition_point(|(known, _)| *known <= at);
        entry.live.insert(place, (at, record));
        let too_many = entry.live.len().saturating_sub(most);
        entry.live.drain(..too_many);
    }

    /// What counts, with the offset as of which it does: what was before its group's tombstone went with it.
    fn live(&self) -> impl Iterator<Item = (u64, &Record)> {
        let entries = self.entries.values().flat_map(|entry| entry.live.iter().map(|(at, record)| (*at, record)));
        entries
            .filter(|(at, record)| self.deletions.get(record.group_id()).is_none_or(|gone| gone.decided <= Some(*at)))
    }

    /// What is to be appended so that all messages before [`Replay::next`] can go, in the order in which it is to be
    /// appended, each to be restated as of the last of them.
    pub fn snapshot(&self) -> impl Iterator<Item = Kept> + '_ {
        let unfinished = self.deletions.iter().filter(|(_, deletion)| deletion.is_unfinished());
        let tombstones = unfinished.map(|(group_id, _)| Record::GroupTombstone { group_id: group_id.clone() });
        tombstones.chain(self.in_order().into_iter().cloned()).map(Kept::Record)
    }

    fn in_order(&self) -> Vec<&Record> {
        let mut live: Vec<_> = self.live().collect();
        // Stable, so that the commits of a key stay in their order.
        live.sort_by_key(|(at, _)| *at);
        live.into_iter().map(|(_, record)| record).collect()
    }

    /// About how many bytes [`Replay::snapshot`] takes.
    pub fn live_bytes(&self) -> u64 {
        self.live().map(|(_, record)| record.size_hint() as u64 + MESSAGE_BYTES).sum()
    }

    /// Whether a partition of so many bytes and segments is worth compacting.
    pub fn is_worth_compacting(&self, partition_bytes: u64, segments: u32) -> bool {
        let most = COMPACT_BYTES_MIN.max(self.live_bytes().saturating_mul(COMPACT_RATIO));
        segments > 1 && partition_bytes > most
    }

    /// What there is of the groups that are `wanted`.
    pub fn load(&self, wanted: impl Fn(&Text) -> bool) -> Loaded {
        let mut loaded = Loaded::default();
        let mut commits: HashMap<OffsetKey, Commits> = HashMap::new();
        for record in self.in_order() {
            match record {
                record if !wanted(record.group_id()) => {}
                Record::Offset { key, value } => commits.entry(key.clone()).or_default().push(value.clone()),
                record => loaded.records.push(record.clone()),
            }
        }
        loaded.commits = commits.into_iter().collect();
        let unfinished = self.deletions.iter().filter(|(group, gone)| gone.is_unfinished() && wanted(group));
        loaded.unfinished = unfinished.map(|(group, _)| group.clone()).collect();
        loaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ringgate_group::record::GroupMetadata;

    fn key(group: &str, partition: i32) -> OffsetKey {
        OffsetKey { group_id: group.into(), topic: "t".into(), partition }
    }

    fn commit(group: &str, offset: i64, metadata: &str) -> Record {
        let value = OffsetValue {
            offset,
            leader_epoch: -1,
            metadata: metadata.into(),
            commit_timestamp_ms: 0,
            topic_id: 1,
            expire_timestamp_ms: -1,
        };
        Record::Offset { key: key(group, 0), value }
    }

    fn group(group: &str, generation: i32) -> Record {
        Record::Group(GroupMetadata { group_id: group.into(), generation, ..GroupMetadata::default() })
    }

    fn tombstone(group: &str) -> Record {
        Record::GroupTombstone { group_id: group.into() }
    }

    /// Messages of one writer under one term.
    fn replay(kept: impl IntoIterator<Item = Kept>) -> Replay {
        let mut replay = Replay::default();
        for (nth, what) in kept.into_iter().enumerate() {
            let stamp = Stamp { term: 1, writer: 0, sequence: nth as u64 };
            replay.take(nth as u64, SideMessage::Kept { stamp, as_of: None, what });
        }
        replay
    }

    fn records(records: impl IntoIterator<Item = Record>) -> Replay {
        replay(records.into_iter().map(Kept::Record))
    }

    fn offsets(loaded: &Loaded) -> Vec<i64> {
        loaded.commits.iter().flat_map(|(_, commits)| commits.iter().map(|value| value.offset)).collect()
    }

    #[test]
    fn the_last_record_of_a_group_counts() {
        let loaded = records([group("g", 1), group("h", 1), group("g", 2)]).load(|_| true);
        assert_eq!(loaded.records, [group("h", 1), group("g", 2)]);
    }

    #[test]
    fn the_commits_before_the_last_are_there_in_case_its_offset_was_never_stored() {
        let loaded = records([commit("g", 5, "a"), commit("g", 7, "b")]).load(|_| true);
        assert_eq!(offsets(&loaded), [5, 7]);
        let many = (0..10).map(|offset| commit("g", offset, "m"));
        assert_eq!(offsets(&records(many).load(|_| true)), [6, 7, 8, 9]);
    }

    #[test]
    fn a_groups_tombstone_ends_its_commits_and_is_unfinished_until_its_offsets_are_gone() {
        let all = [group("g", 1), commit("g", 5, "a"), tombstone("g")].map(Kept::Record);
        let unfinished = replay(all.clone()).load(|_| true);
        assert!(unfinished.records.is_empty() && unfinished.commits.is_empty());
        assert_eq!(unfinished.unfinished, [Text::from("g")]);
        let after = [Kept::Deleted { group_id: "g".into() }, Kept::Record(commit("g", 9, "b"))];
        let finished = replay(all.into_iter().chain(after)).load(|_| true);
        assert!(finished.unfinished.is_empty());
        assert_eq!(offsets(&finished), [9]);
    }

    #[test]
    fn what_a_former_holder_of_the_lease_writes_late_does_not_count() {
        let mut replay = Replay::default();
        let stamped = |term, sequence, generation| SideMessage::Kept {
            stamp: Stamp { term, writer: 0, sequence },
            as_of: None,
            what: Kept::Record(group("g", generation)),
        };
        replay.take(0, stamped(1, 0, 1));
        replay.take(1, stamped(2, 0, 2));
        replay.take(2, stamped(1, 1, 99));
        replay.take(3, stamped(2, 1, 3));
        replay.take(4, stamped(2, 0, 98));
        assert_eq!(replay.load(|_| true).records, [group("g", 3)]);
        assert_eq!(replay.late(), 2);
        let owner = super::super::Owner { id: 1, name: String::new(), process: None };
        replay.take(5, SideMessage::Lease(LeaseRecord::Renewal { owner, term: 3 }));
        replay.take(6, stamped(2, 2, 97));
        assert_eq!(replay.late(), 3, "the new holder need not have written anything else");
    }

    #[test]
    fn a_partition_is_compacted_when_it_is_large_and_most_of_it_is_dead() {
        let replay = records([group("g", 1)]);
        assert!(!replay.is_worth_compacting(COMPACT_BYTES_MIN, 2));
        assert!(!replay.is_worth_compacting(COMPACT_BYTES_MIN + 1, 1), "the open segment cannot go");
        assert!(replay.is_worth_compacting(COMPACT_BYTES_MIN + 1, 2));
    }

    fn any_kept() -> impl Strategy<Value = Kept> {
        let name = prop_oneof![Just("a"), Just("b")];
        (name, 0u8..6, 0i64..4).prop_map(|(name, kind, number)| match kind {
            0 => Kept::Record(group(name, number as i32)),
            1 => Kept::Record(tombstone(name)),
            2 => Kept::Deleted { group_id: name.into() },
            3 => Kept::Record(Record::OffsetTombstone { key: key(name, 0) }),
            _ => Kept::Record(commit(name, number, "m")),
        })
    }

    fn seen(replay: &Replay) -> (Vec<Record>, Vec<(String, Commits)>, Vec<Text>) {
        let mut loaded = replay.load(|_| true);
        loaded.records.sort_by(|a, b| a.group_id().cmp(b.group_id()));
        loaded.unfinished.sort();
        let mut commits: Vec<_> =
            loaded.commits.into_iter().map(|(key, commits)| (key.group_id.to_string(), commits)).collect();
        commits.sort_by(|a, b| a.0.cmp(&b.0));
        (loaded.records, commits, loaded.unfinished)
    }

    proptest! {
        /// Writes go on while a snapshot is appended, and a crash may come before the old segments are deleted.
        #[test]
        fn a_compacted_partition_comes_to_the_same(
            before in prop::collection::vec(any_kept(), 0..12),
            meanwhile in prop::collection::vec(any_kept(), 0..6),
            after in prop::collection::vec(any_kept(), 0..6),
            deleted in any::<bool>(),
        ) {
            let read = replay(before.clone());
            let snapshot: Vec<Kept> = read.snapshot().collect();
            let as_of = before.len() as u64 - u64::from(!before.is_empty());
            let mut log: Vec<(bool, Kept)> = Vec::new();
            log.extend(before.into_iter().chain(meanwhile).map(|kept| (false, kept)));
            let cut = read.next() as usize;
            log.extend(snapshot.into_iter().map(|kept| (true, kept)));
            log.extend(after.into_iter().map(|kept| (false, kept)));

            let (mut plain, mut compacted) = (Replay::default(), Replay::default());
            let mut sequences = [0u64; 2];
            for (offset, (restates, what)) in log.into_iter().enumerate() {
                let sequence = &mut sequences[usize::from(restates)];
                let writer = if restates { u16::MAX } else { 0 };
                let stamp = Stamp { term: 1, writer, sequence: *sequence };
                *sequence += 1;
                let message = SideMessage::Kept { stamp, as_of: restates.then_some(as_of), what };
                if !restates {
                    plain.take(offset as u64, message.clone());
                }
                if !deleted || offset >= cut {
                    compacted.take(offset as u64, message);
                }
            }
            prop_assert_eq!(seen(&plain), seen(&compacted));
        }
    }
}
