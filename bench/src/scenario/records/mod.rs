//! What the scenarios that move records have in common: topics, values, producers.

mod plan;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use plan::{RecordsPlan, parameter};

use ringgate_client::Target;

use crate::batch::{Keys, Pool};
use crate::check::Delivery;
use crate::consumer::Names;
use crate::engine::{OTHER_UNSENT, Pacer, UNSENT};
use crate::measure::Window;
use crate::plan::Load;
use crate::producer::{Acks, Content, Producer, Settings, TopicRef, Totals, Values};
use crate::random;
use crate::result::errors;
use crate::scenario::leftovers::Leftovers;
use crate::scenario::users::Users;
use crate::scenario::{Findings, Seat, SetupError};

/// Topics and values of one run, for all executors.
#[derive(Debug, Clone)]
pub struct Made {
    /// Where records go.
    pub topics: Arc<[TopicRef]>,
    /// What is in them.
    pub pool: Arc<Pool>,
    /// Executors that still use the topics.
    users: Users,
}

impl Made {
    /// Makes topics that nobody has used, and values.
    ///
    /// # Errors
    /// The target is not there or makes no topics; the file of values cannot be read.
    pub async fn make(plan: &RecordsPlan, seat: &Seat, target: &Target) -> Result<Made, SetupError> {
        let pool =
            Pool::make(&plan.sizes, plan.random_share, random::derive(seat.common.seed, 0)).map_err(SetupError)?;
        let config: Vec<(&str, &str)> = plan.topic_config.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let mut topics = Vec::new();
        for number in 0..plan.topics {
            let name = format!("{}-{number}", seat.common.prefix);
            target.create_topic(&name, plan.partitions as i32, &config).await?;
            topics.push(TopicRef { id: target.topic(&name).await?.id, name });
        }
        Ok(Made { topics: topics.into(), pool: Arc::new(pool), users: Users::all(seat) })
    }

    /// This executor needs the topics no longer, nor the groups that read them: the last one, which this answers, deletes
    /// them.
    pub async fn done(
        &self,
        plan: &RecordsPlan,
        groups: Vec<String>,
        seat: &Seat,
        target: &Target,
        findings: &mut Findings,
    ) -> bool {
        if !self.users.leave() {
            return false;
        }
        let made = Leftovers { groups, topics: self.topics.iter().map(|topic| topic.name.clone()).collect() };
        if plan.keep_topics {
            findings.notes.push(made.kept(&seat.common.prefix));
        } else {
            findings.notes.extend(made.delete(target).await);
        }
        true
    }
}

/// Between two looks at how far a backlog has come.
const PREFILL_LOOK: Duration = Duration::from_millis(5);

/// How large this executor's part of `all` is.
pub fn share(mine: usize, all: usize) -> f64 {
    mine as f64 / all.max(1) as f64
}

/// Numbers from 0 to `all` that are this executor's.
pub fn mine(seat: &Seat, all: usize) -> impl Iterator<Item = usize> + use<> {
    (usize::from(seat.executor)..all).step_by(seat.executors.into())
}

/// This executor's producers, which share its load.
pub struct Producers {
    producers: Vec<Producer>,
    next: usize,
    /// Of all load.
    share: f64,
    primary: bool,
}

/// What producers are made of, beside their plan.
pub struct Making<'a> {
    /// How.
    pub plan: &'a RecordsPlan,
    /// Where to, and what.
    pub made: &'a Made,
    /// Of this executor.
    pub target: &'a Target,
    /// Numbers of the producers.
    pub numbers: Vec<usize>,
    /// Of all load.
    pub share: f64,
    /// Whether their records are what the scenario's primary operation is about.
    pub primary: bool,
    /// Partitions that they send to.
    pub partitions: Vec<usize>,
    /// Under which names they count.
    pub names: Names,
    /// Of producer number n: what values hold.
    pub values: &'a dyn Fn(usize) -> Values,
    /// Is told of every stamped record.
    pub delivery: Option<Rc<RefCell<Delivery>>>,
}

