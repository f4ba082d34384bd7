//! Partitions that retention has emptied, and the memory of idempotent producers.

use std::path::Path;
use std::sync::Arc;

use super::{Sent, batch, content, on_both, read, settle, small};
use crate::store::embedded::files::{Files, MemFiles};
use crate::store::embedded::partition::{Lookup, PartitionConfig, PartitionLog, Read};

fn open_with(files: &Arc<dyn Files>, dir: &Path, config: PartitionConfig, epoch: i32, now_ms: i64) -> PartitionLog {
    PartitionLog::open(files.clone(), dir.to_path_buf(), config, epoch, now_ms).unwrap().0
}

fn open(files: &Arc<dyn Files>, dir: &Path, epoch: i32) -> PartitionLog {
    open_with(files, dir, small(), epoch, 0)
}

fn append(log: &mut PartitionLog, now_ms: i64, sent: &Sent) -> Result<i64, i16> {
    log.append(now_ms, &sent.records, &sent.info, false).map(|a| a.base_offset).map_err(|e| e.code().0)
}

/// Batches of one record each, over several segments.
fn fill(log: &mut PartitionLog, timestamps: std::ops::Range<i64>) {
    for timestamp in timestamps {
        append(log, 0, &batch(&[timestamp], &format!("at {timestamp}"), None)).unwrap();
    }
    log.request_sync();
    settle(log);
}

#[test]
fn a_log_whose_records_are_all_too_old_is_empty_and_goes_on_at_its_end() {
    on_both(|files, dir| {
        let mut log = open(&files, dir, 1);
        fill(&mut log, 1000..1020);
        assert!(log.apply_retention(5000, 1000, -1) > 1);
        for (epoch, restart) in [(2, false), (3, true)] {
            settle(&mut log);
            assert_eq!((log.log_start_offset(), log.high_watermark(), log.size()), (20, 20, 0));
            assert_eq!(log.durable_log_start_offset(), 20);
            assert!(matches!(log.read(19, 1000, true), Read::OutOfRange));
            assert!(matches!(log.read(20, 1000, true), Read::Empty));
            let offsets = [-1, -2, -3, 0, 1010].map(|timestamp| match log.lookup(timestamp) {
                Lookup::Found(found) => found.offset,
                Lookup::Disk(job) => job.run().unwrap().offset,
            });
            assert_eq!(offsets, [20, 20, -1, -1, -1], "no record has the newest time, or a later one");
            assert_eq!(log.apply_retention(i64::MAX, 0, 0), 0, "an empty segment stays");
            if restart {
                drop(log);
                log = open(&files, dir, epoch);
                assert_eq!((log.log_start_offset(), log.end_offset()), (20, 20));
            }
        }
        fill(&mut log, 9000..9003);
        let kept = content(&log);
        assert_eq!(kept.iter().map(|(first, _, _)| *first).collect::<Vec<_>>(), [20, 21, 22]);
        assert_eq!(log.apply_retention(9001, 1000, -1), 0);
        drop(log);
        assert_eq!(content(&open(&files, dir, 4)), kept);
    });
}

#[test]
fn an_append_right_behind_retention_makes_the_next_file_and_survives_a_restart() {
    on_both(|files, dir| {
        let mut log = open(&files, dir, 1);
        fill(&mut log, 1000..1005);
        assert!(log.apply_retention(5000, 1000, -1) > 0);
        // Nothing of what retention asks for was done yet.
        fill(&mut log, 5000..5020);
        let kept = content(&log);
        assert_eq!((kept[0].0, kept.len()), (5, 20));
        drop(log);
        let log = open(&files, dir, 2);
        assert_eq!((log.log_start_offset(), log.end_offset()), (5, 25));
        assert_eq!(content(&log), kept);
    });
}

#[test]
fn size_keeps_as_much_as_it_says() {
    on_both(|files, dir| {
        let mut log = open(&files, dir, 1);
        fill(&mut log, 1000..1040);
        let size = log.size();
        assert_eq!(log.apply_retention(0, -1, size as i64), 0);
        assert!(log.apply_retention(0, -1, 1500) > 0);
        settle(&mut log);
        assert!((1500..1500 + 700).contains(&log.size()), "{}", log.size());
        assert!(log.apply_retention(0, -1, 0) > 0);
        settle(&mut log);
        assert_eq!((log.size(), log.log_start_offset()), (0, 40));
    });
}

