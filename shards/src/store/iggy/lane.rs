//! A shard's way to Iggy: a thread with a tokio runtime of its own, on which the SDK runs.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringgate_group::Histogram;
use ringgate_runtime::oneshot;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::limits::LANE_CALLS_MAX;
use super::{Clients, Failure, IggySettings};

/// Something to do on the lane's thread. It starts a task and returns.
type Job = Box<dyn FnOnce(&Arc<Clients>) + Send>;

/// A handle on a lane. The lane ends when the last one is dropped, and what it was doing with it.
#[derive(Clone)]
pub(crate) struct Lane {
    jobs: UnboundedSender<Job>,
    metrics: Arc<LaneMetrics>,
    /// Until when shards wait for answers; `None`: for as long as it takes.
    waits_until: Arc<watch::Sender<Option<Instant>>>,
}

/// What a lane has done, for a scrape.
#[derive(Debug, Default)]
pub(crate) struct LaneMetrics {
    in_flight: AtomicUsize,
    /// How long calls took, waiting for a connection and retries included.
    took: Mutex<Histogram>,
    refused_full: AtomicU64,
    failures: Mutex<BTreeMap<u32, u64>>,
}

/// What a lane has done until one moment.
#[derive(Debug, Clone, Default)]
pub struct LaneReport {
    /// Calls that were given and not answered.
    pub in_flight: usize,
    /// How long each answered call took, waiting for a connection and retries included.
    pub took: Histogram,
    /// Calls that were refused since the lane had as many as it takes.
    pub refused_full: u64,
    /// Failures that Iggy or the SDK reported, by Iggy's code, those that a retry mended included.
    pub failures: Vec<(u32, u64)>,
    /// For how long groups may be answered yet, which their log knows; zero: they are not.
    pub lease: Duration,
}

impl Lane {
    /// Starts the thread. Connections are made when they are first used.
    ///
    /// # Errors
    /// No thread or no runtime is to be had.
    pub(crate) fn start(name: &str, settings: Arc<IggySettings>) -> io::Result<Lane> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let (jobs, queue) = unbounded_channel();
        let metrics = Arc::new(LaneMetrics::default());
        let clients = Arc::new(Clients::new(settings, metrics.clone()));
        std::thread::Builder::new().name(name.to_string()).spawn(move || runtime.block_on(run(queue, clients)))?;
        Ok(Lane { jobs, metrics, waits_until: Arc::new(watch::channel(None).0) })
    }

    /// Has no shard wait longer than until `deadline`, whatever Iggy does: the gateway stops.
    pub(crate) fn wait_until(&self, deadline: Instant) {
        self.waits_until.send_replace(Some(deadline));
    }

    /// Has the lane do this; it is done to its end even when the future is dropped, or nobody waits any more.
    ///
    /// # Errors
    /// [`Failure::LANE_FULL`] at once; [`Failure::UNANSWERED`] when the work panicked, or was not done when the wait
    /// for it ended ([`Lane::wait_until`]); from then on [`Failure::NOT_CONNECTED`] at once.
    pub(crate) fn call<T, F, W>(&self, work: W) -> impl Future<Output = Result<T, Failure>> + 'static + use<T, F, W>
    where
        W: FnOnce(Arc<Clients>) -> F + Send + 'static,
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let (done, answer) = oneshot();
        let mut waits_until = self.waits_until.subscribe();
        let is_over = waits_until.borrow().is_some_and(|deadline| deadline <= Instant::now());
        let over = async move {
            let deadline = waits_until.wait_for(Option::is_some).await.ok().and_then(|deadline| *deadline);
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        let submitted = match is_over {
            true => Err(Failure::NOT_CONNECTED),
            // Nobody may be waiting any more.
            false => self.submit(work, over, move |result| drop(done.send(result))),
        };
        async move {
            submitted?;
            answer.await.unwrap_or(Err(Failure::UNANSWERED))
        }
    }

    /// As [`Lane::call`], for a thread that is no shard: the answer comes out of the channel, and a stop does not end
    /// the wait for it.
    pub(crate) fn call_from_thread<T, F>(
        &self,
        work: impl FnOnce(Arc<Clients>) -> F + Send + 'static,
    ) -> std::sync::mpsc::Receiver<Result<T, Failure>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let (done, answer) = std::sync::mpsc::channel();
        let full = done.clone();
        let submitted = self.submit(work, std::future::pending(), move |result| drop(done.send(result)));
        if let Err(failure) = submitted {
            let _ = full.send(Err(failure));
        }
        answer
    }

    fn submit<T, F>(
        &self,
        work: impl FnOnce(Arc<Clients>) -> F + Send + 'static,
        over: impl Future<Output = ()> + Send + 'static,
        tell: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) -> Result<(), Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let Some(counted) = InFlight::take(&self.metrics) else { return Err(Failure::LANE_FULL) };
        let job: Job = Box::new(move |clients| {
            let working = work(clients.clone());
            tokio::spawn(async move {
                let mut working = pin!(working);
                let result = tokio::select! {
                    biased;
                    result = &mut working => result,
                    () = over => {
                        tell(Err(Failure::UNANSWERED));
                        let _ = working.await;
                        return drop(counted);
                    }
                };
                drop(counted);
                tell(result);
            });
        });
        self.jobs.send(job).map_err(|_| Failure::UNANSWERED)
    }

    /// What it has done.
    pub(crate) fn report(&self) -> LaneReport {
        self.metrics.report()
    }
}

async fn run(mut queue: UnboundedReceiver<Job>, clients: Arc<Clients>) {
    while let Some(job) = queue.recv().await {
        job(&clients);
    }
}

/// A call that is being carried out.
struct InFlight {
    metrics: Arc<LaneMetrics>,
    since: Instant,
}

impl InFlight {
    fn take(metrics: &Arc<LaneMetrics>) -> Option<InFlight> {
        if metrics.in_flight.fetch_add(1, Ordering::Relaxed) >= LANE_CALLS_MAX {
            metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
            metrics.refused_full.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(InFlight { metrics: metrics.clone(), since: Instant::now() })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // Only the lane's own thread and scrapes take it.
        self.metrics.took.lock().unwrap_or_else(PoisonError::into_inner).record_time(self.since.elapsed());
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LaneMetrics {
    /// Counts a failure.
    pub(crate) fn failed(&self, failure: Failure) {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner).entry(failure.code).or_default() += 1;
    }

    fn report(&self) -> LaneReport {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        LaneReport {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            took: self.took.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            refused_full: self.refused_full.load(Ordering::Relaxed),
            failures: failures.iter().map(|(code, count)| (*code, *count)).collect(),
            lease: Duration::ZERO,
        }
    }
}
