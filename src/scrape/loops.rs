//! How free the shards' loops are.

use std::sync::Arc;

use ringgate_runtime::ShardStats;

use super::ShardScrape;
use crate::admin::{Family, Kind};

/// What the guard sees of the shards, and they of themselves.
pub(super) fn families(shards: &[ShardScrape], stats: &[Arc<ShardStats>]) -> Vec<Family> {
    let mut cpu = Family::counter("ringgate_shard_cpu_seconds_total", "CPU time of the shard's thread.");
    for shard in shards {
        cpu.push(&[("shard", &shard.report.shard.to_string())], shard.report.cpu.as_secs_f64());
    }
    let mut lag = Family::gauge(
        "ringgate_loop_lag_seconds",
        "How long the shard took to answer the guard's last poke, or has not answered it: every 2 ms while there is \
         work, up to every 100 ms while there is none.",
    );
    let mut longest = Family::gauge(
        "ringgate_loop_lag_seconds_max",
        "The longest of these within the last 15 to 30 s, whoever scrapes how often.",
    );
    let mut stalls = Family::counter("ringgate_guard_stalls_total", "Pokes that took longer than 250 ms.");
    for (shard, stats) in stats.iter().enumerate() {
        let number = shard.to_string();
        lag.push(&[("shard", &number)], stats.lag_us() as f64 / 1e6);
        longest.push(&[("shard", &number)], stats.longest_lag_us() as f64 / 1e6);
        stalls.push(&[("shard", &number)], stats.stalls());
    }
    let mut all = vec![cpu, lag, longest, stalls];
    all.extend(slices(shards));
    all
}

/// How long tasks keep their shards.
fn slices(shards: &[ShardScrape]) -> [Family; 2] {
    let mut taken = Family::new(
        Kind::Histogram,
        "ringgate_slice_seconds",
        "How long a task kept its shard at a time, by slice_clock.",
    );
    let mut longest =
        Family::gauge("ringgate_slice_seconds_max", "The longest slice since the start, by kind of task.");
    for shard in shards {
        let number = shard.report.shard.to_string();
        let slices = &shard.report.slices;
        let buckets: Vec<(f64, u64)> =
            slices.at_most.iter().map(|(most, count)| (most.as_secs_f64(), *count)).collect();
        taken.push_histogram(&[("shard", &number)], &buckets, slices.total.as_secs_f64(), slices.count);
        for (task, took) in &slices.longest {
            longest.push(&[("shard", &number), ("task", task)], took.as_secs_f64());
        }
    }
    [taken, longest]
}