#[test]
fn records_without_a_time_are_as_old_as_their_append() {
    on_both(|files, dir| {
        let mut log = open(&files, dir, 1);
        append(&mut log, 10_000, &batch(&[-1], "no time", None)).unwrap();
        append(&mut log, 10_500, &batch(&[-1, -1], "nor these", None)).unwrap();
        settle(&mut log);
        assert_eq!(log.apply_retention(i64::MAX, -1, -1), 0, "kept for ever");
        assert_eq!(log.apply_retention(11_500, 1000, -1), 0, "the newest counts");
        assert_eq!(log.apply_retention(11_501, 1000, -1), 1);
        settle(&mut log);
        // One record with a time speaks for its segment.
        append(&mut log, 20_000, &batch(&[-1, 5_000, -1], "one has a time", None)).unwrap();
        settle(&mut log);
        assert_eq!(log.apply_retention(6_000, 1000, -1), 0);
        assert_eq!(log.apply_retention(6_001, 1000, -1), 1);
    });
}

#[test]
fn the_age_of_records_without_a_time_goes_on_over_restarts_and_power_cuts() {
    for (is_orderly, seed) in [(true, 0), (false, 0), (false, 1), (false, 2)] {
        let (machine, dir) = (MemFiles::new(), Path::new("/d"));
        machine.create_dir(dir).unwrap();
        machine.sync_dir(Path::new("/")).unwrap();
        let files: Arc<dyn Files> = Arc::new(machine.clone());
        let mut log = open(&files, dir, 1);
        // Several segments; what the checkpoints at their ends speak of, and what they do not.
        for n in 0..10 {
            machine.set_now_ms(10_000 + n);
            append(&mut log, 10_000 + n, &batch(&[-1], &"no time".repeat(20), None)).unwrap();
            log.request_sync();
            settle(&mut log);
        }
        if is_orderly {
            log.request_checkpoint();
            settle(&mut log);
        }
        machine.set_now_ms(10_500);
        let machine = if is_orderly { machine } else { machine.crash(seed) };
        let files: Arc<dyn Files> = Arc::new(machine.clone());
        let mut log = open_with(&files, dir, small(), 2, 10_500);
        assert_eq!((log.log_start_offset(), log.end_offset()), (0, 10));
        assert_eq!(log.apply_retention(11_000, 1000, -1), 0);
        assert!(log.apply_retention(11_005, 1000, -1) > 0, "the oldest segments");
        assert!((1..10).contains(&log.log_start_offset()));
        // What is appended now keeps the rest of its segment.
        append(&mut log, 10_900, &batch(&[-1], "late", None)).unwrap();
        settle(&mut log);
        log.apply_retention(11_010, 1000, -1);
        settle(&mut log);
        assert!((1..=10).contains(&log.log_start_offset()), "{}", log.log_start_offset());
        assert!(log.apply_retention(11_901, 1000, -1) > 0);
        assert_eq!(log.log_start_offset(), 11);
    }
}

#[test]
fn a_slow_partition_goes_on_in_another_segment_when_the_last_has_come_to_its_age() {
    for restarts in [false, true] {
        let (machine, dir) = (MemFiles::new(), Path::new("/d"));
        machine.create_dir(dir).unwrap();
        let files: Arc<dyn Files> = Arc::new(machine.clone());
        let config = PartitionConfig { segment_ms: 1000, ..PartitionConfig::with_segment_bytes(1 << 20) };
        machine.set_now_ms(10_000);
        let mut log = open_with(&files, dir, config, 1, 10_000);
        let slow = |log: &mut PartitionLog, now_ms: i64| {
            machine.set_now_ms(now_ms);
            append(log, now_ms, &batch(&[now_ms], "slow", None)).unwrap();
            settle(log);
            files.list(dir).unwrap().iter().filter(|entry| entry.name.ends_with(".log")).count()
        };
        assert_eq!([10_000, 10_500].map(|now_ms| slow(&mut log, now_ms)), [1, 1]);
        if restarts {
            drop(log);
            log = open_with(&files, dir, config, 2, 10_600);
        }
        // Times that jump make no segments; the clock does.
        append(&mut log, 10_700, &batch(&[1_000_000_000], "ahead", None)).unwrap();
        append(&mut log, 10_700, &batch(&[10_700], "back", None)).unwrap();
        assert_eq!([10_999, 11_000, 11_500, 12_000].map(|now_ms| slow(&mut log, now_ms)), [1, 2, 2, 3]);
        log.set_segment_bounds(1 << 20, 100);
        assert_eq!([12_001, 12_100].map(|now_ms| slow(&mut log, now_ms)), [3, 4], "a change holds at once");
        assert_eq!(content(&log).len(), 10);
    }
}

