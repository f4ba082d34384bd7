//! Changes that Iggy's clients ask for: streams, their topics, and consumer groups of topics.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use uuid::Uuid;

use super::{Controller, everywhere};
use crate::ShardHandle;
use crate::call::{CatalogueCall, DeletedGroup, IggyChange, IggyChangeCall, IggyChanged, IggyRefusal};
use crate::catalogue::{Catalogue, ConsumerGroup, KAFKA, NewIggyTopic, Stream, Topic};
use crate::iggy_code::IggyCode;
use crate::limits::{
    CONSUMER_GROUPS_MAX, GROUPS_MADE_AT_ONCE, GROUPS_PER_TOPIC_MAX, STREAMS_MAX, TOPICS_PER_STREAM_MAX,
};
use crate::store::embedded::catalogue_log::CatalogueRecord;
use crate::topic_config::{ConfigChange, iggy};

type GroupResult = Result<Arc<ConsumerGroup>, IggyRefusal>;

/// A change that was found right.
struct Plan {
    records: Vec<CatalogueRecord>,
    what: What,
}

/// What a plan is about, and so what it is answered with.
enum What {
    Stream(Arc<Stream>),
    Topic(Uuid),
    DeletedTopics,
    DeletedGroup(DeletedGroup),
}

/// A consumer group that is to be made with the next ones that are.
pub(super) struct NewGroup {
    topic: Uuid,
    name: Arc<str>,
    made: Rc<RefCell<Option<GroupResult>>>,
}

impl Controller {
    /// Changes streams, topics or consumer groups.
    pub(crate) async fn change_iggy(shard: &ShardHandle, call: IggyChangeCall) -> Result<IggyChanged, IggyRefusal> {
        let Some(this) = shard.controller() else {
            return Err(IggyRefusal::new(IggyCode::ERROR, "This shard is not the controller."));
        };
        let change = match call.0 {
            IggyChange::CreateGroup { topic, name } => {
                return this.create_group(shard, topic, name).await.map(IggyChanged::Group);
            }
            other => other,
        };
        let _turn = this.turn.lock().await;
        let latest = this.latest.borrow().clone();
        let mut room = this.room(shard, &latest);
        let plan = match change {
            IggyChange::CreateStream { name } => this.create_stream(shard, &latest, name)?,
            IggyChange::DeleteStream { stream } => delete_stream(&latest, stream)?,
            IggyChange::CreateTopic(new) => this.create_topic(shard, &latest, new)?,
            IggyChange::DeleteTopic { topic } => {
                let records = vec![CatalogueRecord::Deleted(known(&latest, topic)?.id)];
                Plan { records, what: What::DeletedTopics }
            }
            IggyChange::CreatePartitions { topic, count } => create_partitions(&latest, topic, count)?,
            IggyChange::UpdateTopic { topic, config, options } => {
                let topic = known(&latest, topic)?;
                let config = checked(shard, config, &topic.config)?;
                let changed = CatalogueRecord::ConfigChanged { topic: topic.id, config };
                let records = vec![changed, CatalogueRecord::OptionsChanged { topic: topic.id, options }];
                Plan { records, what: What::Topic(topic.id) }
            }
            // Was taken out above, to be made with others.
            IggyChange::CreateGroup { .. } => return Err(IggyRefusal::new(IggyCode::ERROR, "a group out of turn")),
            IggyChange::DeleteGroup { topic, group } => {
                let id = known(&latest, topic)?.id;
                latest.groups(id).get(group).ok_or_else(|| no_group(group))?;
                let records = vec![CatalogueRecord::GroupDeleted { topic: id, id: group }];
                Plan { records, what: What::DeletedGroup(DeletedGroup { topic: id, group }) }
            }
        };
        let more = latest.with(&plan.records).partition_count().saturating_sub(latest.partition_count());
        if more > 0 {
            room.take(more).map_err(|(_, why)| IggyRefusal::new(IggyCode::INVALID_PARTITIONS_COUNT, why))?;
        }
        this.carry_out(shard, &latest, plan).await.map_err(|why| IggyRefusal::new(IggyCode::ERROR, why))
    }

    async fn carry_out(&self, shard: &ShardHandle, latest: &Catalogue, plan: Plan) -> Result<IggyChanged, String> {
        match plan.what {
            What::Stream(stream) => {
                self.show(shard, latest, plan.records, None).await?;
                Ok(IggyChanged::Stream(stream))
            }
            What::DeletedGroup(deleted) => {
                self.show(shard, latest, plan.records, Some(deleted)).await?;
                Ok(IggyChanged::Deleted)
            }
            What::DeletedTopics => {
                self.change(shard, latest, plan.records).await?;
                Ok(IggyChanged::Deleted)
            }
            What::Topic(id) => {
                self.change(shard, latest, plan.records).await?;
                let topic = self.latest.borrow().any_topic(id).cloned();
                topic.map(IggyChanged::Topic).ok_or_else(|| "a topic that was just changed is not there".to_string())
            }
        }
    }

