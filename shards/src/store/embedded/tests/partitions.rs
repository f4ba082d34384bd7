use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use ringgate_wire::records::BatchHeader;

use super::{Sent, batch, content, on_both, read, settle, small};
use crate::store::embedded::files::{Fault, Files, MemFiles, Open};
use crate::store::embedded::partition::{Found, Lookup, PartitionConfig, PartitionLog, Read};

fn open(files: &Arc<dyn Files>, dir: &Path, epoch: i32) -> PartitionLog {
    PartitionLog::open(files.clone(), dir.to_path_buf(), small(), epoch, 0).unwrap().0
}

fn append(log: &mut PartitionLog, sent: &Sent) -> i64 {
    log.append(0, &sent.records, &sent.info, false).unwrap().base_offset
}

fn looked_up(log: &PartitionLog, timestamp: i64) -> Found {
    match log.lookup(timestamp) {
        Lookup::Found(found) => found,
        Lookup::Disk(job) => job.run().unwrap(),
    }
}

fn memory() -> (MemFiles, Arc<dyn Files>, PathBuf) {
    let files = MemFiles::new();
    files.create_dir(Path::new("/d")).unwrap();
    (files.clone(), Arc::new(files), PathBuf::from("/d"))
}

/// 40 batches of 1 to 3 records, over several segments.
fn filled(files: &Arc<dyn Files>, dir: &Path) -> (PartitionLog, Vec<(i64, i64)>) {
    let mut log = open(files, dir, 1);
    let mut extents = Vec::new();
    for nth in 0..40 {
        let sent = batch(&vec![1000 + nth * 10; 1 + nth as usize % 3], &format!("value {nth}"), None);
        let base = append(&mut log, &sent);
        extents.push((base, base + nth % 3));
    }
    log.request_sync();
    settle(&mut log);
    (log, extents)
}

#[test]
fn batches_come_back_as_they_were_sent_from_memory_and_from_files() {
    on_both(|files, dir| {
        let (mut log, extents) = filled(&files, dir);
        assert_eq!((log.high_watermark(), log.durable_end()), (log.end_offset(), log.end_offset()));
        let cached = content(&log);
        assert_eq!(cached.iter().map(|(first, last, _)| (*first, *last)).collect::<Vec<_>>(), extents);
        let bytes = log.cached_bytes();
        assert_eq!(log.trim_cache(usize::MAX), bytes);
        assert_eq!(content(&log), cached);
        drop(log);
        assert_eq!(content(&open(&files, dir, 2)), cached);
    });
}

#[test]
fn a_read_keeps_to_its_budget_and_spans_segments() {
    on_both(|files, dir| {
        let (mut log, _) = filled(&files, dir);
        let all = read(&log, 0, usize::MAX);
        assert_eq!(all.len(), 40);
        for trimmed in [false, true] {
            if trimmed {
                log.trim_cache(usize::MAX);
            }
            for budget in [1, 200, 500, 1000, 3000, 100_000] {
                let got = read(&log, 0, budget);
                assert_eq!(got, all[..got.len()], "from the first on, without a gap");
                let bytes: usize = got.iter().map(|b| b.len()).sum();
                assert!(got.len() == 1 || bytes <= budget);
                if let Some(next) = all.get(got.len()) {
                    assert!(bytes + next.len() > budget, "as much as fits: {bytes} of {budget}");
                }
            }
        }
    });
}

#[test]
fn nothing_is_read_before_it_is_written() {
    let (_, files, dir) = memory();
    let mut log = open(&files, &dir, 1);
    append(&mut log, &batch(&[5], "a", None));
    assert!(matches!(log.read(0, 1000, true), Read::Empty));
    assert!(matches!(log.read(1, 1000, true), Read::Empty));
    assert!(matches!(log.read(2, 1000, true), Read::OutOfRange));
    assert!(matches!(log.read(-1, 1000, true), Read::OutOfRange));
    assert_eq!((looked_up(&log, -1).offset, looked_up(&log, 5).offset, looked_up(&log, -3).offset), (0, -1, -1));
    settle(&mut log);
    assert_eq!((log.high_watermark(), log.durable_end()), (1, 0), "nobody asked for a sync");
    assert!(matches!(log.read(0, 1000, true), Read::Cached(_)));
    assert!(matches!(log.read(0, 10, false), Read::Empty), "over the budget");
    assert_eq!(looked_up(&log, 5).offset, 0);
}

