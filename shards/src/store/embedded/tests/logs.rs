//! The logs of the catalogue and the coordinator, and the start over both.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use ringgate_group::Record;
use ringgate_group::record::{OffsetKey, OffsetValue};
use ringgate_group::route::Route;
use uuid::Uuid;

use super::{batch, content, on_both, settle};
use crate::call::TopicPartition;
use crate::catalogue::{ConsumerGroup, KAFKA, KAFKA_NAME, Stream, Topic};
use crate::log_driver::JobLog;
use crate::store::embedded::catalogue_log::{CatalogueLog, CatalogueRecord};
use crate::store::embedded::coordinator_log::{CoordinatorLog, CoordinatorLogConfig, LogRecord};
use crate::store::embedded::data_dir::{DataDir, Manifest, OpenError};
use crate::store::embedded::files::{Fault, Files, MemFiles, Open, replace};
use crate::store::embedded::{Engine, EngineConfig, Opened};
use crate::topic_config::TopicConfig;
use crate::topic_config::TopicDefaults;

pub(super) fn topic(name: &str, partitions: i32) -> Arc<Topic> {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let topic = Topic::new(Uuid::new_v4(), number, (KAFKA, KAFKA_NAME), name.into());
    Arc::new(Topic { partitions, created_at_ms: 1, ..topic })
}

pub(super) fn topic_config() -> TopicConfig {
    TopicConfig::defaults(TopicDefaults {
        segment_bytes: 700,
        max_message_bytes: 1 << 20,
        retention_ms: -1,
        retention_bytes: -1,
    })
}

fn key(group: usize, partition: i32) -> OffsetKey {
    OffsetKey { group_id: text(&format!("group-{group}")), topic: text("orders"), partition }
}

