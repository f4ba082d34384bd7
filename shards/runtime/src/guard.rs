//! One ordinary thread that pokes every executor at a short period.
//!
//! The runtime can sleep for ever with runnable work (a preemption between its look at I/O and its first
//! task loses the wake-up). A poke goes through the waker of a task that is always alive, which makes a
//! sleeping executor look again: the period bounds any stall. It is short while the shards work and
//! doubles up to a long one while they do not. The same thread waits for peers that close while nobody
//! reads from them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::limits::{GUARD_PERIOD_MAX, GUARD_PERIOD_MIN, GUARD_STALL};
use crate::peer_close::Closings;

/// What is seen of one shard from outside.
#[derive(Debug, Default)]
pub struct ShardStats {
    /// Bumped by everything that the shard does on behalf of clients.
    activity: AtomicU64,
    /// Pokes sent.
    pokes: AtomicU64,
    /// How long the last answered poke took, in microseconds: the loop's lag.
    lag_us: AtomicU64,
    /// Pokes that took longer than [`GUARD_STALL`].
    stalls: AtomicU64,
}

impl ShardStats {
    /// How long the executor took to answer the last poke, in microseconds.
    pub fn lag_us(&self) -> u64 {
        self.lag_us.load(Ordering::Relaxed)
    }

    /// How often it took longer than 250 ms.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// How often it was poked.
    pub fn pokes(&self) -> u64 {
        self.pokes.load(Ordering::Relaxed)
    }
}

thread_local! {
    static STATS: std::cell::RefCell<Option<Arc<ShardStats>>> = const { std::cell::RefCell::new(None) };
}

/// The shard of this thread has done something: the guard stays alert.
pub(crate) fn active() {
    STATS.with_borrow(|stats| {
        if let Some(stats) = stats {
            // Only this thread writes it.
            stats.activity.store(stats.activity.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    });
}

struct Ear {
    /// Kept while it is used: a waker that was taken could not be used again when its wake-up was lost.
    waker: Mutex<Option<Waker>>,
    /// When the poke that is not answered yet was sent, in microseconds since `epoch`, plus one; 0 for none.
    sent_us: AtomicU64,
    epoch: Instant,
    stats: Arc<ShardStats>,
}

/// An executor as the guard sees it.
pub(crate) struct Poked(Arc<Ear>);

impl Poked {
    /// Starts this executor's listening task.
    pub(crate) fn listen() -> Poked {
        let ear = Arc::new(Ear {
            waker: Mutex::new(None),
            sent_us: AtomicU64::new(0),
            epoch: Instant::now(),
            stats: Arc::default(),
        });
        STATS.set(Some(ear.stats.clone()));
        let listening = ear.clone();
        glommio::spawn_local(async move {
            std::future::poll_fn(|cx| {
                listening.answer();
                let mut waker = listening.waker.lock().unwrap_or_else(PoisonError::into_inner);
                if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                Poll::<()>::Pending
            })
            .await;
        })
        .detach();
        Poked(ear)
    }

    fn poke(&self) {
        let ear = &self.0;
        ear.stats.pokes.fetch_add(1, Ordering::Relaxed);
        let now = ear.now_us() + 1;
        let _ = ear.sent_us.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        if let Some(waker) = &*ear.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }
}

impl Ear {
    fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    fn answer(&self) {
        let sent = self.sent_us.swap(0, Ordering::Relaxed);
        if sent > 0 {
            let lag_us = (self.now_us() + 1).saturating_sub(sent);
            self.stats.lag_us.store(lag_us, Ordering::Relaxed);
            if u128::from(lag_us) > GUARD_STALL.as_micros() {
                self.stats.stalls.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The guard of one process's executors.
pub struct Guard {
    stats: Vec<Arc<ShardStats>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    pub(crate) fn start(shards: Vec<Poked>) -> io::Result<Guard> {
        let stats = shards.iter().map(|poked| poked.0.stats.clone()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let closings = Closings::get()?;
        let thread = std::thread::Builder::new().name("guard".into()).spawn(move || {
            watch(&shards, closings, &stopped);
            // The wakers belong to executors that have ended.
            for Poked(ear) in shards {
                std::mem::forget(ear.waker.lock().unwrap_or_else(PoisonError::into_inner).take());
            }
        })?;
        Ok(Guard { stats, stop, thread: Some(thread) })
    }

    /// What is seen of each shard, in order.
    pub fn stats(&self) -> &[Arc<ShardStats>] {
        &self.stats
    }

    pub(crate) fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A guard that panicked has nothing more to guard.
            let _ = thread.join();
        }
    }
}

fn watch(shards: &[Poked], closings: &Closings, stopped: &AtomicBool) {
    let mut period = GUARD_PERIOD_MIN;
    let mut seen = 0u64;
    let mut next = Instant::now() + period;
    while !stopped.load(Ordering::Relaxed) {
        closings.wait(next.saturating_duration_since(Instant::now()));
        if Instant::now() < next {
            continue;
        }
        let activity = shards.iter().map(|poked| poked.0.stats.activity.load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
        period = next_period(period, activity != seen);
        seen = activity;
        for poked in shards {
            poked.poke();
        }
        next = Instant::now() + period;
    }
}

fn next_period(period: Duration, active: bool) -> Duration {
    if active { GUARD_PERIOD_MIN } else { (period * 2).min(GUARD_PERIOD_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_doubles_while_nothing_happens_and_is_short_again_at_once() {
        let mut period = GUARD_PERIOD_MIN;
        for _ in 0..10 {
            period = next_period(period, false);
        }
        assert_eq!(period, GUARD_PERIOD_MAX);
        assert_eq!(next_period(period, true), GUARD_PERIOD_MIN);
    }
}
