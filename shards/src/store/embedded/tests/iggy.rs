//! Batches of Iggy's in a partition's log, beside Kafka's.

use std::path::Path;
use std::sync::Arc;

use ringgate_wire::iggy::IggyBatchHeader;

use super::{batch, content, messages, on_both, settle, small, stored};
use crate::store::embedded::files::Files;
use crate::store::embedded::partition::{Found, Lookup, PartitionLog};
use crate::store::stored::StoredBatch;

fn open(files: &Arc<dyn Files>, dir: &Path, leader_epoch: i32) -> PartitionLog {
    PartitionLog::open(files.clone(), dir.to_path_buf(), small(), leader_epoch, 0).unwrap().0
}

fn looked_up(log: &PartitionLog, timestamp: i64) -> Found {
    match log.lookup(timestamp) {
        Lookup::Found(found) => found,
        Lookup::Disk(job) => job.run().unwrap(),
    }
}

/// Batches of both protocols in turn: two records of Kafka's at 1000, 1010, ... ms, then three messages of Iggy's.
fn both(files: &Arc<dyn Files>, dir: &Path) -> PartitionLog {
    let mut log = open(files, dir, 1);
    for nth in 0..10i64 {
        let sent = batch(&[1000 + 20 * nth; 2], "of Kafka", None);
        log.append(0, &sent.records, &sent.info, false).unwrap();
        let origin_us = 1_010_000 + 20_000 * nth as u64;
        let sent = messages(&[origin_us, origin_us + 1000, origin_us + 2000], "of Iggy", None);
        log.append_iggy(5_000_000, &sent.batch, &sent.info, 3).unwrap();
        log.request_sync();
        settle(&mut log);
    }
    log
}

#[test]
fn both_kinds_share_one_row_of_offsets_and_are_found_again_after_a_start() {
    on_both(|files, dir| {
        let log = both(&files, dir);
        let before = content(&log);
        let extents: Vec<_> = before.iter().map(|(base, last, _)| (*base, *last)).collect();
        assert_eq!(extents[..4], [(0, 1), (2, 4), (5, 6), (7, 9)]);
        drop(log);
        for epoch in 2..4 {
            let log = open(&files, dir, epoch);
            assert_eq!(content(&log), before);
            assert_eq!(log.offset_for_leader_epoch(1), Some((1, 50)));
        }
    });
}

#[test]
fn a_batch_gets_its_partition_its_place_and_the_servers_time() {
    on_both(|files, dir| {
        let log = both(&files, dir);
        let StoredBatch::Iggy { batch, leader_epoch } = stored(&log, 3, 1).remove(0) else { panic!("it is Iggy's") };
        let header = IggyBatchHeader::parse(&batch).unwrap();
        assert_eq!((header.partition_id, header.base_offset, header.base_timestamp_us), (3, 2, 5_000_000));
        assert_eq!((header.messages, leader_epoch), (3, 1));
    });
}

#[test]
fn a_time_is_found_in_batches_of_both_kinds() {
    on_both(|files, dir| {
        let mut log = both(&files, dir);
        for (timestamp, offset, found) in
            [(1000, 0, 1000), (1001, 2, 1010), (1011, 3, 1011), (1012, 4, 1012), (1013, 5, 1020), (1192, 49, 1192)]
        {
            let there = looked_up(&log, timestamp);
            assert_eq!((there.offset, there.timestamp), (offset, found), "{timestamp}");
        }
        assert_eq!(looked_up(&log, 1193), Found::NOTHING);
        assert_eq!(looked_up(&log, -3).offset, 49);
        log.advance_log_start(3).unwrap();
        settle(&mut log);
        assert_eq!(looked_up(&log, 1000).offset, 3, "the log start cuts the batch");
        let unstamped = messages(&[0], "without a time", None);
        log.append_iggy(9_000_000, &unstamped.batch, &unstamped.info, 3).unwrap();
        settle(&mut log);
        let there = looked_up(&log, 1193);
        assert_eq!((there.offset, there.timestamp), (50, 9000), "it has the server's");
    });
}

#[test]
fn a_producer_of_iggys_is_known_again_after_a_start() {
    on_both(|files, dir| {
        let sent: Vec<_> = (0..7).map(|nth| messages(&[1, 1], "m", Some((9, 0, nth * 2)))).collect();
        let mut log = open(&files, dir, 1);
        for message in &sent {
            log.append_iggy(0, &message.batch, &message.info, 0).unwrap();
        }
        log.request_sync();
        settle(&mut log);
        drop(log);
        let mut log = open(&files, dir, 2);
        let again = log.append_iggy(0, &sent[6].batch, &sent[6].info, 0).unwrap();
        assert_eq!((again.base_offset, again.duplicate), (12, true));
        let mut refused = |producer| {
            let message = messages(&[1], "m", Some(producer));
            log.append_iggy(0, &message.batch, &message.info, 0).unwrap_err().iggy_code().0
        };
        assert_eq!(refused((9, 0, 16)), 92, "a gap");
        assert_eq!(refused((9, 0, 2)), 92, "too old to be known");
        assert_eq!(refused((8, 0, 1)), 94, "not known, and not at the beginning");
        let newer = messages(&[1], "m", Some((9, 1, 0)));
        log.append_iggy(0, &newer.batch, &newer.info, 0).unwrap();
        let older = messages(&[1], "m", Some((9, 0, 14)));
        assert_eq!(log.append_iggy(0, &older.batch, &older.info, 0).unwrap_err().iggy_code().0, 93);
        assert_eq!(log.active_producers(), [], "it is none of Kafka's");
    });
}

#[test]
fn deleting_segments_takes_the_oldest_and_never_the_one_that_is_appended_to() {
    on_both(|files, dir| {
        let mut log = both(&files, dir);
        let (end, before) = (log.end_offset(), content(&log));
        let start = log.delete_segments(1);
        assert!(start > 0 && start < end);
        settle(&mut log);
        assert_eq!(log.durable_log_start_offset(), start);
        let left: Vec<_> = before.into_iter().filter(|(base, _, _)| *base >= start).collect();
        assert_eq!(content(&log), left);
        let last = log.delete_segments(usize::MAX);
        settle(&mut log);
        assert!(last < end, "the last segment stays");
        assert_eq!((log.delete_segments(1), log.end_offset()), (last, end));
        drop(log);
        assert_eq!(open(&files, dir, 2).log_start_offset(), last);
    });
}
