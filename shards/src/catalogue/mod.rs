//! Streams, topics with their settings, and the consumer groups that Iggy keeps of a topic, as numbered immutable
//! snapshots.
//!
//! Shard 0 owns the catalogue. A change is durable before any shard serves it, every shard has it
//! before it is answered, and no client sees a topic before all its partitions are open. A change costs a few
//! nodes of the trees, however much there is.
//!
//! What Kafka calls a topic is a topic of the stream [`KAFKA`], which is always there. Topics of other streams are
//! Iggy's alone: [`Catalogue::topic`], [`Catalogue::topics`] and [`Catalogue::topic_by_id`] do not show them.

mod groups;
mod topic;

use std::sync::Arc;

use imbl::{HashMap, OrdMap};
use uuid::Uuid;

pub use groups::{ConsumerGroup, TopicGroups};
pub use topic::{IggyOption, NewIggyTopic, NewTopic, Topic};

use crate::store::embedded::catalogue_log::CatalogueRecord;

/// The number of the stream whose topics are Kafka's.
pub const KAFKA: u32 = 0;

/// Its name.
pub const KAFKA_NAME: &str = "kafka";

/// A stream of topics, as Iggy has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Never used again: Iggy's id of it.
    pub number: u32,
    /// 1 to 255 bytes.
    pub name: Arc<str>,
    /// Milliseconds since the epoch.
    pub created_at_ms: i64,
}

/// A stream and its topics.
#[derive(Debug, Clone)]
struct StreamTopics {
    stream: Arc<Stream>,
    by_name: OrdMap<Arc<str>, Arc<Topic>>,
    by_number: OrdMap<u32, Arc<Topic>>,
}

/// One version of what there is.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Grows by one with each change.
    pub version: u64,
    /// The version that last changed a topic of Kafka's.
    kafka_version: u64,
    streams: OrdMap<u32, StreamTopics>,
    stream_numbers: OrdMap<Arc<str>, u32>,
    by_id: HashMap<Uuid, Arc<Topic>>,
    groups: HashMap<Uuid, TopicGroups>,
    partitions: usize,
    group_count: usize,
    next_stream: u32,
    next_topic: u32,
}

/// Stream [`KAFKA`] without a topic.
impl Default for Catalogue {
    fn default() -> Catalogue {
        let mut catalogue = Catalogue {
            version: 0,
            kafka_version: 0,
            streams: OrdMap::new(),
            stream_numbers: OrdMap::new(),
            by_id: HashMap::new(),
            groups: HashMap::new(),
            partitions: 0,
            group_count: 0,
            next_stream: 0,
            next_topic: 0,
        };
        catalogue.apply(kafka_since(0));
        catalogue
    }
}

/// The creation of stream [`KAFKA`].
pub(crate) fn kafka_since(created_at_ms: i64) -> CatalogueRecord {
    CatalogueRecord::StreamCreated(Stream { number: KAFKA, name: KAFKA_NAME.into(), created_at_ms }.into())
}

impl Catalogue {
    /// A catalogue of these topics, which are Kafka's.
    pub fn new(version: u64, topics: impl IntoIterator<Item = Arc<Topic>>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        topics.into_iter().for_each(|topic| catalogue.apply(CatalogueRecord::Created(topic)));
        catalogue.at_version(version)
    }

    /// The same, as this version.
    pub(crate) fn at_version(mut self, version: u64) -> Catalogue {
        (self.version, self.kafka_version) = (version, version);
        self
    }