#[test]
fn what_waits_for_bytes_is_told_how_many_came() {
    let (_, files, dir) = memory();
    let mut log = open(&files, &dir, 1);
    let sent = batch(&[5], "a", None);
    for _ in 0..3 {
        append(&mut log, &sent);
    }
    settle(&mut log);
    let one = sent.records.len();
    assert_eq!((log.bytes_between(0, 3), log.bytes_between(1, 2), log.bytes_between(3, 3)), (3 * one, one, 0));
    log.trim_cache(1);
    assert_eq!((log.bytes_between(0, 3), log.bytes_between(1, 3)), (usize::MAX, 2 * one));
}

#[test]
fn a_missing_or_wrong_index_costs_time_and_nothing_else() {
    let (machine, files, dir) = memory();
    let (log, _) = filled(&files, &dir);
    drop(log);
    let mut log = open(&files, &dir, 2);
    log.trim_cache(usize::MAX);
    let whole = content(&log);
    let indexes: Vec<_> = files
        .list(&dir)
        .unwrap()
        .into_iter()
        .filter(|e| e.name.ends_with(".index"))
        .map(|e| dir.join(e.name))
        .collect();
    assert!(indexes.len() > 3);
    for (nth, path) in indexes.iter().enumerate() {
        if nth % 2 == 0 {
            files.remove_file(path).unwrap();
        } else {
            machine.flip_bit(path, 4);
        }
    }
    assert_eq!(content(&log), whole);
    assert_eq!(looked_up(&log, 1200), Found { timestamp: 1200, offset: 39, leader_epoch: 1 });
}

#[test]
fn an_index_that_leads_too_far_is_not_followed() {
    let (_, files, dir) = memory();
    let (log, _) = filled(&files, &dir);
    drop(log);
    let whole = content(&open(&files, &dir, 2));
    let mut changed = 0;
    for entry in files.list(&dir).unwrap().iter().filter(|e| e.name.ends_with(".log")) {
        // A frame behind the first, as the only entry of the segment's index.
        let log = files.open(&dir.join(&entry.name), Open::Read).unwrap();
        let mut header = [0; 8];
        log.read_at(0, &mut header).unwrap();
        let second = u64::from(u32::from_le_bytes(*header.first_chunk().unwrap())) + 8;
        if second < log.len().unwrap() {
            let index = files.open(&dir.join(entry.name.replace(".log", ".index")), Open::Create).unwrap();
            index.write_at(4, &[bytes::Bytes::copy_from_slice(&(second as u32).to_le_bytes())]).unwrap();
            changed += 1;
        }
    }
    assert!(changed > 5);
    assert_eq!(content(&open(&files, &dir, 3)), whole);
}

#[test]
fn no_file_is_closed_while_its_sync_is_out() {
    let (_, files, dir) = memory();
    let mut log = open(&files, &dir, 1);
    append(&mut log, &batch(&[1], "first", None));
    let write = log.poll_job().unwrap();
    log.handle_done(write.run());
    log.request_sync();
    let sync = log.poll_job().unwrap();
    append(&mut log, &batch(&[1], &"x".repeat(700), None));
    assert!(log.poll_job().is_none(), "this write would sync the file that is closed, too");
    log.handle_done(sync.run());
    assert_eq!(log.durable_end(), 1);
    log.request_sync();
    settle(&mut log);
    assert_eq!((log.durable_end(), log_segments(&files, &dir)), (2, 2));
}

