//! A shard's part: its writes carried out, and its groups' offsets loaded when they are first asked for.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringgate_group::record::{OffsetKey, OffsetValue};
use ringgate_group::route::ShardId;
use ringgate_group::{PersistId, Record, StoreError, Text};

use super::super::limits::DELETE_AGAIN_AFTER;
use super::super::reaction::{OnProduce, on_produce};
use super::super::{Clients, Failure, IggySettings, IggyTopic, Lane};
use super::external::{self, ExternalKey};
use super::holder::Holding;
use super::replay::{Commits, Loaded};
use super::side_message::Stamp;
use super::side_topic::{self, NotAppended};
use super::writes::Op;
use super::{SIDE_PARTITIONS, SideMessage, Writes};
use crate::ShardHandle;
use crate::catalogue::Catalogue;

/// Commits of a group, by topic and partition.
type OfGroup = HashMap<(Text, i32), Commits>;

/// One shard's groups in Iggy.
pub(crate) struct GroupLog {
    lane: Lane,
    settings: Arc<IggySettings>,
    shard: ShardId,
    holding: Holding,
    writes: RefCell<Writes>,
    records: RefCell<Vec<Record>>,
    /// Commits with a metadata string of groups whose offsets are not loaded yet.
    commits: RefCell<HashMap<Text, OfGroup>>,
    /// The next message of each partition.
    sequences: [Cell<u64>; SIDE_PARTITIONS as usize],
    operations: Cell<u64>,
}

/// How an operation went, to be told to [`GroupLog::done`].
pub(crate) struct Done {
    op: Op,
    outcome: Result<(), StoreError>,
}

/// Offsets of a group that were loaded: topic, partition, value.
pub(crate) type Offsets = Vec<(Text, i32, OffsetValue)>;

/// A topic as loading sees it.
#[derive(Debug, Clone)]
struct Place {
    name: Text,
    id: u128,
    partitions: u32,
    at: IggyTopic,
}

impl GroupLog {
    pub(crate) fn new(
        lane: Lane,
        settings: Arc<IggySettings>,
        shard: ShardId,
        holding: Holding,
        loaded: Loaded,
    ) -> GroupLog {
        let Loaded { records, commits, unfinished } = loaded;
        let writes = Writes::new(&commits, unfinished);
        let mut by_group: HashMap<Text, OfGroup> = HashMap::new();
        for (OffsetKey { group_id, topic, partition }, values) in commits {
            by_group.entry(group_id).or_default().insert((topic, partition), values);
        }
        GroupLog {
            lane,
            settings,
            shard,
            holding,
            writes: RefCell::new(writes),
            records: RefCell::new(records),
            commits: RefCell::new(by_group),
            sequences: Default::default(),
            operations: Cell::new(0),
        }
    }

