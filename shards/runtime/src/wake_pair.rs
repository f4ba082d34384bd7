//! Timing the wake-ups of two shards by each other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{Config, Executors, Placement, notifier};

/// Not counted: the first ones find cold caches.
const WARM_UP_PAIRS: usize = 1_000;

/// How long it takes to wake another shard and be woken by it: what a request that crosses shards costs at the least.
/// Each wake-up is of a shard that has nothing else to do.
///
/// Starts two executors, placed and spinning as given, and times `pairs` of wake-ups, or fewer when they would take
/// longer than `most`; in the order in which they happened.
///
/// # Errors
/// As [`Executors::start`].
pub fn time_wake_pairs(
    placement: Placement,
    spin: Duration,
    pairs: usize,
    most: Duration,
) -> io::Result<Vec<Duration>> {
    let mut executors = Executors::start(&Config { shards: 2, placement, spin })?;
    let (call, called) = notifier();
    let (reply, replied) = notifier();
    let (tell, told) = mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let mut caller = Some((call, replied, tell, over.clone()));
    let mut callee = Some((called, reply, over));
    executors.run(|shard| {
        let caller = if shard == 0 { caller.take() } else { None };
        let callee = if shard == 1 { callee.take() } else { None };
        move || async move {
            if let Some((call, replied, tell, over)) = caller {
                let mut taken = Vec::with_capacity(pairs);
                let mut warm_up = WARM_UP_PAIRS;
                let until = Instant::now() + most;
                while taken.len() < pairs {
                    let began = Instant::now();
                    call.notify();
                    replied.notified().await;
                    let ended = Instant::now();
                    if warm_up > 0 && ended < until {
                        warm_up -= 1;
                        continue;
                    }
                    taken.push(ended - began);
                    if ended >= until {
                        break;
                    }
                }
                over.store(true, Ordering::Release);
                call.notify();
                // Whoever started this waits for exactly this.
                let _ = tell.send(taken);
            }
            if let Some((called, reply, over)) = callee {
                loop {
                    called.notified().await;
                    if over.load(Ordering::Acquire) {
                        return;
                    }
                    reply.notify();
                }
            }
        }
    });
    let taken = told.recv().map_err(|_| io::Error::other("a shard ended early"));
    executors.join();
    taken
}
