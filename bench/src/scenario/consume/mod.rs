//! `consume`: records out of topics, at the tail while others are being produced, or a backlog that was made before.

mod member;
mod membership;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringgate_client::Target;
use ringgate_runtime::spawn_as;
use ringgate_wire::records::BatchHeader;

pub use member::GroupPlan;
use member::{Joining, Member};

use crate::consumer::{Consumer, Names, Settings, Sink, Stats, Verify, end_offsets};
use crate::engine::unless_told;
use crate::limits::STRAGGLER_LOOK;
use crate::measure::Window;
use crate::plan::{Common, Load, UsageError};
use crate::producer::Values;
use crate::result::{Parameter, Unit, Value, errors};
use crate::scenario::own_groups;
use crate::scenario::records::{Made, Making, Producers, RecordsPlan, mine, parameter, say, share};
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// Parameters of `consume`.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of records, and of the producers that feed the tail or make the backlog.
    pub records: RecordsPlan,
    /// Of consumers.
    pub fetch: Settings,
    /// Bytes of records that are there before the first Fetch.
    pub backlog: u64,
    /// How many producers; consumers are as many as there are connections.
    pub producers: usize,
    /// Consumers are members of one group, which decides who reads what.
    pub group: Option<GroupPlan>,
}

impl Plan {
    /// Checks it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn new(plan: Plan, common: &Common) -> Result<Plan, UsageError> {
        let records = plan.records.check(common)?;
        let refuse =
            |flag, value: &dyn ToString, allowed: String| Err(UsageError { flag, value: value.to_string(), allowed });
        if plan.backlog == 0 && matches!(common.load, Load::Own) {
            let allowed = "what is there to consume: --backlog 1GB, made before; or --rate 10k or --closed, of the \
                           producers that feed the tail; or both";
            return refuse("backlog", &"0", allowed.into());
        }
        if plan.producers == 0 {
            return refuse("producers", &0, "at least 1".into());
        }
        if common.connections > records.all_partitions() {
            let allowed = format!("at most one consumer for each of the {} partitions", records.all_partitions());
            return refuse("connections", &common.connections, allowed);
        }
        check_fetch(&plan.fetch, common)?;
        Ok(Plan { records, ..plan })
    }
}

/// Checks how consumers fetch.
///
/// # Errors
/// What cannot be.
pub fn check_fetch(fetch: &Settings, common: &Common) -> Result<(), UsageError> {
    if fetch.max_wait >= common.request_timeout {
        let allowed = "less than --request-timeout, within which the answer has to come";
        let value = humantime::format_duration(fetch.max_wait).to_string();
        return Err(UsageError { flag: "fetch-max-wait", value, allowed: allowed.into() });
    }
    Ok(())
}

/// How consumers fetch, as a reader would write it.
pub fn fetch_parameters(fetch: &Settings) -> Vec<Parameter> {
    let default = Settings::default();
    let time = |time| humantime::format_duration(time).to_string();
    let verify = |verify| match verify {
        Verify::Headers => "headers",
        Verify::Crc => "crc",
        Verify::Records => "records",
    };
    vec![
        parameter("fetch-max-wait", &time(fetch.max_wait), &time(default.max_wait)),
        parameter("fetch-min-bytes", &fetch.min_bytes, &default.min_bytes),
        parameter("fetch-max-bytes", &fetch.max_bytes, &default.max_bytes),
        parameter("partition-bytes", &fetch.partition_bytes, &default.partition_bytes),
        parameter("verify", &verify(fetch.verify), verify(default.verify)),
    ]
}

/// What led consumers to look leaders up again.
pub fn say_moves(moves: &BTreeMap<i16, u64>) -> String {
    let causes: Vec<String> =
        moves.iter().map(|(code, count)| format!("{count} after {}", errors::name(*code))).collect();
    format!("consumers looked leaders up again: {}", causes.join(", "))
}

/// Counts what is wrong.
struct Counted {
    corrupt: Rc<Cell<u64>>,
}

impl Sink for Counted {
    fn batch(&mut self, _: usize, _: &BatchHeader, _: &Bytes, _: i64, _: Instant) {}

    fn corrupt(&mut self, _: usize, _: i64, _: &str) {
        self.corrupt.set(self.corrupt.get() + 1);
    }
}

/// What all executors share.
#[derive(Debug, Clone)]
pub struct Shared {
    made: Made,
    times: Arc<Mutex<Times>>,
}

