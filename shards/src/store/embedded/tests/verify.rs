//! Looking through a data directory: a good one is found good, and every kind of damage is found where it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ringgate_group::route::Route;

use super::logs::{offset, open, parts, topic, topic_config};
use super::{Sent, batch, on_both, settle};
use crate::call::TopicPartition;
use crate::catalogue::Topic;
use crate::store::embedded::catalogue_log::CatalogueRecord;
use crate::store::embedded::data_dir::OpenError;
use crate::store::embedded::files::{self, Fault, Files, MemFiles, Open};
use crate::store::embedded::frame;
use crate::store::embedded::partition::PartitionLog;
use crate::store::embedded::verify::{Finding, Report, VerifyError};

fn verify(files: &dyn Files, dir: &Path) -> Report {
    super::super::verify::verify(files, dir, crate::describe).unwrap()
}

fn append(log: &mut PartitionLog, sent: &Sent, stamp: bool) {
    log.append(9_000, &sent.records, &sent.info, stamp).unwrap();
}

/// Three runs over topics of 2 and 1 partitions and 10 groups; an orderly stop after each.
fn workload(files: &Arc<dyn Files>, dir: &Path) -> Arc<Topic> {
    let orders = topic("orders", 2);
    for (run, shards) in [1, 2, 2].into_iter().enumerate() {
        let (engine, mut catalogue, mut logs) = parts(open(files, dir, shards));
        if run == 0 {
            let events = topic("events", 1);
            let created = [&orders, &events].map(|t| CatalogueRecord::Created(t.clone()));
            catalogue.append(created.into()).unwrap();
            catalogue.request_sync_and_settle();
        }
        for partition in 0..2 {
            let at = TopicPartition { topic: orders.id, partition };
            let mut log = engine.open_partition(at, &topic_config())().unwrap();
            for nth in 0..12i64 {
                let sent = batch(&vec![1000 + nth * 10; 1 + nth as usize % 3], &format!("value {nth}"), None);
                append(&mut log, &sent, nth % 4 == 3);
            }
            log.request_sync();
            settle(&mut log);
            log.request_checkpoint();
            settle(&mut log);
        }
        for nth in 0..40 {
            let group = nth % 10;
            let owner = Route::new(shards).group(&format!("group-{group}")).0;
            let log = &mut logs[usize::from(owner)];
            log.append(vec![offset(group, nth as i64)]).unwrap();
            crate::log_driver::JobLog::request_sync(log);
            settle(log);
        }
    }
    orders
}

trait RequestSyncAndSettle {
    fn request_sync_and_settle(&mut self);
}

impl<L: crate::log_driver::JobLog> RequestSyncAndSettle for L {
    fn request_sync_and_settle(&mut self) {
        self.request_sync();
        settle(self);
    }
}

fn memory() -> (MemFiles, Arc<dyn Files>, PathBuf, Arc<Topic>) {
    let machine = MemFiles::new();
    let files: Arc<dyn Files> = Arc::new(machine.clone());
    let dir = PathBuf::from("/d");
    let orders = workload(&files, &dir);
    (machine, files, dir, orders)
}

/// Every file below a directory, with its length.
fn tree(files: &dyn Files, dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in files.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            found.extend(tree(files, &path));
        } else {
            let len = files.open(&path, Open::Read).unwrap().len().unwrap();
            found.push((path, len));
        }
    }
    found
}

/// The segments of a partition.
fn segments(files: &dyn Files, dir: &Path) -> Vec<(PathBuf, u64)> {
    tree(files, dir).into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "log")).collect()
}

fn content(files: &dyn Files, path: &Path) -> Bytes {
    files::read_whole(files, path).unwrap()
}

fn overwrite(files: &dyn Files, path: &Path, content: &[u8]) {
    files.open(path, Open::Empty).unwrap().write_at(0, &[Bytes::copy_from_slice(content)]).unwrap();
}

fn says(findings: &[Finding], path: &Path, what: &str) -> bool {
    findings.iter().any(|f| f.path == path && f.what.contains(what))
}

#[track_caller]
fn assert_damage(report: &Report, path: &Path, what: &str) {
    assert!(says(report.damage.kept(), path, what), "{what:?} of {path:?} in {report:#?}");
    assert!(!report.is_clean());
}

