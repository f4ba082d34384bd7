//! One executor per shard, pinned or not, made before every other thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use glommio::{LocalExecutorBuilder, PoolPlacement};

use crate::guard::Guard;
use crate::interrupt;
use crate::limits::{IO_MEMORY_BYTES, PREEMPT, RING_DEPTH, START_POKE, WARM_UP};
use crate::memory::despite_a_moments_lack;
use crate::slices::Began;
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

type Thread = JoinHandle<io::Result<()>>;

/// How far an executor has come.
enum Stage {
    /// It is about to run.
    Made,
    /// It runs, and can be woken.
    Listening(Arc<Ear>),
    /// It has slept once.
    Warm,
}

/// Running executors, under a [`Guard`].
pub struct Executors {
    mains: Vec<oneshot::Sender<Main>>,
    threads: Vec<Thread>,
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
        let (tell, told) = mpsc::channel::<(u16, Stage)>();
        let mut mains = Vec::new();
        let mut threads: Vec<Thread> = Vec::new();
        for (shard, cpu) in (0..config.shards).zip(cpus) {
            let placement = cpu.map_or(glommio::Placement::Unbound, glommio::Placement::Fixed);
            let (main, run) = oneshot::channel::<Main>();
            let tell = tell.clone();
            let spin = config.spin;
            let make = move || {
                let builder = LocalExecutorBuilder::new(placement.clone())
                    .spin_before_park(spin)
                    .io_memory(IO_MEMORY_BYTES)
                    .ring_depth(RING_DEPTH)
                    .preempt_timer(PREEMPT)
                    .record_io_latencies(false)
                    .blocking_thread_pool_placement(PoolPlacement::Unbound(1));
                builder.make().map_err(io::Error::from)
            };
            let thread = std::thread::Builder::new().name(format!("shard-{shard}")).spawn(move || {
                let executor = despite_a_moments_lack(make)?;
                // Whoever listens no longer has given the start up, which ends `live` at once.
                let _ = tell.send((shard, Stage::Made));
                executor.run(loud("a shard", live(shard, tell, run)));
                Ok(())
            })?;
            mains.push(main);
            threads.push(thread);
        }
        drop(tell);
        let Some(ears) = warm_up(&threads, &told) else {
            drop(mains);
            threads.iter().for_each(wait_without_guard);
            let errors = (0..).zip(threads).filter_map(|(shard, thread)| ended(shard, thread).err());
            return Err(errors.last().unwrap_or_else(|| io::Error::other("an executor ended while it was started")));
        };
        let guard = Guard::start(ears)?;
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
            if let Err(error) = ended(shard, thread) {
                eprintln!("{error}; the process ends");
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

/// Waits until each executor has slept once; `None` when one has ended before that. There is no guard yet,
/// and the first sleeps are as likely as any to be the ones that never end, so this pokes who is late.
fn warm_up(threads: &[Thread], told: &mpsc::Receiver<(u16, Stage)>) -> Option<Vec<Arc<Ear>>> {
    let mut made = vec![false; threads.len()];
    let mut ears: Vec<Option<Arc<Ear>>> = vec![None; threads.len()];
    let mut warm = 0;
    while warm < threads.len() {
        match told.recv_timeout(START_POKE) {
            Ok((shard, Stage::Made)) => made[usize::from(shard)] = true,
            Ok((shard, Stage::Listening(ear))) => ears[usize::from(shard)] = Some(ear),
            Ok((_, Stage::Warm)) => warm += 1,
            // An executor whose thread ends drops its sender.
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if threads.iter().any(JoinHandle::is_finished) {
                    return None;
                }
                for ((thread, made), ear) in threads.iter().zip(&made).zip(&ears) {
                    match ear {
                        Some(ear) if ear.can_be_woken() => ear.wake(),
                        // Its first task waits to be run, so there is nobody in there to wake.
                        _ if *made => interrupt::interrupt(thread),
                        _ => {}
                    }
                }
            }
        }
    }
    ears.into_iter().collect()
}

/// Waits until an executor that was started in vain has ended.
fn wait_without_guard(thread: &Thread) {
    let mut poke_at = Instant::now() + START_POKE;
    while !thread.is_finished() {
        std::thread::sleep(WARM_UP);
        if Instant::now() >= poke_at {
            interrupt::interrupt(thread);
            poke_at = Instant::now() + START_POKE;
        }
    }
}

/// Waits for an executor's thread to end.
fn ended(shard: u16, thread: Thread) -> io::Result<()> {
    let failed = |why: String| io::Error::other(format!("the executor of shard {shard} failed: {why}"));
    match thread.join() {
        Ok(ended) => ended.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed("its thread panicked".into())),
    }
}

/// An executor's life.
async fn live(shard: u16, tell: mpsc::Sender<(u16, Stage)>, run: oneshot::Receiver<Main>) {
    let ear = Ear::listen();
    // When nobody is told any more, the next one says so.
    let _ = tell.send((shard, Stage::Listening(ear.clone())));
    glommio::timer::sleep(WARM_UP).await;
    let started = tell.send((shard, Stage::Warm));
    drop(tell);
    if started.is_ok() {
        // Cancelled when the start has failed elsewhere, or when there is nothing to run.
        if let Ok(main) = crate::wake::Bridged::new(run).await {
            main().await;
        }
    }
    ear.close();
}

/// A future whose panic ends the process: nobody else can serve what a shard owned. Its polls are counted as slices
/// of the shard.
pub(crate) fn loud<F: Future>(what: &'static str, future: F) -> Loud<F> {
    Loud { what, future }
}

/// Of [`loud`]. Written out, since an async function keeps its arguments beside what it makes of them: every task of a
/// shard would be twice as large.
pub(crate) struct Loud<F> {
    what: &'static str,
    future: F,
}

impl<F: Future> Future for Loud<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let what = self.what;
        // SAFETY: the future is never moved out of a pinned `Loud`, which has no `Drop` and is `Unpin` only where
        // the future is.
        let future = unsafe { self.map_unchecked_mut(|loud| &mut loud.future) };
        // Only for the length of the poll: a future that is dropped by somebody else's panic is not to
        // blame for it.
        let loud = AbortOnPanic(what);
        let slice = Began::now();
        let poll = future.poll(cx);
        slice.end(what);
        std::mem::forget(loud);
        poll
    }
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
