//! What it takes a core to see what another one wrote, and back.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Outcome, Setting, Taken};

/// The CPUs whose pairs are looked at: 28 pairs.
const CPUS_MAX: usize = 8;

/// Round trips for one time: the clock is too coarse for one.
const ROUND_TRIPS: u64 = 100;

/// What the other side is told at the end.
const STOP: u64 = u64::MAX;

/// A cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

pub(super) fn measure(setting: &Setting<'_>) -> Outcome {
    let cpus = match setting.cpus {
        [] => super::allowed()?,
        cpus => cpus.to_vec(),
    };
    let cpus = &cpus[..cpus.len().min(CPUS_MAX)];
    let pairs: Vec<(usize, usize)> = cpus
        .iter()
        .enumerate()
        .flat_map(|(nth, one)| cpus[nth + 1..].iter().map(move |other| (*one, *other)))
        .collect();
    if pairs.is_empty() {
        return Err("there is one CPU alone".into());
    }
    let each = setting.budget(2.0) / pairs.len() as u32;
    let mut all_ns = Vec::new();
    let mut slowest = (0, (0, 0));
    for pair in &pairs {
        let taken = Taken::new(ping(*pair, each).map_err(|error| error.to_string())?, "")?;
        slowest = slowest.max((taken.at(500), *pair));
        all_ns.extend(taken.sorted_ns);
    }
    let (ns, (one, other)) = slowest;
    let about = match pairs.len() {
        1 => format!("CPUs {one} and {other}"),
        pairs => format!("{pairs} pairs; slowest are CPUs {one} and {other}, {ns} ns"),
    };
    Taken::new(all_ns, about)
}

/// Means of round trips between two CPUs, in ns. At least one is taken.
fn ping((here, there): (usize, usize), most: Duration) -> io::Result<Vec<u64>> {
    let (ping, pong) = (&Line(AtomicU64::new(0)), &Line(AtomicU64::new(0)));
    thread::scope(|threads| {
        let answering = threads.spawn(move || -> io::Result<()> {
            let pinned = super::pin(Some(there));
            let mut last = 0;
            loop {
                let seen = ping.0.load(Ordering::Acquire);
                if seen == STOP {
                    return pinned;
                }
                if seen != last {
                    last = seen;
                    pong.0.store(seen, Ordering::Release);
                }
                spin_loop();
            }
        });
        let asking = threads.spawn(move || -> io::Result<Vec<u64>> {
            let times_ns = super::pin(Some(here)).map(|()| asked(ping, pong, most));
            ping.0.store(STOP, Ordering::Release);
            times_ns
        });
        let times_ns = super::joined(asking);
        super::joined(answering)?;
        times_ns
    })
}

fn asked(ping: &Line, pong: &Line, most: Duration) -> Vec<u64> {
    let until = Instant::now() + most;
    let mut times_ns = Vec::new();
    let mut count = 0;
    loop {
        let began = Instant::now();
        for _ in 0..ROUND_TRIPS {
            count += 1;
            ping.0.store(count, Ordering::Release);
            while pong.0.load(Ordering::Acquire) != count {
                spin_loop();
            }
        }
        let ended = Instant::now();
        // The first one finds cold caches, and the other thread perhaps not yet there.
        if count > ROUND_TRIPS {
            times_ns.push((ended - began).as_nanos() as u64 / ROUND_TRIPS);
            if ended >= until {
                return times_ns;
            }
        }
    }
}