    /// Kafka's topic of this name.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.streams.get(&KAFKA)?.by_name.get(name)
    }

    /// Kafka's topic with this id.
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id).filter(|topic| topic.stream == KAFKA)
    }

    /// Kafka's topics by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics_of(KAFKA)
    }

    /// The topics of all streams, in no order.
    pub fn all_topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_id.values()
    }

    /// The topic with this id, of whatever stream.
    pub fn any_topic(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// A stream's topics by name.
    pub fn topics_of(&self, stream: u32) -> impl Iterator<Item = &Arc<Topic>> {
        self.streams.get(&stream).into_iter().flat_map(|it| it.by_name.values())
    }

    /// How many topics a stream has.
    pub fn topic_count(&self, stream: u32) -> usize {
        self.streams.get(&stream).map_or(0, |it| it.by_name.len())
    }

    /// A stream's topic of this name.
    pub fn topic_in(&self, stream: u32, name: &str) -> Option<&Arc<Topic>> {
        self.streams.get(&stream)?.by_name.get(name)
    }

    /// A stream's topic of this number.
    pub fn topic_numbered(&self, stream: u32, number: u32) -> Option<&Arc<Topic>> {
        self.streams.get(&stream)?.by_number.get(&number)
    }

    /// The stream of this number.
    pub fn stream(&self, number: u32) -> Option<&Arc<Stream>> {
        self.streams.get(&number).map(|it| &it.stream)
    }

    /// The stream of this name.
    pub fn stream_named(&self, name: &str) -> Option<&Arc<Stream>> {
        self.stream(*self.stream_numbers.get(name)?)
    }

    /// All streams by number.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.streams.values().map(|it| &it.stream)
    }

    /// How many streams there are.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// The consumer groups of a topic.
    pub fn groups(&self, topic: Uuid) -> &TopicGroups {
        self.groups.get(&topic).unwrap_or(TopicGroups::none())
    }

    /// How many consumer groups all topics have together.
    pub fn group_count(&self) -> usize {
        self.group_count
    }

    /// How many partitions there are in all.
    pub fn partition_count(&self) -> usize {
        self.partitions
    }

    /// The version that last changed a topic of Kafka's.
    fn version_of_kafkas(&self) -> u64 {
        self.kafka_version
    }

    /// The number that the next stream gets.
    pub(crate) fn next_stream(&self) -> u32 {
        self.next_stream
    }

    /// The number that the next topic gets.
    pub(crate) fn next_topic(&self) -> u32 {
        self.next_topic
    }

    /// The next version, with these changes.
    pub(crate) fn with(&self, changes: &[CatalogueRecord]) -> Catalogue {
        let mut next = self.clone();
        next.version += 1;
        changes.iter().for_each(|change| next.apply(change.clone()));
        next
    }

    /// Takes a change in. One that fits to nothing that there is changes nothing.
    pub(crate) fn apply(&mut self, change: CatalogueRecord) {
        match change {
            CatalogueRecord::Counters { next_stream, next_topic } => {
                self.next_stream = self.next_stream.max(next_stream);
                self.next_topic = self.next_topic.max(next_topic);
            }
            CatalogueRecord::StreamCreated(stream) => {
                self.next_stream = self.next_stream.max(stream.number.saturating_add(1));
                self.stream_numbers.insert(stream.name.clone(), stream.number);
                match self.streams.get_mut(&stream.number) {
                    Some(there) => there.stream = stream,
                    None => {
                        let (by_name, by_number) = (OrdMap::new(), OrdMap::new());
                        self.streams.insert(stream.number, StreamTopics { stream, by_name, by_number });
                    }
                }
            }
            CatalogueRecord::StreamDeleted(number) => {
                let Some(gone) = self.streams.remove(&number) else { return };
                self.stream_numbers.remove(&gone.stream.name);
                gone.by_number.values().for_each(|topic| self.let_go(topic));
            }
            CatalogueRecord::Unnumbered(topic) => {
                let number = self.next_topic;
                self.apply(CatalogueRecord::Created(Topic { number, ..Arc::unwrap_or_clone(topic) }.into()));
            }
            CatalogueRecord::Created(topic) => {
                self.next_topic = self.next_topic.max(topic.number.saturating_add(1));
                self.put(topic);
            }
            CatalogueRecord::Deleted(id) => {
                let Some(topic) = self.by_id.get(&id).cloned() else { return };
                if let Some(of) = self.streams.get_mut(&topic.stream) {
                    of.by_name.remove(&topic.name);
                    of.by_number.remove(&topic.number);
                }
                self.let_go(&topic);
            }
            CatalogueRecord::PartitionsAdded { topic, partitions } => {
                self.change(topic, |topic| topic.partitions = partitions);
            }
            CatalogueRecord::ConfigChanged { topic, config } => self.change(topic, |topic| topic.config = config),
            CatalogueRecord::OptionsChanged { topic, options } => self.change(topic, |topic| topic.options = options),
            CatalogueRecord::GroupIds { topic, next } => self.groups.entry(topic).or_default().never_below(next),
            CatalogueRecord::GroupCreated { topic, group } => {
                self.group_count += usize::from(self.groups.entry(topic).or_default().insert(group));
            }
            CatalogueRecord::GroupDeleted { topic, id } => {
                let Some(groups) = self.groups.get_mut(&topic) else { return };
                self.group_count -= usize::from(groups.remove(id));
            }
        }
    }

    fn change(&mut self, id: Uuid, change: impl FnOnce(&mut Topic)) {
        if let Some(topic) = self.by_id.get(&id) {
            let mut changed = Topic::clone(topic);
            change(&mut changed);
            self.put(Arc::new(changed));
        }
    }

    fn put(&mut self, topic: Arc<Topic>) {
        if let Some(of) = self.streams.get_mut(&topic.stream) {
            of.by_name.insert(topic.name.clone(), topic.clone());
            of.by_number.insert(topic.number, topic.clone());
        }
        if topic.stream == KAFKA {
            self.kafka_version = self.version;
        }
        self.partitions += topic.partition_count();
        if let Some(before) = self.by_id.insert(topic.id, topic) {
            self.partitions -= before.partition_count();
        }
    }

    /// A topic that is in no stream any more.
    fn let_go(&mut self, topic: &Topic) {
        if self.by_id.remove(&topic.id).is_some() {
            self.partitions -= topic.partition_count();
        }
        if let Some(groups) = self.groups.remove(&topic.id) {
            self.group_count -= groups.len();
        }
        if topic.stream == KAFKA {
            self.kafka_version = self.version;
        }
    }

    /// The changes that make this catalogue out of nothing.
    pub(crate) fn records(&self) -> Vec<CatalogueRecord> {
        let (next_stream, next_topic) = (self.next_stream, self.next_topic);
        let mut records = vec![CatalogueRecord::Counters { next_stream, next_topic }];
        records.extend(self.streams().map(|stream| CatalogueRecord::StreamCreated(stream.clone())));
        for topic in self.in_order() {
            records.push(CatalogueRecord::Created(topic.clone()));
            let groups = self.groups(topic.id);
            if groups.next() > TopicGroups::none().next() {
                records.push(CatalogueRecord::GroupIds { topic: topic.id, next: groups.next() });
            }
            let created =
                |group: &Arc<ConsumerGroup>| CatalogueRecord::GroupCreated { topic: topic.id, group: group.clone() };
            records.extend(groups.iter().map(created));
        }
        records
    }

    /// The topics of all streams, oldest first.
    pub(crate) fn in_order(&self) -> Vec<&Arc<Topic>> {
        let mut topics: Vec<&Arc<Topic>> = self.all_topics().collect();
        topics.sort_unstable_by_key(|topic| topic.number);
        topics
    }
}

