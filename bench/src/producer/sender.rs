//! Gathering and sending.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use ringgate_client::{Address, Link, Submit, Target};
use ringgate_runtime::Budget;
use ringgate_wire::records::{BatchBuilder, HEADER_BYTES};

use super::content::Content;
use super::outcome::Waiting;
use super::queue::{Batch, Batching, Queue, RECORD_OVERHEAD, Ready};
use super::request::{self, TopicRef};
use crate::batch::{Codec, Compressor, key_bytes};
use crate::check::{Delivery, StreamId};
use crate::consumer::Names;
use crate::limits::{BUFFERED_RECORDS_MAX, PRODUCE_REQUEST_BYTES_MAX};
use crate::measure::{Recorder, SeriesId};
use crate::scenario::SetupError;
use crate::signal::Signal;

/// What an answer to Produce says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// There is none: a record counts as done when it is handed to the kernel.
    None,
    /// The leader has it.
    Leader,
    /// All in-sync replicas have it.
    All,
}

impl Acks {
    /// As Kafka's `acks` has it.
    pub fn number(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// How a producer sends.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who must have a record before it is acknowledged.
    pub acks: Acks,
    /// When batches are full.
    pub batching: Batching,
    /// What they are compressed with.
    pub codec: Codec,
    /// Requests that are out to a leader at most.
    pub in_flight: usize,
    /// With a producer id and sequences, so that nothing that is sent again is there twice.
    pub idempotent: bool,
    /// Where to.
    pub topics: Arc<[TopicRef]>,
    /// Of each of the topics.
    pub partitions: usize,
    /// How long an answer may take, and for how long a batch is sent again.
    pub request_timeout: Duration,
    /// Under which names acknowledged records are counted.
    pub names: Names,
    /// Where records that are never sent are recorded, with the time they waited, and what counts them.
    pub unsent: (SeriesId, &'static str),
}

/// What a producer did in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Batches that were sent again, by the code that led to it.
    pub again: BTreeMap<i16, u64>,
    /// How often it needed another producer id.
    pub identities: u64,
    /// Bytes of acknowledged records' keys and values.
    pub acknowledged_bytes: u64,
}

/// See the [module](super). A handle.
#[derive(Clone)]
pub struct Producer(pub(super) Rc<Inner>);

pub(super) struct Inner {
    pub(super) target: Target,
    pub(super) settings: Settings,
    pub(super) version: i16,
    pub(super) recorder: Recorder,
    pub(super) series: Series,
    pub(super) delivery: Option<Rc<RefCell<Delivery>>>,
    pub(super) state: RefCell<State>,
    /// There may be something to send.
    pub(super) work: Signal,
    /// Fewer records are under way than before.
    pub(super) fewer: Signal,
}

#[derive(Clone, Copy)]
pub(super) struct Series {
    pub(super) rt: SeriesId,
    pub(super) request_rt: SeriesId,
    pub(super) request_st: SeriesId,
}

pub(super) struct State {
    pub(super) content: Content,
    pub(super) queues: Vec<Queue>,
    /// By partition, in `brokers`.
    pub(super) leaders: Vec<usize>,
    pub(super) brokers: Vec<Broker>,
    pub(super) identity: Option<Identity>,
    /// Sequences have a gap that this identity cannot get over.
    pub(super) identity_spent: bool,
    compressor: Compressor,
    scratch: Vec<u8>,
    /// Records that were offered and came to nothing yet.
    pub(super) under_way: usize,
    /// On a closed loop: until when it makes records.
    closed_until: Option<Instant>,
    pub(super) recovering: bool,
    pub(super) ended: bool,
    pub(super) totals: Totals,
}

pub(super) struct Broker {
    pub(super) address: Address,
    pub(super) link: Option<Rc<Link<Waiting>>>,
    pub(super) out: usize,
    /// Partitions that it leads and that have something.
    list: VecDeque<usize>,
    /// Partitions that it leads, and the next that a closed loop fills.
    pub(super) leads: Vec<usize>,
    next_filled: usize,
}

impl Broker {
    pub(super) fn new(address: Address) -> Broker {
        Broker { address, link: None, out: 0, list: VecDeque::new(), leads: Vec::new(), next_filled: 0 }
    }
}

/// An idempotent producer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

impl Producer {
    /// Looks leaders up, connects to each, and gets a producer id if it needs one. `delivery` is told of every
    /// stamped record.
    ///
    /// # Errors
    /// One of these cannot be done.
    pub async fn start(
        target: Target,
        settings: Settings,
        content: Content,
        recorder: Recorder,
        delivery: Option<Rc<RefCell<Delivery>>>,
    ) -> Result<Producer, SetupError> {
        let version = target.version_up_to(ApiKey::Produce, request::VERSION_MAX)?;
        let series = Series {
            rt: recorder.series("produce.rt"),
            request_rt: recorder.series("request.rt"),
            request_st: recorder.series("request.st"),
        };
        let all = settings.topics.len() * settings.partitions;
        let state = State {
            content,
            queues: (0..all).map(|_| Queue::default()).collect(),
            leaders: vec![0; all],
            brokers: Vec::new(),
            identity: None,
            identity_spent: settings.idempotent,
            compressor: Compressor::new(settings.codec),
            scratch: Vec::new(),
            under_way: 0,
            closed_until: None,
            recovering: false,
            ended: false,
            totals: Totals::default(),
        };
        let (state, work, fewer) = (RefCell::new(state), Signal::default(), Signal::default());
        let inner = Rc::new(Inner { target, settings, version, recorder, series, delivery, state, work, fewer });
        inner.find_leaders().await?;
        inner.find_first_identity().await?;
        ringgate_runtime::spawn_as("a producer", inner.clone().send()).detach();
        Ok(Producer(inner))
    }