/// How long the slowest executor took, and what all did.
#[derive(Debug, Default)]
struct Times {
    prefill: Duration,
    drain: Duration,
    backlog_bytes: u64,
    /// Producers went on meanwhile.
    with_tail: bool,
    /// Somebody was not done when the window ended.
    undrained: bool,
    /// Fetches in the measured window, and those that brought nothing.
    fetches: u64,
    empty: u64,
    /// The longest that a member of the group had no assignment, over all times.
    rebalance: Duration,
}

/// One executor's consumers, and its producers.
pub struct Consume {
    plan: Plan,
    shared: Shared,
    target: Target,
    producers: Producers,
    readers: Rc<[Reader]>,
    corrupt: Rc<Cell<u64>>,
}

/// Who reads.
enum Reader {
    /// With partitions of its own for the whole run.
    Alone(Consumer),
    /// With those that its group gives it.
    Member(Member),
}

impl Reader {
    fn start(&self) {
        match self {
            Reader::Alone(consumer) => consumer.start(),
            Reader::Member(member) => member.start(),
        }
    }

    fn is_behind(&self, ends: &[i64]) -> bool {
        match self {
            Reader::Alone(consumer) => consumer.partitions().iter().any(|at| consumer.position(*at) < ends[*at]),
            Reader::Member(member) => member.is_behind(ends),
        }
    }

    /// What it did, and how long it had no assignment.
    async fn stop(&self) -> (Stats, Duration) {
        match self {
            Reader::Alone(consumer) => (consumer.stop().await, Duration::ZERO),
            Reader::Member(member) => member.stop().await,
        }
    }
}

/// Waits until consumers have read up to these offsets, and says when that was.
async fn drained(readers: Rc<[Reader]>, ends: Vec<i64>) -> Instant {
    while readers.iter().any(|reader| reader.is_behind(&ends)) {
        ringgate_runtime::sleep(STRAGGLER_LOOK).await;
    }
    Instant::now()
}

