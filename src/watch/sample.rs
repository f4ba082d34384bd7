//! What happened between two looks at every shard: rates, and how long things took.

use std::collections::HashMap;
use std::time::Duration;

use ringgate_group::Histogram;
use ringgate_shards::metrics::LogKind;

use crate::scrape::ShardScrape;

/// APIs whose requests wait for others or for records, so that how long they take says nothing of the gateway.
const WAITING: [&str; 3] = ["Fetch", "JoinGroup", "SyncGroup"];

/// What every shard had counted at one moment.
#[derive(Debug, Default)]
pub struct Sample {
    /// When, in ms since the epoch.
    pub at_ms: i64,
    /// By shard.
    pub shards: Vec<ShardScrape>,
    /// The longest that each shard took to answer the guard within the last 15 to 30 s.
    pub loop_lags: Vec<Duration>,
    /// How often each shard took longer than the guard allows.
    pub stalls: Vec<u64>,
    /// Connections of the whole gateway.
    pub connections: usize,
}

/// Percentiles in ms, of what happened in one step; nothing where nothing did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Took {
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
    /// A bound on the longest.
    pub max: Option<f64>,
}

impl Took {
    /// Of a histogram of times.
    fn of(times: &Histogram) -> Took {
        let ms = |q: f64| times.quantile(q).map(|seconds| seconds * 1000.0);
        Took { p50: ms(0.5), p99: ms(0.99), p999: ms(0.999), max: ms(1.0) }
    }
}

/// One API over one step.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiStep {
    /// Kafka's name.
    pub api: &'static str,
    /// A second.
    pub requests: f64,
    /// Errors in answers, a second.
    pub errors: f64,
    /// Of the whole gateway.
    pub took: Took,
}

/// One shard over one step. Rates are a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardStep {
    /// The part of a CPU that it used; not known in the first step.
    pub cpu: Option<f64>,
    /// Requests.
    pub requests: f64,
    /// Records appended.
    pub records_in: f64,
    /// Requests of other shards.
    pub hops: f64,
    /// What these waited for.
    pub hop_took: Took,
    /// Of requests that do not wait for others.
    pub took: Took,
    /// Stalls in this step.
    pub stalls: u64,
}

/// What happened between two samples. Rates are a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// By shard.
    pub shards: Vec<ShardStep>,
    /// By API, the most asked for first.
    pub apis: Vec<ApiStep>,
    /// Requests of Kafka's clients.
    pub requests: f64,
    /// Records appended.
    pub records_in: f64,
    /// Bytes of their batches.
    pub bytes_in: f64,
    /// Bytes of batches read.
    pub bytes_out: f64,
    /// Offset commits asked for.
    pub commits: f64,
    /// Rebalances that ended in a stable group.
    pub rebalances: f64,
    /// Syncs of all files but those of the catalogue.
    pub synced: Took,
    /// Writes of these.
    pub written: Took,
    /// How many appends went out in one write, on average.
    pub batch: Option<f64>,
    /// Calls on Iggy.
    pub lane_calls: f64,
    /// What they took.
    pub lane_took: Took,
    /// Of requests of all shards that do not wait for others.
    pub took: Took,
    /// By limit, how often it was met in this step.
    pub limits: Vec<(&'static str, u64)>,
    /// Failures of lanes to Iggy in this step.
    pub lane_failures: u64,
}