    /// Makes a change durable and visible that concerns no topic: no shard has anything to open or to close.
    async fn show(
        &self,
        shard: &ShardHandle,
        latest: &Catalogue,
        records: Vec<CatalogueRecord>,
        deleted: Option<DeletedGroup>,
    ) -> Result<(), String> {
        let next = self.make_durable(shard, latest, records).await?;
        everywhere(shard, || CatalogueCall::Show { catalogue: next.clone(), deleted }).await;
        Ok(())
    }

    fn create_stream(&self, shard: &ShardHandle, latest: &Catalogue, name: Arc<str>) -> Result<Plan, IggyRefusal> {
        if latest.stream_named(&name).is_some() {
            let why = format!("Stream '{name}' already exists.");
            return Err(IggyRefusal::new(IggyCode::STREAM_NAME_ALREADY_EXISTS, why));
        }
        let full = (IggyCode::TOO_MANY_STREAMS, "a gateway has", "streams");
        within(latest.stream_count(), STREAMS_MAX, full, &self.counters.streams)?;
        let stream = Arc::new(Stream { number: latest.next_stream(), name, created_at_ms: shard.now_ms() });
        Ok(Plan { records: vec![CatalogueRecord::StreamCreated(stream.clone())], what: What::Stream(stream) })
    }

    fn create_topic(&self, shard: &ShardHandle, latest: &Catalogue, new: NewIggyTopic) -> Result<Plan, IggyRefusal> {
        let stream = latest.stream(new.stream).ok_or_else(|| no_stream(new.stream))?;
        if latest.topic_in(new.stream, &new.name).is_some() {
            let why = format!("Topic '{}' of stream '{}' already exists.", new.name, stream.name);
            return Err(IggyRefusal::new(IggyCode::TOPIC_NAME_ALREADY_EXISTS, why));
        }
        let full = (IggyCode::TOO_MANY_TOPICS, "a stream has", "topics");
        // Kafka knows no such bound, and its topics have that of partitions.
        if new.stream != KAFKA {
            within(latest.topic_count(new.stream), TOPICS_PER_STREAM_MAX, full, &self.counters.stream_topics)?;
        }
        if new.partitions < 1 {
            let why = format!("{} partitions: a topic has at least one", new.partitions);
            return Err(IggyRefusal::new(IggyCode::INVALID_PARTITIONS_COUNT, why));
        }
        let defaults = iggy::defaults().map(|(name, value)| (name.to_string(), value));
        let mut config: BTreeMap<String, String> = defaults.collect();
        config.extend(new.config);
        let topic = Topic {
            partitions: new.partitions,
            config: checked(shard, ConfigChange::Replace(config), &BTreeMap::new())?,
            options: new.options,
            created_at_ms: shard.now_ms(),
            ..Topic::new(Uuid::new_v4(), latest.next_topic(), (stream.number, &stream.name), new.name)
        };
        let id = topic.id;
        Ok(Plan { records: vec![CatalogueRecord::Created(topic.into())], what: What::Topic(id) })
    }

    /// Makes a consumer group. Those that are asked for while one is made durable are made together: a gateway that
    /// keeps the offsets of Kafka's groups here makes very many of them.
    async fn create_group(&self, shard: &ShardHandle, topic: Uuid, name: Arc<str>) -> GroupResult {
        let made = Rc::new(RefCell::new(None));
        self.new_groups.borrow_mut().push_back(NewGroup { topic, name, made: made.clone() });
        let _turn = self.turn.lock().await;
        loop {
            if let Some(made) = made.take() {
                return made;
            }
            self.create_groups(shard).await;
        }
    }

    /// Makes the oldest of those that are to be made.
    async fn create_groups(&self, shard: &ShardHandle) {
        let latest = self.latest.borrow().clone();
        let mut next = Catalogue::clone(&latest);
        let mut records = Vec::new();
        let mut planned = Vec::new();
        for _ in 0..GROUPS_MADE_AT_ONCE {
            let Some(new) = self.new_groups.borrow_mut().pop_front() else { break };
            let plan = self.new_group(shard, &next, &new);
            if let Ok(group) = &plan {
                let record = CatalogueRecord::GroupCreated { topic: new.topic, group: group.clone() };
                next.apply(record.clone());
                records.push(record);
            }
            planned.push((new, plan));
        }
        let done = if records.is_empty() { Ok(()) } else { self.show(shard, &latest, records, None).await };
        for (new, plan) in planned {
            let failed = |why: String| IggyRefusal::new(IggyCode::ERROR, why);
            *new.made.borrow_mut() = Some(plan.and_then(|group| done.clone().map(|()| group).map_err(failed)));
        }
    }