impl Scenario for Consume {
    const NAME: &'static str = "consume";
    const PRIMARY: &'static str = "fetch";
    type Plan = Plan;
    type Shared = Shared;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        let mut parameters = plan.records.parameters();
        parameters.extend(fetch_parameters(&plan.fetch));
        parameters.push(parameter("backlog", &plan.backlog, &0));
        parameters.push(parameter("producers", &plan.producers, &1));
        parameters.push(parameter("group", &if plan.group.is_some() { "yes" } else { "no" }, &"no"));
        if let Some(group) = &plan.group {
            let (time, default) = (humantime::format_duration, GroupPlan::default());
            parameters.push(parameter("session-timeout", &time(group.session_timeout), &time(default.session_timeout)));
            parameters.push(parameter("commit-interval", &time(group.commit_interval), &time(default.commit_interval)));
        }
        parameters
    }

    async fn found(plan: &Plan, seat: &Seat) -> Result<Shared, SetupError> {
        let target = Target::reach(&seat.common.client()).await?;
        own_groups::are_new(&target, plan.group.iter().map(|_| group_name(seat))).await?;
        let made = Made::make(&plan.records, seat, &target).await?;
        Ok(Shared { made, times: Arc::default() })
    }

    async fn prepare(plan: &Plan, shared: &Shared, seat: &Seat) -> Result<Consume, SetupError> {
        let target = Target::reach(&seat.common.client()).await?;
        let all = plan.records.all_partitions();
        let numbers: Vec<usize> = mine(seat, plan.producers).collect();
        let making = Making {
            plan: &plan.records,
            made: &shared.made,
            target: &target,
            primary: false,
            share: share(numbers.len(), plan.producers),
            numbers,
            partitions: (0..all).collect(),
            names: Names { records: "produced_records", bytes: "produced_bytes" },
            values: &|_| Values::Plain,
            delivery: None,
        };
        let producers = Producers::start(seat, making).await?;
        let began = Instant::now();
        let prefilled = producers.prefill(seat, plan.backlog).await?;
        shared.note(|times| {
            times.prefill = times.prefill.max(began.elapsed());
            times.backlog_bytes += prefilled;
        });
        let corrupt = Rc::new(Cell::new(0));
        let joining = plan.group.clone().map(|group| {
            Rc::new(Joining {
                target: target.clone(),
                plan: group,
                group: group_name(seat),
                made: shared.made.clone(),
                per_topic: plan.records.partitions,
                fetch: plan.fetch.clone(),
                recorder: seat.recorder.clone(),
                corrupt: corrupt.clone(),
                timeout: seat.common.request_timeout,
            })
        });
        let mut readers = Vec::new();
        for number in mine(seat, seat.common.connections) {
            if let Some(joining) = &joining {
                readers.push(Reader::Member(Member::new(joining.clone())));
                continue;
            }
            let partitions = (number..all).step_by(seat.common.connections).collect();
            let (target, fetch, topics) = (target.clone(), plan.fetch.clone(), shared.made.topics.clone());
            let (per_topic, recorder) = (plan.records.partitions, seat.recorder.clone());
            let sink = Counted { corrupt: corrupt.clone() };
            let consumer = Consumer::new(target, fetch, topics, per_topic, partitions, recorder, sink)?;
            readers.push(Reader::Alone(consumer));
        }
        let (plan, shared, readers) = (plan.clone(), shared.clone(), readers.into());
        Ok(Consume { plan, shared, target, producers, readers, corrupt })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        let feeds = !matches!(seat.common.load, Load::Own);
        if !feeds {
            // All of a backlog is measured: no producer has to come up to speed.
            let _ = unless_told(&seat.stop, ringgate_runtime::sleep_until(window.measure_from)).await;
        }
        let began = Instant::now();
        let mut draining = None;
        if self.plan.backlog > 0 {
            // All executors have made their part by now.
            let ends = end_offsets(&self.target, &self.shared.made.topics, self.plan.records.partitions).await;
            let ends = ends.map_err(|error| Aborted(format!("the backlog's end is not known: {error}")))?;
            draining = Some(spawn_as("draining", drained(self.readers.clone(), ends)));
        }
        self.readers.iter().for_each(Reader::start);
        if feeds {
            self.producers.drive(seat, window).await;
        }
        let Some(mut draining) = draining else { return Ok(()) };
        self.shared.note(|times| times.with_tail = feeds);
        // With a tail, the window is over by now; it is drained or it is not.
        let left = if feeds { Duration::ZERO } else { window.end.saturating_duration_since(Instant::now()) };
        match unless_told(&seat.stop, ringgate_runtime::timeout(left, &mut draining)).await {
            Some(Ok(at)) => {
                self.shared.note(|times| times.drain = times.drain.max(at.saturating_duration_since(began)))
            }
            _ => {
                draining.cancel().await;
                self.shared.note(|times| times.undrained = true);
            }
        }
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        let Consume { plan, shared, target, producers, readers, corrupt } = self;
        let mut findings = Findings { about: target.about(), ..Findings::default() };
        let totals = producers.finish(seat).await;
        let mut moves = BTreeMap::new();
        for reader in readers.iter() {
            let (stats, rebalancing) = reader.stop().await;
            for (code, count) in stats.again {
                *moves.entry(code).or_default() += count;
            }
            shared.note(|times| {
                times.fetches += stats.fetches;
                times.empty += stats.empty;
                times.rebalance = times.rebalance.max(rebalancing);
            });
        }
        if !moves.is_empty() {
            findings.notes.push(say_moves(&moves));
        }
        if plan.fetch.verify != Verify::Headers {
            findings.checks.violations.insert("corrupt".into(), corrupt.get());
        }
        say(&plan.records, &shared.made, &totals, &mut findings);
        let groups = plan.group.iter().map(|_| group_name(seat)).collect();
        if shared.made.done(&plan.records, groups, seat, &target, &mut findings).await {
            shared.note(|times| times.say(&mut findings));
        }
        findings
    }
}

/// The one group of a run's consumers.
fn group_name(seat: &Seat) -> String {
    format!("{}-group", seat.common.prefix)
}

impl Shared {
    fn note(&self, note: impl FnOnce(&mut Times)) {
        note(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Times {
    fn say(&self, findings: &mut Findings) {
        let mut put = |name: &str, value: f64, unit| findings.values.insert(name.into(), Value { value, unit });
        put("empty_fetch_ratio", self.empty as f64 / self.fetches.max(1) as f64, Unit::Ratio);
        if !self.rebalance.is_zero() {
            put("rebalance_s", self.rebalance.as_secs_f64(), Unit::Seconds);
        }
        if self.backlog_bytes == 0 {
            return;
        }
        let (bytes, prefill) = (self.backlog_bytes as f64, self.prefill.as_secs_f64());
        put("backlog_bytes", bytes, Unit::Bytes);
        put("prefill_s", prefill, Unit::Seconds);
        put("prefill_bytes_per_s", bytes / prefill, Unit::BytesPerSecond);
        if self.undrained {
            findings.notes.push("the backlog was not drained when the window ended".into());
            return;
        }
        let drain = self.drain.as_secs_f64();
        put("drain_s", drain, Unit::Seconds);
        put("drain_bytes_per_s", bytes / drain, Unit::BytesPerSecond);
        if self.with_tail {
            findings.notes.push(
                "the backlog is drained from the schedule's start on, warm-up too: drain_s and drain_bytes_per_s are of \
                 the whole, beside what was produced meanwhile"
                    .into(),
            );
        }
    }
}
