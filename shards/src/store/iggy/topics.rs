//! Topics as Iggy has them: what there is, and changes of it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use iggy::prelude::{
    Client, ClusterClient, Identifier, IggyByteSize, IggyClient, IggyDuration, IggyError, IggyExpiry, MaxTopicSize,
    PartitionClient, SegmentClient, StreamClient, StreamCreateOptions, Topic, TopicClient, TopicCreateOptions,
    TopicUpdateOptions,
};
use iggy_common::with_binary_deadline;
use ringgate_group::ErrorCode;
use ringgate_group::route::hash;
use uuid::Uuid;

use super::append::Refused;
use super::limits::RETRY_FIRST;
use super::reaction::{Backoff, OnChange, on_change};
use super::settings::KAFKA_STREAM;
use super::{Clients, Failure, IggyTopic, Use};
use crate::topic_config::TopicConfig;

/// The topic of the gateway's own, in the stream `kafka`: no client sees it.
pub(crate) const GROUPS_TOPIC: &str = "__ringgate_groups";

/// What a cluster is told apart by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// A number that stays as long as the stream `kafka` does.
    pub id: u128,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Kafka's name of it.
    pub name: Arc<str>,
    /// Another one for each creation.
    pub id: Uuid,
    /// How many partitions.
    pub partitions: i32,
    /// Settings by Kafka's name.
    pub config: BTreeMap<String, String>,
    /// Milliseconds since the epoch.
    pub created_at_ms: i64,
}

/// Makes the stream `kafka` if it is missing, and says which cluster this is.
pub(crate) async fn cluster(clients: &Clients, deadline: Instant) -> Result<Cluster, Failure> {
    let client = clients.get(Use::Admin, deadline).await?;
    let name = KAFKA_STREAM;
    let stream = loop {
        let found = with_binary_deadline(deadline.into(), client.get_stream(&named(name)?)).await;
        if let Some(stream) = found.map_err(|error| clients.failed(error))? {
            break stream;
        }
        let options = StreamCreateOptions::default();
        match with_binary_deadline(deadline.into(), client.create_stream(name, &options)).await {
            Ok(_) | Err(IggyError::StreamNameAlreadyExists(_)) => {}
            Err(error) => return Err(abandoned(clients, &client, error).await),
        }
    };
    let cluster = with_binary_deadline(deadline.into(), client.get_cluster_metadata()).await;
    let cluster = cluster.map_err(|error| clients.failed(error))?;
    let created_at = stream.created_at.as_micros().to_string();
    Ok(Cluster { id: wide_hash(&[&cluster.name, &created_at]) })
}

/// The topics that Kafka's clients see: those of the stream `kafka` whose names are Kafka's, and those that the
/// topic map names.
pub(crate) async fn seen(clients: &Clients, cluster: &Cluster, deadline: Instant) -> Result<Vec<Seen>, Failure> {
    let settings = clients.settings().clone();
    let client = clients.get(Use::Read, deadline).await?;
    let mut streams: Vec<Arc<str>> = vec![KAFKA_STREAM.into()];
    streams.extend(settings.topics.iter().map(|(_, at)| at.stream.clone()));
    streams.sort_unstable();
    streams.dedup();
    let mut all = Vec::new();
    for stream in streams {
        let topics = with_binary_deadline(deadline.into(), client.get_topics(&named(&stream)?)).await;
        let topics = match topics {
            Ok(topics) => topics,
            // The map may name what is yet to come.
            Err(error)
                if on_change(Failure::from(&error)) == OnChange::Refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) =>
            {
                continue;
            }
            Err(error) => return Err(clients.failed(error)),
        };
        for topic in topics {
            let at = IggyTopic { stream: stream.clone(), topic: topic.name.as_str().into() };
            if let Some(name) = settings.name_of(&at) {
                all.push(taken_in(cluster, name, &at, &topic));
            }
        }
    }
    all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn taken_in(cluster: &Cluster, name: Arc<str>, at: &IggyTopic, topic: &Topic) -> Seen {
    let created_at = topic.created_at.as_micros();
    let id = wide_hash(&[&cluster.id.to_string(), &at.stream, &at.topic, &created_at.to_string()]);
    let options = topic.resolved_options();
    let partitions = topic.partitions_count;
    let mut config = BTreeMap::new();
    let mut set = |name: &str, value: String| config.insert(name.to_string(), value);
    match options.message_expiry {
        IggyExpiry::NeverExpire => drop(set("retention.ms", "-1".into())),
        IggyExpiry::ExpireDuration(time) => drop(set("retention.ms", time.as_micros().div_ceil(1000).to_string())),
        IggyExpiry::ServerDefault => {}
    }
    match options.max_topic_size {
        MaxTopicSize::Unlimited => drop(set("retention.bytes", "-1".into())),
        // Iggy bounds the topic and holds each partition to its share, Kafka bounds each partition.
        MaxTopicSize::Custom(size) => {
            drop(set("retention.bytes", (size.as_bytes_u64() / u64::from(partitions.max(1))).to_string()))
        }
        MaxTopicSize::ServerDefault => {}
    }
    set("segment.bytes", options.runtime.effective_segment_size().as_bytes_u64().to_string());
    Seen {
        name,
        id: uuid::Builder::from_custom_bytes(id.to_be_bytes()).into_uuid(),
        partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
        config,
        created_at_ms: i64::try_from(created_at / 1000).unwrap_or(i64::MAX),
    }
}

