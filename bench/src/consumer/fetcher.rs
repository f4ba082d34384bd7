//! Fetching, with one task per leader.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{ApiKey, FetchRequest, FetchResponse};
use ringgate_client::{Address, CallError, Connection, Target};
use ringgate_runtime::{Budget, Task};
use ringgate_wire::records::{BatchHeader, OpenBatch, next_batch};

use super::session::Session;
use crate::limits::{FETCHED_BYTES_MAX, RETRY_PAUSE};
use crate::measure::{Phase, Recorder, SeriesId};
use crate::producer::{TopicRef, passes};
use crate::scenario::SetupError;
use crate::signal::Signal;

/// The highest version that can be asked: nothing of what later ones bring is used.
const VERSION_MAX: i16 = 17;
/// Kafka's codes of a session that the broker does not know: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
/// FETCH_SESSION_TOPIC_ID_ERROR.
const SESSION_GONE: [i16; 3] = [70, 71, 106];

/// OFFSET_OUT_OF_RANGE.
const OFFSET_OUT_OF_RANGE: i16 = 1;

/// What is looked at of what comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// Batches' headers.
    #[default]
    Headers,
    /// Also their CRCs.
    Crc,
    /// Also every record, decompressed.
    Records,
}

/// How a consumer fetches.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For how long a broker waits for `min_bytes`.
    pub max_wait: Duration,
    /// Bytes that a broker waits for.
    pub min_bytes: i32,
    /// Bytes of an answer, about.
    pub max_bytes: i32,
    /// Bytes of one partition in it, about.
    pub partition_bytes: i32,
    /// What is looked at.
    pub verify: Verify,
    /// Under which names it counts.
    pub names: Names,
}

impl Default for Settings {
    /// What Kafka's own consumer has.
    fn default() -> Settings {
        Settings {
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 50 << 20,
            partition_bytes: 1 << 20,
            verify: Verify::Headers,
            names: Names { records: "records", bytes: "bytes" },
        }
    }
}

/// Names of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Of records.
    pub records: &'static str,
    /// Of bytes: of records' batches as they came.
    pub bytes: &'static str,
}

/// Takes what comes.
pub trait Sink: 'static {
    /// A whole batch of a partition, whose records from `from` on are wanted; batches of a partition come in order.
    fn batch(&mut self, partition: usize, header: &BatchHeader, batch: &Bytes, from: i64, received: Instant);

    /// A batch that is not what its CRC or its header says.
    fn corrupt(&mut self, partition: usize, offset: i64, what: &str);
}

impl Stats {
    /// Adds another consumer's.
    pub fn add(&mut self, other: Stats) {
        other.again.into_iter().for_each(|(code, count)| *self.again.entry(code).or_default() += count);
        self.fetches += other.fetches;
        self.empty += other.empty;
    }
}

/// See the [module](super). A handle.
pub struct Consumer {
    inner: Rc<Inner>,
    task: RefCell<Option<Task<()>>>,
}

struct Inner {
    target: Target,
    settings: Settings,
    version: i16,
    topics: Arc<[TopicRef]>,
    per_topic: usize,
    partitions: Vec<usize>,
    recorder: Recorder,
    rt: SeriesId,
    /// The next offset of each partition.
    offsets: RefCell<Vec<i64>>,
    sink: RefCell<Box<dyn Sink>>,
    /// Leaders have to be looked up again.
    anew: Signal,
    /// Offsets have moved on.
    moved: Signal,
    stats: RefCell<Stats>,
}

/// What a consumer did in the measured window, beside what it recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// How often leaders were looked up again, at any time, by the code that led to it.
    pub again: BTreeMap<i16, u64>,
    /// Answers to Fetch.
    pub fetches: u64,
    /// Those without records.
    pub empty: u64,
}