/// As consumer groups (KIP-848) see it.
impl ringgate_group::Topics for Catalogue {
    fn version(&self) -> u64 {
        self.version_of_kafkas()
    }

    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        self.topic(name).map(|topic| (topic.id.as_u128(), topic.partitions))
    }

    fn name_of(&self, id: u128) -> Option<&str> {
        self.topic_by_id(Uuid::from_u128(id)).map(|topic| &*topic.name)
    }

    fn for_each_name<'a>(&'a self, see: &mut dyn FnMut(&'a str)) {
        self.topics().for_each(|topic| see(&topic.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringgate_group::Topics;

    fn stream(number: u32, name: &str) -> CatalogueRecord {
        CatalogueRecord::StreamCreated(Stream { number, name: name.into(), created_at_ms: 7 }.into())
    }

    fn topic(number: u32, stream: (u32, &str), name: &str) -> Arc<Topic> {
        Topic { partitions: 2, ..Topic::new(Uuid::from_u128(number.into()), number, stream, name.into()) }.into()
    }

    fn group(topic: &Topic, id: u32, name: &str) -> CatalogueRecord {
        let group = ConsumerGroup { id, name: name.into(), created_at_ms: 9 };
        CatalogueRecord::GroupCreated { topic: topic.id, group: group.into() }
    }

    /// Stream `kafka` with `orders`, stream `lab` with `orders` and `runs`.
    fn two_streams() -> Catalogue {
        let kafka = topic(0, (KAFKA, KAFKA_NAME), "orders");
        let records = [
            stream(1, "lab"),
            CatalogueRecord::Created(topic(1, (1, "lab"), "orders")),
            CatalogueRecord::Created(topic(2, (1, "lab"), "runs")),
        ];
        Catalogue::new(1, [kafka]).with(&records)
    }

    #[test]
    fn kafka_sees_the_topics_of_its_stream_and_no_others() {
        let catalogue = two_streams();
        let names = |topics: Vec<&Arc<Topic>>| topics.iter().map(|t| t.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(catalogue.topics().collect()), ["orders"]);
        assert_eq!(names(catalogue.topics_of(1).collect()), ["orders", "runs"]);
        assert_eq!(catalogue.topic("orders").unwrap().number, 0);
        assert_eq!(catalogue.topic_in(1, "orders").unwrap().number, 1);
        assert_eq!(catalogue.topic("runs"), None);
        let runs = catalogue.topic_numbered(1, 2).unwrap();
        assert_eq!((catalogue.topic_by_id(runs.id), catalogue.any_topic(runs.id)), (None, Some(runs)));
        assert_eq!((catalogue.partition_count(), catalogue.in_order().len()), (6, 3));
        assert_eq!(catalogue.stream_named("lab").unwrap().number, 1);
    }

    #[test]
    fn consumer_groups_of_kafka_look_again_only_when_a_topic_of_kafkas_changes() {
        let before = two_streams();
        let foreign = CatalogueRecord::Created(topic(3, (1, "lab"), "more"));
        let after = before.with(&[foreign, group(before.topic("orders").unwrap(), 1, "g")]);
        assert_eq!((Topics::version(&after), after.version), (Topics::version(&before), before.version + 1));
        let id = before.topic("orders").unwrap().id;
        let grown = after.with(&[CatalogueRecord::PartitionsAdded { topic: id, partitions: 5 }]);
        assert!(Topics::version(&grown) > Topics::version(&after));
        assert_eq!((grown.partition_count(), after.partition_count()), (11, 8), "the one before is as it was");
    }

    #[test]
    fn a_stream_takes_its_topics_and_their_groups_along() {
        let catalogue = two_streams();
        let runs = catalogue.topic_in(1, "runs").unwrap().clone();
        let catalogue = catalogue.with(&[group(&runs, 1, "g")]);
        assert_eq!(catalogue.group_count(), 1);
        let catalogue = catalogue.with(&[CatalogueRecord::StreamDeleted(1)]);
        assert_eq!((catalogue.group_count(), catalogue.partition_count(), catalogue.stream_count()), (0, 2, 1));
        assert_eq!((catalogue.any_topic(runs.id), catalogue.stream_named("lab")), (None, None));
    }

    #[test]
    fn numbers_are_never_used_again_also_after_it_was_written_anew() {
        let catalogue = two_streams();
        let runs = catalogue.topic_in(1, "runs").unwrap().clone();
        let kafka = catalogue.topic("orders").unwrap().clone();
        let gone = CatalogueRecord::GroupDeleted { topic: kafka.id, id: 1 };
        let catalogue = catalogue.with(&[
            group(&kafka, 1, "g"),
            gone,
            CatalogueRecord::Deleted(runs.id),
            CatalogueRecord::StreamDeleted(1),
        ]);
        let mut again = Catalogue::default();
        catalogue.records().into_iter().for_each(|record| again.apply(record));
        assert_eq!((again.next_stream(), again.next_topic(), again.groups(kafka.id).next()), (2, 3, 2));
        assert_eq!(again.records(), catalogue.records());
    }

    #[test]
    fn topics_of_before_there_were_numbers_get_them_in_the_order_of_their_creation() {
        let mut catalogue = Catalogue::default();
        for id in [7u32, 3, 5] {
            catalogue.apply(CatalogueRecord::Unnumbered(topic(id, (KAFKA, KAFKA_NAME), &format!("t{id}"))));
        }
        let seen: Vec<_> = catalogue.in_order().iter().map(|t| (t.number, t.name.to_string())).collect();
        assert_eq!(seen, [(0, "t7".into()), (1, "t3".into()), (2, "t5".into())]);
    }
}
