//! `ringgate doctor --selftest`: the measurements of `ringgate-tuning`, and the one that takes the gateway's runtime.

use std::time::Duration;

use ringgate_runtime::{Placement, time_wake_pairs};
use ringgate_tuning::selftest::{self, Outcome, Setting, Taken, typical::Machine};
use ringgate_tuning::{Host, Plan};

/// Wake-ups at most; the time ends earlier on most machines.
const PAIRS_MAX: usize = 50_000;

/// Measures this machine; as text or JSON. A slow machine is told, and no failure.
///
/// # Errors
/// There are no CPUs to measure on.
pub(super) fn run(host: &Host, plan: &Plan, json: bool) -> Result<String, String> {
    let cpus = super::cpus::chosen(host, plan)?.cpus.unwrap_or_default();
    let rows = selftest::run(&Setting { cpus: &cpus, data: &plan.data, share: 1.0 }, wake_pair);
    let machine = Machine::of(host);
    Ok(if json { format!("{:#}\n", selftest::json(&rows, machine)) } else { selftest::text(&rows, machine) })
}

fn wake_pair(cpus: &[usize], most: Duration) -> Outcome {
    let (placement, about) = match cpus {
        [one, other, ..] => (Placement::Cpus(vec![*one, *other]), format!("shards on CPUs {one} and {other}")),
        _ => (Placement::Unpinned, "wherever the kernel puts them".to_owned()),
    };
    let taken = time_wake_pairs(placement, Duration::ZERO, PAIRS_MAX, most).map_err(|why| why.to_string())?;
    Taken::new(taken.into_iter().map(|taken| taken.as_nanos() as u64).collect(), about)
}
