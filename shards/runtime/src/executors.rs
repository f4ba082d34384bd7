//! One executor per shard, pinned or not, made before every other thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_channel::oneshot;
use glommio::{LocalExecutorBuilder, PoolPlacement};

use crate::guard::Guard;
use crate::limits::{IO_MEMORY_BYTES, PREEMPT, RING_DEPTH, WARM_UP};
use crate::wake::Ear;

/// Where executors run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Shard n on the n-th of these CPUs.
    Cpus(Vec<usize>),
    /// Wherever the kernel puts them.
    Unpinned,
}

/// How executors are made.
#[derive(Debug, Clone)]
pub struct Config {
    /// How many, at least one; with [`Placement::Cpus`] no more than CPUs.
    pub shards: u16,
    /// Where they run.
    pub placement: Placement,
    /// How long an executor polls before it sleeps: lower latency for a CPU that is never idle.
    pub spin: Duration,
}

type Main = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Running executors, under a [`Guard`].
pub struct Executors {
    mains: Vec<oneshot::Sender<Main>>,
    threads: Vec<glommio::ExecutorJoinHandle<()>>,
    guard: Guard,
}

impl Executors {
    /// Makes the executors and warms each: a runtime's first sleep takes tens of milliseconds once other
    /// threads exist.
    ///
    /// # Errors
    /// What [`check_host`](crate::check_host) finds, no shards, or a CPU that cannot be had.
    pub fn start(config: &Config) -> io::Result<Executors> {
        crate::check_host()?;
        let cpus = cpus_of(config)?;
        let (warm, warmed) = mpsc::channel::<(u16, Arc<Ear>)>();
        let mut mains = Vec::new();
        let mut threads = Vec::new();
        for (shard, cpu) in (0..config.shards).zip(cpus) {
            let placement = cpu.map_or(glommio::Placement::Unbound, glommio::Placement::Fixed);
            let (main, run) = oneshot::channel::<Main>();
            let warm = warm.clone();
            let thread = LocalExecutorBuilder::new(placement)
                .name(&format!("shard-{shard}"))
                .spin_before_park(config.spin)
                .io_memory(IO_MEMORY_BYTES)
                .ring_depth(RING_DEPTH)
                .preempt_timer(PREEMPT)
                .record_io_latencies(false)
                .blocking_thread_pool_placement(PoolPlacement::Unbound(1))
                .spawn(move || loud("a shard", live(shard, warm, run)))
                .map_err(|error| failed(shard, &error))?;
            mains.push(main);
            threads.push(thread);
        }
        drop(warm);
        // Ends early when an executor's thread has ended, which drops its sender.
        let mut ears: Vec<(u16, Arc<Ear>)> = warmed.iter().collect();
        if ears.len() != threads.len() {
            drop(mains);
            let errors =
                (0..).zip(threads).filter_map(|(shard, thread)| thread.join().err().map(|e| failed(shard, &e)));
            return Err(errors.last().unwrap_or_else(|| io::Error::other("an executor ended while it was started")));
        }
        ears.sort_by_key(|(shard, _)| *shard);
        let guard = Guard::start(ears.into_iter().map(|(_, ear)| ear).collect())?;
        Ok(Executors { mains, threads, guard })
    }

    /// What the guard sees.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Runs a future on each executor, made there from what `main` gives for the shard's number. Only the
    /// first call does anything.
    pub fn run<F, M>(&mut self, mut main: impl FnMut(u16) -> M)
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        for (shard, sender) in (0..).zip(self.mains.drain(..)) {
            let main = main(shard);
            let main: Main = Box::new(move || Box::pin(main()));
            // An executor that cannot take it has died, which has taken the process down.
            let _ = sender.send(main);
        }
    }

    /// Waits for every executor's future to end, then stops the guard. A shard that dies takes the
    /// process down before this can return.
    pub fn join(self) {
        // Executors that were never given anything to run end now.
        drop(self.mains);
        for (shard, thread) in (0..).zip(self.threads) {
            if let Err(error) = thread.join() {
                eprintln!("{}; the process ends", failed(shard, &error));
                std::process::abort();
            }
        }
        self.guard.stop();
    }
}

/// The CPU of each shard, if it has one of its own.
fn cpus_of(config: &Config) -> io::Result<Vec<Option<usize>>> {
    let refused = |message| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    let shards = usize::from(config.shards);
    if shards == 0 {
        return refused("no shards: at least one is needed".to_string());
    }
    let Placement::Cpus(cpus) = &config.placement else { return Ok(vec![None; shards]) };
    if cpus.len() < shards {
        return refused(format!(
            "{shards} shards on {} CPUs: each needs one of its own, or none is pinned",
            cpus.len()
        ));
    }
    let allowed = crate::allowed_cpus()?;
    let mut taken = Vec::with_capacity(shards);
    for &cpu in &cpus[..shards] {
        if !allowed.contains(&cpu) {
            return refused(format!("CPU {cpu} is not among those that this process may use: {allowed:?}"));
        }
        taken.push(Some(cpu));
    }
    Ok(taken)
}

fn failed(shard: u16, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("the executor of shard {shard} failed: {error}"))
}

/// An executor's life.
async fn live(shard: u16, warm: mpsc::Sender<(u16, Arc<Ear>)>, run: oneshot::Receiver<Main>) {
    let ear = Ear::listen();
    glommio::timer::sleep(WARM_UP).await;
    let started = warm.send((shard, ear.clone()));
    drop(warm);
    if started.is_ok() {
        // Cancelled when the start has failed elsewhere, or when there is nothing to run.
        if let Ok(main) = crate::wake::Bridged::new(run).await {
            main().await;
        }
    }
    ear.close();
}

/// A future whose panic ends the process: nobody else can serve what a shard owned.
pub(crate) async fn loud<F: Future>(what: &'static str, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        // Only for the length of the poll: a future that is dropped by somebody else's panic is not to
        // blame for it.
        let loud = AbortOnPanic(what);
        let poll = future.as_mut().poll(cx);
        std::mem::forget(loud);
        poll
    })
    .await
}

/// Where a panic passes this, the process ends.
pub(crate) struct AbortOnPanic(pub(crate) &'static str);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            eprintln!("{} panicked in thread {}; the process ends", self.0, thread.name().unwrap_or("?"));
            std::process::abort();
        }
    }
}