#[track_caller]
fn assert_note(report: &Report, path: &Path, what: &str) {
    assert!(says(report.notes.kept(), path, what), "{what:?} of {path:?} in {report:#?}");
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_good_directory_is_good_and_stays_as_it_is() {
    on_both(|files, dir| {
        let dir = dir.join("data");
        workload(&files, &dir);
        let before: Vec<_> = tree(&*files, &dir).into_iter().map(|(p, _)| (content(&*files, &p), p)).collect();
        let report = verify(&*files, &dir);
        assert!(report.is_clean(), "{report:#?}");
        // The topic that nobody opened.
        assert_eq!(report.notes.count(), 1, "{report:#?}");
        let orders = &report.topics[0];
        assert_eq!((&*orders.name, orders.partitions, orders.damage), ("orders", 2, 0));
        assert_eq!((orders.holds.batches, orders.holds.records), (2 * 3 * 12, 2 * 3 * 24));
        assert!(orders.holds.segments > 6, "{orders:?}");
        assert_eq!(report.manifest.as_ref().map(|m| (m.starts, m.shards)), Some((3, 2)));
        assert_eq!(report.coordinators.len(), 2);
        assert!(report.coordinators.iter().map(|c| c.records).sum::<u64>() >= 10);
        for (content_before, path) in before {
            if !path.ends_with("LOCK") {
                assert_eq!(content(&*files, &path), content_before, "{path:?}");
            }
        }
    });
}

#[test]
fn a_flipped_bit_anywhere_is_found_in_its_file() {
    let (machine, files, dir, _) = memory();
    let good = verify(&*files, &dir);
    let all = tree(&*files, &dir).into_iter().filter(|(path, _)| !path.ends_with("LOCK"));
    // Some bytes of each file, not the same ones in each, since every one costs a look at everything.
    for (nth, (path, len)) in all.enumerate() {
        for byte in (nth % 7..len as usize).step_by(7) {
            machine.flip_bit(&path, byte);
            let found = match super::super::verify::verify(&*files, &dir, crate::describe) {
                // A digit of the format's number.
                Err(VerifyError::Refused(OpenError::NewerFormat { .. })) if path.ends_with("MANIFEST") => {
                    machine.flip_bit(&path, byte);
                    continue;
                }
                other => other.unwrap(),
            };
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let damaged = found.damage.kept().iter().any(|f| f.path == path);
            // What is said of a segment's checkpoint is found at the segment.
            let damaged = damaged || (name == "checkpoint" && !found.is_clean());
            let torn = found.notes.kept().iter().any(|f| f.path == path && f.what.contains("not finished"));
            let may_be_torn = name.ends_with(".log") && !path.starts_with(dir.join("topics"));
            assert!(damaged || (torn && may_be_torn), "byte {byte} of {path:?}: {found:#?}");
            machine.flip_bit(&path, byte);
        }
    }
    assert_eq!(verify(&*files, &dir), good, "every bit is back");
}

#[test]
fn damage_to_segments_is_named_for_what_it_is() {
    let good = memory();
    let partition = good.2.join("topics").join(good.3.id.to_string()).join("0");
    let all = segments(&*good.1, &partition);
    let (middle, len) = all[all.len() / 2].clone();
    let fresh = || -> Arc<dyn Files> {
        let copy = MemFiles::new();
        copy_tree(&*good.1, &copy, &good.2);
        Arc::new(copy)
    };
    assert!(verify(&*fresh(), &good.2).is_clean());

    let files = fresh();
    files.open(&middle, Open::Write).unwrap().truncate(len - 5).unwrap();
    let report = verify(&*files, &good.2);
    assert_damage(&report, &middle, "the checkpoint knows");
    assert_damage(&report, &middle, "no whole frame");
    assert_eq!(report.topics[0].damage, report.damage.count());
    assert_eq!(report.topics[1].damage, 0);

    let files = fresh();
    files.remove_file(&middle).unwrap();
    let report = verify(&*files, &good.2);
    assert_damage(&report, &middle, "it is missing");

    // A cut where a frame ends is seen as well, and what is behind it as a gap in the offsets.
    let files = fresh();
    let first = first_frame_len(&content(&*files, &middle));
    files.open(&middle, Open::Write).unwrap().truncate(first).unwrap();
    let report = verify(&*files, &good.2);
    assert_damage(&report, &middle, "the checkpoint knows");
    assert_damage(&report, &all[all.len() / 2 + 1].0, "it begins at offset");

    // A frame is gone, and all that are left are whole.
    let files = fresh();
    let bytes = content(&*files, &middle);
    overwrite(&*files, &middle, &bytes[first as usize..]);
    let report = verify(&*files, &good.2);
    assert_damage(&report, &middle, "comes next");

    // Without a checkpoint the first segment must be there, and offsets dense.
    let files = fresh();
    files.remove_file(&partition.join("checkpoint")).unwrap();
    assert!(verify(&*files, &good.2).is_clean());
    files.remove_file(&all[0].0).unwrap();
    assert_damage(&verify(&*files, &good.2), &all[0].0, "it is missing");

    let files = fresh();
    let stranger = partition.join(format!("{:020}.log", 1));
    overwrite(&*files, &stranger, b"");
    assert_damage(&verify(&*files, &good.2), &stranger, "does not know this segment");

    let files = fresh();
    let machine = MemFiles::new();
    copy_tree(&*files, &machine, &good.2);
    machine.fail_next(Fault::Open, &middle.to_string_lossy());
    assert_damage(&verify(&machine, &good.2), &middle, "it cannot be read");
}

fn first_frame_len(bytes: &[u8]) -> u64 {
    8 + u64::from(u32::from_le_bytes(*bytes.first_chunk().unwrap()))
}

fn copy_tree(from: &dyn Files, to: &dyn Files, dir: &Path) {
    to.create_dir(dir).unwrap();
    for entry in from.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            copy_tree(from, to, &path);
        } else {
            overwrite(to, &path, &content(from, &path));
        }
    }
}

