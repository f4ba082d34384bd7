//! Shard 0 alone: topics as Iggy has them, shown to all shards, and changes that Kafka's clients ask for.
//!
//! Iggy is asked for its topics again and again, since others change them, too. A change is made in Iggy first, then
//! every shard shows it to clients, then it is answered.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use ringgate_group::ErrorCode;
use uuid::Uuid;

use super::append::Refused;
use super::shard::IggyStore;
use super::topics::{self, Cluster, GROUPS_TOPIC, Seen};
use super::{Clients, Failure};
use crate::ShardHandle;
use crate::call::{
    AlterConfigsCall, CatalogueCall, CreatePartitionsCall, CreateTopicsCall, DeleteTopicsCall, TopicResult,
};
use crate::catalogue::{Catalogue, KAFKA, KAFKA_NAME, NewTopic, Topic};
use crate::controller::{everywhere, more_partitions};
use crate::timers::Sleep;
use crate::topic_config::{ConfigChange, TopicConfig, TopicDefaults, find};

/// The catalogue's owner.
pub(super) struct Controller {
    cluster: Cluster,
    latest: RefCell<Arc<Catalogue>>,
    /// One change at a time; the next starts from what this one leaves.
    turn: async_lock::Mutex<()>,
}

/// Settings that Iggy keeps of a topic.
const KEPT: [&str; 3] = ["retention.ms", "retention.bytes", "segment.bytes"];

/// The most partitions that Iggy makes in one request.
const PARTITIONS_PER_REQUEST: i32 = 1000;

impl Controller {
    pub(super) fn new(cluster: Cluster, latest: Arc<Catalogue>) -> Controller {
        Controller { cluster, latest: RefCell::new(latest), turn: async_lock::Mutex::new(()) }
    }

    /// Looks topics up for as long as the gateway runs. While Iggy cannot be reached the last look holds.
    pub(super) async fn refresh(&self, store: &IggyStore, shard: &ShardHandle) {
        let mut said = false;
        loop {
            Sleep::new(shard, store.settings.metadata_refresh).await;
            let _turn = self.turn.lock().await;
            match self.look(store, shard).await {
                Ok(()) => said = false,
                Err(failure) => {
                    if !said {
                        tracing::warn!(%failure, "topics cannot be looked up in Iggy; those that are known stay");
                    }
                    said = true;
                }
            }
        }
    }

    /// Shows every shard what there is now.
    async fn look(&self, store: &IggyStore, shard: &ShardHandle) -> Result<(), Failure> {
        let (cluster, deadline) = (self.cluster.clone(), store.deadline());
        let seen = store
            .lane
            .call(move |clients: Arc<Clients>| async move { topics::seen(&clients, &cluster, deadline).await })
            .await?;
        let latest = self.latest.borrow().clone();
        let next = Arc::new(catalogue(latest.version + 1, seen, shard.settings.topic_defaults));
        if is_same(&latest, &next) {
            return Ok(());
        }
        *self.latest.borrow_mut() = next.clone();
        everywhere(shard, || CatalogueCall::Prepare(next.clone())).await;
        everywhere(shard, || CatalogueCall::Publish(next.clone())).await;
        Ok(())
    }

    /// As [`Controller::look`] after changes that went well; they are done also when it fails.
    async fn show(
        &self,
        store: &IggyStore,
        shard: &ShardHandle,
        results: Vec<Result<Arc<str>, Refused>>,
    ) -> Vec<TopicResult> {
        if results.iter().any(Result::is_ok)
            && let Err(failure) = self.look(store, shard).await
        {
            tracing::warn!(%failure, "topics that were changed cannot be looked up in Iggy");
        }
        let latest = self.latest.borrow().clone();
        let shown = |name: Arc<str>| {
            let late = || (ErrorCode::REQUEST_TIMED_OUT, "Iggy has changed the topic and does not show it yet.".into());
            latest.topic(&name).cloned().ok_or_else(late)
        };
        results.into_iter().map(|result| result.and_then(shown)).collect()
    }

    /// Creates topics: each is made or refused on its own.
    pub(super) async fn create(
        this: Option<&Controller>,
        store: &Rc<IggyStore>,
        shard: &ShardHandle,
        call: CreateTopicsCall,
    ) -> Vec<TopicResult> {
        let Some(this) = this else { return call.topics.iter().map(|_| not_controller()).collect() };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let mut names = HashSet::new();
        let mut room = shard.settings.max_partitions.saturating_sub(latest.partition_count());
        let mut checked = Vec::with_capacity(call.topics.len());
        for new in call.topics {
            checked.push(match names.insert(new.name.clone()) {
                true => plan(shard, &latest, new, &mut room),
                false => Err((ErrorCode::INVALID_REQUEST, format!("Topic {} is named twice", new.name))),
            });
        }
        if call.validate_only {
            return checked.into_iter().map(|plan| plan.map(|(topic, _)| topic)).collect();
        }
        let mut made = Vec::with_capacity(checked.len());
        for plan in checked {
            made.push(match plan {
                Ok((topic, config)) => this.make(store, &topic, config).await.map(|()| topic.name.clone()),
                Err(refused) => Err(refused),
            });
        }
        this.show(store, shard, made).await
    }