    /// A record that is due.
    pub fn offer(&self, intended: Instant) {
        let mut state = self.0.state.borrow_mut();
        let (partition, key) = state.content.choose();
        if state.push(partition, key, intended, &self.0.settings.batching) {
            drop(state);
            self.0.work.give();
        }
    }

    /// From now on it makes records itself, so that requests are always out.
    pub fn drive_closed(&self, until: Instant) {
        self.0.state.borrow_mut().closed_until = Some(until);
        self.0.work.give();
    }

    /// Makes no more records itself.
    pub fn stop_closed(&self) {
        self.0.state.borrow_mut().closed_until = None;
    }

    /// Whether a record more can be taken.
    pub fn has_room(&self) -> bool {
        self.0.state.borrow().under_way < BUFFERED_RECORDS_MAX
    }

    /// Waits until a record more can be taken: a matter of the server's, which is this far behind.
    pub async fn room(&self) {
        while !self.has_room() {
            self.0.fewer.given().await;
        }
    }

    /// Records that were offered and came to nothing yet.
    pub fn under_way(&self) -> usize {
        self.0.state.borrow().under_way
    }

    /// Bytes of acknowledged records' keys and values, so far.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.0.state.borrow().totals.acknowledged_bytes
    }

    /// Waits until fewer records are under way than now.
    pub async fn fewer(&self) {
        self.0.fewer.given().await;
    }

    /// Waits until every record has come to something, no longer than this, gives up what is left, and closes.
    pub async fn finish(&self, most: Duration) -> Totals {
        self.stop_closed();
        let _ = ringgate_runtime::timeout(most, async {
            while self.under_way() > 0 {
                self.0.fewer.given().await;
            }
        })
        .await;
        self.0.give_up();
        std::mem::take(&mut self.0.state.borrow_mut().totals)
    }
}

impl State {
    /// Takes a record; whether there may be something to send now.
    fn push(&mut self, partition: usize, key: Option<u32>, intended: Instant, batching: &Batching) -> bool {
        let due = self.content.next(partition, key, intended);
        let queue = &mut self.queues[partition];
        queue.push(due);
        self.under_way += 1;
        let full = queue.is_full(batching);
        if full && key.is_none() {
            self.content.move_on(partition);
        }
        let listed = self.list(partition);
        listed || full || batching.linger.is_zero()
    }

    /// Notes that a partition has something; whether that is new.
    pub(super) fn list(&mut self, partition: usize) -> bool {
        if std::mem::replace(&mut self.queues[partition].listed, true) {
            return false;
        }
        self.brokers[self.leaders[partition]].list.push_back(partition);
        true
    }