/// The first segment of a partition with one frame put in place of its first one, and no checkpoint.
fn with_first_frame(change: impl FnOnce(&mut Vec<u8>)) -> (Report, PathBuf) {
    let (_, files, dir, orders) = memory();
    let partition = dir.join("topics").join(orders.id.to_string()).join("0");
    let path = segments(&*files, &partition)[0].0.clone();
    files.remove_file(&partition.join("checkpoint")).unwrap();
    let bytes = content(&*files, &path);
    let first = first_frame_len(&bytes) as usize;
    let mut batch = bytes[frame::HEADER_BYTES..first].to_vec();
    change(&mut batch);
    let mut changed = frame::encode(frame::KIND_BATCH, 1, &batch).to_vec();
    changed.extend_from_slice(&bytes[first..]);
    overwrite(&*files, &path, &changed);
    (verify(&*files, &dir), path)
}

#[test]
fn a_sound_frame_around_a_wrong_batch_is_found() {
    let (report, path) = with_first_frame(|batch| *batch.last_mut().unwrap() ^= 1);
    assert_damage(&report, &path, "CRC");
    assert_eq!(report.damage.kept()[0].position, Some(0));

    let (report, path) = with_first_frame(|batch| batch[..8].copy_from_slice(&5i64.to_be_bytes()));
    assert_damage(&report, &path, "offset 5 where 0 comes next");

    // Epoch 3 was a later run's, and 4 nobody's.
    let (report, path) = with_first_frame(|batch| batch[12..16].copy_from_slice(&3i32.to_be_bytes()));
    assert_damage(&report, &path, "leader epoch 1 after 3");
    let (report, path) = with_first_frame(|batch| batch[12..16].copy_from_slice(&4i32.to_be_bytes()));
    assert_damage(&report, &path, "leader epoch 4");

    let (report, path) = with_first_frame(|batch| ringgate_wire::records::set_max_timestamp(batch, 77));
    assert_damage(&report, &path, "the largest timestamp");

    // A record's length that leads past the batch, under a CRC that fits.
    let (report, path) = with_first_frame(|batch| {
        batch[61] = 0x7e;
        let max_timestamp = i64::from_be_bytes(*batch[35..].first_chunk().unwrap());
        ringgate_wire::records::set_max_timestamp(batch, max_timestamp);
    });
    assert_damage(&report, &path, "record 0 has");
    let (report, path) = with_first_frame(|batch| batch.truncate(40));
    assert_damage(&report, &path, "no record batch");
}

#[test]
fn an_index_that_lies_is_found_and_so_is_one_that_is_gone() {
    let (_, files, dir, orders) = memory();
    let partition = dir.join("topics").join(orders.id.to_string()).join("1");
    let index = segments(&*files, &partition)[0].0.with_extension("index");
    let good = content(&*files, &index);
    // An entry that could be: it grows, and leads into the middle of a frame.
    for (at, what) in [(0, "relative offset"), (4, "position"), (8, "timestamp")] {
        let mut bytes = good.to_vec();
        bytes[at] ^= 1;
        overwrite(&*files, &index, &bytes);
        assert_damage(&verify(&*files, &dir), &index, what);
    }
    overwrite(&*files, &index, &good[..good.len() - 1]);
    assert_damage(&verify(&*files, &dir), &index, "it ends here");
    files.remove_file(&index).unwrap();
    assert_damage(&verify(&*files, &dir), &index, "it is missing");
}