    /// Makes a topic, a thousand partitions at a time.
    async fn make(&self, store: &IggyStore, topic: &Topic, config: TopicConfig) -> Result<(), Refused> {
        let (at, deadline) = (store.settings.place_of(&topic.name), store.deadline());
        let all = topic.partitions;
        store
            .change(move |clients| async move {
                let mut there = all.min(PARTITIONS_PER_REQUEST);
                topics::create(&clients, &at, count(there), &config, deadline).await?;
                while there < all {
                    let more = (all - there).min(PARTITIONS_PER_REQUEST);
                    there += more;
                    topics::add_partitions(&clients, &at, count(more), count(there), deadline).await?;
                }
                Ok(())
            })
            .await
    }

    /// Deletes topics.
    pub(super) async fn delete(
        this: Option<&Controller>,
        store: &Rc<IggyStore>,
        shard: &ShardHandle,
        call: DeleteTopicsCall,
    ) -> Vec<TopicResult> {
        let Some(this) = this else { return call.topics.iter().map(|_| not_controller()).collect() };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let mut results = Vec::with_capacity(call.topics.len());
        for id in call.topics {
            let unknown = || (ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic ID.".to_string());
            let topic = match latest.topic_by_id(id).cloned().ok_or_else(unknown) {
                Ok(topic) => topic,
                Err(refused) => {
                    results.push(Err(refused));
                    continue;
                }
            };
            let (at, deadline) = (store.settings.place_of(&topic.name), store.deadline());
            let deleted =
                store.change(move |clients| async move { topics::delete(&clients, &at, deadline).await }).await;
            results.push(deleted.map(|()| topic));
        }
        if results.iter().any(Result::is_ok)
            && let Err(failure) = this.look(store, shard).await
        {
            tracing::warn!(%failure, "topics that were deleted cannot be looked up in Iggy");
        }
        results
    }

    /// Adds partitions to topics: each topic gets them or is refused on its own.
    pub(super) async fn create_partitions(
        this: Option<&Controller>,
        store: &Rc<IggyStore>,
        shard: &ShardHandle,
        call: CreatePartitionsCall,
    ) -> Vec<TopicResult> {
        let Some(this) = this else { return call.topics.iter().map(|_| not_controller()).collect() };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let mut room = shard.settings.max_partitions.saturating_sub(latest.partition_count());
        let mut checked = Vec::with_capacity(call.topics.len());
        for (id, partitions) in call.topics {
            let topic = known(&latest, id).and_then(|topic| {
                take(&mut room, more_partitions(&topic, partitions)?)?;
                Ok(topic)
            });
            checked.push(topic.map(|topic| (topic, partitions)));
        }
        if call.validate_only {
            return checked.into_iter().map(|plan| plan.map(|(topic, _)| topic)).collect();
        }
        let mut made = Vec::with_capacity(checked.len());
        for plan in checked {
            made.push(match plan {
                Ok((topic, partitions)) => {
                    let (at, deadline) = (store.settings.place_of(&topic.name), store.deadline());
                    let before = topic.partitions;
                    let added = store.change(move |clients| async move {
                        let mut there = before;
                        while there < partitions {
                            let more = (partitions - there).min(PARTITIONS_PER_REQUEST);
                            there += more;
                            topics::add_partitions(&clients, &at, count(more), count(there), deadline).await?;
                        }
                        Ok(())
                    });
                    added.await.map(|()| topic.name.clone())
                }
                Err(refused) => Err(refused),
            });
        }
        this.show(store, shard, made).await
    }

    /// Changes settings of topics: each topic's change is taken as a whole or refused, on its own.
    pub(super) async fn alter_configs(
        this: Option<&Controller>,
        store: &Rc<IggyStore>,
        shard: &ShardHandle,
        call: AlterConfigsCall,
    ) -> Vec<TopicResult> {
        let Some(this) = this else { return call.topics.iter().map(|_| not_controller()).collect() };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let mut checked = Vec::with_capacity(call.topics.len());
        for (id, change) in call.topics {
            let plan = known(&latest, id).and_then(|topic| {
                let config = settings(shard, change, &topic.config)?;
                let before = TopicConfig::parse(&topic.config, shard.settings.topic_defaults)
                    .map_err(|why| (ErrorCode::INVALID_CONFIG, why))?;
                if config.segment_bytes != before.segment_bytes {
                    let why = "Iggy sets segment.bytes when a topic is created and never again.".to_string();
                    return Err((ErrorCode::INVALID_CONFIG, why));
                }
                Ok((topic, config))
            });
            checked.push(plan);
        }
        if call.validate_only {
            return checked.into_iter().map(|plan| plan.map(|(topic, _)| topic)).collect();
        }
        let mut made = Vec::with_capacity(checked.len());
        for plan in checked {
            made.push(match plan {
                Ok((topic, config)) => {
                    let (at, deadline) = (store.settings.place_of(&topic.name), store.deadline());
                    let partitions = count(topic.partitions);
                    let kept = store.change(move |clients| async move {
                        topics::keep(&clients, &at, partitions, &config, deadline).await
                    });
                    kept.await.map(|()| topic.name.clone())
                }
                Err(refused) => Err(refused),
            });
        }
        this.show(store, shard, made).await
    }
}

/// The catalogue of these topics. Iggy does not say who chose a value: one that is the default is taken for it.
pub(super) fn catalogue(version: u64, seen: Vec<Seen>, defaults: TopicDefaults) -> Catalogue {
    let is_default = |name: &str, value: &str| find(name).is_some_and(|setting| setting.default(defaults) == value);
    let said = |(name, value): &(String, String)| !is_default(name, value);
    let topics = seen.into_iter().zip(0_u32..).map(|(seen, number)| {
        Arc::new(Topic {
            partitions: seen.partitions,
            config: seen.config.into_iter().filter(said).collect(),
            created_at_ms: seen.created_at_ms,
            ..Topic::new(seen.id, number, (KAFKA, KAFKA_NAME), seen.name)
        })
    });
    Catalogue::new(version, topics)
}

fn is_same(one: &Catalogue, other: &Catalogue) -> bool {
    let same = |(one, other): (&Arc<Topic>, &Arc<Topic>)| {
        one.id == other.id && one.partitions == other.partitions && one.config == other.config
    };
    // Both are in the order of their names.
    one.topics().count() == other.topics().count() && one.topics().zip(other.topics()).all(same)
}

fn plan(
    shard: &ShardHandle,
    latest: &Catalogue,
    new: NewTopic,
    room: &mut usize,
) -> Result<(Arc<Topic>, TopicConfig), Refused> {
    if latest.topic(&new.name).is_some() {
        return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{}' already exists.", new.name)));
    }
    if &*new.name == GROUPS_TOPIC {
        let why = format!("Topic '{GROUPS_TOPIC}' is the gateway's own.");
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, why));
    }
    let config = settings(shard, ConfigChange::Replace(new.config), &BTreeMap::new())?;
    let partitions = usize::try_from(new.partitions).unwrap_or(0);
    if partitions == 0 {
        return Err((ErrorCode::INVALID_PARTITIONS, "Number of partitions must be larger than 0.".into()));
    }
    take(room, partitions)?;
    let kept = KEPT.iter().map(|name| (name.to_string(), value_of(&config, name))).collect();
    let topic = Topic {
        partitions: new.partitions,
        config: kept,
        created_at_ms: shard.now_ms(),
        ..Topic::new(Uuid::nil(), 0, (KAFKA, KAFKA_NAME), new.name)
    };
    Ok((Arc::new(topic), config))
}