    fn new_group(
        &self,
        shard: &ShardHandle,
        latest: &Catalogue,
        NewGroup { topic, name, .. }: &NewGroup,
    ) -> GroupResult {
        let topic = known(latest, *topic)?;
        let groups = latest.groups(topic.id);
        if groups.named(name).is_some() {
            let why = format!("Consumer group '{name}' of topic '{}' already exists.", topic.name);
            return Err(IggyRefusal::new(IggyCode::CONSUMER_GROUP_NAME_ALREADY_EXISTS, why));
        }
        let full = |of| (IggyCode::TOO_MANY_CONSUMER_GROUPS, of, "consumer groups");
        within(groups.len(), GROUPS_PER_TOPIC_MAX, full("a topic has"), &self.counters.topic_groups)?;
        within(latest.group_count(), CONSUMER_GROUPS_MAX, full("a gateway has"), &self.counters.groups)?;
        let (id, name, created_at_ms) = (groups.next(), name.clone(), shard.now_ms());
        Ok(Arc::new(ConsumerGroup { id, name, created_at_ms }))
    }
}

fn delete_stream(latest: &Catalogue, number: u32) -> Result<Plan, IggyRefusal> {
    let stream = latest.stream(number).ok_or_else(|| no_stream(number))?;
    if number == KAFKA {
        let why = format!("Stream '{}' holds the topics of Kafka's clients and cannot be deleted.", stream.name);
        return Err(IggyRefusal::new(IggyCode::FEATURE_UNAVAILABLE, why));
    }
    Ok(Plan { records: vec![CatalogueRecord::StreamDeleted(number)], what: What::DeletedTopics })
}

fn create_partitions(latest: &Catalogue, topic: Uuid, count: u32) -> Result<Plan, IggyRefusal> {
    let topic = known(latest, topic)?;
    let partitions = i32::try_from(count).ok().filter(|count| *count > 0).and_then(|c| topic.partitions.checked_add(c));
    let Some(partitions) = partitions else {
        let why = format!("{count} partitions more than {}", topic.partitions);
        return Err(IggyRefusal::new(IggyCode::INVALID_PARTITIONS_COUNT, why));
    };
    let records = vec![CatalogueRecord::PartitionsAdded { topic: topic.id, partitions }];
    Ok(Plan { records, what: What::Topic(topic.id) })
}

/// There may be one more; a refusal is counted.
fn within(
    there: usize,
    most: usize,
    (code, who, what): (IggyCode, &str, &str),
    met: &Cell<u64>,
) -> Result<(), IggyRefusal> {
    if there < most {
        return Ok(());
    }
    met.set(met.get() + 1);
    Err(IggyRefusal::new(code, format!("{who} at most {most} {what}")))
}

fn checked(
    shard: &ShardHandle,
    change: ConfigChange,
    current: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, IggyRefusal> {
    let checked = change.applied(current, shard.settings.topic_defaults);
    checked.map_err(|why| IggyRefusal::new(IggyCode::INVALID_OPTION_VALUE, why))
}

fn known(latest: &Catalogue, topic: Uuid) -> Result<&Arc<Topic>, IggyRefusal> {
    let gone = || IggyRefusal::new(IggyCode::TOPIC_ID_NOT_FOUND, "The topic has just been deleted.");
    latest.any_topic(topic).ok_or_else(gone)
}

fn no_stream(number: u32) -> IggyRefusal {
    IggyRefusal::new(IggyCode::STREAM_ID_NOT_FOUND, format!("There is no stream {number}."))
}

fn no_group(id: u32) -> IggyRefusal {
    IggyRefusal::new(IggyCode::CONSUMER_GROUP_ID_NOT_FOUND, format!("The topic has no consumer group {id}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_takes_no_more_and_counts_it() {
        let met = Cell::new(0);
        let full = (IggyCode::TOO_MANY_TOPICS, "a stream has", "topics");
        assert_eq!(within(4095, 4096, full, &met), Ok(()));
        let refusal = within(4096, 4096, full, &met).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (IggyCode::TOO_MANY_TOPICS, "a stream has at most 4096 topics")
        );
        assert_eq!(met.get(), 1);
    }
}
