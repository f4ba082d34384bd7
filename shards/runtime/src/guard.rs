//! One ordinary thread that pokes every executor at a short period.
//!
//! The runtime can sleep for ever with runnable work (a preemption between its look at I/O and its first
//! task loses the wake-up). A poke wakes a task that is always alive, which makes a sleeping executor look
//! again: the period bounds any stall. It is short while the shards work and doubles up to a long one
//! while they do not. The same thread waits for peers that close while nobody reads from them.

use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::executors::AbortOnPanic;
use crate::limits::{GUARD_PERIOD_MAX, GUARD_PERIOD_MIN, GUARD_STALL, LAG_WINDOW};
use crate::peer_close::Closings;
use crate::wake::Ear;

/// What is seen of one shard from outside.
#[derive(Debug, Default)]
pub struct ShardStats {
    /// Bumped by everything that the shard does on behalf of clients.
    activity: AtomicU64,
    /// Pokes sent.
    pokes: AtomicU64,
    /// How long the last answered poke took, in microseconds: the loop's lag.
    lag_us: AtomicU64,
    /// The longest that any took, in windows of [`LAG_WINDOW`].
    longest: Longest,
    /// Pokes that took longer than [`GUARD_STALL`].
    stalls: AtomicU64,
    /// When the poke that is not answered yet was sent, as [`process_us`] says; 0 for none.
    sent_us: AtomicU64,
    /// The poke that was counted as a stall last, by its time.
    stalled_us: AtomicU64,
}

impl ShardStats {
    /// How long the executor took to answer the last poke, in microseconds; the age of the poke that it
    /// has not answered, if that is more.
    pub fn lag_us(&self) -> u64 {
        self.lag_us.load(Ordering::Relaxed).max(self.unanswered_us().unwrap_or(0))
    }

    /// The longest of the last [`LAG_WINDOW`] and of the window before, in microseconds: whoever asks more often than once
    /// in a window misses none, however many ask.
    pub fn longest_lag_us(&self) -> u64 {
        self.longest.of_late(process_us()).max(self.lag_us())
    }

    /// How often it took longer than 250 ms. A stall counts as soon as it is that long.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// How often it was poked.
    pub fn pokes(&self) -> u64 {
        self.pokes.load(Ordering::Relaxed)
    }