    /// Groups and members that an earlier run has left. Their offsets come later. They are given away once.
    pub(crate) fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut self.records.borrow_mut())
    }

    /// Whether the gateway holds the lease, so that groups may be answered.
    pub(crate) fn is_held(&self) -> bool {
        self.holding.is_valid()
    }

    /// For how long that is so yet, if nothing renews it.
    pub(crate) fn held_for(&self) -> Duration {
        self.holding.valid_until().map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default()
    }

    /// Takes a write; [`GroupLog::start`] begins with it.
    pub(crate) fn push(&self, id: PersistId, records: Vec<Record>) {
        self.writes.borrow_mut().push(id, records);
    }

    /// A write that is decided, and how.
    pub(crate) fn poll_decided(&self) -> Option<(PersistId, Result<(), StoreError>)> {
        self.writes.borrow_mut().poll_decided()
    }

    /// Whether every write is decided.
    pub(crate) fn is_idle(&self) -> bool {
        self.writes.borrow().is_idle()
    }

    /// Operations that were carried out.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// The next operation, begun, if one may be; to be told to [`GroupLog::done`] when it is done.
    pub(crate) fn start(&self, catalogue: &Catalogue) -> Option<impl Future<Output = Done> + 'static + use<>> {
        let op = self.writes.borrow_mut().poll_op()?;
        self.operations.set(self.operations.get() + 1);
        let now = Instant::now();
        // Nothing is written when the lease may be somebody else's.
        let deadline = self.holding.valid_until().map(|until| until.min(now + self.settings.timeout));
        let call = deadline.map(|deadline| self.call(&op, catalogue, deadline));
        Some(async move {
            let outcome = match call {
                None => Err(StoreError::NotOwner),
                // Otherwise the lane is full, or gone.
                Some(call) => call.await.unwrap_or(Err(StoreError::Unavailable)),
            };
            if let (Op::DeleteGroup { group_id }, Err(error)) = (&op, &outcome) {
                tracing::warn!(group = group_id.as_str(), %error, "a deleted group's offsets are still in Iggy");
                ringgate_runtime::sleep(DELETE_AGAIN_AFTER).await;
            }
            Done { op, outcome }
        })
    }

    /// Takes in how an operation went.
    pub(crate) fn done(&self, Done { op, outcome }: Done) {
        let mut writes = self.writes.borrow_mut();
        match op {
            Op::Append { partition, .. } => writes.handle_appended(partition, outcome),
            Op::Store { key, .. } | Op::Delete { key } => writes.handle_offset(key, outcome),
            Op::DeleteGroup { group_id } => {
                if outcome.is_ok() {
                    self.commits.borrow_mut().remove(&group_id);
                }
                writes.handle_group_deleted(group_id, outcome);
            }
        }
    }

    fn call(
        &self,
        op: &Op,
        catalogue: &Catalogue,
        deadline: Instant,
    ) -> impl Future<Output = Result<Result<(), StoreError>, Failure>> + 'static + use<> {
        let job: Job = match op {
            Op::Append { partition, messages } => {
                let sequence = &self.sequences[usize::from(*partition)];
                let first = sequence.replace(sequence.get() + messages.len() as u64);
                let (term, writer) = (self.holding.term(), self.shard.0);
                let message = |(nth, what): (u64, _)| SideMessage::Kept {
                    stamp: Stamp { term, writer, sequence: first + nth },
                    as_of: None,
                    what,
                };
                let messages = (0..).zip(messages.iter().cloned()).map(message).collect();
                Job::Append { partition: *partition, messages }
            }
            Op::Store { key, offset } => Job::Offset(self.external(key), Some(*offset)),
            Op::Delete { key } => Job::Offset(self.external(key), None),
            Op::DeleteGroup { group_id } => {
                let topics = self.places(catalogue).into_iter().map(|place| place.at).collect();
                Job::DeleteGroup(group_id.clone(), topics)
            }
        };
        self.lane.call(move |clients: Arc<Clients>| async move { Ok(job.run(&clients, deadline).await) })
    }

    fn external(&self, key: &OffsetKey) -> ExternalKey {
        ExternalKey {
            group_id: key.group_id.clone(),
            topic: self.settings.place_of(&key.topic.as_str().into()),
            partition: key.partition.unsigned_abs(),
        }
    }

    fn places(&self, catalogue: &Catalogue) -> Vec<Place> {
        let place = |topic: &Arc<crate::catalogue::Topic>| Place {
            name: Text::from(&*topic.name),
            id: topic.id.as_u128(),
            partitions: topic.partitions.unsigned_abs(),
            at: self.settings.place_of(&topic.name),
        };
        catalogue.topics().map(place).collect()
    }

    /// All groups of this shard that Iggy has offsets of.
    pub(crate) async fn all_groups(&self, shard: &ShardHandle) -> Result<Vec<Text>, Failure> {
        let deadline = Instant::now() + self.settings.timeout;
        let topics: Vec<IggyTopic> = self.places(&shard.catalogue()).into_iter().map(|place| place.at).collect();
        let (route, own) = (shard.route(), self.shard);
        let found = self.lane.call(move |clients: Arc<Clients>| async move {
            external::directory(&clients, &topics, |group| route.group(group) == own, deadline).await
        });
        Ok(found.await?.into_keys().collect())
    }

    /// What Iggy has of these groups' offsets. One whose offsets cannot be read fails all: it is never taken for a group
    /// without offsets.
    pub(crate) async fn load(
        &self,
        shard: &ShardHandle,
        groups: Vec<Text>,
        wall_ms: i64,
    ) -> Result<Vec<(Text, Offsets)>, Failure> {
        let deadline = Instant::now() + self.settings.timeout;
        let places = self.places(&shard.catalogue());
        let wanted: HashSet<Text> = {
            // What a deleted group has left in Iggy is nobody's.
            let writes = self.writes.borrow();
            groups.iter().filter(|group| !writes.is_deleting(group)).cloned().collect()
        };
        let read = self.lane.call(move |clients: Arc<Clients>| async move {
            let topics: Vec<IggyTopic> = places.iter().map(|place| place.at.clone()).collect();
            let is_wanted = |group: &str| wanted.contains(group.as_bytes());
            let found = external::directory(&clients, &topics, is_wanted, deadline).await?;
            let by_place: HashMap<&IggyTopic, &Place> = places.iter().map(|place| (&place.at, place)).collect();
            let mut keys = Vec::new();
            let mut of = Vec::new();
            for (group_id, topics) in found {
                for place in topics.iter().filter_map(|topic| by_place.get(topic)) {
                    for partition in 0..place.partitions {
                        let topic = place.at.clone();
                        keys.push(ExternalKey { group_id: group_id.clone(), topic, partition });
                        of.push((place.name.clone(), place.id));
                    }
                }
            }
            let offsets = external::read(&clients, &keys, deadline).await?;
            let stored = keys.into_iter().zip(of).zip(offsets);
            Ok(stored
                .filter_map(|((key, of), offset)| Some((key, of, i64::try_from(offset?).unwrap_or(i64::MAX))))
                .collect::<Vec<_>>())
        });
        let mut loaded: HashMap<Text, Offsets> = HashMap::new();
        for (key, (topic, topic_id), offset) in read.await? {
            let partition = i32::try_from(key.partition).unwrap_or(i32::MAX);
            let value = self.value(&key.group_id, (&topic, topic_id), partition, offset, wall_ms);
            loaded.entry(key.group_id).or_default().push((topic, partition, value));
        }
        let mut commits = self.commits.borrow_mut();
        Ok(groups
            .into_iter()
            .map(|group| {
                commits.remove(&group);
                let offsets = loaded.remove(&group).unwrap_or_default();
                (group, offsets)
            })
            .collect())
    }

    /// The offset with what the side topic knows of it, if that is of this very offset.
    fn value(
        &self,
        group: &Text,
        (topic, topic_id): (&Text, u128),
        partition: i32,
        offset: i64,
        wall_ms: i64,
    ) -> OffsetValue {
        let commits = self.commits.borrow();
        let known = commits.get(group).and_then(|of_group| of_group.get(&(topic.clone(), partition)));
        let is_it =
            |value: &&OffsetValue| value.offset == offset && (value.topic_id == topic_id || value.topic_id == 0);
        match known.and_then(|known| known.iter().rev().find(is_it)) {
            // Iggy keeps no leader epochs.
            Some(value) => OffsetValue { leader_epoch: -1, topic_id, ..value.clone() },
            None => OffsetValue {
                offset,
                leader_epoch: -1,
                metadata: Text::EMPTY,
                // When it was committed nobody knows; its retention begins now.
                commit_timestamp_ms: wall_ms,
                topic_id,
                expire_timestamp_ms: -1,
            },
        }
    }
}

