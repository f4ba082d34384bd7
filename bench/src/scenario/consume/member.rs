//! A consumer whose partitions its group decides.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use kafka_protocol::protocol::StrBytes;
use ringgate_client::{CallError, Target};
use ringgate_runtime::{Task, sleep_until, spawn_as};

use super::Counted;
use super::membership::Membership;
use crate::consumer::{Consumer, Settings, Stats};
use crate::engine::unless_told;
use crate::limits::RETRY_PAUSE;
use crate::measure::{Recorder, SeriesId};
use crate::scenario::records::Made;
use crate::stop::Stop;

/// How members behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// After how long without a heartbeat a member is out; it sends one every tenth of it, at least every 3 s.
    pub session_timeout: Duration,
    /// How often it commits; it also does when it loses partitions.
    pub commit_interval: Duration,
}

impl Default for GroupPlan {
    /// What Kafka's own consumer has.
    fn default() -> GroupPlan {
        GroupPlan { session_timeout: Duration::from_secs(45), commit_interval: Duration::from_secs(5) }
    }
}

/// What members of one executor have in common.
pub struct Joining {
    /// Of this executor.
    pub target: Target,
    /// How they behave.
    pub plan: GroupPlan,
    /// The group's id.
    pub group: String,
    /// Topics.
    pub made: Made,
    /// Partitions of each topic.
    pub per_topic: usize,
    /// How they fetch.
    pub fetch: Settings,
    /// Where it is recorded.
    pub recorder: Recorder,
    /// Counts what is wrong.
    pub corrupt: Rc<Cell<u64>>,
    /// How long joining again is tried.
    pub timeout: Duration,
}

/// A member. It joins and fetches from [`Member::start`] on.
pub struct Member {
    inner: Rc<Inner>,
    task: RefCell<Option<Task<()>>>,
}

struct Inner {
    joining: Rc<Joining>,
    rebalance: SeriesId,
    commit: SeriesId,
    /// While it has an assignment.
    consumer: RefCell<Option<Rc<Consumer>>>,
    stats: RefCell<Stats>,
    /// How long it was without an assignment, over all times.
    rebalancing: Cell<Duration>,
    ending: Stop,
}

impl Member {
    /// Not started yet.
    pub fn new(joining: Rc<Joining>) -> Member {
        let (rebalance, commit) = (joining.recorder.series("rebalance"), joining.recorder.series("commit.rt"));
        let inner = Inner {
            joining,
            rebalance,
            commit,
            consumer: RefCell::default(),
            stats: RefCell::default(),
            rebalancing: Cell::default(),
            ending: Stop::new(),
        };
        Member { inner: Rc::new(inner), task: RefCell::default() }
    }

    /// Joins and fetches from now on.
    pub fn start(&self) {
        *self.task.borrow_mut() = Some(spawn_as("a member", self.inner.clone().run()));
    }

    /// Whether it has no assignment, or has not read up to these offsets.
    pub fn is_behind(&self, ends: &[i64]) -> bool {
        match &*self.inner.consumer.borrow() {
            None => true,
            Some(consumer) => consumer.partitions().iter().any(|at| consumer.position(*at) < ends[*at]),
        }
    }

    /// Commits, leaves and ends; how long it was without an assignment.
    pub async fn stop(&self) -> (Stats, Duration) {
        self.inner.ending.tell();
        let task = self.task.borrow_mut().take();
        if let Some(task) = task {
            // Its calls are bounded each; all together are, too.
            let _ = ringgate_runtime::timeout(self.inner.joining.timeout, task).await;
        }
        (self.inner.stats.take(), self.inner.rebalancing.get())
    }
}

impl Inner {
    async fn run(self: Rc<Self>) {
        let Joining { target, plan, group, made, per_topic, .. } = &*self.joining;
        let topics = made.topics.iter().map(|topic| StrBytes::from_string(topic.name.clone())).collect();
        let mut membership = Membership::new(target.clone(), group, topics, *per_topic, plan.session_timeout);
        while !self.ending.is_told() {
            let generation = unless_told(&self.ending, self.one_generation(&mut membership)).await;
            let mut commit = self.offsets();
            let consumer = self.consumer.borrow_mut().take();
            if let Some(consumer) = consumer {
                let stats = consumer.stop().await;
                commit = consumer.partitions().iter().map(|at| (*at, consumer.position(*at))).collect();
                self.stats.borrow_mut().add(stats);
            }
            match generation {
                Some(Ok(())) | None => self.commit(&mut membership, commit).await,
                Some(Err(error)) => {
                    self.joining.recorder.error("group", error.code(), Instant::now());
                    ringgate_runtime::sleep(RETRY_PAUSE).await;
                }
            }
        }
        // The session ends by itself if this fails.
        let _ = membership.leave().await;
    }

    /// Joins, fetches and heartbeats until the group rebalances.
    async fn one_generation(&self, membership: &mut Membership) -> Result<(), CallError> {
        let Joining { target, plan, made, per_topic, fetch, recorder, corrupt, timeout, .. } = &*self.joining;
        let began = Instant::now();
        let partitions = membership.join(began + *timeout).await?;
        let offsets = membership.committed(&partitions).await?;
        let taken = began.elapsed();
        self.rebalancing.set(self.rebalancing.get() + taken);
        recorder.record(self.rebalance, began, taken);
        recorder.count("rebalances", began, 1);
        let sink = Counted { corrupt: corrupt.clone() };
        let consumer = Consumer::new(
            target.clone(),
            fetch.clone(),
            made.topics.clone(),
            *per_topic,
            partitions,
            recorder.clone(),
            sink,
        );
        let consumer = consumer.map_err(|error| CallError::BadResponse(error.0))?;
        offsets.into_iter().for_each(|(partition, offset)| consumer.seek(partition, offset));
        consumer.start();
        *self.consumer.borrow_mut() = Some(Rc::new(consumer));
        let every = (plan.session_timeout / 10).min(Duration::from_secs(3));
        let (mut beat, mut commit) = (Instant::now() + every, Instant::now() + plan.commit_interval);
        loop {
            sleep_until(beat.min(commit)).await;
            if Instant::now() >= beat {
                beat += every;
                if !membership.heartbeat().await? {
                    return Ok(());
                }
            }
            if Instant::now() >= commit {
                commit += plan.commit_interval;
                self.commit(membership, self.offsets()).await;
            }
        }
    }

    fn offsets(&self) -> Vec<(usize, i64)> {
        let consumer = self.consumer.borrow();
        let positions = |consumer: &Rc<Consumer>| {
            consumer.partitions().iter().map(|at| (*at, consumer.position(*at))).collect::<Vec<_>>()
        };
        consumer.as_ref().map(positions).unwrap_or_default()
    }

    async fn commit(&self, membership: &mut Membership, offsets: Vec<(usize, i64)>) {
        if offsets.is_empty() {
            return;
        }
        let (recorder, began) = (&self.joining.recorder, Instant::now());
        match membership.commit(offsets).await {
            Ok(0) => recorder.record(self.commit, began, began.elapsed()),
            Ok(code) => recorder.error("commit", code, began),
            Err(error) => recorder.error("commit", error.code(), began),
        }
    }
}