impl Consumer {
    /// Reads these partitions from their first offset on; of each topic there are `per_topic`.
    ///
    /// # Errors
    /// The target shares no version of Fetch.
    pub fn new(
        target: Target,
        settings: Settings,
        topics: Arc<[TopicRef]>,
        per_topic: usize,
        partitions: Vec<usize>,
        recorder: Recorder,
        sink: impl Sink,
    ) -> Result<Consumer, SetupError> {
        let version = target.version_up_to(ApiKey::Fetch, VERSION_MAX)?;
        let inner = Inner {
            version,
            rt: recorder.series("fetch.rt"),
            offsets: RefCell::new(vec![0; topics.len() * per_topic]),
            target,
            settings,
            topics,
            per_topic,
            partitions,
            recorder,
            sink: RefCell::new(Box::new(sink)),
            anew: Signal::default(),
            moved: Signal::default(),
            stats: RefCell::default(),
        };
        Ok(Consumer { inner: Rc::new(inner), task: RefCell::default() })
    }

    /// Reads a partition from this offset on; before it is started.
    pub fn seek(&self, partition: usize, offset: i64) {
        self.inner.offsets.borrow_mut()[partition] = offset;
    }

    /// Begins to fetch.
    pub fn start(&self) {
        let task = ringgate_runtime::spawn_as("a consumer", self.inner.clone().run());
        *self.task.borrow_mut() = Some(task);
    }

    /// The next offset of a partition.
    pub fn position(&self, partition: usize) -> i64 {
        self.inner.offsets.borrow()[partition]
    }

    /// The partitions that it reads.
    pub fn partitions(&self) -> &[usize] {
        &self.inner.partitions
    }

    /// Waits until it has read something more.
    pub async fn moved(&self) {
        self.inner.moved.given().await;
    }

    /// Ends it.
    pub async fn stop(&self) -> Stats {
        let task = self.task.borrow_mut().take();
        if let Some(task) = task {
            task.cancel().await;
        }
        self.inner.stats.take()
    }
}

impl Inner {
    /// Has a task per leader, and other ones when leaders have changed.
    async fn run(self: Rc<Self>) {
        loop {
            if let Ok(leaders) = self.leaders().await {
                let fetching: Vec<Task<()>> = leaders
                    .into_iter()
                    .map(|(leader, partitions)| {
                        ringgate_runtime::spawn_as("a fetcher", self.clone().fetch(leader, partitions))
                    })
                    .collect();
                self.anew.given().await;
                for task in fetching {
                    task.cancel().await;
                }
            }
            // What cannot be fetched is tried again for as long as the run goes on.
            ringgate_runtime::sleep(RETRY_PAUSE).await;
            self.topics.iter().for_each(|topic| self.target.forget_topic(&topic.name));
        }
    }

    async fn leaders(&self) -> Result<BTreeMap<Address, Vec<usize>>, CallError> {
        let mut of_topics = Vec::new();
        for topic in self.topics.iter() {
            of_topics.push(self.target.leaders(&topic.name).await?);
        }
        let mut leaders: BTreeMap<Address, Vec<usize>> = BTreeMap::new();
        for partition in &self.partitions {
            let leader = of_topics[partition / self.per_topic].get(partition % self.per_topic);
            let missing = || CallError::BadResponse(format!("partition {partition} is not there"));
            leaders.entry(leader.ok_or_else(missing)?.clone()).or_default().push(*partition);
        }
        Ok(leaders)
    }