#[test]
fn the_index_leads_to_the_frame_and_not_far_before_it() {
    let (_, files, dir) = memory();
    let config = PartitionConfig::with_segment_bytes(1 << 20);
    let mut log = PartitionLog::open(files.clone(), dir.clone(), config, 1, 0).unwrap().0;
    let value = "x".repeat(1000);
    for nth in 0..1500 {
        append(&mut log, &batch(&[nth], &value, None));
    }
    settle(&mut log);
    log.trim_cache(usize::MAX);
    for log in [log, PartitionLog::open(files.clone(), dir.clone(), config, 2, 0).unwrap().0] {
        for offset in [0, 1, 500, 998, 1022, 1023, 1499] {
            let batches = read(&log, offset, 1);
            assert_eq!(BatchHeader::parse(&batches[0]).unwrap().base_offset, offset);
            assert_eq!(looked_up(&log, offset).offset, offset);
        }
    }
}

#[test]
fn special_timestamps_stand_for_start_end_and_the_newest_record() {
    let (_, files, dir) = memory();
    let mut log = open(&files, &dir, 3);
    let none = Found::NOTHING;
    assert_eq!((looked_up(&log, -1).offset, looked_up(&log, -2).offset), (0, 0));
    assert_eq!([-3, -5, -6, 0, i64::MIN].map(|t| looked_up(&log, t)), [none; 5]);
    for (nth, times) in [&[50, 90, 70][..], &[90, 10], &[20]].iter().enumerate() {
        append(&mut log, &batch(times, &format!("{nth}"), None));
    }
    settle(&mut log);
    assert_eq!(looked_up(&log, -1), Found { timestamp: -1, offset: 6, leader_epoch: 3 });
    assert_eq!(looked_up(&log, -2), Found { timestamp: -1, offset: 0, leader_epoch: 3 });
    assert_eq!(looked_up(&log, -4), looked_up(&log, -2));
    assert_eq!(looked_up(&log, -3), Found { timestamp: 90, offset: 1, leader_epoch: 3 });
    assert_eq!((looked_up(&log, -5), looked_up(&log, 91)), (none, none));
}

#[test]
fn a_batch_without_a_maximum_timestamp_gets_one() {
    let (_, files, dir) = memory();
    let mut log = open(&files, &dir, 1);
    let mut sent = batch(&[100, 300, 200], "a", None);
    let mut unset = sent.records.to_vec();
    ringgate_wire::records::set_max_timestamp(&mut unset, -1);
    sent = super::walked(unset.into());
    append(&mut log, &sent);
    settle(&mut log);
    let stored = read(&log, 0, 1).remove(0);
    let header = BatchHeader::parse(&stored).unwrap();
    assert_eq!(header.max_timestamp, 300);
    assert!(header.crc_is_right(&stored));
    assert_eq!(looked_up(&log, 150), Found { timestamp: 300, offset: 1, leader_epoch: 1 });
}

#[test]
fn under_log_append_time_every_record_has_the_brokers_time() {
    let (_, files, dir) = memory();
    let mut log = open(&files, &dir, 1);
    for now in [1000, 2000] {
        let sent = batch(&[5, 7], "a", None);
        let appended = log.append(now, &sent.records, &sent.info, true).unwrap();
        assert_eq!(appended.log_append_time_ms, now);
    }
    settle(&mut log);
    log.trim_cache(usize::MAX);
    let stored = read(&log, 2, 1).remove(0);
    let header = BatchHeader::parse(&stored).unwrap();
    assert!(header.is_log_append_time() && header.crc_is_right(&stored));
    assert_eq!(header.max_timestamp, 2000);
    assert_eq!(looked_up(&log, 1001), Found { timestamp: 2000, offset: 2, leader_epoch: 1 });
    assert_eq!(looked_up(&log, -3).offset, 2);
}