fn text(text: &str) -> ringgate_group::Text {
    ringgate_group::Text::from_utf8(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// A committed offset of one of some groups.
pub(super) fn offset(group: usize, offset: i64) -> LogRecord {
    let value = OffsetValue {
        offset,
        leader_epoch: -1,
        metadata: text("as sent"),
        commit_timestamp_ms: 5,
        topic_id: 7,
        expire_timestamp_ms: -1,
    };
    kept(&Record::Offset { key: key(group, 0), value })
}

/// Its end.
pub(super) fn tombstone(group: usize) -> LogRecord {
    kept(&Record::OffsetTombstone { key: key(group, 0) })
}

fn kept(record: &Record) -> LogRecord {
    let mut payload = Vec::new();
    record.encode(&mut payload);
    LogRecord { kind: record.kind(), version: record.version(), payload: payload.into() }
}

/// The offsets by group.
pub(super) fn offsets<'a>(records: impl IntoIterator<Item = &'a LogRecord>) -> BTreeMap<String, i64> {
    let offset = |record: &LogRecord| match Record::decode(record.kind, record.version, &record.payload).unwrap() {
        Record::Offset { key, value } => (key.group_id.as_str().to_string(), value.offset),
        other => panic!("{other:?}"),
    };
    records.into_iter().map(offset).collect()
}

/// Small files.
pub(super) fn config(shards: u16) -> EngineConfig {
    EngineConfig {
        coordinator: CoordinatorLogConfig { file_bytes: 300, files: 2 },
        partition: super::small(),
        ..EngineConfig::new(shards, crate::describe)
    }
}

pub(super) fn open(files: &Arc<dyn Files>, dir: &Path, shards: u16) -> Opened {
    Engine::open(files.clone(), dir, config(shards)).unwrap()
}

pub(super) fn parts(opened: Opened) -> (Engine, CatalogueLog, Vec<CoordinatorLog>) {
    let mut catalogue = None;
    let mut coordinators = Vec::new();
    for store in opened.stores {
        let (coordinator, of_controller) = store.into_parts();
        coordinators.push(coordinator);
        catalogue = catalogue.or(of_controller);
    }
    (opened.engine, catalogue.unwrap(), coordinators)
}

fn recovered(coordinators: &mut [CoordinatorLog]) -> BTreeMap<String, i64> {
    coordinators.iter_mut().flat_map(|log| offsets(&log.take_recovered())).collect()
}

#[test]
fn each_start_has_a_higher_epoch_and_the_same_cluster_id() {
    on_both(|files, dir| {
        let dir = dir.join("data/deep");
        let mut cluster_id = None;
        for nth in 1..4 {
            let opened = open(&files, &dir, 2);
            assert_eq!((opened.engine.leader_epoch(), opened.report.is_new), (nth, nth == 1));
            let id = opened.engine.cluster_id().to_string();
            assert_eq!(*cluster_id.get_or_insert(id.clone()), id);
        }
    });
}

#[test]
fn two_processes_cannot_have_one_directory() {
    on_both(|files, dir| {
        let first = open(&files, dir, 1);
        let error = Engine::open(files.clone(), dir, config(1)).err().unwrap();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        drop(first);
        open(&files, dir, 1);
    });
}

#[test]
fn without_its_manifest_a_directory_with_data_is_not_taken_for_a_new_one() {
    on_both(|files, dir| {
        let (_, mut catalogue, _) = parts(open(&files, dir, 1));
        catalogue.append(vec![CatalogueRecord::Created(topic("a", 1))]).unwrap();
        settle(&mut catalogue);
        drop(catalogue);
        for _ in 0..2 {
            open(&files, dir, 2);
        }
        files.remove_file(&dir.join("MANIFEST")).unwrap();
        assert!(matches!(Engine::open(files.clone(), dir, config(1)), Err(OpenError::NotOurs { .. })));
    });
}

#[test]
fn the_last_record_of_a_key_survives_rolls_snapshots_and_other_numbers_of_shards() {
    on_both(|files, dir| {
        let mut expected = BTreeMap::new();
        for (round, shards) in [1, 3, 3, 2, 5, 1].into_iter().enumerate() {
            let route = Route::new(shards);
            let (_engine, _catalogue, mut logs) = parts(open(&files, dir, shards));
            assert_eq!(recovered(&mut logs), expected, "start {round}");
            for nth in 0..120 {
                let group = (nth * 7 + round) % 10;
                let name = format!("group-{group}");
                let log = &mut logs[usize::from(route.group(&name).0)];
                let value = (round * 1000 + nth) as i64;
                let record = match nth % 11 {
                    10 => {
                        expected.remove(&name);
                        tombstone(group)
                    }
                    _ => {
                        expected.insert(name, value);
                        offset(group, value)
                    }
                };
                let end = log.append(vec![record]).unwrap();
                log.request_sync();
                settle(log);
                assert_eq!(log.durable(), end);
            }
        }
        let layouts = files.list(dir).unwrap().into_iter().filter(|e| e.name.starts_with("layout-")).count();
        assert_eq!(layouts, 1, "earlier layouts are removed");
        let shard = dir.join("layout-5/shard-0");
        let names: Vec<String> = files.list(&shard).unwrap().into_iter().map(|e| e.name).collect();
        assert!(names.iter().any(|n| n.ends_with(".snapshot")), "{names:?}");
        assert!(names.len() < 8, "a snapshot stands for the files before it: {names:?}");
    });
}

#[test]
fn a_failed_write_closes_one_shards_log_and_no_other() {
    let machine = MemFiles::new();
    let files: Arc<dyn Files> = Arc::new(machine.clone());
    let (_, mut catalogue, mut logs) = parts(open(&files, Path::new("/d"), 2));
    for (fault, shard) in [(Fault::Write, 0), (Fault::Sync, 1)] {
        machine.fail_next(fault, &format!("shard-{shard}"));
        let log = &mut logs[shard];
        let end = log.append(vec![offset(1, 5)]).unwrap();
        log.request_sync();
        settle(log);
        assert!(log.is_closed() && log.durable() < end);
        assert!(log.append(vec![offset(1, 6)]).unwrap_err().contains("closed"));
        catalogue.append(vec![CatalogueRecord::Created(topic(&format!("t{shard}"), 1))]).unwrap();
        settle(&mut catalogue);
        assert!(!catalogue.is_closed());
    }
}

#[test]
fn a_deleted_topics_files_go_and_other_topics_stay() {
    on_both(|files, dir| {
        let (engine, mut catalogue, _) = parts(open(&files, dir, 1));
        let topics = [topic("kept", 2), topic("deleted", 2), topic("left behind", 1)];
        catalogue.append(topics.iter().map(|t| CatalogueRecord::Created(t.clone())).collect()).unwrap();
        settle(&mut catalogue);
        for topic in &topics {
            for partition in 0..topic.partitions {
                let at = TopicPartition { topic: topic.id, partition };
                let mut log = engine.open_partition(at, &topic_config())().unwrap();
                let sent = batch(&[1], &topic.name, None);
                log.append(0, &sent.records, &sent.info, false).unwrap();
                settle(&mut log);
            }
        }
        let gone = topics[1..].iter().map(|t| CatalogueRecord::Deleted(t.id)).collect();
        catalogue.append(gone).unwrap();
        settle(&mut catalogue);
        for partition in 0..2 {
            engine.remove_partition(TopicPartition { topic: topics[1].id, partition })().unwrap();
        }
        let left = |files: &dyn Files| -> Vec<String> {
            files.list(&dir.join("topics")).unwrap().into_iter().map(|e| e.name).collect()
        };
        assert_eq!(left(&*files).len(), 2);
        drop((engine, catalogue));
        let engine = parts(open(&files, dir, 1)).0;
        assert_eq!(left(&*files), [topics[0].id.to_string()]);
        assert_eq!(engine.catalogue().topics().map(|t| t.name.to_string()).collect::<Vec<_>>(), ["kept"]);
        let at = TopicPartition { topic: topics[0].id, partition: 1 };
        assert_eq!(content(&engine.open_partition(at, &topic_config())().unwrap()).len(), 1);
    });
}

#[test]
fn a_catalogue_that_is_mostly_of_the_past_is_written_anew() {
    on_both(|files, dir| {
        let (_, mut catalogue, _) = parts(open(&files, dir, 1));
        let kept = topic("kept", 3);
        catalogue.append(vec![CatalogueRecord::Created(kept.clone())]).unwrap();
        for nth in 0..501 {
            let topic = topic(&format!("t{nth}"), 1);
            let id = topic.id;
            catalogue.append(vec![CatalogueRecord::Created(topic), CatalogueRecord::Deleted(id)]).unwrap();
        }
        settle(&mut catalogue);
        drop(catalogue);
        for _ in 0..2 {
            let opened = open(&files, dir, 1);
            assert_eq!(opened.engine.catalogue().topic("kept"), Some(&kept));
            let len = files.open(&dir.join("catalogue-2.log"), Open::Read).unwrap().len().unwrap();
            assert!(len < 200, "{len}");
            assert!(files.open(&dir.join("catalogue-1.log"), Open::Read).is_err());
        }
    });
}

#[test]
fn streams_groups_and_numbers_are_there_again_after_a_start() {
    on_both(|files, dir| {
        let (engine, mut catalogue, _) = parts(open(&files, dir, 1));
        let number = engine.catalogue().next_stream();
        let stream = Arc::new(Stream { number, name: "lab".into(), created_at_ms: 3 });
        let runs = Arc::new(Topic::new(Uuid::new_v4(), 5, (number, "lab"), "runs".into()));
        let group = |id, name: &str| {
            let group = Arc::new(ConsumerGroup { id, name: name.into(), created_at_ms: 4 });
            CatalogueRecord::GroupCreated { topic: runs.id, group }
        };
        let records = vec![
            CatalogueRecord::StreamCreated(stream.clone()),
            CatalogueRecord::Created(runs.clone()),
            group(1, "kept"),
            group(2, "gone"),
            CatalogueRecord::GroupDeleted { topic: runs.id, id: 2 },
        ];
        let expected = engine.catalogue().with(&records);
        catalogue.append(records).unwrap();
        settle(&mut catalogue);
        drop((engine, catalogue));
        let found = open(&files, dir, 1).engine.catalogue();
        assert_eq!(found.records(), expected.records());
        assert_eq!((found.stream_named("lab"), found.any_topic(runs.id)), (Some(&stream), Some(&runs)));
        assert_eq!((found.groups(runs.id).next(), found.groups(runs.id).named("gone")), (3, None));
        assert!(found.stream(KAFKA).is_some_and(|kafka| kafka.created_at_ms > 0));
    });
}

#[test]
fn topics_of_a_directory_of_format_1_get_numbers_that_stay() {
    on_both(|files, dir| {
        drop(open(&files, dir, 1));
        let old = [topic("zebra", 1), topic("gone", 1), topic("ant", 2)];
        let mut records: Vec<_> = old.iter().map(|t| CatalogueRecord::Unnumbered(t.clone()).encode()).collect();
        records.push(CatalogueRecord::Deleted(old[1].id).encode());
        let path = dir.join("catalogue-1.log");
        files.open(&path, Open::Empty).unwrap().write_at(0, &records).unwrap();
        let manifest = DataDir::manifest(&*files, dir).unwrap().unwrap();
        let manifest = Manifest { format: 1, ..manifest };
        replace(&*files, &dir.join("MANIFEST"), manifest.to_string().into()).unwrap();

        let numbers = || -> Vec<(String, u32)> {
            let catalogue = open(&files, dir, 1).engine.catalogue();
            catalogue.topics().map(|t| (t.name.to_string(), t.number)).collect()
        };
        assert_eq!(numbers(), [("ant".into(), 2), ("zebra".into(), 0)]);
        let (_, mut catalogue, _) = parts(open(&files, dir, 1));
        catalogue.append(vec![CatalogueRecord::Deleted(old[0].id)]).unwrap();
        settle(&mut catalogue);
        drop(catalogue);
        assert_eq!(numbers(), [("ant".into(), 2)], "they are in the file now");
        assert_eq!(DataDir::manifest(&*files, dir).unwrap().unwrap().format, 2);
    });
}

#[test]
fn a_log_of_groups_that_is_damaged_is_refused() {
    let machine = MemFiles::new();
    let files: Arc<dyn Files> = Arc::new(machine.clone());
    let (engine, _, mut logs) = parts(open(&files, Path::new("/d"), 1));
    for value in 0..3 {
        logs[0].append(vec![offset(1, value)]).unwrap();
    }
    settle(&mut logs[0]);
    drop((engine, logs));
    machine.flip_bit(Path::new("/d/layout-1/shard-0/00000000000000000000.log"), 30);
    let error = Engine::open(files.clone(), Path::new("/d"), config(1)).err().unwrap();
    assert!(error.to_string().contains("shard-0/00000000000000000000.log is damaged"), "{error}");
}

#[test]
fn what_waits_for_the_disk_is_written_and_synced_by_one_job() {
    on_both(|files, dir| {
        let (_, mut catalogue, mut coordinators) = parts(open(&files, dir, 1));
        let log = &mut coordinators[0];
        let durable = log.append(vec![offset(1, 5)]).unwrap();
        log.request_sync();
        let job = log.poll_job().expect("it is due");
        let later = log.append(vec![offset(1, 6), offset(2, 1)]).unwrap();
        log.request_sync();
        assert!(log.poll_job().is_none(), "a file is never synced twice at once");
        log.handle_done(CoordinatorLog::run(job));
        assert_eq!((log.written(), log.durable()), (durable, durable));
        let job = log.poll_job().expect("what gathered is due");
        log.handle_done(CoordinatorLog::run(job));
        assert_eq!((log.durable(), log.poll_job().is_none()), (later, true));
        // Where nobody waits for the disk, nothing is synced.
        let written = log.append(vec![offset(3, 1)]).unwrap();
        let job = log.poll_job().expect("it is due");
        log.handle_done(CoordinatorLog::run(job));
        assert_eq!((log.written(), log.durable(), log.poll_job().is_none()), (written, later, true));

        let durable = catalogue.append(vec![CatalogueRecord::Created(topic("a", 1))]).unwrap();
        catalogue.request_sync();
        let job = catalogue.poll_job().expect("it is due");
        catalogue.handle_done(CatalogueLog::run(job));
        assert_eq!((catalogue.durable(), catalogue.poll_job().is_none()), (durable, true));
    });
}