    /// Takes everything off the lists, since leaders may be others now, and puts it on those that are right.
    pub(super) fn list_anew(&mut self) {
        for broker in &mut self.brokers {
            broker.list.clear();
        }
        for partition in 0..self.queues.len() {
            self.queues[partition].listed = false;
            if !self.queues[partition].has_nothing_to_send() {
                self.list(partition);
            }
        }
    }

    /// On a closed loop: records for one whole batch that goes to this broker.
    fn fill(&mut self, broker: usize, now: Instant, batching: &Batching) {
        if self.content.is_keyed() {
            // Keys decide where records go: until one of this broker's batches is full.
            let most = 4 * batching.records.min(batching.bytes) * self.queues.len();
            for _ in 0..most.min(BUFFERED_RECORDS_MAX.saturating_sub(self.under_way)) {
                let (partition, key) = self.content.choose();
                self.push(partition, key, now, batching);
                if self.leaders[partition] == broker && self.queues[partition].is_full(batching) {
                    return;
                }
            }
            return;
        }
        let leads = &self.brokers[broker].leads;
        let found = (0..leads.len()).map(|step| (self.brokers[broker].next_filled + step) % leads.len());
        let Some(at) = found.into_iter().find(|at| !self.queues[leads[*at]].recovering) else { return };
        let partition = leads[at];
        self.brokers[broker].next_filled = at + 1;
        while !self.queues[partition].is_full(batching) {
            self.push(partition, None, now, batching);
        }
    }

    /// Makes a batch of what waits for a partition, or takes one that goes out again.
    fn cut(&mut self, partition: usize, settings: &Settings, now: Instant, wall_ms: i64) -> Option<Batch> {
        let queue = &mut self.queues[partition];
        if let Some(again) = queue.pop_again() {
            queue.out += 1;
            return Some(again);
        }
        let (batching, identity) = (&settings.batching, self.identity.filter(|_| settings.idempotent));
        let mut builder = BatchBuilder::new(usize::MAX);
        if let Some(Identity { id, epoch }) = identity {
            builder = builder.producer(id, epoch, queue.sequence);
        }
        builder.reserve(batching.bytes.min(HEADER_BYTES + queue.due_bytes() + queue.due() * RECORD_OVERHEAD));
        let mut moments: Vec<(Instant, u32)> = Vec::new();
        let (mut record_bytes, mut first) = (0, None);
        while let Some(due) = queue.pop_if(|due| {
            let key = due.key.map_or(0, |_| key_bytes(0).len());
            let size = builder.size() + due.value_bytes as usize + key + RECORD_OVERHEAD;
            builder.records() == 0 || builder.records() < batching.records && size <= batching.bytes
        }) {
            let key = due.key.map(key_bytes);
            let key = key.as_ref().map(|key| &key[..]);
            let pushed = self.content.with_value(partition, &due, now, &mut self.scratch, |value| {
                record_bytes += (value.len() + key.map_or(0, <[u8]>::len)) as u64;
                builder.push(wall_ms, key, Some(value), &[])
            });
            // A batch of 2 GiB cannot be: a record's size is bounded.
            if pushed.is_err() {
                break;
            }
            first.get_or_insert(due.number);
            match moments.last_mut() {
                Some((moment, records)) if *moment == due.intended => *records += 1,
                _ => moments.push((due.intended, 1)),
            }
        }
        let records = builder.records() as u32;
        let batch = self.compressor.compress(builder.finish(0, -1)?).ok()?;
        if identity.is_some() {
            // Sequences go round at 2^31.
            queue.sequence = (queue.sequence as u32).wrapping_add(records) as i32 & i32::MAX;
        }
        let order = queue.order;
        queue.order += 1;
        queue.out += 1;
        self.content.move_on(partition);
        let first = first.unwrap_or(0);
        let sequences = first..first + u64::from(records);
        Some(Batch { partition, bytes: batch, moments, records, record_bytes, sequences, order, first_sent: now })
    }
}

/// What goes to a broker in one request.
struct Request {
    link: Rc<Link<Waiting>>,
    batches: Vec<Batch>,
}

