//! `ExternalGroup` offsets of Iggy's consumer groups: stored, read, deleted, each by the group's name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use iggy::prelude::{Client, Consumer, ConsumerGroupClient, ConsumerOffsetClient, Identifier, IggyClient, IggyError};
use iggy_common::with_binary_deadline;
use ringgate_group::route::hash;
use ringgate_group::{StoreError, Text};

use super::super::limits::{OFFSET_READS_AT_ONCE, RETRY_FIRST};
use super::super::reaction::{Backoff, OnCommit, OnOffsetFetch, on_commit, on_offset_fetch};
use super::super::{Clients, Failure, IggyTopic, Use, together};
use super::{iggy_group_name, kafka_group_id};

/// A key of committed offsets, as Iggy has it.
#[derive(Debug, Clone)]
pub(super) struct ExternalKey {
    /// The Kafka group.
    pub group_id: Text,
    /// Where the topic is.
    pub topic: IggyTopic,
    /// The partition.
    pub partition: u32,
}

struct Named {
    consumer: Consumer,
    stream: Identifier,
    topic: Identifier,
}

impl ExternalKey {
    fn named(&self) -> Result<Named, Failure> {
        Ok(Named {
            consumer: Consumer::external_group(Identifier::named(&iggy_group_name(self.group_id.as_str()))?),
            stream: Identifier::named(&self.topic.stream)?,
            topic: Identifier::named(&self.topic.topic)?,
        })
    }

    /// Which client: writes of a key go through one, in their order.
    fn usage(&self) -> Use {
        let group = hash(self.group_id.as_bytes());
        let topic = hash(self.topic.topic.as_bytes());
        Use::Offset(group.wrapping_mul(31).wrapping_add(topic).wrapping_add(u64::from(self.partition)))
    }
}

/// Stores the offset, or deletes it where there is none, until that is done, refused, or its time is over. The Iggy
/// group is made when it is missing.
pub(super) async fn change(
    clients: &Clients,
    key: &ExternalKey,
    offset: Option<u64>,
    deadline: Instant,
) -> Result<(), StoreError> {
    let mut backoff = Backoff::from(RETRY_FIRST);
    loop {
        let failure = match change_once(clients, key, offset, deadline).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        match on_commit(failure) {
            OnCommit::Done => return Ok(()),
            OnCommit::NoGroup if offset.is_none() => return Ok(()),
            OnCommit::NoGroup => match make_group(clients, key, deadline).await {
                Ok(()) => continue,
                Err(Some(error)) => return Err(error),
                Err(None) => {}
            },
            // What was for a topic that is gone is gone with it.
            OnCommit::Refuse(ringgate_group::ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) if offset.is_none() => {
                return Ok(());
            }
            OnCommit::Refuse(error) => {
                tracing::warn!(group = key.group_id.as_str(), topic = %key.topic, %failure, "an offset is refused");
                return Err(StoreError::Refused(error));
            }
            OnCommit::Unknown(operation) => {
                if let Some(operation) = operation
                    && settled(clients, key, operation, deadline).await
                {
                    return Ok(());
                }
            }
            OnCommit::Blocked(operation) => {
                settled(clients, key, operation, deadline).await;
            }
            OnCommit::Again => {}
        }
        if !wait(&mut backoff, deadline).await {
            return Err(StoreError::Unavailable);
        }
    }
}

async fn change_once(
    clients: &Clients,
    key: &ExternalKey,
    offset: Option<u64>,
    deadline: Instant,
) -> Result<(), Failure> {
    let Named { consumer, stream, topic } = key.named()?;
    let client = clients.get(key.usage(), deadline).await?;
    // Leaves time to learn of an outcome that this does not tell.
    let now = Instant::now();
    let half = now + deadline.saturating_duration_since(now) / 2;
    let partition = Some(key.partition);
    let done = match offset {
        Some(offset) => {
            let stored = client.store_consumer_offset(&consumer, &stream, &topic, partition, offset);
            with_binary_deadline(half.into(), stored).await
        }
        None => {
            let deleted = client.delete_consumer_offset(&consumer, &stream, &topic, partition);
            with_binary_deadline(half.into(), deleted).await
        }
    };
    done.map_err(|error| clients.failed(error))
}

/// Learns what has become of an operation, or lets go of it. Whether it was done.
async fn settled(clients: &Clients, key: &ExternalKey, operation: u64, deadline: Instant) -> bool {
    let Ok(client) = clients.get(key.usage(), deadline).await else { return false };
    let now = Instant::now();
    let half = now + deadline.saturating_duration_since(now) / 2;
    if client.resolve_operation(operation, half).await.is_ok() {
        return true;
    }
    let _ = client.abandon_operation(operation).await;
    false
}

/// Makes the Iggy group. `Err(None)`: not this time.
async fn make_group(clients: &Clients, key: &ExternalKey, deadline: Instant) -> Result<(), Option<StoreError>> {
    let Ok(Named { stream, topic, .. }) = key.named() else { return Err(Some(StoreError::TooLarge)) };
    let client = clients.get(Use::Admin, deadline).await.map_err(|_| None)?;
    let name = iggy_group_name(key.group_id.as_str());
    let made = with_binary_deadline(deadline.into(), client.create_consumer_group(&stream, &topic, &name)).await;
    match made {
        Ok(_) | Err(IggyError::ConsumerGroupNameAlreadyExists(..)) => Ok(()),
        Err(error) => {
            let failure = let_go(clients, &client, error).await;
            match on_commit(failure) {
                OnCommit::Refuse(error) => Err(Some(StoreError::Refused(error))),
                _ => Err(None),
            }
        }
    }
}

