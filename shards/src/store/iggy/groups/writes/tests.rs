use proptest::prelude::*;
use ringgate_group::record::GroupMetadata;

use super::*;

fn key(group: &str, partition: i32) -> OffsetKey {
    OffsetKey { group_id: group.into(), topic: "t".into(), partition }
}

fn value(offset: i64, metadata: &str) -> OffsetValue {
    OffsetValue {
        offset,
        leader_epoch: -1,
        metadata: metadata.into(),
        commit_timestamp_ms: 0,
        topic_id: 1,
        expire_timestamp_ms: -1,
    }
}

fn commit(group: &str, partition: i32, offset: i64, metadata: &str) -> Record {
    Record::Offset { key: key(group, partition), value: value(offset, metadata) }
}

fn group(group: &str, generation: i32) -> Record {
    Record::Group(GroupMetadata { group_id: group.into(), generation, ..GroupMetadata::default() })
}

fn tombstone(group: &str, partition: i32) -> Record {
    Record::OffsetTombstone { key: key(group, partition) }
}

fn group_tombstone(group: &str) -> Record {
    Record::GroupTombstone { group_id: group.into() }
}

fn store(group: &str, partition: i32, offset: u64) -> Op {
    Op::Store { key: key(group, partition), offset }
}

fn append(group: &str, records: impl IntoIterator<Item = Record>) -> Op {
    Op::Append { partition: side_partition(group), messages: records.into_iter().map(Kept::Record).collect() }
}

fn ops(writes: &mut Writes) -> Vec<Op> {
    std::iter::from_fn(|| writes.poll_op()).collect()
}

fn decided(writes: &mut Writes) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| writes.poll_decided()).map(|(id, outcome)| (id.0, outcome.is_ok())).collect()
}

const FAILED: Outcome = Err(StoreError::Unavailable);

#[test]
fn a_commit_is_decided_when_all_its_offsets_are_stored() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![commit("g", 0, 5, ""), commit("g", 1, 6, "")]);
    assert_eq!(ops(&mut writes), [store("g", 0, 5), store("g", 1, 6)]);
    writes.handle_offset(key("g", 1), Ok(()));
    assert!(decided(&mut writes).is_empty() && !writes.is_idle());
    writes.handle_offset(key("g", 0), Ok(()));
    assert_eq!(decided(&mut writes), [(1, true)]);
    assert!(writes.is_idle());
}

#[test]
fn a_failed_offset_fails_its_commits_and_no_others() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![commit("g", 0, 5, ""), commit("g", 1, 6, "")]);
    writes.push(PersistId(2), vec![commit("h", 0, 7, "")]);
    ops(&mut writes);
    writes.handle_offset(key("g", 0), FAILED);
    writes.handle_offset(key("g", 1), Ok(()));
    writes.handle_offset(key("h", 0), Ok(()));
    assert_eq!(decided(&mut writes), [(1, false), (2, true)]);
}

#[test]
fn values_of_a_key_wait_for_the_one_that_is_out_and_the_last_of_them_counts_for_all() {
    let mut writes = Writes::default();
    for (id, offset) in [(1, 5), (2, 6), (3, 7)] {
        writes.push(PersistId(id), vec![commit("g", 0, offset, "")]);
    }
    assert_eq!(ops(&mut writes), [store("g", 0, 5)]);
    writes.handle_offset(key("g", 0), Ok(()));
    assert_eq!(decided(&mut writes), [(1, true)]);
    assert_eq!(ops(&mut writes), [store("g", 0, 7)]);
    writes.handle_offset(key("g", 0), FAILED);
    assert_eq!(decided(&mut writes), [(2, false), (3, false)]);
}

#[test]
fn a_negative_offset_deletes() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![commit("g", 0, -1, "")]);
    assert_eq!(ops(&mut writes), [Op::Delete { key: key("g", 0) }]);
}

#[test]
fn a_metadata_string_is_written_before_its_offset_is_stored() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![commit("g", 0, 5, "so far")]);
    assert_eq!(ops(&mut writes), [append("g", [commit("g", 0, 5, "so far")])]);
    writes.handle_appended(side_partition("g"), Ok(()));
    assert!(decided(&mut writes).is_empty());
    assert_eq!(ops(&mut writes), [store("g", 0, 5)]);
    writes.handle_offset(key("g", 0), Ok(()));
    assert_eq!(decided(&mut writes), [(1, true)]);
}

#[test]
fn without_its_string_a_commit_fails_and_stores_nothing() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![commit("g", 0, 5, "so far")]);
    ops(&mut writes);
    writes.handle_appended(side_partition("g"), FAILED);
    assert_eq!(decided(&mut writes), [(1, false)]);
    assert!(ops(&mut writes).is_empty());
}