impl Inner {
    /// The task that sends, until the producer is closed.
    async fn send(self: Rc<Self>) {
        let mut budget = Budget::new();
        loop {
            let mut next = None;
            let brokers = self.state.borrow().brokers.len();
            for broker in 0..brokers {
                while let Some(Request { link, batches }) = self.take(broker, &mut next) {
                    self.submit(broker, &link, batches);
                    budget.turn().await;
                }
            }
            if self.state.borrow().ended {
                return;
            }
            let mut given = pin!(self.work.given());
            match next {
                None => given.await,
                Some(next) => {
                    let mut due = pin!(ringgate_runtime::sleep_until(next));
                    poll_fn(|cx| match given.as_mut().poll(cx) {
                        Poll::Ready(()) => Poll::Ready(()),
                        Poll::Pending => due.as_mut().poll(cx),
                    })
                    .await;
                }
            }
            budget.renew();
        }
    }

    /// What can go to a broker now; `next` is when something will have waited long enough.
    fn take(self: &Rc<Self>, broker: usize, next: &mut Option<Instant>) -> Option<Request> {
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        let link = state.brokers[broker].link.clone()?;
        if link.ended().is_some() {
            state.brokers[broker].link = None;
            drop(borrowed);
            self.recover();
            return None;
        }
        if state.ended || state.brokers[broker].out >= self.settings.in_flight {
            return None;
        }
        let now = Instant::now();
        let mut batches = state.gather(broker, &self.settings, now, next);
        if batches.is_empty() && state.closed_until.is_some_and(|until| now < until) {
            state.fill(broker, now, &self.settings.batching);
            batches = state.gather(broker, &self.settings, now, next);
        }
        if batches.is_empty() {
            return None;
        }
        state.brokers[broker].out += 1;
        if let Some(delivery) = &self.delivery
            && let Some(producer) = state.content.stamped_producer()
        {
            let mut delivery = delivery.borrow_mut();
            for batch in &batches {
                delivery.sent(StreamId { producer, partition: batch.partition as u32 }, batch.sequences.end);
            }
        }
        Some(Request { link, batches })
    }

    fn submit(self: &Rc<Self>, broker: usize, link: &Link<Waiting>, batches: Vec<Batch>) {
        let per_topic = self.settings.partitions;
        let placed: Vec<(usize, i32, Bytes)> = batches
            .iter()
            .map(|batch| (batch.partition / per_topic, (batch.partition % per_topic) as i32, batch.bytes.clone()))
            .collect();
        let acks = self.settings.acks;
        let timeout_ms = i32::try_from(self.settings.request_timeout.as_millis()).unwrap_or(i32::MAX);
        let body = request::body(self.version, acks.number(), timeout_ms, &self.settings.topics, &placed);
        let submit = Submit { api: ApiKey::Produce as i16, version: self.version, body };
        let waiting = Waiting { producer: self.clone(), broker, batches };
        match acks {
            Acks::None => link.submit_unanswered(submit, Some(waiting)),
            _ => link.submit(submit, waiting),
        }
    }
}

impl State {
    /// Batches of the partitions that a broker leads and that are ready, one of each.
    fn gather(&mut self, broker: usize, settings: &Settings, now: Instant, next: &mut Option<Instant>) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let (mut bytes, wall_ms) = (0, wall_ms());
        for _ in 0..self.brokers[broker].list.len() {
            let Some(partition) = self.brokers[broker].list.pop_front() else { break };
            self.queues[partition].listed = false;
            match self.queues[partition].ready(&settings.batching, now) {
                // Recovery lists it again.
                Ready::No => continue,
                Ready::At(at) => *next = Some(next.map_or(at, |next| next.min(at))),
                Ready::Now if bytes >= PRODUCE_REQUEST_BYTES_MAX => {}
                Ready::Now => {
                    if let Some(batch) = self.cut(partition, settings, now, wall_ms) {
                        bytes += batch.bytes.len();
                        batches.push(batch);
                    }
                }
            }
            if !self.queues[partition].has_nothing_to_send() {
                self.list(partition);
            }
        }
        // Those of a topic together.
        batches.sort_unstable_by_key(|batch| batch.partition);
        batches
    }
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