#[test]
fn a_duplicate_is_answered_with_its_first_offset_also_after_a_restart() {
    on_both(|files, dir| {
        let mut log = open(&files, dir, 1);
        let sent: Vec<Sent> = (0..8).map(|n| batch(&[n.into(), n.into()], "a", Some((7, 0, n * 2)))).collect();
        for (nth, sent) in sent.iter().enumerate() {
            assert_eq!(append(&mut log, sent), nth as i64 * 2);
        }
        settle(&mut log);
        drop(log);
        let mut log = open(&files, dir, 2);
        let again = log.append(0, &sent[5].records, &sent[5].info, false).unwrap();
        assert_eq!((again.base_offset, again.last_offset, again.duplicate), (10, 11, true));
        assert_eq!(log.append(0, &sent[1].records, &sent[1].info, false).unwrap_err().code().0, 45);
        let gap = batch(&[1], "gap", Some((7, 0, 17)));
        assert_eq!(log.append(0, &gap.records, &gap.info, false).unwrap_err().code().0, 45);
        let next = batch(&[1], "next", Some((7, 0, 16)));
        assert_eq!(append(&mut log, &next), 16);
        assert_eq!(log.end_offset(), 17);
    });
}

#[test]
fn each_run_has_its_own_leader_epoch() {
    let (_, files, dir) = memory();
    for (epoch, batches) in [(1, 2), (2, 0), (5, 3)] {
        let mut log = open(&files, &dir, epoch);
        for _ in 0..batches {
            append(&mut log, &batch(&[1], "a", None));
        }
        settle(&mut log);
    }
    let log = open(&files, &dir, 6);
    assert_eq!(log.offset_for_leader_epoch(0), Some((0, 0)));
    assert_eq!(log.offset_for_leader_epoch(1), Some((1, 2)));
    assert_eq!(log.offset_for_leader_epoch(2), Some((1, 2)), "epoch 2 wrote nothing");
    assert_eq!(log.offset_for_leader_epoch(5), Some((5, 5)));
    assert_eq!(log.offset_for_leader_epoch(6), Some((6, 5)));
    assert_eq!(log.offset_for_leader_epoch(7), None);
    assert_eq!(log.divergence(5, 5), None);
    assert_eq!(log.divergence(1, 2), None);
    assert_eq!(log.divergence(1, 4), Some((1, 2)), "offsets 2 and 3 of epoch 1 were lost");
    assert_eq!(log.divergence(2, 2), Some((1, 2)));
    assert_eq!(log.divergence(9, 5), Some((6, 5)), "the client has seen more than there ever was");
}

#[test]
fn a_torn_tail_is_cut_and_said_so() {
    for cut in [1, 5, 9, 10, 40, 80] {
        let (_, files, dir) = memory();
        let mut log = open(&files, &dir, 1);
        for value in ["first", "second"] {
            append(&mut log, &batch(&[1], value, None));
        }
        settle(&mut log);
        let whole = content(&log);
        drop(log);
        let path = dir.join("00000000000000000000.log");
        let file = files.open(&path, Open::Write).unwrap();
        let len = file.len().unwrap();
        file.truncate(len - cut).unwrap();
        let (mut log, found) = PartitionLog::open(files.clone(), dir.clone(), small(), 2, 0).unwrap();
        assert!(found.cut_bytes > 0);
        assert_eq!(content(&log), whole[..1]);
        assert_eq!(append(&mut log, &batch(&[1], "third", None)), 1);
        settle(&mut log);
        assert_eq!(content(&log).len(), 2);
    }
}

