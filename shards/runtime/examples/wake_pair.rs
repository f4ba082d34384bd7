//! How long it takes to wake another shard and be woken by it: what a request that crosses shards costs at the
//! least, and what `ringgate doctor --selftest` measures, too.
//!
//! `wake_pair [--cpus LIST|none] [--spin MICROSECONDS] [--pairs N]`; it prints a line of JSON with the percentiles
//! of a pair, in ns. Each wake-up is of a shard that has nothing else to do.

use std::error::Error;
use std::time::Duration;

use ringgate_runtime::{Placement, allowed_cpus, time_wake_pairs};

/// No number of pairs takes longer.
const LONGEST: Duration = Duration::from_secs(600);

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

    let mut taken = time_wake_pairs(placement, spin, pairs, LONGEST)?;
    taken.sort_unstable();
    let percentile = |share: usize| taken[(taken.len() - 1) * share / 1_000].as_nanos();
    println!(
        r#"{{"pairs":{},"p50_ns":{},"p90_ns":{},"p99_ns":{},"p99.9_ns":{}}}"#,
        taken.len(),
        percentile(500),
        percentile(900),
        percentile(990),
        percentile(999)
    );
    Ok(())
}
