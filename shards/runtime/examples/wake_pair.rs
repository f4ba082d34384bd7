//! How long it takes to wake another shard and be woken by it: what a request that crosses shards costs at the
//! least.
//!
//! `wake_pair [--cpus LIST|none] [--spin MICROSECONDS] [--pairs N]`; it prints a line of JSON with the percentiles
//! of a pair, in ns. Each wake-up is of a shard that has nothing else to do.

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ringgate_runtime::{Config, Executors, Placement, allowed_cpus, notifier};

/// Not counted: the first ones find cold caches.
const WARM_UP_PAIRS: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut placement = Placement::Cpus(allowed_cpus()?);
    let mut spin = Duration::ZERO;
    let mut pairs = 20_000_usize;
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--cpus" if value == "none" => placement = Placement::Unpinned,
            "--cpus" => placement = Placement::Cpus(value.split(',').map(str::parse).collect::<Result<_, _>>()?),
            "--spin" => spin = Duration::from_micros(value.parse()?),
            "--pairs" => pairs = value.parse()?,
            _ => return Err(format!("unknown flag {flag}").into()),
        }
    }
    if pairs == 0 {
        return Err("--pairs 0: at least one".into());
    }

    let mut executors = Executors::start(&Config { shards: 2, placement, spin })?;
    let (call, called) = notifier();
    let (reply, replied) = notifier();
    let (tell, told) = mpsc::channel();
    let rounds = WARM_UP_PAIRS + pairs;
    let mut caller = Some((call, replied, tell));
    let mut callee = Some((called, reply));
    executors.run(|shard| {
        let caller = if shard == 0 { caller.take() } else { None };
        let callee = if shard == 1 { callee.take() } else { None };
        move || async move {
            if let Some((call, replied, tell)) = caller {
                let mut taken = Vec::with_capacity(rounds);
                for _ in 0..rounds {
                    let began = Instant::now();
                    call.notify();
                    replied.notified().await;
                    taken.push(began.elapsed());
                }
                // The main thread waits for exactly this.
                let _ = tell.send(taken);
            }
            if let Some((called, reply)) = callee {
                for _ in 0..rounds {
                    called.notified().await;
                    reply.notify();
                }
            }
        }
    });
    let taken = told.recv()?;
    executors.join();

    let mut taken = taken[WARM_UP_PAIRS..].to_vec();
    taken.sort_unstable();
    let percentile = |share: usize| taken[(taken.len() - 1) * share / 1_000].as_nanos();
    println!(
        r#"{{"pairs":{pairs},"p50_ns":{},"p90_ns":{},"p99_ns":{},"p99.9_ns":{}}}"#,
        percentile(500),
        percentile(900),
        percentile(990),
        percentile(999)
    );
    Ok(())
}
