//! The gathering of writes into batches.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use ringgate_group::record::{OffsetKey, OffsetValue};
use ringgate_group::{Batcher, PersistId, Record, StoreError};

fn offset(partition: i32, offset: i64) -> Record {
    Record::Offset {
        key: OffsetKey { group_id: "g".into(), topic: "t".into(), partition },
        value: OffsetValue {
            offset,
            leader_epoch: -1,
            metadata: Default::default(),
            commit_timestamp_ms: 0,
            topic_id: 0,
            expire_timestamp_ms: -1,
        },
    }
}

#[test]
fn while_one_batch_is_out_the_next_gathers() {
    let mut batcher = Batcher::new(Duration::ZERO);
    batcher.push(0, PersistId(1), vec![offset(0, 1)]);
    assert_eq!(batcher.poll_batch(0).unwrap().records, [offset(0, 1)]);
    batcher.push(1, PersistId(2), vec![offset(0, 2)]);
    batcher.push(2, PersistId(3), vec![offset(1, 3)]);
    assert_eq!(batcher.poll_batch(3), None);
    assert_eq!(batcher.next_deadline_us(), None);
    assert_eq!(batcher.handle_written(Ok(())).unwrap().ids, [PersistId(1)]);
    assert_eq!(batcher.poll_batch(3).unwrap().records, [offset(0, 2), offset(1, 3)]);
    let written = batcher.handle_written(Err(StoreError::Unavailable)).unwrap();
    assert_eq!((written.ids, written.result), (vec![PersistId(2), PersistId(3)], Err(StoreError::Unavailable)));
    assert!(batcher.is_idle());
    assert_eq!(batcher.handle_written(Ok(())), None);
}

#[test]
fn the_last_write_of_a_key_counts_and_decides_those_before_it() {
    let mut batcher = Batcher::new(Duration::ZERO);
    let key = OffsetKey { group_id: "g".into(), topic: "t".into(), partition: 0 };
    batcher.push(0, PersistId(1), vec![offset(0, 1), offset(1, 1)]);
    batcher.push(0, PersistId(2), vec![Record::OffsetTombstone { key }]);
    batcher.push(0, PersistId(3), vec![offset(1, 2), offset(1, 3)]);
    assert_eq!(batcher.waiting(), 3);
    let records = batcher.poll_batch(0).unwrap().records;
    assert_eq!(records.len(), 2);
    assert!(records[0].is_tombstone());
    assert_eq!(records[1], offset(1, 3));
    assert_eq!(batcher.handle_written(Ok(())).unwrap().ids, [PersistId(1), PersistId(2), PersistId(3)]);
}

#[test]
fn a_batch_that_is_not_full_lingers() {
    let mut batcher = Batcher::new(Duration::from_micros(100));
    batcher.push(1_000, PersistId(1), vec![offset(0, 1)]);
    batcher.push(1_050, PersistId(2), vec![offset(0, 2)]);
    assert_eq!((batcher.poll_batch(1_099), batcher.next_deadline_us()), (None, Some(1_100)));
    assert_eq!(batcher.poll_batch(1_100).unwrap().records, [offset(0, 2)]);
}

#[test]
fn a_full_batch_does_not_linger_and_a_write_is_never_split() {
    let mut batcher = Batcher::with_bytes_max(Duration::from_secs(1), 150);
    batcher.push(0, PersistId(1), (0..10).map(|n| offset(n, 1)).collect());
    batcher.push(0, PersistId(2), vec![offset(0, 2)]);
    assert_eq!(batcher.poll_batch(0).unwrap().records.len(), 10);
    assert_eq!(batcher.handle_written(Ok(())).unwrap().ids, [PersistId(1)]);
    assert_eq!(batcher.poll_batch(0), None);
    assert_eq!(batcher.poll_batch(1_000_000).unwrap().records, [offset(0, 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the order of writes and completions: each write is decided once and in order, and what was
    /// reported as kept is what a store has that applies the batches that succeeded.
    #[test]
    fn the_store_has_what_was_reported(
        steps in prop::collection::vec((0u8..4, 0i32..3, any::<bool>()), 1..200), bytes_max in 50usize..500,
    ) {
        let mut batcher = Batcher::with_bytes_max(Duration::ZERO, bytes_max);
        let mut store: HashMap<Bytes, Record> = HashMap::new();
        let mut reported: HashMap<Bytes, Record> = HashMap::new();
        let mut writes: Vec<Record> = Vec::new();
        let mut decided = 0;
        let mut out = None;
        for (what, partition, succeeds) in steps {
            match what {
                0 | 1 => {
                    writes.push(offset(partition, writes.len() as i64));
                    batcher.push(0, PersistId(writes.len() as u64), vec![writes[writes.len() - 1].clone()]);
                }
                2 => {
                    if let Some(batch) = batcher.poll_batch(0) {
                        prop_assert!(out.replace(batch.records).is_none());
                    }
                }
                _ => {
                    let Some(records) = out.take() else {
                        prop_assert!(batcher.handle_written(Ok(())).is_none());
                        continue;
                    };
                    let result = if succeeds { Ok(()) } else { Err(StoreError::Unavailable) };
                    if succeeds {
                        store.extend(records.into_iter().map(|record| (record.key(), record)));
                    }
                    for id in batcher.handle_written(result).unwrap().ids {
                        decided += 1;
                        prop_assert_eq!(id, PersistId(decided));
                        let record = writes[decided as usize - 1].clone();
                        if succeeds {
                            reported.insert(record.key(), record);
                        }
                    }
                    prop_assert_eq!(&store, &reported);
                }
            }
        }
    }
}
