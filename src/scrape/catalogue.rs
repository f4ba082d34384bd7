//! Every family that a scrape may have, for the manual.

use std::sync::Arc;

use ringgate_group::Histogram;
use ringgate_runtime::ShardStats;
use ringgate_shards::metrics::{LogKind, ShardReport, limit_names};
use ringgate_shards::store::iggy::LaneReport;

use super::{IggyScrape, ShardScrape};
use crate::admin::{Family, LimitsMet};
use crate::api::ErrorCounts;
use crate::net::limit_hits::LimitHits;
use crate::net::request_stats::ApiStats;

/// All families, as of a shard on which everything has happened once, with an Iggy listener and a lane to Iggy. Their
/// names, helps and labels are those of any scrape; their values are nobody's.
pub fn families() -> Vec<Family> {
    let mut all = super::families(&[shard()], &[Arc::new(ShardStats::default())], 1, 1, &LimitsMet::default());
    all.extend(crate::watch::lag::example());
    all
}

fn shard() -> ShardScrape {
    let mut errors = ErrorCounts::default();
    errors.count(1);
    let mut report = ShardReport {
        lane: Some(Box::new(LaneReport { failures: vec![(1, 1)], ..LaneReport::default() })),
        groups: vec![("Stable", 1)],
        limits_hit: limit_names().into_iter().map(|name| (name, 0)).collect(),
        ..ShardReport::default()
    };
    report.slices.longest.push(("a task", std::time::Duration::ZERO));
    for log in LogKind::ALL {
        let times = report.file_times.of_mut(log);
        for recorded in [&mut times.append, &mut times.appends, &mut times.sync] {
            recorded.record(1);
        }
    }
    ShardScrape {
        report,
        limits_hit: LimitHits::default().iter().chain([("max_fetch_sessions", 0)]).collect(),
        requests: vec![ApiStats { api: "Produce", read: 1, closed: 1, took: Histogram::of_times(), errors }],
        iggy: Some(IggyScrape { requests: vec![("poll", 1)], ..IggyScrape::default() }),
        ..ShardScrape::default()
    }
}