/// What the lane does for an [`Op`].
enum Job {
    Append { partition: u16, messages: Vec<SideMessage> },
    Offset(ExternalKey, Option<u64>),
    DeleteGroup(Text, Vec<IggyTopic>),
}

impl Job {
    async fn run(self, clients: &Clients, deadline: Instant) -> Result<(), StoreError> {
        match self {
            Job::Append { partition, messages } => {
                let payloads: Vec<_> = messages.iter().map(SideMessage::encode).collect();
                let client = u64::from(partition);
                match side_topic::append(clients, partition, client, &payloads, deadline).await {
                    Ok(_) => Ok(()),
                    Err(NotAppended::TooLarge) => Err(StoreError::TooLarge),
                    Err(NotAppended::NotSent(not_sent)) => {
                        tracing::warn!(partition, failure = %not_sent.failure, "groups cannot be kept");
                        match on_produce(not_sent.failure) {
                            OnProduce::Refuse(ringgate_group::ErrorCode::MESSAGE_TOO_LARGE) => {
                                Err(StoreError::TooLarge)
                            }
                            _ => Err(StoreError::Unavailable),
                        }
                    }
                }
            }
            Job::Offset(key, offset) => external::change(clients, &key, offset, deadline).await,
            Job::DeleteGroup(group_id, topics) => external::delete_group(clients, &group_id, &topics, deadline).await,
        }
    }
}
