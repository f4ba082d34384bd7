//! Shard 0 alone: changes of the catalogue, one after the other.
//!
//! A change is durable first, then every shard opens what it owns of it, then every shard shows it to
//! clients, then it is answered. So no client sees a topic that some shard cannot serve yet, and a crash
//! in between leaves either the old catalogue or the new one.

mod iggy;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use uuid::Uuid;

use crate::call::{
    AlterConfigsCall, CatalogueCall, CreatePartitionsCall, CreateTopicsCall, DeleteTopicsCall, TopicResult,
};
use crate::catalogue::{Catalogue, KAFKA, KAFKA_NAME, NewTopic, Topic};
use crate::log_driver::LogDriver;
use crate::open_files::OpenFiles;
use crate::store::embedded::catalogue_log::{CatalogueLog, CatalogueRecord};
use crate::topic_config::ConfigChange;
use crate::{Shard, ShardHandle};

/// The shard that owns the catalogue.
pub const CONTROLLER: ShardId = ShardId(0);

/// The catalogue's owner.
pub struct Controller {
    log: Rc<LogDriver<CatalogueLog>>,
    /// The newest catalogue that is durable.
    latest: RefCell<Arc<Catalogue>>,
    /// One change at a time; the next starts from what this one leaves.
    turn: async_lock::Mutex<()>,
    /// What partitions share with connections.
    open_files: Arc<OpenFiles>,
    counters: Counters,
    /// Consumer groups of Iggy's that are to be made.
    new_groups: RefCell<VecDeque<iggy::NewGroup>>,
}

/// Limits of the catalogue that were met.
#[derive(Default)]
struct Counters {
    partitions: Cell<u64>,
    open_files: Cell<u64>,
    streams: Cell<u64>,
    stream_topics: Cell<u64>,
    topic_groups: Cell<u64>,
    groups: Cell<u64>,
}

impl Counters {
    fn limits_hit(&self) -> [(&'static str, u64); 6] {
        [
            ("max_partitions", self.partitions.get()),
            ("open_files_of_partitions", self.open_files.get()),
            ("iggy_streams_max", self.streams.get()),
            ("iggy_topics_per_stream_max", self.stream_topics.get()),
            ("iggy_consumer_groups_per_topic_max", self.topic_groups.get()),
            ("iggy_consumer_groups_max", self.groups.get()),
        ]
    }
}

/// The names of the controller's limits.
pub(crate) fn limit_names() -> [&'static str; 6] {
    Counters::default().limits_hit().map(|(name, _)| name)
}

/// The room for partitions while one call is carried out. What it takes is taken from connections at once, and what
/// came of it is counted when the call is over.
struct Room<'a> {
    controller: &'a Controller,
    /// Partitions that there are and that were taken.
    partitions: usize,
    most_by_setting: usize,
}

impl Controller {
    /// The owner of what the log has said so far.
    pub fn new(log: CatalogueLog, latest: Arc<Catalogue>, open_files: Arc<OpenFiles>) -> Controller {
        Controller {
            log: Rc::new(LogDriver::new(log)),
            latest: RefCell::new(latest),
            turn: async_lock::Mutex::new(()),
            open_files,
            counters: Counters::default(),
            new_groups: RefCell::default(),
        }
    }

    /// Limits, by their names, and how often each was met.
    pub(crate) fn limits_hit(&self) -> [(&'static str, u64); 6] {
        self.counters.limits_hit()
    }

    /// The room beside the partitions that there are.
    fn room(&self, shard: &Shard, latest: &Catalogue) -> Room<'_> {
        let (partitions, most_by_setting) = (latest.partition_count(), shard.settings.max_partitions);
        Room { controller: self, partitions, most_by_setting }
    }

    /// Creates topics: each is made or refused on its own.
    pub(crate) async fn create(shard: &ShardHandle, call: CreateTopicsCall) -> Vec<TopicResult> {
        let Some(this) = shard.controller() else {
            return call.topics.iter().map(|_| not_controller()).collect();
        };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let mut room = this.room(shard, &latest);
        let mut names = HashSet::new();
        let mut number = latest.next_topic();
        let results: Vec<TopicResult> = call
            .topics
            .into_iter()
            .map(|new| {
                let topic = checked(shard, &latest, new, number, &mut room)?;
                if !names.insert(topic.name.clone()) {
                    return Err((ErrorCode::INVALID_REQUEST, format!("Topic {} is named twice", topic.name)));
                }
                number += 1;
                Ok(topic)
            })
            .collect();
        let records: Vec<_> = results.iter().flatten().map(|t| CatalogueRecord::Created(t.clone())).collect();
        if call.validate_only || records.is_empty() {
            return results;
        }
        match this.change(shard, &latest, records).await {
            Ok(()) => results,
            Err(message) => refuse_all(results, &message),
        }
    }

