//! A seeded workload over the whole store on a machine that stops at each of its operations. Whatever the
//! machine then finds, the store must hold all that was acknowledged as durable, and beyond that nothing
//! but an unbroken rest of what was appended.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ringgate_group::route::Route;
use ringgate_wire::iggy::BATCH_HEADER_BYTES;
use uuid::Uuid;

use super::logs::{config, offset, offsets, parts, tombstone, topic, topic_config};
use super::{Message, Sent, batch, content, messages};
use crate::call::TopicPartition;
use crate::catalogue::Topic;
use crate::log_driver::JobLog;
use crate::store::embedded::catalogue_log::{CatalogueLog, CatalogueRecord};
use crate::store::embedded::coordinator_log::CoordinatorLog;
use crate::store::embedded::files::{Files, MemFiles};
use crate::store::embedded::partition::PartitionLog;
use crate::store::embedded::verify::{VerifyError, verify};
use crate::store::embedded::{Engine, Opened};

const DIR: &str = "/srv/data";
const GROUPS: usize = 6;

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// A log with the jobs that are out, which end in any order.
struct Driven<L: JobLog> {
    log: L,
    out: Vec<L::Job>,
}

impl<L: JobLog> Driven<L> {
    fn new(log: L) -> Self {
        Driven { log, out: Vec::new() }
    }

    /// Takes out what may be done and does one of the jobs that are out, if the dice say so.
    fn step(&mut self, chance: &mut Chance) {
        while let Some(job) = self.log.poll_job() {
            self.out.push(job);
        }
        if !self.out.is_empty() && chance.below(3) > 0 {
            let job = self.out.swap_remove(chance.below(self.out.len()));
            self.log.handle_done(L::run(job));
        }
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        super::settle_with(&mut self.log, std::mem::take(&mut self.out));
    }
}

/// What one partition must hold.
#[derive(Default, Clone)]
struct PartitionModel {
    /// Base offset, last offset and the bytes behind the header of each batch.
    appended: Vec<(i64, i64, Bytes)>,
    /// The end of what was reported durable.
    durable: i64,
    /// Of each producer: what was sent, and where it went.
    sent: HashMap<i64, Vec<(Sent, i64)>>,
    /// And of that one of Iggy's.
    sent_messages: Vec<(Message, i64)>,
}

/// What one shard's log of offsets must hold: `base`, then some of the history, at least `durable` of it.
#[derive(Default, Clone)]
struct OffsetsModel {
    base: BTreeMap<String, i64>,
    history: Vec<(String, Option<i64>)>,
    durable: u64,
}

#[derive(Default, Clone)]
struct Model {
    /// Creation and deletion, each with whether it was reported durable.
    topics: HashMap<Uuid, (Arc<Topic>, bool)>,
    deleted: HashMap<Uuid, bool>,
    partitions: HashMap<TopicPartition, PartitionModel>,
    shards: u16,
    offsets: Vec<OffsetsModel>,
    starts: i32,
}

struct World {
    engine: Engine,
    catalogue: Driven<CatalogueLog>,
    coordinators: Vec<Driven<CoordinatorLog>>,
    partitions: BTreeMap<TopicPartition, Driven<PartitionLog>>,
    model: Model,
    next: i64,
}