    /// What the shard has done so far: sends, reads and accepted connections. It only ever grows.
    pub fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Only the shard's own thread calls this.
    pub(crate) fn bump(&self) {
        self.activity.store(self.activity.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The shard has looked.
    pub(crate) fn answer(&self) {
        let sent = self.sent_us.swap(0, Ordering::Relaxed);
        if sent > 0 {
            let lag_us = process_us().saturating_sub(sent);
            self.lag_us.store(lag_us, Ordering::Relaxed);
            self.longest.take(sent + lag_us, lag_us);
            self.count_if_stalled(sent, lag_us);
        }
    }

    fn unanswered_us(&self) -> Option<u64> {
        match self.sent_us.load(Ordering::Relaxed) {
            0 => None,
            sent => Some(process_us().saturating_sub(sent)),
        }
    }

    fn count_if_stalled(&self, sent: u64, age_us: u64) {
        if u128::from(age_us) > GUARD_STALL.as_micros() && self.stalled_us.swap(sent, Ordering::Relaxed) != sent {
            self.stalls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The longest of some times in the window at hand and in the one before. One thread tells of times, any may ask.
#[derive(Debug, Default)]
struct Longest {
    /// Which window `now` is of, counted from the start.
    window: AtomicU64,
    now: AtomicU64,
    before: AtomicU64,
}

impl Longest {
    fn take(&self, at_us: u64, took_us: u64) {
        let (window, last) = (window(at_us), self.window.load(Ordering::Relaxed));
        if window != last {
            let now = self.now.swap(0, Ordering::Relaxed);
            self.before.store(if window == last + 1 { now } else { 0 }, Ordering::Relaxed);
            self.window.store(window, Ordering::Relaxed);
        }
        self.now.store(self.now.load(Ordering::Relaxed).max(took_us), Ordering::Relaxed);
    }

    fn of_late(&self, at_us: u64) -> u64 {
        let now = self.now.load(Ordering::Relaxed);
        match window(at_us).saturating_sub(self.window.load(Ordering::Relaxed)) {
            0 => now.max(self.before.load(Ordering::Relaxed)),
            1 => now,
            _ => 0,
        }
    }
}

fn window(at_us: u64) -> u64 {
    at_us / LAG_WINDOW.as_micros() as u64
}

/// Microseconds since the first call, plus one, so that 0 is never a time.
fn process_us() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed().as_micros() as u64 + 1
}

/// The guard of one process's executors.
pub struct Guard {
    stats: Vec<Arc<ShardStats>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    pub(crate) fn start(shards: Vec<Arc<Ear>>) -> io::Result<Guard> {
        let stats = shards.iter().map(|ear| ear.stats().clone()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let closings = Closings::get()?;
        let thread = std::thread::Builder::new().name("guard".into()).spawn(move || {
            // Without its guard a shard may sleep for ever.
            let _loud = AbortOnPanic("the guard");
            watch(&shards, closings, &stopped);
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
            // It cannot have panicked: that ends the process.
            let _ = thread.join();
        }
    }
}

fn watch(shards: &[Arc<Ear>], closings: &Closings, stopped: &AtomicBool) {
    let mut watched: Vec<Watched> = shards.iter().map(|ear| Watched { ear, again_us: 0 }).collect();
    let mut period = GUARD_PERIOD_MIN;
    let mut seen = 0u64;
    let mut next = Instant::now() + period;
    while !stopped.load(Ordering::Relaxed) {
        closings.wait(next.saturating_duration_since(Instant::now()));
        if Instant::now() < next {
            continue;
        }
        let activity = shards.iter().map(|ear| ear.stats().activity()).fold(0, u64::wrapping_add);
        period = next_period(period, activity != seen);
        seen = activity;
        for shard in &mut watched {
            shard.poke();
        }
        next = Instant::now() + period;
    }
}

fn next_period(period: Duration, active: bool) -> Duration {
    if active { GUARD_PERIOD_MIN } else { (period * 2).min(GUARD_PERIOD_MAX) }
}

/// A shard, and when an unanswered poke is repeated.
struct Watched<'a> {
    ear: &'a Ear,
    again_us: u64,
}

impl Watched<'_> {
    fn poke(&mut self) {
        let stats = self.ear.stats();
        let now = process_us();
        let sent = stats.sent_us.load(Ordering::Relaxed);
        if sent == 0 {
            stats.sent_us.store(now, Ordering::Relaxed);
            self.again_us = 0;
        } else {
            let age_us = now.saturating_sub(sent);
            stats.count_if_stalled(sent, age_us);
            if now < self.again_us {
                return;
            }
            // Each waits in the shard's queue of wake-ups, which holds 32,767 of one task: a shard that
            // is stuck for minutes must not fill it, so they become rarer as it gets longer.
            self.again_us = now + age_us / 8;
        }
        stats.pokes.fetch_add(1, Ordering::Relaxed);
        self.ear.wake();
    }
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

    #[test]
    fn the_longest_lag_is_known_for_a_window_and_forgotten_after_the_next() {
        let (longest, width) = (Longest::default(), LAG_WINDOW.as_micros() as u64);
        longest.take(10, 700);
        longest.take(20, 300);
        assert_eq!((longest.of_late(30), longest.of_late(width)), (700, 700));
        assert_eq!(longest.of_late(2 * width), 0, "nothing was told for a whole window");
        longest.take(width + 1, 400);
        assert_eq!(longest.of_late(width + 2), 700, "the window before counts");
        longest.take(2 * width, 100);
        assert_eq!(longest.of_late(2 * width), 400);
        longest.take(9 * width, 5);
        assert_eq!(longest.of_late(9 * width), 5, "what is between was silent");
    }

    #[test]
    fn a_stall_counts_once_whoever_sees_it_first() {
        let stats = ShardStats::default();
        let long_us = GUARD_STALL.as_micros() as u64 + 1;
        stats.count_if_stalled(7, long_us - 1);
        assert_eq!(stats.stalls(), 0);
        stats.count_if_stalled(7, long_us);
        stats.count_if_stalled(7, 2 * long_us);
        assert_eq!(stats.stalls(), 1);
        stats.count_if_stalled(8, long_us);
        assert_eq!(stats.stalls(), 2);
    }
}
