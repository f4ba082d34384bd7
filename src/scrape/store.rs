//! Where records and offsets are kept: files, or Iggy.

use ringgate_shards::metrics::LogKind;

use super::ShardScrape;
use crate::admin::Family;

/// How long files take.
pub(super) fn files(shards: &[ShardScrape]) -> Vec<Family> {
    let mut sync = Family::histogram("ringgate_sync_seconds", "How long an fdatasync of a log took.");
    let mut append = Family::histogram("ringgate_append_seconds", "How long a write to a log took.");
    let mut appends = Family::histogram(
        "ringgate_append_batches",
        "How many appends went into one write: what a group commit saves.",
    );
    let mut waited = Family::histogram(
        "ringgate_file_wait_seconds",
        "How long a write or sync that could be done waited until a file thread took it up.",
    );
    for shard in shards {
        let number = shard.report.shard.to_string();
        let times = &shard.report.file_times;
        waited.push_recorded(&[("shard", &number)], &times.waited);
        for log in LogKind::ALL {
            let of_log = times.of(log);
            let labels = [("shard", &*number), ("log", log.name())];
            for (family, recorded) in
                [(&mut sync, &of_log.sync), (&mut append, &of_log.append), (&mut appends, &of_log.appends)]
            {
                if recorded.count() > 0 {
                    family.push_recorded(&labels, recorded);
                }
            }
        }
    }
    vec![sync, append, appends, waited]
}

/// What shards ask of Iggy.
pub(super) fn lanes(shards: &[ShardScrape]) -> Vec<Family> {
    let lanes: Vec<_> =
        shards.iter().filter_map(|s| Some((s.report.shard.to_string(), s.report.lane.as_ref()?))).collect();
    if lanes.is_empty() {
        return Vec::new();
    }
    let mut waiting = Family::gauge("ringgate_lane_calls", "Calls on Iggy that are not answered.");
    let mut took = Family::histogram(
        "ringgate_lane_seconds",
        "How long calls on Iggy took, waits at the tail, for a connection, and retries included.",
    );
    let mut failures =
        Family::counter("ringgate_lane_failures_total", "Failures, by Iggy's code; most are mended by a retry.");
    let mut limits = Family::counter("ringgate_lane_refused_total", "Calls refused since a lane had too many.");
    let mut lease = Family::gauge(
        "ringgate_group_lease_seconds",
        "How long groups may be answered yet unless the lease is renewed; 0: they are not.",
    );
    if let Some((_, lane)) = lanes.first() {
        lease.push(&[], lane.lease.as_secs_f64());
    }
    for (shard, lane) in &lanes {
        waiting.push(&[("shard", shard)], lane.in_flight as u64);
        took.push_recorded(&[("shard", shard)], &lane.took);
        limits.push(&[("shard", shard)], lane.refused_full);
        for (code, count) in &lane.failures {
            failures.push(&[("shard", shard), ("code", &code.to_string())], *count);
        }
    }
    vec![waiting, took, failures, limits, lease]
}
