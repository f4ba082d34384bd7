//! Batches of Iggy's in a partition's log, beside Kafka's.

use std::path::Path;
use std::sync::Arc;

use ringgate_wire::iggy::IggyBatchHeader;

use super::{batch, content, messages, on_both, settle, small, stored};
use crate::store::embedded::consumer_offsets::OffsetsLog;
use crate::store::embedded::files::{self, Files, MemFiles, Open};
use crate::store::embedded::frame;
use crate::store::embedded::partition::{self, Found, Lookup, PartitionLog};
use crate::store::embedded::verify::Report;
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

/// A partition of both protocols with offsets of consumers, and what a look through it says.
fn looked_through(files: &MemFiles, dir: &Path) -> Report {
    let mut report = Report::default();
    partition::verify::verify(&mut report, files, dir, 1);
    report
}

fn partition_with_offsets() -> (MemFiles, &'static Path) {
    let (machine, dir) = (MemFiles::new(), Path::new("/d"));
    machine.create_dir(dir).unwrap();
    let files: Arc<dyn Files> = Arc::new(machine.clone());
    let mut log = both(&files, dir);
    log.request_checkpoint();
    settle(&mut log);
    let mut offsets = OffsetsLog::empty(files, dir.join("offsets").join("groups"));
    for id in 0..4 {
        offsets.store(id, 7).unwrap();
    }
    settle(&mut offsets);
    (machine, dir)
}

#[test]
fn a_partition_of_both_protocols_is_good_and_a_flipped_bit_anywhere_in_it_is_found() {
    let (machine, dir) = partition_with_offsets();
    let report = looked_through(&machine, dir);
    assert!(report.is_clean() && report.notes.kept().is_empty(), "{report:#?}");
    let offsets = dir.join("offsets").join("groups").join("offsets.log");
    let segment = dir.join(format!("{:020}.log", 0));
    for path in [offsets, segment] {
        let len = machine.open(&path, Open::Read).unwrap().len().unwrap() as usize;
        // The last frame may be what a crash tore.
        let last = if path.ends_with("offsets.log") { len - 23 } else { len };
        for byte in (0..last).step_by(5) {
            machine.flip_bit(&path, byte);
            let report = looked_through(&machine, dir);
            assert!(!report.is_clean(), "byte {byte} of {}", path.display());
            machine.flip_bit(&path, byte);
        }
    }
}

#[test]
fn a_sound_frame_around_a_wrong_batch_of_iggys_is_found() {
    let (machine, dir) = partition_with_offsets();
    let path = dir.join(format!("{:020}.log", 0));
    let file = machine.open(&path, Open::Write).unwrap();
    let good = files::read(&*file, 0, file.len().unwrap() as usize).unwrap();
    // The second frame is the first of Iggy's: epoch, largest time, batch.
    let first = frame::decode(&good).unwrap().end() as usize;
    let second = frame::decode(&good.slice(first..)).unwrap();
    for (at, what) in [
        (0, "the checkpoint says"),
        (4, "the largest timestamp of its messages"),
        (12 + 8, "offset 3 where 2 comes next"),
        (12 + 16, "should be"),
        (12 + 256 + 48, "should be"),
        (12 + 100, "no record batch"),
    ] {
        let mut payload = second.payload.to_vec();
        payload[at] ^= 1;
        let wrong = frame::encode(second.kind, second.version, &payload);
        file.write_at(first as u64, &[wrong]).unwrap();
        let report = looked_through(&machine, dir);
        let said = report.damage.kept().iter().any(|f| f.path == path && f.what.contains(what));
        assert!(said, "byte {at}: {what:?} in {report:#?}");
    }
}