/// What a crash leaves is nothing that a look through the directory takes for damage.
fn look_through(files: &MemFiles) {
    match verify(files, Path::new(DIR), crate::describe) {
        Ok(report) => assert!(report.is_clean(), "{report:#?}"),
        Err(VerifyError::Unreadable { .. } | VerifyError::NoStore { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Starts the store and holds what it has against what it must have.
fn start(files: &MemFiles, shards: u16, mut model: Model) -> Option<World> {
    let dyn_files: Arc<dyn Files> = Arc::new(files.clone());
    let opened = Engine::open(dyn_files, Path::new(DIR), config(shards));
    let opened: Opened = match opened {
        Ok(opened) => opened,
        Err(_) if files.is_stopped() => return None,
        Err(error) => panic!("the store does not start: {error}"),
    };
    let (engine, catalogue, mut coordinators) = parts(opened);
    assert!(
        engine.leader_epoch() > model.starts,
        "an epoch is used once: {} after {}",
        engine.leader_epoch(),
        model.starts
    );
    model.starts = engine.leader_epoch();

    let there = engine.catalogue();
    for (id, (topic, durable)) in std::mem::take(&mut model.topics) {
        let deleted = model.deleted.get(&id).copied();
        match there.topic_by_id(id) {
            Some(found) => {
                assert_eq!(*found, topic);
                assert_ne!(deleted, Some(true), "a deleted topic is back");
                model.topics.insert(id, (topic, true));
            }
            None => {
                assert!(!durable || deleted.is_some(), "a topic is lost");
                model.partitions.retain(|at, _| at.topic != id);
            }
        }
    }
    model.deleted.clear();
    assert_eq!(there.topics().count(), model.topics.len());

    let mut found = BTreeMap::new();
    for log in &mut coordinators {
        found.extend(offsets(&log.take_recovered()));
    }
    let old = Route::new(model.shards.max(1));
    for (shard, expected) in model.offsets.iter().enumerate() {
        let found: BTreeMap<_, _> =
            found.iter().filter(|(g, _)| usize::from(old.group(g).0) == shard).map(|(g, o)| (g.clone(), *o)).collect();
        let mut state = expected.base.clone();
        let mut fits = expected.durable == 0 && state == found;
        for (nth, (group, value)) in expected.history.iter().enumerate() {
            match value {
                Some(value) => state.insert(group.clone(), *value),
                None => state.remove(group),
            };
            fits |= nth as u64 + 1 >= expected.durable && state == found;
        }
        assert!(fits, "shard {shard} has {found:?}, durable were {} of {:?}", expected.durable, expected.history);
    }
    let route = Route::new(shards);
    model.shards = shards;
    model.offsets = vec![OffsetsModel::default(); usize::from(shards)];
    for (group, value) in found {
        model.offsets[usize::from(route.group(&group).0)].base.insert(group, value);
    }

    let mut world = World {
        engine,
        catalogue: Driven::new(catalogue),
        coordinators: coordinators.into_iter().map(Driven::new).collect(),
        partitions: BTreeMap::new(),
        model,
        next: 0,
    };
    for topic in there.topics() {
        for partition in 0..topic.partitions {
            let at = TopicPartition { topic: topic.id, partition };
            match world.engine.open_partition(at, &topic_config())() {
                Ok(log) => world.check_partition(at, log),
                Err(_) if files.is_stopped() => return None,
                Err(error) => panic!("a partition does not open: {error}"),
            }
        }
    }
    Some(world)
}

impl World {
    fn check_partition(&mut self, at: TopicPartition, mut log: PartitionLog) {
        let model = self.model.partitions.entry(at).or_default();
        assert!(log.end_offset() >= model.durable, "durable to {}, found {}", model.durable, log.end_offset());
        let found = content(&log);
        assert!(found.len() <= model.appended.len(), "more than there ever was");
        assert_eq!(found, model.appended[..found.len()]);
        assert_eq!(log.durable_end(), log.end_offset(), "what is served after a start is on disk");
        model.appended.truncate(found.len());
        model.durable = log.end_offset();
        for sent in model.sent.values_mut() {
            sent.retain(|(_, base)| *base < model.durable);
            // The producer tries its last batch again.
            if let Some((batch, base)) = sent.last() {
                let again = log.append(0, &batch.records, &batch.info, false).unwrap();
                assert_eq!((again.base_offset, again.duplicate), (*base, true));
            }
        }
        model.sent_messages.retain(|(_, base)| *base < model.durable);
        if let Some((sent, base)) = model.sent_messages.last() {
            let again = log.append_iggy(0, &sent.batch, &sent.info, 0).unwrap();
            assert_eq!((again.base_offset, again.duplicate), (*base, true));
        }
        self.partitions.insert(at, Driven::new(log));
    }

    /// One thing that clients do, or some progress of the files.
    fn step(&mut self, chance: &mut Chance) {
        match chance.below(40) {
            0 | 1 if self.model.topics.len() < 4 => {
                let topic = topic(
                    &format!("topic-{}", self.model.starts * 1000 + self.next as i32),
                    1 + chance.below(2) as i32,
                );
                self.next += 1;
                self.model.topics.insert(topic.id, (topic.clone(), false));
                let Ok(end) = self.catalogue.log.append(vec![CatalogueRecord::Created(topic.clone())]) else { return };
                self.catalogue.log.request_sync();
                self.catalogue.settle();
                if self.catalogue.log.durable() < end {
                    return;
                }
                self.model.topics.insert(topic.id, (topic.clone(), true));
                for partition in 0..topic.partitions {
                    let at = TopicPartition { topic: topic.id, partition };
                    let Ok(log) = self.engine.open_partition(at, &topic_config())() else { return };
                    self.check_partition(at, log);
                }
            }
            2 if self.model.topics.len() > 2 && !self.partitions.is_empty() => {
                let ids: Vec<Uuid> = self.partitions.keys().map(|at| at.topic).collect();
                let id = ids[chance.below(ids.len())];
                self.model.deleted.insert(id, false);
                let Ok(end) = self.catalogue.log.append(vec![CatalogueRecord::Deleted(id)]) else { return };
                self.catalogue.log.request_sync();
                self.catalogue.settle();
                if self.catalogue.log.durable() < end {
                    return;
                }
                self.model.deleted.insert(id, true);
                for at in self.partitions.keys().filter(|at| at.topic == id).copied().collect::<Vec<_>>() {
                    self.partitions.get_mut(&at).unwrap().settle();
                    self.partitions.remove(&at);
                    self.model.partitions.remove(&at);
                    let _ = self.engine.remove_partition(at)();
                }
                self.model.topics.get_mut(&id).unwrap().1 = true;
            }
            3..12 => self.commit(chance),
            _ => self.produce(chance),
        }
        self.progress(chance);
    }

    fn produce(&mut self, chance: &mut Chance) {
        let Some(at) = self.partitions.keys().nth(chance.below(self.partitions.len().max(1))).copied() else { return };
        let driven = self.partitions.get_mut(&at).unwrap();
        let model = self.model.partitions.get_mut(&at).unwrap();
        if driven.log.is_closed() {
            return;
        }
        self.next += 1;
        if chance.below(3) == 0 {
            let payload = format!("{} {}", self.next, "y".repeat(chance.below(90)));
            let sequence = model.sent_messages.last().map_or(0, |(sent, _)| {
                let header = sent.info.header;
                header.producer.map_or(0, |producer| producer.base_sequence) + header.messages
            });
            let sent = messages(&vec![self.next as u64; 1 + chance.below(3)], &payload, Some((1, 0, sequence)));
            let appended = driven.log.append_iggy(0, &sent.batch, &sent.info, 0).unwrap();
            assert_eq!(appended.base_offset, model.appended.last().map_or(0, |(_, last, _)| last + 1));
            let frames = sent.batch.slice(BATCH_HEADER_BYTES..);
            model.appended.push((appended.base_offset, appended.last_offset, frames));
            model.sent_messages.push((sent, appended.base_offset));
            return;
        }
        let producer = chance.below(3) as i64 - 1;
        let records = 1 + chance.below(3);
        let value = format!("{} {}", self.next, "x".repeat(chance.below(90)));
        let next_sequence = model
            .sent
            .get(&producer)
            .map_or(0, |s| s.last().map_or(0, |(b, _)| b.info.header.base_sequence + b.info.header.records));
        let idempotent = (producer >= 0).then_some((producer, 0, next_sequence));
        let sent = batch(&vec![self.next; records], &value, idempotent);
        let appended = driven.log.append(0, &sent.records, &sent.info, false).unwrap();
        assert!(!appended.duplicate);
        assert_eq!(appended.base_offset, model.appended.last().map_or(0, |(_, last, _)| last + 1));
        model.appended.push((appended.base_offset, appended.last_offset, sent.records.slice(61..)));
        if producer >= 0 {
            model.sent.entry(producer).or_default().push((sent, appended.base_offset));
        }
        if chance.below(2) == 0 {
            driven.log.request_sync();
        }
    }

    fn commit(&mut self, chance: &mut Chance) {
        self.next += 1;
        let group = chance.below(GROUPS);
        let name = format!("group-{group}");
        let shard = usize::from(Route::new(self.model.shards).group(&name).0);
        let (record, value) = match chance.below(5) {
            0 => (tombstone(group), None),
            _ => (offset(group, self.next), Some(self.next)),
        };
        let log = &mut self.coordinators[shard].log;
        if log.append(vec![record]).is_ok() {
            self.model.offsets[shard].history.push((name, value));
            if chance.below(3) > 0 {
                log.request_sync();
            }
        }
    }

    fn progress(&mut self, chance: &mut Chance) {
        for (shard, driven) in self.coordinators.iter_mut().enumerate() {
            driven.step(chance);
            self.model.offsets[shard].durable = driven.log.durable();
        }
        for (at, driven) in &mut self.partitions {
            driven.step(chance);
            let model = self.model.partitions.get_mut(at).unwrap();
            let log = &driven.log;
            assert!(model.durable <= log.durable_end() && log.durable_end() <= log.high_watermark());
            model.durable = log.durable_end();
        }
    }

    /// An orderly stop.
    fn stop(mut self) -> Model {
        for (at, driven) in &mut self.partitions {
            driven.log.request_sync();
            driven.log.request_checkpoint();
            driven.settle();
            self.model.partitions.get_mut(at).unwrap().durable = driven.log.durable_end();
        }
        for (shard, driven) in self.coordinators.iter_mut().enumerate() {
            driven.log.request_sync();
            driven.settle();
            self.model.offsets[shard].durable = driven.log.durable();
        }
        self.model
    }
}

/// Two runs with another number of shards, the first of which ends as the dice say.
fn workload(files: &MemFiles, seed: u64, model: Model) -> Model {
    let mut chance = Chance(seed);
    let mut model = model;
    for _ in 0..2 {
        let shards = 1 + chance.below(3) as u16;
        let before = model.clone();
        let Some(mut world) = start(files, shards, model) else { return before };
        for _ in 0..60 {
            world.step(&mut chance);
            if files.is_stopped() {
                return world.model;
            }
        }
        // Otherwise the process is killed: what it had not written is lost, the machine goes on.
        model = if chance.below(2) == 0 { world.stop() } else { world.model };
    }
    model
}

fn crash_at(seed: u64, nth: u64) {
    let files = MemFiles::new();
    files.stop_at(nth);
    let model = workload(&files, seed, Model::default());
    let after = files.crash(seed ^ nth);
    look_through(&after);
    // Whatever was found is as durable as what was acknowledged, so a second crash loses none of it.
    let mut chance = Chance(nth);
    let shards = 1 + chance.below(3) as u16;
    let mut world = start(&after, shards, model).expect("this machine does not stop");
    for _ in 0..15 {
        world.step(&mut chance);
    }
    let model = world.model.clone();
    drop(world);
    let again = after.crash(nth);
    look_through(&again);
    start(&again, 2, model).expect("nor this one");
}

/// The process is killed in the middle of an operation, another one goes on, and then the power goes.
fn kill_at(seed: u64, nth: u64) {
    let files = MemFiles::new();
    files.stop_at(nth);
    let model = workload(&files, seed, Model::default());
    files.restart_process();
    look_through(&files);
    let mut chance = Chance(nth);
    let mut world = start(&files, 1 + chance.below(3) as u16, model).expect("the machine goes on");
    for _ in 0..15 {
        world.step(&mut chance);
    }
    let model = world.model.clone();
    let after = files.crash(seed ^ nth);
    drop(world);
    start(&after, 2, model).expect("this machine does not stop");
}

fn operations_of(seed: u64) -> u64 {
    let files = MemFiles::new();
    workload(&files, seed, Model::default());
    files.operations()
}

#[test]
fn a_crash_at_every_operation_keeps_what_was_acknowledged() {
    let operations = operations_of(1);
    assert!(operations > 200, "the workload does something: {operations}");
    for nth in 1..=operations {
        crash_at(1, nth);
    }
}

#[test]
fn a_process_killed_at_every_operation_leaves_what_its_successor_can_stand_on() {
    for nth in 1..=operations_of(1) {
        kill_at(1, nth);
    }
}

#[test]
fn so_do_crashes_of_other_workloads() {
    for seed in 2..20 {
        let operations = operations_of(seed);
        for nth in (1 + seed % 17..=operations).step_by(37) {
            crash_at(seed, nth);
            kill_at(seed, nth + 1);
        }
    }
}