    /// Deletes topics.
    pub(crate) async fn delete(shard: &ShardHandle, call: DeleteTopicsCall) -> Vec<TopicResult> {
        let Some(this) = shard.controller() else {
            return call.topics.iter().map(|_| not_controller()).collect();
        };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let results: Vec<TopicResult> = call
            .topics
            .iter()
            .map(|id| {
                let unknown = || (ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic ID.".to_string());
                latest.topic_by_id(*id).cloned().ok_or_else(unknown)
            })
            .collect();
        // Their files are closed when the call is over.
        let _room = this.room(shard, &latest);
        let records: Vec<_> = results.iter().flatten().map(|t| CatalogueRecord::Deleted(t.id)).collect();
        if records.is_empty() {
            return results;
        }
        match this.change(shard, &latest, records).await {
            Ok(()) => results,
            Err(message) => refuse_all(results, &message),
        }
    }

    /// Adds partitions to topics: each topic gets them or is refused on its own.
    pub(crate) async fn create_partitions(shard: &ShardHandle, call: CreatePartitionsCall) -> Vec<TopicResult> {
        let Some(this) = shard.controller() else {
            return call.topics.iter().map(|_| not_controller()).collect();
        };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let mut room = this.room(shard, &latest);
        let results: Vec<TopicResult> = call
            .topics
            .iter()
            .map(|&(id, partitions)| {
                let topic = known(&latest, id)?;
                let more = more_partitions(&topic, partitions)?;
                room.take(more)?;
                Ok(Arc::new(Topic { partitions, ..Topic::clone(&topic) }))
            })
            .collect();
        let record = |t: &Arc<Topic>| CatalogueRecord::PartitionsAdded { topic: t.id, partitions: t.partitions };
        this.change_topics(shard, &latest, results, call.validate_only, record).await
    }

    /// Changes settings of topics: each topic's change is taken as a whole or refused, on its own.
    pub(crate) async fn alter_configs(shard: &ShardHandle, call: AlterConfigsCall) -> Vec<TopicResult> {
        let Some(this) = shard.controller() else {
            return call.topics.iter().map(|_| not_controller()).collect();
        };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let results: Vec<TopicResult> = call
            .topics
            .into_iter()
            .map(|(id, change)| {
                let topic = known(&latest, id)?;
                let config = change
                    .applied(&topic.config, shard.settings.topic_defaults)
                    .map_err(|why| (ErrorCode::INVALID_CONFIG, why))?;
                if config == topic.config {
                    return Ok(topic);
                }
                Ok(Arc::new(Topic { config, ..Topic::clone(&topic) }))
            })
            .collect();
        let record = |t: &Arc<Topic>| CatalogueRecord::ConfigChanged { topic: t.id, config: t.config.clone() };
        this.change_topics(shard, &latest, results, call.validate_only, record).await
    }

    /// Makes what was found right of some topics durable and visible; those that are as they were cost nothing.
    async fn change_topics(
        &self,
        shard: &ShardHandle,
        latest: &Catalogue,
        results: Vec<TopicResult>,
        validate_only: bool,
        record: impl Fn(&Arc<Topic>) -> CatalogueRecord,
    ) -> Vec<TopicResult> {
        let is_new = |topic: &&Arc<Topic>| latest.topic_by_id(topic.id).is_none_or(|old| !Arc::ptr_eq(old, topic));
        let changed: Vec<Arc<Topic>> = results.iter().flatten().filter(is_new).cloned().collect();
        if validate_only || changed.is_empty() {
            return results;
        }
        match self.change(shard, latest, changed.iter().map(record).collect()).await {
            Ok(()) => results,
            Err(message) => refuse_all(results, &message),
        }
    }

    /// Makes a change durable and visible.
    async fn change(
        &self,
        shard: &ShardHandle,
        latest: &Catalogue,
        records: Vec<CatalogueRecord>,
    ) -> Result<(), String> {
        let next = self.make_durable(shard, latest, records).await?;
        everywhere(shard, || CatalogueCall::Prepare(next.clone())).await;
        everywhere(shard, || CatalogueCall::Publish(next.clone())).await;
        Ok(())
    }

    async fn make_durable(
        &self,
        shard: &ShardHandle,
        latest: &Catalogue,
        records: Vec<CatalogueRecord>,
    ) -> Result<Arc<Catalogue>, String> {
        let next = Arc::new(latest.with(&records));
        self.log.append_durable(shard, |log| log.append(records)).await?;
        *self.latest.borrow_mut() = next.clone();
        Ok(next)
    }

    /// Has everything that is only written put on disk.
    pub(crate) fn sync_written(&self, shard: &ShardHandle) {
        self.log.sync_written(shard);
    }

    /// Finishes the writes that have started and puts everything on disk.
    pub(crate) async fn finish(&self, shard: &ShardHandle) {
        self.sync_written(shard);
        self.log.idle(shard).await;
    }
}

pub(crate) async fn everywhere(shard: &Rc<Shard>, call: impl Fn() -> CatalogueCall) {
    let calls: Vec<_> = shard.route().all().map(|other| shard.submit_to(other, call())).collect();
    for call in calls {
        call.await;
    }
}

fn checked(shard: &Shard, latest: &Catalogue, new: NewTopic, number: u32, room: &mut Room<'_>) -> TopicResult {
    if latest.topic(&new.name).is_some() {
        return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{}' already exists.", new.name)));
    }
    let config = ConfigChange::Replace(new.config)
        .applied(&BTreeMap::new(), shard.settings.topic_defaults)
        .map_err(|why| (ErrorCode::INVALID_CONFIG, why))?;
    let partitions = usize::try_from(new.partitions).unwrap_or(0);
    if partitions == 0 {
        return Err((ErrorCode::INVALID_PARTITIONS, "Number of partitions must be larger than 0.".into()));
    }
    room.take(partitions)?;
    Ok(Arc::new(Topic {
        partitions: new.partitions,
        config,
        created_at_ms: shard.now_ms(),
        ..Topic::new(Uuid::new_v4(), number, (KAFKA, KAFKA_NAME), new.name)
    }))
}

impl Room<'_> {
    /// Takes so many partitions.
    fn take(&mut self, partitions: usize) -> Result<(), (ErrorCode, String)> {
        let refuse = |bound: &str, most: usize| {
            let message = format!("{partitions} partitions more would pass {bound}: {most}");
            Err((ErrorCode::INVALID_PARTITIONS, message))
        };
        let with_them = self.partitions.saturating_add(partitions);
        if with_them > self.most_by_setting {
            self.controller.counters.partitions.update(|met| met + 1);
            return refuse("the gateway's max_partitions", self.most_by_setting);
        }
        let open_files = &self.controller.open_files;
        if !open_files.take_partitions(with_them) {
            self.controller.counters.open_files.update(|met| met + 1);
            let bound = "what the limit of open files carries beside the connections that there are";
            return refuse(bound, open_files.partitions_max());
        }
        self.partitions = with_them;
        Ok(())
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.controller.open_files.set_partitions(self.controller.latest.borrow().partition_count());
    }
}