#[test]
fn damage_to_the_logs_of_groups_is_named() {
    let (_, files, dir, _) = memory();
    let shards = dir.join("layout-2");
    let log = |shard: u16, ending: &str| {
        let all = tree(&*files, &shards.join(format!("shard-{shard}")));
        all.into_iter().rev().find(|(path, _)| path.to_string_lossy().ends_with(ending)).unwrap().0
    };
    let (last, snapshot) = (log(0, ".log"), log(0, ".snapshot"));

    let bytes = content(&*files, &last);
    overwrite(&*files, &last, &bytes[..bytes.len() - 1]);
    assert_note(&verify(&*files, &dir), &last, "not finished");

    let mut changed = bytes.to_vec();
    changed.extend_from_slice(&frame::encode(frame::KIND_COORDINATOR + 3, 1, b"nonsense"));
    overwrite(&*files, &last, &changed);
    assert_damage(&verify(&*files, &dir), &last, "damaged record");

    // A record of a group that the other shard owns.
    let foreign = (0..10).find(|g| Route::new(2).group(&format!("group-{g}")).0 == 1).unwrap();
    let record = offset(foreign, 5);
    let mut changed = bytes.to_vec();
    changed.extend_from_slice(&frame::encode(frame::KIND_COORDINATOR + record.kind, record.version, &record.payload));
    overwrite(&*files, &last, &changed);
    let report = verify(&*files, &dir);
    assert_damage(&report, &last, "belongs to another shard");
    assert_eq!((report.coordinators[0].damage, report.coordinators[1].damage), (1, 0));
    overwrite(&*files, &last, &bytes);

    let whole = content(&*files, &snapshot);
    let end = frame::HEADER_BYTES + 8;
    overwrite(&*files, &snapshot, &whole[..whole.len() - end]);
    assert_damage(&verify(&*files, &dir), &snapshot, "it has no end");
    let mut changed = whole[first_frame_len(&whole) as usize..].to_vec();
    overwrite(&*files, &snapshot, &changed);
    assert_damage(&verify(&*files, &dir), &snapshot, "does not count");
    changed = whole.to_vec();
    changed.extend_from_slice(&whole[..first_frame_len(&whole) as usize]);
    overwrite(&*files, &snapshot, &changed);
    assert_damage(&verify(&*files, &dir), &snapshot, "something follows its end");
    overwrite(&*files, &snapshot, &whole);

    let next = last.with_file_name(format!("{:020}.log", 1000));
    overwrite(&*files, &next, b"");
    let report = verify(&*files, &dir);
    assert_eq!(report.damage.count(), 1);
    assert!(report.damage.kept()[0].what.contains("it is missing"), "{report:#?}");
    files.remove_file(&next).unwrap();

    files.remove_file(&snapshot).unwrap();
    assert_damage(&verify(&*files, &dir), &shards.join("shard-0"), "its snapshot is missing");
    files::remove_tree(&*files, &shards.join("shard-1")).unwrap();
    assert_damage(&verify(&*files, &dir), &shards.join("shard-1"), "it is missing");
}

#[test]
fn a_catalogue_that_contradicts_itself_is_found() {
    let machine = MemFiles::new();
    let files: Arc<dyn Files> = Arc::new(machine.clone());
    let dir = Path::new("/d");
    let (kept, twin) = (topic("kept", 2), topic("kept", 1));
    let strange = topic("strange", 0);
    let foreign = Topic { stream: 9, ..Topic::clone(&topic("foreign", 1)) }.into();
    let same_number = Topic { number: kept.number, ..Topic::clone(&topic("other", 1)) }.into();
    for (records, what) in [
        (vec![CatalogueRecord::Created(kept.clone())], ""),
        (vec![CatalogueRecord::Created(kept.clone())], "is created again"),
        (vec![CatalogueRecord::Deleted(twin.id)], "is deleted and does not exist"),
        (vec![CatalogueRecord::PartitionsAdded { topic: kept.id, partitions: 2 }], "from 2 to 2"),
        (vec![CatalogueRecord::PartitionsAdded { topic: twin.id, partitions: 2 }], "gets partitions and"),
        (vec![CatalogueRecord::ConfigChanged { topic: twin.id, config: Default::default() }], "gets settings and"),
        (vec![CatalogueRecord::Created(strange)], "has 0 partitions"),
        (vec![CatalogueRecord::StreamDeleted(7)], "stream 7 is deleted and does not exist"),
        (vec![CatalogueRecord::GroupDeleted { topic: kept.id, id: 1 }], "is deleted and does not exist"),
        (vec![CatalogueRecord::GroupIds { topic: twin.id, next: 1 }], "gets ids of consumer groups and"),
        (vec![CatalogueRecord::Created(foreign)], "is created in stream 9, which does not exist"),
        (vec![CatalogueRecord::Created(same_number)], "two topics have the number"),
        (vec![CatalogueRecord::Created(twin.clone())], "two topics have the name"),
    ] {
        let (_, mut catalogue, _) = parts(open(&files, dir, 1));
        catalogue.append(records).unwrap();
        catalogue.request_sync_and_settle();
        drop(catalogue);
        let report = verify(&machine, dir);
        match what {
            "" => assert!(report.is_clean(), "{report:#?}"),
            what => assert_damage(&report, &dir.join("catalogue-1.log"), what),
        }
    }
}