    async fn fetch(self: Rc<Self>, leader: Address, partitions: Vec<usize>) {
        let failed = |error: CallError| {
            self.look_up_again(error.code());
        };
        let mut connection = match self.target.connect(&leader).await {
            Ok(connection) => connection,
            Err(error) => return failed(error),
        };
        let mut session = Session::new(&partitions);
        let mut budget = Budget::new();
        loop {
            match self.fetch_once(&mut connection, &mut session).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return failed(error),
            }
            budget.turn().await;
        }
    }

    /// One round trip; whether the next may follow.
    async fn fetch_once(&self, connection: &mut Connection, session: &mut Session) -> Result<bool, CallError> {
        let request = session.request(&self.settings, &self.topics, self.per_topic, &self.offsets.borrow());
        let sent = Instant::now();
        let response: FetchResponse = connection.call::<FetchRequest>(self.version, &request).await?;
        let received = Instant::now();
        self.recorder.count("fetches", sent, 1);
        if SESSION_GONE.contains(&response.error_code) {
            session.forget();
            self.recorder.count("fetch_sessions_lost", sent, 1);
            return Ok(true);
        }
        if response.error_code != 0 {
            return Err(CallError::Kafka { code: response.error_code, what: "Fetch".into() });
        }
        session.answered(response.session_id);
        let (mut records, mut bytes, mut wrong) = (0, 0, None);
        for of_topic in response.responses {
            let topic = self.topics.iter().position(|topic| match of_topic.topic_id.is_nil() {
                true => of_topic.topic.as_str() == topic.name,
                false => of_topic.topic_id == topic.id,
            });
            let unknown = || CallError::BadResponse("Fetch answers with a topic that was not asked for".into());
            let topic = topic.ok_or_else(unknown)?;
            for part in of_topic.partitions {
                let index = usize::try_from(part.partition_index).ok().filter(|index| *index < self.per_topic);
                let partition = topic * self.per_topic + index.ok_or_else(unknown)?;
                if part.error_code != 0 {
                    if part.error_code == OFFSET_OUT_OF_RANGE {
                        // What it was to read next has been deleted: it goes on with what is left.
                        let offset = &mut self.offsets.borrow_mut()[partition];
                        *offset = part.log_start_offset.max(*offset);
                    }
                    wrong = Some(part.error_code);
                    continue;
                }
                let (some_records, some_bytes) = self.take(partition, part, received);
                records += some_records;
                bytes += some_bytes;
            }
        }
        let measured = u64::from(self.recorder.phase(sent) == Phase::Measured);
        self.stats.borrow_mut().fetches += measured;
        if records == 0 {
            self.stats.borrow_mut().empty += measured;
            self.recorder.count("empty_fetches", sent, 1);
        } else {
            self.recorder.record(self.rt, sent, received.saturating_duration_since(sent));
            self.recorder.count_moved(self.settings.names.records, received, received, records);
            self.recorder.count_moved(self.settings.names.bytes, received, received, bytes);
            self.moved.give();
        }
        if let Some(code) = wrong {
            self.look_up_again(code);
        }
        Ok(wrong.is_none())
    }

    /// Takes in what came of a partition: records and bytes.
    fn take(&self, partition: usize, part: PartitionData, received: Instant) -> (u64, u64) {
        let mut offset = self.offsets.borrow()[partition];
        let (mut records, mut bytes) = (0, 0);
        let mut left = part.records.unwrap_or_default();
        while let Some(batch) = next_batch(&mut left) {
            let Some(header) = BatchHeader::parse(&batch) else { break };
            if header.last_offset() < offset {
                continue;
            }
            let mut sink = self.sink.borrow_mut();
            match self.verify(&header, &batch) {
                Err(what) => sink.corrupt(partition, header.base_offset, &what),
                Ok(()) if header.is_control() => {}
                Ok(()) => {
                    let before = (offset - header.base_offset).max(0);
                    records += (i64::from(header.records) - before).max(0) as u64;
                    sink.batch(partition, &header, &batch, offset, received);
                }
            }
            bytes += batch.len() as u64;
            offset = header.last_offset() + 1;
        }
        self.offsets.borrow_mut()[partition] = offset;
        (records, bytes)
    }

    fn verify(&self, header: &BatchHeader, batch: &Bytes) -> Result<(), String> {
        if self.settings.verify != Verify::Headers && !header.crc_is_right(batch) {
            return Err("the batch's CRC is not that of its bytes".into());
        }
        if self.settings.verify == Verify::Records {
            let open = OpenBatch::open(batch, FETCHED_BYTES_MAX).map_err(|error| error.to_string())?;
            for record in open.records() {
                record.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn look_up_again(&self, code: i16) {
        *self.stats.borrow_mut().again.entry(code).or_default() += 1;
        if passes(code) {
            self.recorder.count("fetch_retries", Instant::now(), 1);
        } else {
            self.recorder.error("fetch", code, Instant::now());
        }
        self.anew.give();
    }
}