/// How many partitions a topic gets that is to have so many in all.
pub fn more_partitions(topic: &Topic, partitions: i32) -> Result<usize, (ErrorCode, String)> {
    let (name, now) = (&topic.name, topic.partitions);
    match usize::try_from(i64::from(partitions) - i64::from(now)) {
        Ok(0) => Err((ErrorCode::INVALID_PARTITIONS, format!("Topic already has {now} partition(s)."))),
        Ok(more) => Ok(more),
        Err(_) => {
            let why =
                format!("The topic {name} currently has {now} partition(s); {partitions} would not be an increase.");
            Err((ErrorCode::INVALID_PARTITIONS, why))
        }
    }
}

fn known(latest: &Catalogue, id: Uuid) -> TopicResult {
    let gone = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "The topic has just been deleted.".to_string());
    latest.topic_by_id(id).cloned().ok_or_else(gone)
}

fn refuse_all(results: Vec<TopicResult>, message: &str) -> Vec<TopicResult> {
    results.into_iter().map(|r| r.and_then(|_| Err((ErrorCode::KAFKA_STORAGE_ERROR, message.to_string())))).collect()
}

fn not_controller() -> TopicResult {
    Err((ErrorCode::NOT_CONTROLLER, "This shard is not the controller.".into()))
}
