//! The log of consumers' offsets: values as sent, limits, damage, and a crash at every operation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{on_both, settle};
use crate::log_driver::JobLog;
use crate::store::embedded::consumer_offsets::{OffsetsError, OffsetsLog, verify};
use crate::store::embedded::files::{Fault, Files, MemFiles};
use crate::store::embedded::limits::{CONSUMER_OFFSETS_MAX, CONSUMER_OFFSETS_PAST};
use crate::store::embedded::verify::Report;

fn dir(above: &Path) -> PathBuf {
    above.join("offsets").join("external_groups")
}

/// What is there, or an empty log.
fn open(files: &Arc<dyn Files>, above: &Path) -> OffsetsLog {
    let found = OffsetsLog::open(files, &dir(above), |_| true).unwrap();
    found.unwrap_or_else(|| OffsetsLog::empty(files.clone(), dir(above)))
}

fn memory() -> (MemFiles, Arc<dyn Files>, PathBuf) {
    let machine = MemFiles::new();
    machine.create_dir(Path::new("/d")).unwrap();
    machine.sync_dir(Path::new("/")).unwrap();
    (machine.clone(), Arc::new(machine), PathBuf::from("/d"))
}

fn file_len(files: &dyn Files, above: &Path) -> u64 {
    let path = dir(above).join("offsets.log");
    files.open(&path, crate::store::embedded::files::Open::Read).unwrap().len().unwrap()
}

#[test]
fn values_are_kept_as_sent_and_a_directory_of_before_is_completed() {
    on_both(|files, above| {
        let mut log = open(&files, above);
        assert_eq!(files.list(above).unwrap(), [], "nothing is made before it is needed");
        for (id, value) in [(1, 0), (2, u64::MAX), (u32::MAX, 7), (1, 5), (3, 1)] {
            log.store(id, value).unwrap();
        }
        log.delete(3).unwrap();
        assert_eq!(log.get(1), Ok(None), "memory does not run ahead of the file");
        log.request_sync();
        settle(&mut log);
        drop(log);
        let log = open(&files, above);
        let found = [1, 2, u32::MAX, 3, 4].map(|id| log.get(id).unwrap());
        assert_eq!(found, [Some(5), Some(u64::MAX), Some(7), None, None]);
    });
}

#[test]
fn stores_that_arrive_while_one_is_written_share_the_next_sync() {
    let (machine, files, above) = memory();
    let mut log = open(&files, &above);
    log.store(0, 0).unwrap();
    log.request_sync();
    settle(&mut log);
    log.store(0, 1).unwrap();
    log.request_sync();
    let first = log.poll_job().unwrap();
    for id in 0..100 {
        log.store(id, 2).unwrap();
        log.request_sync();
        assert!(log.poll_job().is_none(), "one job at a time");
    }
    log.handle_done(OffsetsLog::run(first));
    assert_eq!((log.get(0), log.get(1)), (Ok(Some(1)), Ok(None)));
    let before = machine.operations();
    settle(&mut log);
    assert_eq!(machine.operations() - before, 2, "a write and a sync");
    assert_eq!((log.get(0), log.get(99)), (Ok(Some(2)), Ok(Some(2))));
}

#[test]
fn a_partition_keeps_so_many_keys_and_one_that_goes_makes_room() {
    let (_, files, above) = memory();
    let mut log = open(&files, &above);
    for id in 0..CONSUMER_OFFSETS_MAX as u32 {
        log.store(id, 1).unwrap();
    }
    assert_eq!(log.store(u32::MAX, 1), Err(OffsetsError::Full), "also before they are written");
    settle(&mut log);
    assert_eq!(log.store(u32::MAX, 1), Err(OffsetsError::Full));
    log.store(7, 2).unwrap();
    log.delete(8).unwrap();
    assert_eq!(log.delete(8), Err(OffsetsError::NotFound), "it is on its way out");
    log.store(u32::MAX, 1).unwrap();
    settle(&mut log);
    assert_eq!((log.get(7), log.get(8), log.get(u32::MAX)), (Ok(Some(2)), Ok(None), Ok(Some(1))));
}

#[test]
fn a_file_that_is_mostly_of_the_past_is_written_anew() {
    let (_, files, above) = memory();
    let mut log = open(&files, &above);
    for nth in 0..3 * CONSUMER_OFFSETS_PAST as u64 {
        log.store((nth % 10) as u32, nth).unwrap();
        settle(&mut log);
        let most = (CONSUMER_OFFSETS_PAST + 2 * 10) as u64 * 23;
        assert!(file_len(&*files, &above) <= most);
    }
    let before: Vec<_> = (0..10).map(|id| log.get(id)).collect();
    drop(log);
    let log = open(&files, &above);
    assert_eq!((0..10).map(|id| log.get(id)).collect::<Vec<_>>(), before);
}

#[test]
fn keys_that_nobody_has_any_more_go_at_the_start_and_stay_away() {
    let (machine, files, above) = memory();
    let mut log = open(&files, &above);
    for id in 0..10 {
        log.store(id, 5).unwrap();
    }
    log.request_sync();
    settle(&mut log);
    let log = OffsetsLog::open(&files, &dir(&above), |id| id < 3).unwrap().unwrap();
    let there = |log: &OffsetsLog| (0..10).filter(|id| log.get(*id).unwrap().is_some()).collect::<Vec<_>>();
    assert_eq!(there(&log), [0, 1, 2]);
    let after: Arc<dyn Files> = Arc::new(machine.crash(1));
    assert_eq!(there(&open(&after, &above)), [0, 1, 2], "on disk");
}