/// Creates a topic. It has been created also when somebody else did so meanwhile and no answer told of it.
pub(crate) async fn create(
    clients: &Clients,
    at: &IggyTopic,
    partitions: u32,
    config: &TopicConfig,
    deadline: Instant,
) -> Result<(), Refused> {
    let options = TopicCreateOptions {
        partitions_count: Some(partitions),
        message_expiry: Some(expiry(config)),
        max_topic_size: Some(size(config, partitions)),
        segment_size: Some(IggyByteSize::from(config.segment_bytes)),
        ..TopicCreateOptions::default()
    };
    let (stream, options) = (named(&at.stream).map_err(refused)?, &options);
    let make = |client: Arc<IggyClient>| {
        let (stream, at) = (stream.clone(), at.clone());
        async move { client.create_topic(&stream, &at.topic, options).await.map(drop) }
    };
    changed(clients, deadline, make, |there: Option<u32>| there.is_some()).run(at).await
}

/// Deletes a topic.
pub(crate) async fn delete(clients: &Clients, at: &IggyTopic, deadline: Instant) -> Result<(), Refused> {
    let (stream, topic) = both(at)?;
    let make = |client: Arc<IggyClient>| {
        let (stream, topic) = (stream.clone(), topic.clone());
        async move { client.delete_topic(&stream, &topic).await }
    };
    changed(clients, deadline, make, |there: Option<u32>| there.is_none()).run(at).await
}

/// Adds partitions, so that there are `all`.
pub(crate) async fn add_partitions(
    clients: &Clients,
    at: &IggyTopic,
    more: u32,
    all: u32,
    deadline: Instant,
) -> Result<(), Refused> {
    let (stream, topic) = both(at)?;
    let make = |client: Arc<IggyClient>| {
        let (stream, topic) = (stream.clone(), topic.clone());
        async move { client.create_partitions(&stream, &topic, more).await }
    };
    changed(clients, deadline, make, move |there: Option<u32>| there == Some(all)).run(at).await
}

/// Changes for how long and how much a topic keeps.
pub(crate) async fn keep(
    clients: &Clients,
    at: &IggyTopic,
    partitions: u32,
    config: &TopicConfig,
    deadline: Instant,
) -> Result<(), Refused> {
    let (stream, topic) = both(at)?;
    let options = TopicUpdateOptions {
        message_expiry: Some(expiry(config)),
        max_topic_size: Some(size(config, partitions)),
        ..TopicUpdateOptions::default()
    };
    let options = &options;
    let make = |client: Arc<IggyClient>| {
        let (stream, topic) = (stream.clone(), topic.clone());
        async move { client.update_topic(&stream, &topic, options).await }
    };
    // Setting it again does no harm.
    changed(clients, deadline, make, |_: Option<u32>| false).run(at).await
}

/// Removes the closed segments of a partition all of whose records are to go. Those that were closed meanwhile stay.
pub(crate) async fn clear(clients: &Clients, at: &IggyTopic, partition: u32, deadline: Instant) -> Result<(), Refused> {
    let (stream, topic) = both(at)?;
    let segments = async {
        let client = clients.get(Use::Admin, deadline).await?;
        let found = with_binary_deadline(deadline.into(), client.get_topic(&stream, &topic)).await;
        let partitions = found.map_err(|error| clients.failed(error))?.map(|topic| topic.partitions);
        let partition = partitions.into_iter().flatten().find(|it| it.id == partition);
        Ok(partition.map_or(0, |partition| partition.segments_count))
    };
    let closed = segments.await.map_err(refused)?.saturating_sub(1);
    if closed == 0 {
        return Ok(());
    }
    let client = clients.get(Use::Admin, deadline).await.map_err(refused)?;
    match with_binary_deadline(deadline.into(), client.delete_segments(&stream, &topic, partition, closed)).await {
        Ok(()) => Ok(()),
        Err(error) => Err(refused(abandoned(clients, &client, error).await)),
    }
}

/// What Iggy says that a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub partition: u32,
    pub high_watermark: i64,
    pub messages: i64,
    pub bytes: u64,
}