impl Producers {
    /// Starts them.
    ///
    /// # Errors
    /// As [`Producer::start`].
    pub async fn start(seat: &Seat, making: Making<'_>) -> Result<Producers, SetupError> {
        let Making { plan, made, target, numbers, share, primary, partitions, names, values, delivery } = making;
        let rt = seat.recorder.series("produce.rt");
        let settings = Settings {
            acks: plan.acks,
            batching: plan.batching,
            codec: plan.codec,
            in_flight: seat.common.in_flight,
            idempotent: plan.idempotent,
            topics: made.topics.clone(),
            partitions: plan.partitions,
            request_timeout: seat.common.request_timeout,
            names,
            unsent: if primary { (seat.primary_rt, UNSENT) } else { (rt, OTHER_UNSENT) },
        };
        let all = plan.topics * plan.partitions;
        let keys = Keys::new(plan.keys, plan.key_count, 0);
        let mut producers = Vec::new();
        // Who has no partition has no producer either.
        for number in numbers.into_iter().filter(|_| !partitions.is_empty()) {
            let seed = random::derive(seat.common.seed, 1 + number as u64);
            let (keys, pool) = (keys.with_seed(seed), made.pool.clone());
            let content = Content::new(pool, values(number), keys, partitions.clone(), all, seed);
            let (target, recorder) = (target.clone(), seat.recorder.clone());
            producers.push(Producer::start(target, settings.clone(), content, recorder, delivery.clone()).await?);
        }
        Ok(Producers { producers, next: 0, share, primary })
    }

    /// Sends until the window ends or the run is told to stop.
    pub async fn drive(&mut self, seat: &Seat, window: Window) {
        match seat.common.load {
            Load::Open { rate, arrivals } if !self.producers.is_empty() => {
                let mut pacer = Pacer::new(seat, window, rate * self.share, arrivals, seat.seed);
                if !self.primary {
                    pacer = pacer.of_operation(seat.recorder.series("produce.rt"));
                }
                while let Some(intended) = pacer.next().await {
                    let producer = &self.producers[self.next];
                    self.next = (self.next + 1) % self.producers.len();
                    if !producer.has_room() && pacer.wait_for(intended, producer.room()).await.is_none() {
                        break;
                    }
                    producer.offer(intended);
                }
            }
            Load::Closed => {
                self.producers.iter().for_each(|producer| producer.drive_closed(window.end));
                let _ = crate::engine::unless_told(&seat.stop, ringgate_runtime::sleep_until(window.end)).await;
                self.producers.iter().for_each(Producer::stop_closed);
            }
            _ => {}
        }
    }

    /// Sends its share of so many bytes of records as fast as it goes, until they are acknowledged and nothing is under way; says how many
    /// in the end.
    ///
    /// # Errors
    /// Nothing was acknowledged for as long as an answer may take.
    pub async fn prefill(&self, seat: &Seat, bytes: u64) -> Result<u64, SetupError> {
        let bytes = (bytes as f64 * self.share).ceil() as u64;
        let Some(first) = self.producers.first().filter(|_| bytes > 0) else { return Ok(0) };
        let done = || self.producers.iter().map(Producer::acknowledged_bytes).sum::<u64>();
        let far = ringgate_runtime::now() + crate::plan::defaults::DURATION_MAX;
        self.producers.iter().for_each(|producer| producer.drive_closed(far));
        loop {
            let (before, all) = (done(), self.producers.iter().map(Producer::under_way).sum::<usize>());
            if before >= bytes {
                self.producers.iter().for_each(Producer::stop_closed);
                if all == 0 {
                    return Ok(before);
                }
            }
            // One of them is as good as all: they are at the same server.
            let _ = ringgate_runtime::timeout(PREFILL_LOOK, first.fewer()).await;
            let stuck = ringgate_runtime::timeout(seat.common.request_timeout, async {
                while done() == before && self.producers.iter().any(|producer| producer.under_way() > 0) {
                    ringgate_runtime::sleep(PREFILL_LOOK).await;
                }
            });
            if stuck.await.is_err() {
                let waited = seat.common.request_timeout;
                return Err(SetupError(format!(
                    "the backlog cannot be made: no record was acknowledged for {waited:?}"
                )));
            }
        }
    }

    /// Waits for what is under way, as long as a request may take, and closes.
    pub async fn finish(&self, seat: &Seat) -> Totals {
        let mut all = Totals::default();
        let until = ringgate_runtime::now() + seat.common.request_timeout;
        for producer in &self.producers {
            let left = until.saturating_duration_since(ringgate_runtime::now());
            let Totals { again, identities, acknowledged_bytes } = producer.finish(left).await;
            again.into_iter().for_each(|(code, count)| *all.again.entry(code).or_default() += count);
            all.identities += identities;
            all.acknowledged_bytes += acknowledged_bytes;
        }
        all
    }
}

/// What a reader should know of what producers did.
pub fn say(plan: &RecordsPlan, made: &Made, totals: &Totals, findings: &mut Findings) {
    findings.notes.push(made.pool.note());
    if plan.acks == Acks::None {
        findings.notes.push(
            "acks=0: no answer is sent, so latencies end when the kernel has taken the request; what the server did \
             with it is not measured"
                .into(),
        );
    }
    if !totals.again.is_empty() {
        let causes: Vec<String> =
            totals.again.iter().map(|(code, count)| format!("{count} after {}", errors::name(*code))).collect();
        findings.notes.push(format!("batches that were sent again: {}", causes.join(", ")));
    }
}
