//! What a shard has of the Iggy store: its lane, what it knows of partitions, and on shard 0 the topics.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_runtime::Task;

use super::append::Refused;
use super::controller::Controller;
use super::fetch::WatchState;
use super::limits::READS_AT_ONCE;
use super::partition::Partition;
use super::reaction::{on_unasked, on_unasked_change};
use super::read::{self, LEADER_EPOCH, Place};
use super::topics;
use super::{Clients, Failure, IggySettings, Lane, LaneReport};
use crate::ShardHandle;
use crate::call::{
    CatalogueCall, DeleteRecordsCall, DescribeProducersCall, ListOffsetsCall, OffsetForLeaderEpochCall,
    PartitionDeleteRecords, PartitionEpochEnd, PartitionLeaderEpoch, PartitionListOffsets, PartitionOffset,
    PartitionProducers, PartitionRecordsDeleted, Reply, ReplyTo, Request, TopicPartition, WatchId,
};
use crate::catalogue::Topic;
use crate::partitions::{Counters, check_leader_epoch};
use crate::store::embedded::TailCache;
use crate::watching::PartitionSeen;

/// One shard's part.
pub(crate) struct IggyStore {
    pub(super) lane: Lane,
    pub(super) settings: Arc<IggySettings>,
    open: RefCell<HashMap<TopicPartition, Rc<Partition>>>,
    pub(super) watches: RefCell<HashMap<(ShardId, WatchId), WatchState>>,
    pub(super) tails: RefCell<TailCache<TopicPartition>>,
    pub(super) counters: Counters,
    controller: Option<Controller>,
    refreshing: Cell<Option<Task<()>>>,
}

/// The largest look-up: more are refused by nobody, and wait.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

