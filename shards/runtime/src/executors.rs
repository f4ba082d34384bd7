//! One executor per shard, pinned or not, made before every other thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use glommio::{LocalExecutorBuilder, PoolPlacement};

use crate::guard::{Guard, Poked};
use crate::limits::{IO_MEMORY_BYTES, PREEMPT, RING_DEPTH};

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
    /// How many; with [`Placement::Cpus`] no more than CPUs.
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
    /// What [`check_host`](crate::check_host) finds, or a CPU that cannot be had.
    pub fn start(config: &Config) -> io::Result<Executors> {
        crate::check_host()?;
        let (warm, warmed) = mpsc::channel::<(u16, Poked)>();
        let mut mains = Vec::new();
        let mut threads = Vec::new();
        for shard in 0..config.shards {
            let placement = match &config.placement {
                Placement::Cpus(cpus) => match cpus.get(usize::from(shard)) {
                    Some(&cpu) => glommio::Placement::Fixed(cpu),
                    None => return Err(io::Error::other(format!("no CPU for shard {shard}"))),
                },
                Placement::Unpinned => glommio::Placement::Unbound,
            };
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
                .spawn(move || async move {
                    let _loud = AbortOnPanic(shard);
                    glommio::timer::sleep(Duration::from_millis(1)).await;
                    let poked = Poked::listen();
                    // The other end is gone only when the start has failed.
                    if warm.send((shard, poked)).is_err() {
                        return;
                    }
                    if let Ok(main) = run.await {
                        main().await;
                    }
                })
                .map_err(|error| io::Error::other(format!("cannot start the executor of shard {shard}: {error}")))?;
            mains.push(main);
            threads.push(thread);
        }
        drop(warm);
        let mut poked: Vec<(u16, Poked)> = warmed.iter().take(usize::from(config.shards)).collect();
        if poked.len() != usize::from(config.shards) {
            return Err(io::Error::other("an executor died while it was started"));
        }
        poked.sort_by_key(|(shard, _)| *shard);
        let guard = Guard::start(poked.into_iter().map(|(_, poked)| poked).collect())?;
        Ok(Executors { mains, threads, guard })
    }

    /// What the guard sees.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Runs a future on each executor, made there from what `main` gives for the shard's number.
    pub fn run<F, M>(&mut self, mut main: impl FnMut(u16) -> M)
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        for (shard, sender) in self.mains.drain(..).enumerate() {
            let main = main(shard as u16);
            let main: Main = Box::new(move || Box::pin(main()));
            // An executor that cannot take it has died, which has taken the process down.
            let _ = sender.send(main);
        }
    }

    /// Waits for every executor's future to end, then stops the guard.
    pub fn join(self) {
        for thread in self.threads {
            if let Err(error) = thread.join() {
                eprintln!("a shard died: {error}");
                std::process::abort();
            }
        }
        self.guard.stop();
    }
}

/// A shard that dies takes the process down: nobody else can serve what it owned.
struct AbortOnPanic(u16);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("shard {} panicked; the process ends", self.0);
            std::process::abort();
        }
    }
}

/// A task of this shard.
#[must_use = "a task that is dropped is cancelled"]
pub struct Task<T>(glommio::Task<T>);

impl<T> Task<T> {
    /// Lets it run to its end on its own.
    pub fn detach(self) {
        self.0.detach();
    }

    /// Stops it; what it came to, if it was done.
    pub async fn cancel(self) -> Option<T> {
        self.0.cancel().await
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<T> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Starts a task on this shard.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    Task(glommio::spawn_local(future))
}

/// Lets everything else that is ready on this shard run first.
pub async fn yield_now() {
    glommio::executor().yield_now().await;
}

/// Waits.
pub async fn sleep(duration: Duration) {
    glommio::timer::sleep(duration).await;
}

/// Waits until then.
pub async fn sleep_until(deadline: Instant) {
    glommio::timer::sleep(deadline.saturating_duration_since(Instant::now())).await;
}