/// What all partitions of a topic hold, in one request; nothing where there is no such topic.
pub(crate) async fn held(clients: &Clients, at: &IggyTopic, deadline: Instant) -> Result<Vec<Held>, Refused> {
    let (stream, topic) = both(at)?;
    let client = clients.get(Use::Read, deadline).await.map_err(refused)?;
    let found = with_binary_deadline(deadline.into(), client.get_topic(&stream, &topic)).await;
    let found = found.map_err(|error| refused(clients.failed(error)))?;
    let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    let held = |partition: iggy::prelude::Partition| Held {
        partition: partition.id,
        // The last offset is 0 also where there is none.
        high_watermark: match (partition.messages_count, partition.current_offset) {
            (0, 0) => 0,
            (_, last) => number(last).saturating_add(1),
        },
        messages: number(partition.messages_count),
        bytes: partition.size.as_bytes_u64(),
    };
    Ok(found.into_iter().flat_map(|topic| topic.partitions).map(held).collect())
}

fn both(at: &IggyTopic) -> Result<(Identifier, Identifier), Refused> {
    Ok((named(&at.stream).map_err(refused)?, named(&at.topic).map_err(refused)?))
}

/// A change that is tried until it is done, refused, or its time is over.
struct Change<'a, M, D> {
    clients: &'a Clients,
    deadline: Instant,
    make: M,
    /// Whether it is done, by the topic's number of partitions.
    is_done: D,
}

fn changed<M, D>(clients: &Clients, deadline: Instant, make: M, is_done: D) -> Change<'_, M, D> {
    Change { clients, deadline, make, is_done }
}

impl<M, F, D> Change<'_, M, D>
where
    M: Fn(Arc<IggyClient>) -> F,
    F: Future<Output = Result<(), IggyError>>,
    D: Fn(Option<u32>) -> bool,
{
    async fn run(&self, at: &IggyTopic) -> Result<(), Refused> {
        let mut backoff = Backoff::from(RETRY_FIRST);
        loop {
            let failure = match self.once().await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            match on_change(failure) {
                OnChange::Again => {}
                OnChange::Blocked(operation) | OnChange::Unknown(Some(operation)) => self.abandon(operation).await,
                OnChange::Unknown(None) => {}
                OnChange::Refuse(error) => return Err((error, failure.to_string())),
            }
            if matches!(on_change(failure), OnChange::Unknown(_)) && self.is_so(at).await {
                return Ok(());
            }
            let next = Instant::now() + backoff.next();
            if next >= self.deadline {
                return Err((ErrorCode::REQUEST_TIMED_OUT, failure.to_string()));
            }
            tokio::time::sleep_until(next.into()).await;
        }
    }

    async fn once(&self) -> Result<(), Failure> {
        let client = self.clients.get(Use::Admin, self.deadline).await?;
        let half = Instant::now() + self.deadline.saturating_duration_since(Instant::now()) / 2;
        let made = with_binary_deadline(half.into(), (self.make)(client)).await;
        made.map_err(|error| self.clients.failed(error))
    }

    async fn abandon(&self, operation: u64) {
        if let Ok(client) = self.clients.get(Use::Admin, self.deadline).await {
            let _ = client.abandon_operation(operation).await;
        }
    }

    async fn is_so(&self, at: &IggyTopic) -> bool {
        let Ok((stream, topic)) = both(at) else { return false };
        let Ok(client) = self.clients.get(Use::Read, self.deadline).await else { return false };
        match with_binary_deadline(self.deadline.into(), client.get_topic(&stream, &topic)).await {
            Ok(topic) => (self.is_done)(topic.map(|topic| topic.partitions_count)),
            Err(_) => false,
        }
    }
}

fn expiry(config: &TopicConfig) -> IggyExpiry {
    match u64::try_from(config.retention_ms) {
        Ok(ms) => IggyExpiry::ExpireDuration(IggyDuration::from(ms.saturating_mul(1000).max(1))),
        Err(_) => IggyExpiry::NeverExpire,
    }
}

fn size(config: &TopicConfig, partitions: u32) -> MaxTopicSize {
    match u64::try_from(config.retention_bytes) {
        Ok(bytes) => MaxTopicSize::Custom(IggyByteSize::from(bytes.max(1).saturating_mul(u64::from(partitions)))),
        Err(_) => MaxTopicSize::Unlimited,
    }
}

async fn abandoned(clients: &Clients, client: &IggyClient, error: IggyError) -> Failure {
    let failure = clients.failed(error);
    if let Some(operation) = failure.operation {
        let _ = client.abandon_operation(operation).await;
    }
    failure
}

fn named(name: &str) -> Result<Identifier, Failure> {
    Identifier::named(name).map_err(Failure::from)
}

fn refused(failure: Failure) -> Refused {
    (ErrorCode::INVALID_TOPIC_EXCEPTION, failure.to_string())
}

/// 128 bits that differ where any of the texts does.
fn wide_hash(texts: &[&str]) -> u128 {
    let half = |salt: &str| {
        let mut bytes = salt.as_bytes().to_vec();
        for text in texts {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        u128::from(hash(&bytes))
    };
    half("high") << 64 | half("low")
}