#[test]
fn a_commit_without_a_string_does_not_get_that_of_an_earlier_one_at_the_same_offset() {
    let mut writes = Writes::new(&[(key("g", 0), vec![value(5, "old")])], Vec::new());
    writes.push(PersistId(1), vec![commit("g", 0, 6, "")]);
    assert_eq!(ops(&mut writes), [store("g", 0, 6)], "nobody would take the old string for this one's");
    writes.handle_offset(key("g", 0), Ok(()));
    writes.push(PersistId(2), vec![commit("g", 0, 5, "")]);
    assert_eq!(ops(&mut writes), [append("g", [tombstone("g", 0)])]);
    writes.handle_appended(side_partition("g"), Ok(()));
    assert_eq!(ops(&mut writes), [store("g", 0, 5)]);
    writes.handle_offset(key("g", 0), Ok(()));
    writes.push(PersistId(3), vec![commit("g", 0, 5, "")]);
    assert_eq!(ops(&mut writes), [store("g", 0, 5)], "once is enough");
}

#[test]
fn a_deleted_offset_takes_its_string_with_it_first() {
    let mut writes = Writes::new(&[(key("g", 0), vec![value(5, "old")])], Vec::new());
    writes.push(PersistId(1), vec![tombstone("g", 0), tombstone("g", 1)]);
    let expected = [append("g", [tombstone("g", 0)]), Op::Delete { key: key("g", 1) }];
    assert_eq!(ops(&mut writes), expected);
    writes.handle_appended(side_partition("g"), Ok(()));
    assert_eq!(ops(&mut writes), [Op::Delete { key: key("g", 0) }]);
}

#[test]
fn messages_of_a_partition_gather_while_a_batch_is_out() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![group("g", 1)]);
    assert_eq!(ops(&mut writes), [append("g", [group("g", 1)])]);
    writes.push(PersistId(2), vec![group("g", 2)]);
    writes.push(PersistId(3), vec![group("g", 3)]);
    assert!(ops(&mut writes).is_empty());
    writes.handle_appended(side_partition("g"), FAILED);
    assert_eq!(decided(&mut writes), [(1, false)]);
    assert_eq!(ops(&mut writes), [append("g", [group("g", 3)])]);
    writes.handle_appended(side_partition("g"), Ok(()));
    assert_eq!(decided(&mut writes), [(2, true), (3, true)]);
}

#[test]
fn a_group_is_deleted_with_its_tombstone_and_goes_from_iggy_afterwards() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![tombstone("g", 0), group_tombstone("g")]);
    assert_eq!(ops(&mut writes), [append("g", [group_tombstone("g")])]);
    writes.handle_appended(side_partition("g"), Ok(()));
    assert_eq!(decided(&mut writes), [(1, true)]);
    assert!(writes.is_deleting(&"g".into()));
    assert_eq!(ops(&mut writes), [Op::DeleteGroup { group_id: "g".into() }]);
    writes.handle_group_deleted("g".into(), FAILED);
    assert_eq!(ops(&mut writes), [Op::DeleteGroup { group_id: "g".into() }]);
    writes.handle_group_deleted("g".into(), Ok(()));
    let deleted = Kept::Deleted { group_id: "g".into() };
    assert_eq!(ops(&mut writes), [Op::Append { partition: side_partition("g"), messages: vec![deleted] }]);
    writes.handle_appended(side_partition("g"), Ok(()));
    assert!(!writes.is_deleting(&"g".into()));
}

#[test]
fn a_group_of_the_same_name_commits_when_the_deleted_one_is_gone() {
    let mut writes = Writes::new(&[], vec!["g".into()]);
    writes.push(PersistId(1), vec![commit("g", 0, 5, "")]);
    assert_eq!(ops(&mut writes), [Op::DeleteGroup { group_id: "g".into() }]);
    writes.handle_group_deleted("g".into(), Ok(()));
    assert_eq!(ops(&mut writes).len(), 1);
    writes.handle_appended(side_partition("g"), Ok(()));
    assert_eq!(ops(&mut writes), [store("g", 0, 5)]);
}

#[test]
fn a_group_that_takes_a_deleted_ones_name_at_once_waits_for_it_to_go() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![group("other", 1)]);
    let other = side_partition("other");
    let name = (0..).map(|n| format!("g{n}")).find(|name| side_partition(name) == other).unwrap();
    ops(&mut writes);
    // Both gather behind a batch that is out.
    writes.push(PersistId(2), vec![group_tombstone(&name)]);
    writes.push(PersistId(3), vec![group(&name, 0)]);
    writes.push(PersistId(4), vec![commit(&name, 0, 5, "")]);
    assert!(ops(&mut writes).is_empty());
    writes.handle_appended(other, Ok(()));
    assert_eq!(ops(&mut writes), [append(&name, [group_tombstone(&name), group(&name, 0)])]);
    writes.handle_appended(other, Ok(()));
    assert_eq!(ops(&mut writes), [Op::DeleteGroup { group_id: name.as_str().into() }]);
    writes.handle_group_deleted(name.as_str().into(), Ok(()));
    assert_eq!(ops(&mut writes).len(), 1, "that it is gone");
    writes.handle_appended(other, Ok(()));
    assert_eq!(ops(&mut writes), [store(&name, 0, 5)]);
}