#[test]
fn damage_that_no_crash_leaves_is_refused_and_the_files_stay() {
    let (machine, files, dir) = memory();
    let (log, _) = filled(&files, &dir);
    drop(log);
    let logs: Vec<_> = files.list(&dir).unwrap().into_iter().filter(|e| e.name.ends_with(".log")).collect();
    let last = dir.join(&logs.last().unwrap().name);
    machine.flip_bit(&last, 20);
    let error = PartitionLog::open(files.clone(), dir.clone(), small(), 2, 0).err().unwrap();
    assert!(error.to_string().contains(&*last.to_string_lossy()), "{error}");
    machine.flip_bit(&last, 20);
    let middle = dir.join(&logs[2].name);
    machine.flip_bit(&middle, 20);
    let log = open(&files, &dir, 3);
    let error = match log.read(log.log_start_offset(), usize::MAX, true) {
        Read::Disk(job) => job.run().unwrap_err(),
        _ => panic!("nothing is cached after a start"),
    };
    assert!(error.to_string().contains(&*middle.to_string_lossy()), "{error}");
    drop(log);
    files.remove_file(&middle).unwrap();
    assert!(PartitionLog::open(files.clone(), dir.clone(), small(), 4, 0).is_err());
}

#[test]
fn a_failed_write_or_sync_closes_the_log_until_it_is_opened_again() {
    for (fault, part) in [(Fault::Write, ".log"), (Fault::Sync, ".log"), (Fault::Rename, "checkpoint")] {
        let (machine, files, dir) = memory();
        let mut log = open(&files, &dir, 1);
        append(&mut log, &batch(&[1], "safe", None));
        log.request_sync();
        settle(&mut log);
        machine.fail_next(fault, part);
        append(&mut log, &batch(&[1], "lost", None));
        log.request_sync();
        log.request_checkpoint();
        settle(&mut log);
        assert!(log.is_closed(), "{fault:?}");
        if fault != Fault::Rename {
            assert_eq!(log.durable_end(), 1, "{fault:?}");
        }
        let sent = batch(&[1], "refused", None);
        assert_eq!(log.append(0, &sent.records, &sent.info, false).unwrap_err().code().0, 56);
        assert_eq!(read(&log, 0, 1).len(), 1, "what is there can be read");
        drop(log);
        let after: Arc<dyn Files> = Arc::new(machine.crash(1));
        let mut log = open(&after, &dir, 2);
        assert!(log.end_offset() >= 1);
        append(&mut log, &batch(&[1], "goes on", None));
        settle(&mut log);
        assert!(!log.is_closed());
    }
}

#[test]
fn after_an_orderly_stop_a_start_reads_nothing_again() {
    on_both(|files, dir| {
        let (mut log, _) = filled(&files, dir);
        log.request_checkpoint();
        settle(&mut log);
        let whole = content(&log);
        drop(log);
        let (log, found) = PartitionLog::open(files.clone(), dir.to_path_buf(), small(), 2, 0).unwrap();
        assert_eq!((found.read_bytes, found.cut_bytes), (0, 0));
        assert_eq!(content(&log), whole);
    });
}

#[test]
fn a_damaged_checkpoint_is_made_good_from_the_segments() {
    let (machine, files, dir) = memory();
    let (log, _) = filled(&files, &dir);
    drop(log);
    let whole = content(&open(&files, &dir, 2));
    machine.flip_bit(&dir.join("checkpoint"), 30);
    let (log, found) = PartitionLog::open(files.clone(), dir.clone(), small(), 3, 0).unwrap();
    assert!(found.read_bytes > 1500);
    assert_eq!(content(&log), whole);
}

#[test]
fn records_before_the_log_start_are_gone_for_good() {
    on_both(|files, dir| {
        let (mut log, _) = filled(&files, dir);
        let before = files.list(dir).unwrap().len();
        assert!(log.advance_log_start(log.high_watermark() + 1).is_err());
        log.advance_log_start(51).unwrap();
        log.advance_log_start(7).unwrap();
        settle(&mut log);
        assert_eq!((log.log_start_offset(), log.durable_log_start_offset()), (51, 51));
        assert!(files.list(dir).unwrap().len() < before);
        for _ in 0..2 {
            assert!(matches!(log.read(50, 1000, true), Read::OutOfRange));
            assert!(!read(&log, 51, 1000).is_empty());
            assert_eq!(looked_up(&log, -2).offset, 51);
            assert_eq!(looked_up(&log, 0).offset, 51);
            assert!(looked_up(&log, 1250).offset >= 51);
            log = open(&files, dir, 2);
        }
    });
}