impl Step {
    /// From one sample to the next; `None` where no time passed or shards are missing.
    pub fn between(before: &Sample, now: &Sample) -> Option<Step> {
        let ms = now.at_ms - before.at_ms;
        if ms <= 0 || before.shards.len() != now.shards.len() {
            return None;
        }
        let seconds = ms as f64 / 1000.0;
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let mut apis: HashMap<&'static str, (u64, u64, Histogram)> = HashMap::new();
        let [mut all, mut synced, mut written, mut lane] = std::array::from_fn(|_| Histogram::of_times());
        let mut batches = Histogram::of_counts();
        let mut step = Step::default();
        for (at, (was, is)) in before.shards.iter().zip(&now.shards).enumerate() {
            let earlier: HashMap<_, _> = was.requests.iter().map(|api| (api.api, api)).collect();
            let mut quick = Histogram::of_times();
            let mut requests = 0;
            for api in &is.requests {
                let earlier = earlier.get(api.api);
                let took = earlier.map_or_else(|| api.took.clone(), |earlier| api.took.since(&earlier.took));
                let read = api.read - earlier.map_or(0, |earlier| earlier.read);
                let errors = |api: &crate::net::request_stats::ApiStats| api.errors.iter().map(|(_, n)| n).sum::<u64>();
                let failed = errors(api).saturating_sub(earlier.map_or(0, |earlier| errors(earlier)));
                requests += read;
                if !WAITING.contains(&api.api) {
                    quick.add(&took);
                }
                let of = apis.entry(api.api).or_insert_with(|| (0, 0, Histogram::of_times()));
                of.0 += read;
                of.1 += failed;
                of.2.add(&took);
            }
            all.add(&quick);
            let (was, is) = (&was.report, &is.report);
            let hops = is.hops.took.since(&was.hops.took);
            let counted = |now: &[u64], before: &[u64]| {
                now.get(at).copied().unwrap_or(0).saturating_sub(before.get(at).copied().unwrap_or(0))
            };
            step.shards.push(ShardStep {
                cpu: is.cpu.checked_sub(was.cpu).map(|used| used.as_secs_f64() / seconds),
                requests: requests as f64 / seconds,
                records_in: rate(is.records_in, was.records_in),
                hops: hops.count() as f64 / seconds,
                hop_took: Took::of(&hops),
                took: Took::of(&quick),
                stalls: counted(&now.stalls, &before.stalls),
            });
            step.records_in += rate(is.records_in, was.records_in);
            step.bytes_in += rate(is.bytes_in, was.bytes_in);
            step.bytes_out += rate(is.bytes_out, was.bytes_out);
            step.requests += requests as f64 / seconds;
            step.rebalances += rate(is.group_stats.rebalances_completed, was.group_stats.rebalances_completed);
            for log in [LogKind::Partition, LogKind::Group] {
                let (is, was) = (is.file_times.of(log), was.file_times.of(log));
                synced.add(&is.sync.since(&was.sync));
                written.add(&is.append.since(&was.append));
                batches.add(&is.appends.since(&was.appends));
            }
            if let (Some(is), Some(was)) = (&is.lane, &was.lane) {
                lane.add(&is.took.since(&was.took));
            }
            step.lane_failures += lane_failures(is).saturating_sub(lane_failures(was));
        }
        let commits = apis.get("OffsetCommit").map_or(0, |(read, ..)| *read);
        step.commits = commits as f64 / seconds;
        step.took = Took::of(&all);
        (step.synced, step.written, step.lane_took) = (Took::of(&synced), Took::of(&written), Took::of(&lane));
        step.batch = (batches.count() > 0).then(|| batches.sum() / batches.count() as f64);
        step.lane_calls = lane.count() as f64 / seconds;
        step.apis = apis
            .into_iter()
            .filter(|(_, (read, failed, took))| *read > 0 || *failed > 0 || took.count() > 0)
            .map(|(api, (read, failed, took))| ApiStep {
                api,
                requests: read as f64 / seconds,
                errors: failed as f64 / seconds,
                took: Took::of(&took),
            })
            .collect();
        step.apis.sort_by(|a, b| b.requests.total_cmp(&a.requests).then(a.api.cmp(b.api)));
        let earlier: HashMap<_, _> = before.limits().into_iter().collect();
        let met = now.limits().into_iter();
        let met = met.map(|(limit, count)| (limit, count.saturating_sub(earlier.get(limit).copied().unwrap_or(0))));
        step.limits = met.filter(|(_, count)| *count > 0).collect();
        Some(step)
    }
}

impl Sample {
    /// How often each limit was met, of all shards together.
    pub fn limits(&self) -> Vec<(&'static str, u64)> {
        let mut all: std::collections::BTreeMap<&'static str, u64> = std::collections::BTreeMap::new();
        for (limit, count) in
            self.shards.iter().flat_map(|shard| shard.limits_hit.iter().chain(&shard.report.limits_hit))
        {
            *all.entry(limit).or_default() += count;
        }
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

fn lane_failures(report: &ringgate_shards::metrics::ShardReport) -> u64 {
    report.lane.as_ref().map_or(0, |lane| lane.failures.iter().map(|(_, count)| count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ErrorCounts;
    use crate::net::request_stats::ApiStats;

    fn api(api: &'static str, times: &[u64]) -> ApiStats {
        let mut took = Histogram::of_times();
        times.iter().for_each(|ms| took.record_time(Duration::from_millis(*ms)));
        ApiStats { api, read: times.len() as u64, closed: 0, took, errors: ErrorCounts::default() }
    }

    fn sample(at_ms: i64, requests: Vec<ApiStats>, records_in: u64) -> Sample {
        let mut shard =
            ShardScrape { requests, limits_hit: vec![("max_connections", records_in)], ..ShardScrape::default() };
        shard.report.records_in = records_in;
        Sample { at_ms, shards: vec![shard], stalls: vec![records_in], ..Sample::default() }
    }

    #[test]
    fn a_step_has_rates_and_the_percentiles_of_what_happened_in_it() {
        let before = sample(1_000, vec![api("Produce", &[500; 100])], 10);
        let now =
            sample(3_000, vec![api("Produce", &[[500; 100].as_slice(), &[1; 20]].concat()), api("Fetch", &[900])], 30);
        let step = Step::between(&before, &now).unwrap();
        assert_eq!((step.requests, step.records_in), (10.5, 10.0));
        let p99 = step.took.p99.unwrap();
        assert!((1.0..=1.25).contains(&p99), "{p99}: neither what was before nor what waits for records");
        assert_eq!(step.apis.iter().map(|api| api.api).collect::<Vec<_>>(), ["Produce", "Fetch"]);
        assert_eq!((step.limits, step.shards[0].stalls), (vec![("max_connections", 20)], 20));
    }

    #[test]
    fn without_requests_there_is_no_percentile_and_without_time_no_step() {
        let before = sample(1_000, vec![api("Produce", &[5])], 0);
        let step = Step::between(&before, &sample(2_000, vec![api("Produce", &[5])], 0)).unwrap();
        assert_eq!((step.requests, step.took, step.apis.len()), (0.0, Took::default(), 0));
        assert_eq!(Step::between(&before, &sample(1_000, Vec::new(), 0)), None);
    }
}