#[test]
fn leftovers_are_noted_and_are_no_damage() {
    let (_, files, dir, orders) = memory();
    let topic_dir = dir.join("topics").join(orders.id.to_string());
    for (at, what) in [
        (dir.join("MANIFEST.tmp"), "the next start removes it"),
        (dir.join("catalogue-9.log"), "MANIFEST does not name it"),
        (dir.join("notes.txt"), "not a file of ringgate's"),
        (dir.join("layout-2/shard-0/00000000000000000009.snapshot.tmp"), "the next start removes it"),
        (topic_dir.join("0/checkpoint.tmp"), "the next start removes it"),
        (topic_dir.join("0/readme"), "not a file of ringgate's"),
        (topic_dir.join("0/00000000000000009999.index"), "of a segment that does not exist"),
    ] {
        overwrite(&*files, &at, b"x");
        assert_note(&verify(&*files, &dir), &at, what);
    }
    let copy = dir.join("topics").join(uuid::Uuid::new_v4().to_string());
    for (at, what) in [
        (dir.join("layout-1"), "MANIFEST does not name it"),
        (copy, "of no topic in the catalogue"),
        (topic_dir.join("2"), "not a partition of its topic"),
        (topic_dir.join("0.deleted"), "not a partition of its topic"),
        (topic_dir.join("00"), "not a partition of its topic"),
    ] {
        files.create_dir(&at).unwrap();
        assert_note(&verify(&*files, &dir), &at, what);
    }
}

#[test]
fn the_password_of_iggys_user_is_no_leftover() {
    let (_, files, dir, _) = memory();
    overwrite(&*files, &dir.join("iggy-root-password"), b"hash");
    let report = verify(&*files, &dir);
    assert!(report.notes.kept().iter().all(|note| !note.path.ends_with("iggy-root-password")), "{report:#?}");
}

#[test]
fn a_crash_leaves_notes_at_most() {
    let machine = MemFiles::new();
    let files: Arc<dyn Files> = Arc::new(machine.clone());
    let dir = Path::new("/d");
    workload(&files, dir);
    // Another run, whose last batches and commits are not synced.
    let (engine, catalogue, mut logs) = parts(open(&files, dir, 2));
    let orders = engine.catalogue().topic("orders").unwrap().clone();
    let at = TopicPartition { topic: orders.id, partition: 0 };
    let mut log = engine.open_partition(at, &topic_config())().unwrap();
    for nth in 0..30 {
        append(&mut log, &batch(&[nth], &"v".repeat(nth as usize * 5), Some((7, 0, nth as i32))), false);
        settle(&mut log);
        let group = (0..10).find(|g| Route::new(2).group(&format!("group-{g}")).0 == 0).unwrap();
        logs[0].append(vec![offset(group, nth)]).unwrap();
        settle(&mut logs[0]);
    }
    let mut torn = 0;
    for seed in 0..200 {
        let report = verify(&machine.crash(seed), dir);
        assert!(report.is_clean(), "seed {seed}: {report:#?}");
        torn += report.notes.kept().iter().filter(|f| f.what.contains("not finished")).count();
    }
    assert!(torn > 0, "some of them tore a tail");
    drop((engine, catalogue, log, logs));
}