#[test]
fn retention_takes_whole_closed_segments_by_age_and_by_size() {
    let (_, files, dir) = memory();
    let (mut log, _) = filled(&files, &dir);
    assert_eq!(log.apply_retention(10_000, -1, -1), 0);
    assert_eq!(log.apply_retention(1100, 1000, -1), 0, "nothing is that old");
    let size = log.size();
    assert!(log.apply_retention(1600, 400, -1) > 0);
    settle(&mut log);
    let start = log.log_start_offset();
    assert_eq!(content(&log)[0].0, start);
    assert!(start > 0 && log.size() < size);
    assert!(log.apply_retention(0, -1, 1000) > 0);
    settle(&mut log);
    assert!(log.size() >= 1000, "never below the bound");
    assert_eq!(log.durable_log_start_offset(), log.log_start_offset());
    let segments = log_segments(&files, &dir);
    assert_eq!(log.apply_retention(i64::MAX, 0, -1), segments, "the last one goes with all others");
    settle(&mut log);
    assert_eq!(log_segments(&files, &dir), 1, "and another is begun");
}

fn log_segments(files: &Arc<dyn Files>, dir: &Path) -> usize {
    files.list(dir).unwrap().iter().filter(|e| e.name.ends_with(".log")).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lookups_find_what_a_walk_over_all_records_finds(
        batches in prop::collection::vec(prop::collection::vec(-1i64..60, 1..5), 1..40),
        start in 0usize..20,
        reopen in any::<bool>(),
    ) {
        let (_, files, dir) = memory();
        let mut log = open(&files, &dir, 1);
        for times in &batches {
            append(&mut log, &batch(times, "value", None));
        }
        settle(&mut log);
        let times: Vec<i64> = batches.concat();
        let start = start.min(times.len() - 1);
        log.advance_log_start(start as i64).unwrap();
        settle(&mut log);
        if reopen {
            drop(log);
            log = open(&files, &dir, 2);
        }
        log.trim_cache(usize::MAX);
        for wanted in 0..61 {
            let first = (start..times.len()).find(|nth| times[*nth] >= wanted);
            let found = looked_up(&log, wanted);
            prop_assert_eq!(found.offset, first.map_or(-1, |nth| nth as i64), "timestamp {}", wanted);
            prop_assert_eq!(found.timestamp, first.map_or(-1, |nth| times[nth]));
        }
        let largest = times[start..].iter().copied().max().filter(|t| *t >= 0);
        let first = largest.and_then(|largest| (start..times.len()).find(|nth| times[*nth] == largest));
        prop_assert_eq!(looked_up(&log, -3).offset, first.map_or(-1, |nth| nth as i64));
        for offset in start..times.len() {
            let found = BatchHeader::parse(&read(&log, offset as i64, 1)[0]).unwrap();
            prop_assert!(found.base_offset <= offset as i64 && offset as i64 <= found.last_offset());
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_never_served(file in 0usize..64, byte in 0usize..800) {
        let (machine, files, dir) = memory();
        let (log, _) = filled(&files, &dir);
        let whole = content(&log);
        drop(log);
        let names = files.list(&dir).unwrap();
        machine.flip_bit(&dir.join(&names[file % names.len()].name), byte);
        let Ok((log, _)) = PartitionLog::open(files.clone(), dir.clone(), small(), 2, 0) else { return Ok(()) };
        prop_assert!(log.end_offset() <= whole.last().unwrap().1 + 1);
        for (base, last, bytes) in whole {
            if let Read::Disk(job) = log.read(base, 1, true)
                && let Ok(batches) = job.run()
            {
                let header = BatchHeader::parse(batches[0].bytes()).unwrap();
                prop_assert_eq!((header.base_offset, header.last_offset()), (base, last));
                prop_assert_eq!(batches[0].bytes().slice(61..), bytes);
            }
        }
    }
}