async fn let_go(clients: &Clients, client: &IggyClient, error: IggyError) -> Failure {
    let failure = clients.failed(error);
    if let Some(operation) = failure.operation {
        let _ = client.abandon_operation(operation).await;
    }
    failure
}

/// Waits before the next attempt; `false` when its time would be over.
async fn wait(backoff: &mut Backoff, deadline: Instant) -> bool {
    let next = Instant::now() + backoff.next();
    if next >= deadline {
        return false;
    }
    tokio::time::sleep_until(next.into()).await;
    true
}

/// Deletes the group from these topics, with all its offsets.
pub(super) async fn delete_group(
    clients: &Clients,
    group_id: &Text,
    topics: &[IggyTopic],
    deadline: Instant,
) -> Result<(), StoreError> {
    let unavailable = |_| StoreError::Unavailable;
    let wanted = |name: &str| name == group_id.as_str();
    let found = directory(clients, topics, wanted, deadline).await.map_err(unavailable)?;
    let name = Identifier::named(&iggy_group_name(group_id.as_str())).map_err(|_| StoreError::TooLarge)?;
    for place in found.into_values().flatten() {
        let mut backoff = Backoff::from(RETRY_FIRST);
        let (stream, topic) = (named(&place.stream)?, named(&place.topic)?);
        loop {
            let client = clients.get(Use::Admin, deadline).await.map_err(unavailable)?;
            let deleted = client.delete_consumer_group(&stream, &topic, &name);
            let Err(error) = with_binary_deadline(deadline.into(), deleted).await else { break };
            let failure = let_go(clients, &client, error).await;
            match on_commit(failure) {
                OnCommit::Done | OnCommit::NoGroup => break,
                OnCommit::Refuse(ringgate_group::ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => break,
                OnCommit::Refuse(error) => return Err(StoreError::Refused(error)),
                OnCommit::Again | OnCommit::Unknown(_) | OnCommit::Blocked(_) => {
                    if !wait(&mut backoff, deadline).await {
                        return Err(StoreError::Unavailable);
                    }
                }
            }
        }
    }
    Ok(())
}

fn named(name: &str) -> Result<Identifier, StoreError> {
    Identifier::named(name).map_err(|_| StoreError::TooLarge)
}

/// On which of these topics Iggy has which Kafka groups, of those that are wanted.
pub(super) async fn directory(
    clients: &Clients,
    topics: &[IggyTopic],
    wanted: impl Fn(&str) -> bool,
    deadline: Instant,
) -> Result<HashMap<Text, Vec<IggyTopic>>, Failure> {
    let mut found: HashMap<Text, Vec<IggyTopic>> = HashMap::new();
    for some in topics.chunks(OFFSET_READS_AT_ONCE) {
        let asked = some.iter().map(|place| groups_of(clients, place, deadline)).collect();
        for (place, groups) in some.iter().zip(together(asked).await) {
            for group in groups? {
                if let Some(group_id) = kafka_group_id(&group).filter(|group_id| wanted(group_id)) {
                    found.entry(group_id.into()).or_default().push(place.clone());
                }
            }
        }
    }
    Ok(found)
}

/// The names of a topic's groups; none where there is no such topic.
async fn groups_of(clients: &Clients, place: &IggyTopic, deadline: Instant) -> Result<Vec<String>, Failure> {
    let (stream, topic) = (Identifier::named(&place.stream)?, Identifier::named(&place.topic)?);
    let mut backoff = Backoff::from(RETRY_FIRST);
    loop {
        let client = clients.get(Use::Read, deadline).await?;
        let listed = with_binary_deadline(deadline.into(), client.get_consumer_groups(&stream, &topic)).await;
        let failure = match listed {
            Ok(groups) => return Ok(groups.into_iter().map(|group| group.name).collect()),
            Err(error) => clients.failed(error),
        };
        match on_offset_fetch(failure) {
            OnOffsetFetch::None => return Ok(Vec::new()),
            OnOffsetFetch::Again if wait(&mut backoff, deadline).await => {}
            OnOffsetFetch::Again | OnOffsetFetch::Refuse(_) => return Err(failure),
        }
    }
}

/// The offsets of these keys, in their order; `None` where there is none. One that cannot be read fails all.
pub(super) async fn read(
    clients: &Arc<Clients>,
    keys: &[ExternalKey],
    deadline: Instant,
) -> Result<Vec<Option<u64>>, Failure> {
    let mut all = Vec::with_capacity(keys.len());
    for some in keys.chunks(OFFSET_READS_AT_ONCE) {
        let asked = some.iter().map(|key| read_one(clients, key, deadline)).collect();
        for offset in together(asked).await {
            all.push(offset?);
        }
    }
    Ok(all)
}

async fn read_one(clients: &Clients, key: &ExternalKey, deadline: Instant) -> Result<Option<u64>, Failure> {
    let Named { consumer, stream, topic } = key.named()?;
    let mut backoff = Backoff::from(RETRY_FIRST);
    loop {
        let client = clients.get(key.usage(), deadline).await?;
        let stored = client.get_consumer_offset(&consumer, &stream, &topic, Some(key.partition));
        let failure = match with_binary_deadline(deadline.into(), stored).await {
            Ok(stored) => return Ok(stored.map(|stored| stored.stored_offset)),
            Err(error) => clients.failed(error),
        };
        match on_offset_fetch(failure) {
            OnOffsetFetch::None => return Ok(None),
            OnOffsetFetch::Again if wait(&mut backoff, deadline).await => {}
            OnOffsetFetch::Again | OnOffsetFetch::Refuse(_) => return Err(failure),
        }
    }
}