/// Appends, lets everything go by age, goes on behind that and deletes records, until the machine stops.
fn retention_until(stop_at: Option<u64>) -> MemFiles {
    let machine = MemFiles::new();
    let files: Arc<dyn Files> = Arc::new(machine.clone());
    let (engine, mut catalogue, _) = parts(open(&files, Path::new("/d"), 1));
    let orders = topic("orders", 1);
    catalogue.append(vec![CatalogueRecord::Created(orders.clone())]).unwrap();
    catalogue.request_sync_and_settle();
    let at = TopicPartition { topic: orders.id, partition: 0 };
    let mut log = engine.open_partition(at, &topic_config())().unwrap();
    if let Some(nth) = stop_at {
        machine.stop_at(machine.operations() + nth);
    }
    for round in 0..3 {
        for nth in 0..8 {
            let sent = batch(&[1000 * round + nth; 3], "value", None);
            // Refused once the log is closed, which it is when the machine has stopped.
            let _ = log.append(0, &sent.records, &sent.info, false);
            if nth % 3 == 0 {
                settle(&mut log);
            }
        }
        log.request_sync();
        settle(&mut log);
        if round < 2 {
            log.apply_retention(1_000_000, 1000, -1);
        } else {
            let _ = log.advance_log_start(log.high_watermark() - 4);
        }
        if round == 1 {
            settle(&mut log);
        }
    }
    settle(&mut log);
    machine
}

#[test]
fn records_that_went_by_age_or_request_leave_nothing_that_looks_like_damage() {
    let whole = retention_until(None);
    let report = verify(&whole, Path::new("/d"));
    assert!(report.is_clean() && report.notes.count() == 0, "{report:#?}");
    assert!((4..24).contains(&report.topics[0].holds.records), "{report:#?}");
    for nth in 1.. {
        let stopped = retention_until(Some(nth));
        for seed in 0..3 {
            let report = verify(&stopped.crash(seed), Path::new("/d"));
            assert!(report.is_clean(), "stopped at {nth}, seed {seed}: {report:#?}");
        }
        if !stopped.is_stopped() {
            assert!(nth > 50, "the workload does something: {nth}");
            break;
        }
    }
}

#[test]
fn a_length_that_lies_far_costs_a_finding() {
    let (_, files, dir, orders) = memory();
    let partition = dir.join("topics").join(orders.id.to_string()).join("0");
    let (path, _) = segments(&*files, &partition)[0].clone();
    let mut bytes = content(&*files, &path).to_vec();
    bytes[..4].copy_from_slice(&(17u32 << 20).to_le_bytes());
    bytes.resize(18 << 20, 0);
    overwrite(&*files, &path, &bytes);
    let report = verify(&*files, &dir);
    assert_damage(&report, &path, "no whole frame");
    assert_eq!(report.damage.kept()[0].position, Some(0));
}

#[test]
fn what_cannot_be_looked_through_is_refused() {
    on_both(|files, dir| {
        let look = |dir: &Path| super::super::verify::verify(&*files, dir, crate::describe);
        assert!(matches!(look(&dir.join("nowhere")), Err(VerifyError::Unreadable { .. })));
        let empty = dir.join("empty");
        files.create_dir(&empty).unwrap();
        assert!(matches!(look(&empty), Err(VerifyError::NoStore { .. })));
        assert_eq!(files.list(&empty).unwrap(), [], "not even a lock is left");
        files.create_dir(&empty.join("topics")).unwrap();
        assert!(matches!(look(&empty), Err(VerifyError::NoStore { .. })), "of a start that did not get far");

        let data = dir.join("data");
        let opened = open(&files, &data, 1);
        let error = look(&data).unwrap_err();
        let me = format!("process {}", std::process::id());
        assert!(matches!(error, VerifyError::Refused(OpenError::InUse { .. })), "{error}");
        assert!(error.to_string().contains(&me), "{error}");
        drop(opened);
        assert!(look(&data).unwrap().is_clean());
        open(&files, &data, 2);

        overwrite(&*files, &data.join("MANIFEST"), b"ringgate-format 99\n");
        assert!(matches!(look(&data), Err(VerifyError::Refused(OpenError::NewerFormat { found: 99, .. }))));
        files.remove_file(&data.join("MANIFEST")).unwrap();
        assert_damage(&look(&data).unwrap(), &data.join("MANIFEST"), "it is missing");
    });
}

#[test]
fn findings_are_counted_past_the_number_that_is_kept() {
    let (_, files, dir, _) = memory();
    for nth in 0..1100 {
        overwrite(&*files, &dir.join(format!("stray-{nth}")), b"");
    }
    let notes = verify(&*files, &dir).notes;
    assert_eq!((notes.kept().len(), notes.count()), (1000, 1101));
}