#[test]
fn a_failed_write_closes_it_and_damage_is_refused_and_never_taken_for_nothing() {
    for fault in [Fault::Write, Fault::Sync] {
        let (machine, files, above) = memory();
        let mut log = open(&files, &above);
        log.store(1, 1).unwrap();
        log.request_sync();
        settle(&mut log);
        machine.fail_next(fault, "offsets.log");
        log.store(1, 2).unwrap();
        log.request_sync();
        settle(&mut log);
        assert!(log.is_closed() && matches!(log.store(1, 3), Err(OffsetsError::Closed(_))));
        assert_eq!(log.get(1), Ok(Some(1)), "what was stored can be read");
    }
    let (machine, files, above) = memory();
    let mut log = open(&files, &above);
    log.store(1, 1).unwrap();
    log.store(2, 2).unwrap();
    settle(&mut log);
    let path = dir(&above).join("offsets.log");
    machine.flip_bit(&path, 12);
    let why = OffsetsLog::open(&files, &dir(&above), |_| true).err().unwrap().to_string();
    assert!(why.contains("damaged"), "{why}");
    let closed = OffsetsLog::closed(files.clone(), dir(&above), why);
    assert!(matches!(closed.get(1), Err(OffsetsError::Closed(_))));
    let mut report = Report::default();
    verify(&mut report, &*files, &above.join("offsets"));
    assert!(!report.is_clean());
}

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// What was asked for, and how much of it was said to be durable.
#[derive(Default, Clone)]
struct Model {
    base: BTreeMap<u32, u64>,
    history: Vec<(u32, Option<u64>)>,
    durable: u64,
}

impl Model {
    /// Whether a log holds what was durable, and beyond that an unbroken rest of what was asked for.
    fn fits(&self, found: &BTreeMap<u32, u64>) -> bool {
        let mut state = self.base.clone();
        let mut fits = self.durable == 0 && state == *found;
        for (nth, (id, value)) in self.history.iter().enumerate() {
            match value {
                Some(value) => state.insert(*id, *value),
                None => state.remove(id),
            };
            fits |= nth as u64 + 1 >= self.durable && state == *found;
        }
        fits
    }
}

const IDS: u32 = 6;

fn found(log: &OffsetsLog) -> BTreeMap<u32, u64> {
    (0..IDS).filter_map(|id| Some((id, log.get(id).unwrap()?))).collect()
}

/// Two runs over one directory, the first of which is killed; so many changes that the file is replaced.
fn workload(files: &Arc<dyn Files>, above: &Path, seed: u64, mut model: Model) -> Model {
    let mut chance = Chance(seed);
    for _ in 0..2 {
        let Ok(opened) = OffsetsLog::open(files, &dir(above), |_| true) else { return model };
        let mut log = opened.unwrap_or_else(|| OffsetsLog::empty(files.clone(), dir(above)));
        assert!(model.fits(&found(&log)), "{:?} of {:?}", found(&log), model.history);
        model = Model { base: found(&log), ..Model::default() };
        for _ in 0..12 {
            // Some at once, so that few operations reach the bound at which the file is replaced.
            for _ in 0..1 + chance.below(2) * 200 {
                let (id, value) = (chance.below(IDS.into()) as u32, chance.below(1000));
                let change = if chance.below(4) == 0 { None } else { Some(value) };
                let done = match change {
                    Some(value) => log.store(id, value),
                    None => log.delete(id),
                };
                match done {
                    Ok(_) => model.history.push((id, change)),
                    Err(OffsetsError::NotFound) => {}
                    Err(_) => return model,
                }
            }
            if chance.below(3) > 0 {
                log.request_sync();
            }
            if chance.below(3) > 0 {
                settle(&mut log);
            }
            model.durable = log.durable();
        }
    }
    model
}

#[test]
fn a_crash_or_a_kill_at_every_operation_keeps_what_was_acknowledged() {
    for seed in 0..6 {
        let (machine, files, above) = memory();
        workload(&files, &above, seed, Model::default());
        let operations = machine.operations();
        assert!(operations > 10, "{operations}");
        for nth in 1..=operations {
            let (machine, files, above) = memory();
            machine.stop_at(nth);
            let model = workload(&files, &above, seed, Model::default());
            let after = machine.crash(seed ^ nth);
            let mut report = Report::default();
            verify(&mut report, &after, &above.join("offsets"));
            assert!(report.is_clean(), "seed {seed}, operation {nth}: {report:?}");
            let after: Arc<dyn Files> = Arc::new(after);
            assert!(model.fits(&found(&open(&after, &above))), "seed {seed}, crash at operation {nth}");
            // Only the process is killed, another goes on, and then the power goes.
            machine.restart_process();
            let model = workload(&files, &above, seed + 100, model);
            let after: Arc<dyn Files> = Arc::new(machine.crash(nth));
            assert!(model.fits(&found(&open(&after, &above))), "seed {seed}, kill at operation {nth}");
        }
    }
}