fn value_of(config: &TopicConfig, name: &str) -> String {
    match name {
        "retention.ms" => config.retention_ms.to_string(),
        "retention.bytes" => config.retention_bytes.to_string(),
        _ => config.segment_bytes.to_string(),
    }
}

/// What a change comes to, if Iggy can keep it.
fn settings(
    shard: &ShardHandle,
    change: ConfigChange,
    current: &BTreeMap<String, String>,
) -> Result<TopicConfig, Refused> {
    let invalid = |why: String| (ErrorCode::INVALID_CONFIG, why);
    let defaults = shard.settings.topic_defaults;
    let next = change.applied(current, defaults).map_err(invalid)?;
    let config = TopicConfig::parse(&next, defaults).map_err(invalid)?;
    let rest = TopicConfig {
        retention_ms: defaults.retention_ms,
        retention_bytes: defaults.retention_bytes,
        segment_bytes: defaults.segment_bytes,
        ..config
    };
    if rest != TopicConfig::defaults(defaults) {
        let kept = KEPT.join(", ");
        return Err(invalid(format!("Iggy keeps {kept} of a topic; every other setting has its default.")));
    }
    if config.segment_bytes % SEGMENT_BYTES_STEP != 0 || config.segment_bytes > SEGMENT_BYTES_MAX {
        let why = format!(
            "Iggy's segment.bytes is a multiple of {SEGMENT_BYTES_STEP} up to {SEGMENT_BYTES_MAX}, not {}.",
            config.segment_bytes
        );
        return Err(invalid(why));
    }
    Ok(config)
}

/// What Iggy's segments are a multiple of.
const SEGMENT_BYTES_STEP: u64 = 512;
/// Iggy's largest segment.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

fn take(room: &mut usize, partitions: usize) -> Result<(), Refused> {
    match room.checked_sub(partitions) {
        Some(left) => {
            *room = left;
            Ok(())
        }
        None => {
            let why =
                format!("{partitions} partitions more would pass the gateway's max_partitions by more than {room}");
            Err((ErrorCode::INVALID_PARTITIONS, why))
        }
    }
}

fn known(latest: &Catalogue, id: Uuid) -> TopicResult {
    let gone = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "The topic has just been deleted.".to_string());
    latest.topic_by_id(id).cloned().ok_or_else(gone)
}

fn count(partitions: i32) -> u32 {
    u32::try_from(partitions).unwrap_or(0)
}

fn not_controller() -> TopicResult {
    Err((ErrorCode::NOT_CONTROLLER, "This shard is not the controller.".into()))
}