impl IggyStore {
    pub(super) fn new(
        lane: Lane,
        settings: Arc<IggySettings>,
        tail_cache_bytes: usize,
        controller: Option<Controller>,
    ) -> Rc<IggyStore> {
        Rc::new(IggyStore {
            lane,
            settings,
            open: RefCell::default(),
            watches: RefCell::default(),
            tails: RefCell::new(TailCache::new(tail_cache_bytes)),
            counters: Counters::default(),
            controller,
            refreshing: Cell::new(None),
        })
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn lane_report(&self) -> LaneReport {
        self.lane.report()
    }

    /// Looks topics up again and again, on shard 0.
    pub(crate) fn start(self: &Rc<Self>, shard: &ShardHandle) {
        if self.controller.is_some() {
            let (this, shard) = (self.clone(), shard.clone());
            let refreshing = ringgate_runtime::spawn_as("iggy_topics", async move {
                if let Some(controller) = &this.controller {
                    controller.refresh(&this, &shard).await;
                }
            });
            self.refreshing.set(Some(refreshing));
        }
    }

    /// The gateway stops: whoever waits for Iggy does so for a moment more.
    pub(crate) fn stop(&self) {
        self.lane.wait_until(Instant::now() + self.settings.timeout_at_stop);
    }

    /// Lets those who wait for records go.
    pub(crate) async fn finish(&self) {
        if let Some(refreshing) = self.refreshing.take() {
            refreshing.cancel().await;
        }
        for partition in self.open.borrow().values() {
            partition.close();
        }
    }

    /// A producer id that nobody else has; -1 when Iggy cannot be reached in time.
    pub(crate) async fn next_producer_id(&self) -> i64 {
        let deadline = self.deadline();
        let id = self.lane.call(move |clients: Arc<Clients>| async move { clients.next_producer_id(deadline).await });
        id.await.ok().and_then(|id| i64::try_from(id).ok()).unwrap_or(-1)
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.settings.timeout
    }

    /// Serves what is about records and topics, and gives back what is not.
    pub(crate) fn serve(self: &Rc<Self>, shard: &ShardHandle, request: Request, to: ReplyTo) -> Option<Request> {
        let (this, owner) = (self.clone(), shard.clone());
        match request {
            Request::Produced(call) => self.produce(shard, call, to),
            Request::Fetched(call) => {
                shard.answer_with(to, async move { Reply::Fetched(this.fetch(&owner, to, call).await) });
            }
            Request::Unwatched(call) => {
                self.unwatch(to.shard, call.id);
                shard.reply(to, Reply::Unwatched(()));
            }
            Request::Offsets(call) => {
                shard.answer_with(to, async move { Reply::Offsets(this.list_offsets(&owner, call).await) });
            }
            Request::EpochEnds(call) => {
                shard.answer_with(to, async move { Reply::EpochEnds(this.epoch_ends(&owner, call).await) });
            }
            Request::ProducersDescribed(call) => {
                shard.reply(to, Reply::ProducersDescribed(self.producers(shard, &call)));
            }
            Request::RecordsDeleted(call) => {
                shard.answer_with(to, async move { Reply::RecordsDeleted(this.delete_records(&owner, call).await) });
            }
            Request::TopicsCreated(call) => shard.answer_with(to, async move {
                Reply::TopicsCreated(Controller::create(this.controller.as_ref(), &this, &owner, call).await)
            }),
            Request::TopicsDeleted(call) => shard.answer_with(to, async move {
                Reply::TopicsDeleted(Controller::delete(this.controller.as_ref(), &this, &owner, call).await)
            }),
            Request::PartitionsCreated(call) => shard.answer_with(to, async move {
                Reply::PartitionsCreated(
                    Controller::create_partitions(this.controller.as_ref(), &this, &owner, call).await,
                )
            }),
            Request::ConfigsAltered(call) => shard.answer_with(to, async move {
                Reply::ConfigsAltered(Controller::alter_configs(this.controller.as_ref(), &this, &owner, call).await)
            }),
            Request::CatalogueApplied(call) => {
                match call {
                    // A partition is opened when it is first asked for.
                    CatalogueCall::Prepare(_) => {}
                    CatalogueCall::Publish(next) | CatalogueCall::Show { catalogue: next, .. } => {
                        crate::store::show(shard, &next);
                        self.close_missing(shard);
                    }
                }
                shard.reply(to, Reply::CatalogueApplied(()));
            }
            other => return Some(other),
        }
        None
    }

    /// The partition, if its topic has it.
    pub(super) fn partition(&self, shard: &ShardHandle, at: TopicPartition) -> Option<Rc<Partition>> {
        if let Some(partition) = self.open.borrow().get(&at) {
            return Some(partition.clone());
        }
        let catalogue = shard.catalogue();
        let topic = catalogue.topic_by_id(at.topic)?;
        topic.partition(at.partition)?;
        let place = Place { topic: self.settings.place_of(&topic.name), partition: at.partition as u32 };
        let partition = Partition::new(at, place);
        self.open.borrow_mut().insert(at, partition.clone());
        Some(partition)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// The partition, if somebody has used it.
    pub(super) fn used_partition(&self, at: TopicPartition) -> Option<Rc<Partition>> {
        self.open.borrow().get(&at).cloned()
    }

    /// What is known of a partition without asking for it; `None` where nobody has used it.
    pub(crate) fn known(&self, at: TopicPartition) -> Option<PartitionSeen> {
        let partition = self.used_partition(at)?;
        Some(PartitionSeen {
            log_start_offset: None,
            high_watermark: partition.high_watermark(),
            bytes: None,
            is_closed: false,
        })
    }

    /// What Iggy says that a topic's partitions hold, by partition.
    pub(crate) async fn measure_topic(&self, topic: &Topic) -> Option<Vec<Option<PartitionSeen>>> {
        let (at, deadline) = (self.settings.place_of(&topic.name), self.deadline());
        let held = self.ask(move |clients| async move { topics::held(&clients, &at, deadline).await }).await.ok()?;
        let mut seen = vec![None; usize::try_from(topic.partitions).unwrap_or(0)];
        for held in held {
            if let Some(place) = seen.get_mut(held.partition as usize) {
                *place = Some(PartitionSeen {
                    log_start_offset: Some(held.high_watermark.saturating_sub(held.messages)),
                    high_watermark: held.high_watermark,
                    bytes: Some(held.bytes),
                    is_closed: false,
                });
            }
        }
        Some(seen)
    }

    fn close_missing(&self, shard: &ShardHandle) {
        let catalogue = shard.catalogue();
        // Others may remove partitions of a topic that stays.
        let is_there = |at: &TopicPartition| {
            catalogue.topic_by_id(at.topic).is_some_and(|topic| topic.partition(at.partition).is_some())
        };
        let gone: Vec<Rc<Partition>> =
            self.open.borrow().values().filter(|partition| !is_there(&partition.at)).cloned().collect();
        for partition in gone {
            self.open.borrow_mut().remove(&partition.at);
            self.tails.borrow_mut().forget(partition.at);
            partition.close();
            self.wake_watches(shard, &partition);
        }
    }

    /// Asks the lane about each of these at once, so many at a time, and keeps their order.
    async fn each<W, A, F>(&self, wanted: Vec<W>, ask: impl Fn(W) -> F) -> Vec<A>
    where
        F: Future<Output = A>,
    {
        let mut answers = Vec::with_capacity(wanted.len());
        let mut wanted = wanted.into_iter().peekable();
        while wanted.peek().is_some() {
            let asked: Vec<F> = wanted.by_ref().take(READS_AT_ONCE).map(&ask).collect();
            answers.extend(super::together(asked).await);
        }
        answers
    }

    async fn list_offsets(&self, shard: &ShardHandle, call: ListOffsetsCall) -> Vec<PartitionOffset> {
        self.each(call.partitions, |wanted| self.list_offset(shard, wanted)).await
    }

    async fn list_offset(&self, shard: &ShardHandle, wanted: PartitionListOffsets) -> PartitionOffset {
        let at = wanted.at;
        let found = async {
            check_leader_epoch(wanted.current_leader_epoch, LEADER_EPOCH).map_err(|error| (error, String::new()))?;
            let partition = self.partition(shard, at).ok_or_else(unknown)?;
            self.look_up(&partition, wanted.timestamp).await
        };
        let (error, (timestamp, offset)) = match found.await {
            Ok(found) => (ErrorCode::NONE, found),
            Err((error, why)) => {
                tracing::debug!(topic = %at.topic, partition = at.partition, why, "an offset cannot be looked up");
                (error, (-1, -1))
            }
        };
        let leader_epoch = if offset >= 0 { LEADER_EPOCH } else { -1 };
        PartitionOffset { at, error, timestamp, offset, leader_epoch }
    }

    /// Timestamp and offset.
    async fn look_up(&self, partition: &Partition, timestamp: i64) -> Result<(i64, i64), Refused> {
        let (place, deadline) = (partition.place.clone(), self.deadline());
        match timestamp {
            LATEST | EARLIEST | EARLIEST_LOCAL => {
                let (log_start, high_watermark) = self.bounds(partition).await?;
                Ok((-1, if timestamp == LATEST { high_watermark } else { log_start }))
            }
            LATEST_TIERED => Ok((-1, -1)),
            MAX_TIMESTAMP => {
                let last = self.ask(move |clients| async move { read::last(&clients, &place, deadline).await }).await?;
                Ok(last.map_or((-1, -1), |found| (found.timestamp_ms, found.offset)))
            }
            _ => {
                let found = self
                    .ask(move |clients| async move { read::by_time(&clients, &place, timestamp, deadline).await })
                    .await?;
                let log_start = partition.log_start();
                Ok(found.map_or((-1, -1), |found| (found.timestamp_ms, found.offset.max(log_start))))
            }
        }
    }

    /// Log start offset and high watermark, as they are now.
    pub(super) async fn bounds(&self, partition: &Partition) -> Result<(i64, i64), Refused> {
        let (place, deadline) = (partition.place.clone(), self.deadline());
        let (log_start, high_watermark) =
            self.ask(move |clients| async move { read::bounds(&clients, &place, deadline).await }).await?;
        partition.ends_at(high_watermark);
        partition.starts_at(log_start);
        Ok((partition.log_start(), high_watermark))
    }

    /// Asks the lane for what changes nothing.
    pub(super) async fn ask<T, F>(&self, work: impl FnOnce(Arc<Clients>) -> F + Send + 'static) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Refused>> + Send + 'static,
    {
        self.asked(work).await.unwrap_or_else(|failure| Err((on_unasked(failure), failure.to_string())))
    }

    /// Asks the lane for a change.
    pub(super) async fn change<T, F>(&self, work: impl FnOnce(Arc<Clients>) -> F + Send + 'static) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Refused>> + Send + 'static,
    {
        self.asked(work).await.unwrap_or_else(|failure| Err((on_unasked_change(failure), failure.to_string())))
    }

    async fn asked<T, F>(
        &self,
        work: impl FnOnce(Arc<Clients>) -> F + Send + 'static,
    ) -> Result<Result<T, Refused>, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Refused>> + Send + 'static,
    {
        let asked = self.lane.call(move |clients| {
            let work = work(clients);
            async move { Ok::<_, Failure>(work.await) }
        });
        asked.await
    }

    async fn epoch_ends(&self, shard: &ShardHandle, call: OffsetForLeaderEpochCall) -> Vec<PartitionEpochEnd> {
        self.each(call.partitions, |wanted| self.epoch_end(shard, wanted)).await
    }

    /// All records are of epoch 0.
    async fn epoch_end(&self, shard: &ShardHandle, wanted: PartitionLeaderEpoch) -> PartitionEpochEnd {
        let at = wanted.at;
        let end = async {
            check_leader_epoch(wanted.current_leader_epoch, LEADER_EPOCH).map_err(|error| (error, String::new()))?;
            let partition = self.partition(shard, at).ok_or_else(unknown)?;
            match wanted.leader_epoch {
                LEADER_EPOCH => Ok((LEADER_EPOCH, self.bounds(&partition).await?.1)),
                _ => Ok((-1, -1)),
            }
        };
        let end: Result<(i32, i64), Refused> = end.await;
        match end {
            Ok((leader_epoch, end_offset)) => {
                PartitionEpochEnd { at, error: ErrorCode::NONE, leader_epoch, end_offset }
            }
            Err((error, _)) => PartitionEpochEnd { at, error, leader_epoch: -1, end_offset: -1 },
        }
    }

    /// Iggy remembers producers and tells nobody of them.
    fn producers(&self, shard: &ShardHandle, call: &DescribeProducersCall) -> Vec<PartitionProducers> {
        let described = |&at: &TopicPartition| {
            let error = match self.partition(shard, at) {
                Some(_) => ErrorCode::NONE,
                None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            };
            PartitionProducers { at, error, producers: Vec::new() }
        };
        call.partitions.iter().map(described).collect()
    }

    async fn delete_records(&self, shard: &ShardHandle, call: DeleteRecordsCall) -> Vec<PartitionRecordsDeleted> {
        self.each(call.partitions, |wanted| self.delete_before(shard, wanted)).await
    }

    /// Keeps a logical start: what lies below it is not served by this run any more, and goes with its segment.
    async fn delete_before(&self, shard: &ShardHandle, wanted: PartitionDeleteRecords) -> PartitionRecordsDeleted {
        let at = wanted.at;
        let deleted = async {
            let partition = self.partition(shard, at).ok_or_else(unknown)?;
            let (_, high_watermark) = self.bounds(&partition).await?;
            let before = match wanted.offset {
                LATEST => high_watermark,
                offset => offset,
            };
            if !(0..=high_watermark).contains(&before) {
                return Err((ErrorCode::OFFSET_OUT_OF_RANGE, String::new()));
            }
            partition.starts_at(before);
            self.forget_tail(&partition, before);
            // Iggy does not say where its segments begin, so they can go only when every record does.
            if before == high_watermark {
                let (Place { topic, partition: number }, deadline) = (partition.place.clone(), self.deadline());
                let cleared =
                    self.change(move |clients| async move { topics::clear(&clients, &topic, number, deadline).await });
                if let Err((_, why)) = cleared.await {
                    tracing::warn!(topic = %partition.place.topic, why, "segments whose records were deleted stay in Iggy");
                }
            }
            Ok(partition.log_start())
        };
        match deleted.await {
            Ok(low_watermark) => PartitionRecordsDeleted { at, error: ErrorCode::NONE, low_watermark },
            Err((error, _)) => PartitionRecordsDeleted { at, error, low_watermark: -1 },
        }
    }
}

pub(super) fn unknown() -> Refused {
    (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, String::new())
}