#[test]
fn what_a_slow_partition_holds_goes_though_it_is_written_to_all_the_time() {
    on_both(|files, dir| {
        let config = PartitionConfig { segment_ms: 1000, ..PartitionConfig::with_segment_bytes(1 << 20) };
        let mut log = open_with(&files, dir, config, 1, 0);
        for now_ms in (10_000..20_000).step_by(100) {
            append(&mut log, now_ms, &batch(&[now_ms], "slow", None)).unwrap();
            settle(&mut log);
            log.apply_retention(now_ms, 2000, -1);
            settle(&mut log);
            // At most what retention keeps, and a segment.
            assert!(log.end_offset() - log.log_start_offset() <= 31, "at {now_ms}");
        }
    });
}

#[test]
fn what_is_not_written_yet_stays() {
    on_both(|files, dir| {
        let mut log = open(&files, dir, 1);
        append(&mut log, 0, &batch(&[1], "under way", None)).unwrap();
        assert_eq!(log.apply_retention(i64::MAX, 0, 0), 0);
        settle(&mut log);
        assert_eq!(log.apply_retention(i64::MAX, 0, 0), 1);
    });
}

/// A machine stops at the `nth` operation after retention began to empty a log. What was durable then must be
/// found, and a log start that was durable never goes back. Whether it came to the stop.
fn stopped_at(nth: u64) -> bool {
    let files = MemFiles::new();
    let dir = Path::new("/d");
    files.create_dir(dir).unwrap();
    files.sync_dir(Path::new("/")).unwrap();
    let before: Arc<dyn Files> = Arc::new(files.clone());
    let mut log = open(&before, dir, 1);
    fill(&mut log, 1000..1010);
    files.stop_at(files.operations() + nth);
    assert!(log.apply_retention(5000, 1000, -1) > 0);
    // Some stops let the append go first, others what retention asks for.
    for (value, at) in [("first", nth % 2), ("second", 2)] {
        if at > 0 {
            settle(&mut log);
        }
        // A log that the stop has closed takes nothing.
        let _ = append(&mut log, 0, &batch(&[6000], value, None));
        log.request_sync();
    }
    settle(&mut log);
    let (start, end) = (log.durable_log_start_offset(), log.durable_end());
    drop(log);
    let after: Arc<dyn Files> = Arc::new(files.crash(nth));
    let mut log = open(&after, dir, 2);
    assert!(log.log_start_offset() >= start && [0, 10].contains(&log.log_start_offset()), "stop at {nth}");
    assert!(log.end_offset() >= end, "stop at {nth}: {} of {end}", log.end_offset());
    content(&log);
    fill(&mut log, 7000..7002);
    assert!(!read(&log, log.end_offset() - 1, 1000).is_empty());
    files.is_stopped()
}

#[test]
fn a_crash_at_every_operation_of_an_emptied_log_leaves_one_that_goes_on() {
    let stops = (1..).take_while(|&nth| stopped_at(nth)).count();
    assert!(stops > 5, "{stops} operations");
}

#[test]
fn producers_over_the_bound_or_idle_too_long_are_forgotten_and_may_begin_anywhere() {
    on_both(|files, dir| {
        let config = PartitionConfig { producer_expiration_ms: 1000, ..PartitionConfig::with_segment_bytes(1 << 20) };
        assert_eq!(config.producers, 4096);
        let mut log = open_with(&files, dir, config, 1, 0);
        let sent = |id: i64, sequence: i32| batch(&[1], "v", Some((id, 0, sequence)));
        for id in 0..4096 {
            append(&mut log, 10, &sent(id, 0)).unwrap();
        }
        assert_eq!(append(&mut log, 10, &sent(0, 0)), Ok(0), "all are known");
        append(&mut log, 10, &sent(0, 1)).unwrap();
        append(&mut log, 10, &sent(4096, 0)).unwrap();
        settle(&mut log);
        let mut end = 4098;
        for restart in [false, true] {
            if restart {
                drop(log);
                log = open_with(&files, dir, config, 2, 10);
            }
            assert_eq!(append(&mut log, 10, &sent(0, 0)), Ok(0), "a duplicate");
            assert_eq!(append(&mut log, 10, &sent(2, 7)), Err(45), "a gap of one that is known");
        }
        assert_eq!(append(&mut log, 10, &sent(1, 77)), Ok(end), "used least recently, it may begin anywhere");
        end += 1;
        assert_eq!(append(&mut log, 1010, &sent(3, 9)), Err(45), "not idle for too long yet");
        assert_eq!(append(&mut log, 1011, &sent(3, 9)), Ok(end), "forgotten");
        assert_eq!(log.expire_producers(2011), 0, "only this one was left");
        assert_eq!((log.expire_producers(2012), log.expire_producers(2012)), (1, 0));
        settle(&mut log);
    });
}