#[test]
fn a_tombstone_that_is_not_kept_deletes_nothing() {
    let mut writes = Writes::default();
    writes.push(PersistId(1), vec![group_tombstone("g")]);
    ops(&mut writes);
    writes.push(PersistId(2), vec![commit("g", 0, 5, "")]);
    assert!(ops(&mut writes).is_empty());
    writes.handle_appended(side_partition("g"), FAILED);
    assert_eq!(decided(&mut writes), [(1, false)]);
    assert_eq!(ops(&mut writes), [store("g", 0, 5)]);
}

#[test]
fn commits_behind_a_group_that_does_not_go_fail_and_do_not_wait() {
    let mut writes = Writes::new(&[], vec!["g".into()]);
    writes.push(PersistId(1), vec![commit("g", 0, 5, "")]);
    ops(&mut writes);
    writes.handle_group_deleted("g".into(), FAILED);
    assert_eq!(decided(&mut writes), [(1, false)]);
}

#[test]
fn no_more_operations_are_out_than_allowed() {
    let mut writes = Writes::default();
    for partition in 0..OFFSET_OPS_MAX as i32 + 1 {
        writes.push(PersistId(partition as u64), vec![commit("g", partition, 1, "")]);
    }
    assert_eq!(ops(&mut writes).len(), OFFSET_OPS_MAX);
    writes.handle_offset(key("g", 0), Ok(()));
    assert_eq!(ops(&mut writes).len(), 1);
}

/// What Iggy and the side topic would have.
#[derive(Default)]
struct World {
    offsets: HashMap<OffsetKey, u64>,
    out: Vec<Op>,
}

impl World {
    fn finish(&mut self, writes: &mut Writes, nth: usize, fails: bool) {
        let op = self.out.remove(nth % self.out.len());
        let outcome = if fails { FAILED } else { Ok(()) };
        match op {
            Op::Append { partition, .. } => writes.handle_appended(partition, outcome),
            Op::Store { key, offset } => {
                if !fails {
                    self.offsets.insert(key.clone(), offset);
                }
                writes.handle_offset(key, outcome);
            }
            Op::Delete { key } => {
                if !fails {
                    self.offsets.remove(&key);
                }
                writes.handle_offset(key, outcome);
            }
            Op::DeleteGroup { group_id, .. } => {
                if !fails {
                    self.offsets.retain(|key, _| key.group_id != group_id);
                }
                writes.handle_group_deleted(group_id, outcome);
            }
        }
    }
}

proptest! {
    /// Operations end in any order, and some fail.
    #[test]
    fn every_write_is_decided_once_and_the_last_one_that_is_kept_is_what_iggy_has(
        steps in prop::collection::vec((0u8..3, 0i32..2, -1i64..4, any::<bool>(), 0usize..8, 0u8..6), 1..80),
    ) {
        let (mut writes, mut world) = (Writes::default(), World::default());
        let mut wanted: HashMap<u64, (i32, Option<u64>)> = HashMap::new();
        let mut kept: HashMap<i32, (u64, Option<u64>)> = HashMap::new();
        let mut count = 0;
        let note = |writes: &mut Writes, wanted: &HashMap<u64, (i32, Option<u64>)>, kept: &mut HashMap<i32, (u64, Option<u64>)>| {
            let mut decided = 0;
            while let Some((id, outcome)) = writes.poll_decided() {
                decided += 1;
                let (partition, value) = wanted[&id.0];
                if outcome.is_ok() && kept.get(&partition).is_none_or(|(last, _)| *last < id.0) {
                    kept.insert(partition, (id.0, value));
                }
            }
            decided
        };
        for (nth, (kind, partition, offset, with_metadata, which, dice)) in steps.into_iter().enumerate() {
            if kind < 2 {
                let id = nth as u64 + 1;
                let record = match kind {
                    0 => commit("g", partition, offset, if with_metadata { "m" } else { "" }),
                    _ => tombstone("g", partition),
                };
                wanted.insert(id, (partition, (kind == 0 && offset >= 0).then_some(offset as u64)));
                writes.push(PersistId(id), vec![record]);
            } else if !world.out.is_empty() {
                world.finish(&mut writes, which, dice == 0);
            }
            world.out.extend(std::iter::from_fn(|| writes.poll_op()));
            count += note(&mut writes, &wanted, &mut kept);
        }
        while !world.out.is_empty() {
            world.finish(&mut writes, 0, false);
            world.out.extend(std::iter::from_fn(|| writes.poll_op()));
            count += note(&mut writes, &wanted, &mut kept);
        }
        prop_assert_eq!(count, wanted.len());
        prop_assert!(writes.is_idle());
        for (partition, (_, value)) in kept {
            prop_assert_eq!(world.offsets.get(&key("g", partition)).copied(), value);
        }
    }
}
