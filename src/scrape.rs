//! Asking every shard for its counters, from the admin thread.
//!
//! Shards keep plain counters that nobody else reads; a scrape is a question that each of them answers in
//! its turn.

mod requests;

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use ringgate_runtime::{FileThreads, ShardStats};
use ringgate_shards::call::ReportCall;
use ringgate_shards::metrics::ShardReport;

use crate::admin::{Family, Kind, MetricsSource};
use crate::desks::{Desks, Here};
use crate::iggy;
use crate::net::accept::{ConnectionCount, Front};
use crate::net::request_stats::ApiStats;
use crate::readiness::Readiness;

/// One shard's answer.
#[derive(Debug, Clone, Default)]
pub struct ShardScrape {
    /// What the shard owns and has done.
    pub report: ShardReport,
    /// Connections that live there.
    pub connections: usize,
    /// Bytes of unanswered requests.
    pub in_flight_bytes: usize,
    /// Bytes of frames that have not come whole.
    pub unfinished_frame_bytes: usize,
    /// Fetch sessions.
    pub fetch_sessions: usize,
    /// Connections that a panic ended.
    pub panics: u64,
    /// How often clients met a limit of the connections, by its setting.
    pub limits_hit: Vec<(&'static str, u64)>,
    /// What became of requests, by API.
    pub requests: Vec<ApiStats>,
    /// What the Iggy listener does, where there is one.
    pub iggy: Option<IggyScrape>,
}

/// A shard's part of the Iggy listener.
#[derive(Debug, Clone, Default)]
pub struct IggyScrape {
    /// Requests read, by the command's name.
    pub requests: Vec<(&'static str, u64)>,
    /// Requests that wait for messages.
    pub waiting: usize,
    /// Sessions of the whole gateway.
    pub sessions: usize,
}

/// The shards, as a scrape reaches them.
pub struct Scrapes {
    desks: Arc<Desks>,
    stats: Vec<Arc<ShardStats>>,
    files: FileThreads,
}

impl Scrapes {
    /// Over the desks of the shards that the guard watches.
    pub fn new(desks: Arc<Desks>, stats: Vec<Arc<ShardStats>>, files: FileThreads) -> Scrapes {
        Scrapes { desks, stats, files }
    }

    /// Asks all shards. One that does not answer is left out.
    pub async fn ask(&self) -> Vec<ShardScrape> {
        let scraped = |here: Rc<Here>| async move {
            let shard = &here.front.shard;
            let report = shard.submit_to(shard.id(), ReportCall).await.0;
            scrape(&here.front, here.iggy.as_deref(), report)
        };
        self.desks.ask_all(scraped).await
    }

    /// What the guard sees of each shard.
    pub fn stats(&self) -> &[Arc<ShardStats>] {
        &self.stats
    }

    /// File jobs that no thread has taken.
    pub fn queued_file_jobs(&self) -> usize {
        self.files.queued()
    }
}

fn scrape(front: &Front, iggy: Option<&iggy::Front>, report: ShardReport) -> ShardScrape {
    let sessions = front.fetch_sessions.borrow();
    ShardScrape {
        report,
        connections: front.open_here.get(),
        in_flight_bytes: front.shared.in_flight.held(),
        unfinished_frame_bytes: front.shared.in_flight.unfinished(),
        fetch_sessions: sessions.len(),
        panics: front.shared.panics.get(),
        limits_hit: front.limit_hits.iter().chain([("max_fetch_sessions", sessions.refused())]).collect(),
        requests: front.shared.requests.report(),
        iggy: iggy.map(|iggy| IggyScrape {
            requests: iggy.requests_by_name(),
            waiting: iggy.waiting.get(),
            sessions: iggy.gateway.sessions().len(),
        }),
    }
}

/// What the admin port asks.
pub struct Source {
    scrapes: Arc<Scrapes>,
    counts: Arc<ConnectionCount>,
    readiness: Arc<Readiness>,
}

impl Source {
    /// Over these.
    pub fn new(scrapes: Arc<Scrapes>, counts: Arc<ConnectionCount>, readiness: Arc<Readiness>) -> Source {
        Source { scrapes, counts, readiness }
    }
}

/// A shard whose last answer to the guard took longer is not at work.
const STALLED_US: u64 = 5_000_000;

impl MetricsSource for Source {
    fn scrape(&self) -> Pin<Box<dyn Future<Output = Vec<Family>> + Send + '_>> {
        Box::pin(async {
            let shards = self.scrapes.ask().await;
            families(&shards, self.scrapes.stats(), self.counts.open(), self.scrapes.queued_file_jobs())
        })
    }

    fn health(&self) -> Result<(), String> {
        for (shard, stats) in self.scrapes.stats().iter().enumerate() {
            if stats.lag_us() > STALLED_US {
                return Err(format!("shard {shard} took {} ms to answer", stats.lag_us() / 1000));
            }
        }
        Ok(())
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + '_>> {
        Box::pin(async {
            let missing = self.readiness.missing();
            if !missing.is_empty() {
                return missing;
            }
            self.scrapes.ask().await.iter().flat_map(|shard| unready(&shard.report)).collect()
        })
    }
}

/// What keeps a shard that is up from serving groups, which its store may.
fn unready(report: &ShardReport) -> Option<String> {
    let lane = report.lane.as_ref()?;
    let shard = report.shard;
    if lane.lease.is_zero() {
        return Some(format!("shard {shard} answers no groups: Iggy has not confirmed the lease in time"));
    }
    (!report.groups_are_listed).then(|| format!("shard {shard} has not loaded all of Iggy's groups yet"))
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

/// What shards ask of Iggy.
fn lanes(shards: &[ShardScrape]) -> Vec<Family> {
    let lanes: Vec<_> =
        shards.iter().filter_map(|s| Some((s.report.shard.to_string(), s.report.lane.as_ref()?))).collect();
    if lanes.is_empty() {
        return Vec::new();
    }
    let mut waiting = Family::gauge("ringgate_lane_calls", "Calls on Iggy that are not answered.");
    let mut calls = Family::counter("ringgate_lane_calls_total", "Calls on Iggy that were answered.");
    let mut seconds = Family::counter("ringgate_lane_seconds_total", "How long these took in all, retries included.");
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
        calls.push(&[("shard", shard)], lane.calls);
        seconds.push(&[("shard", shard)], lane.busy_us as f64 / 1e6);
        limits.push(&[("shard", shard)], lane.refused_full);
        for (code, count) in &lane.failures {
            failures.push(&[("shard", shard), ("code", &code.to_string())], *count);
        }
    }
    vec![waiting, calls, seconds, failures, limits, lease]
}

/// What the Iggy listener does; nothing where there is none.
fn of_iggy(shards: &[ShardScrape]) -> Vec<Family> {
    let mut requests = Family::counter("ringgate_iggy_requests_total", "Requests of Iggy clients, by command.");
    let mut waiting = Family::gauge("ringgate_iggy_waiting_polls", "Polls and fetches that wait for messages.");
    let mut sessions = None;
    for shard in shards {
        let number = shard.report.shard.to_string();
        let Some(iggy) = &shard.iggy else { continue };
        for &(command, count) in &iggy.requests {
            requests.push(&[("shard", &number), ("command", command)], count);
        }
        waiting.push(&[("shard", &number)], iggy.waiting);
        sessions = Some(iggy.sessions);
    }
    let Some(sessions) = sessions else { return Vec::new() };
    let sessions = Family::gauge("ringgate_iggy_sessions", "Sessions of Iggy clients.").with(&[], sessions);
    vec![sessions, waiting, requests]
}

fn families(shards: &[ShardScrape], stats: &[Arc<ShardStats>], connections: usize, file_jobs: usize) -> Vec<Family> {
    let mut all = vec![
        Family::gauge("ringgate_open_connections", "Connections of all shards.").with(&[], connections),
        Family::gauge("ringgate_file_jobs_queued", "File jobs that no thread has taken.").with(&[], file_jobs),
    ];
    let mut each = |make: fn(&'static str, &'static str) -> Family, name, help, value: &dyn Fn(&ShardScrape) -> u64| {
        let mut family = make(name, help);
        for shard in shards {
            family.push(&[("shard", &shard.report.shard.to_string())], value(shard));
        }
        all.push(family);
    };
    let (gauge, counter) = (Family::gauge, Family::counter);
    each(gauge, "ringgate_connections", "Connections that live on the shard.", &|s| s.connections as u64);
    each(gauge, "ringgate_in_flight_bytes", "Bytes of unanswered requests.", &|s| s.in_flight_bytes as u64);
    each(gauge, "ringgate_unfinished_frame_bytes", "Bytes of requests that have not come whole.", &|s| {
        s.unfinished_frame_bytes as u64
    });
    each(gauge, "ringgate_fetch_sessions", "Fetch sessions.", &|s| s.fetch_sessions as u64);
    each(gauge, "ringgate_partitions", "Partitions that the shard owns.", &|s| s.report.partitions as u64);
    each(gauge, "ringgate_groups", "Groups that the shard coordinates.", &|s| s.report.groups as u64);
    each(gauge, "ringgate_group_members", "Members of these groups.", &|s| s.report.members as u64);
    each(gauge, "ringgate_mailbox_depth", "Requests of other shards that wait.", &|s| s.report.mailbox_depth as u64);
    each(counter, "ringgate_records_in_total", "Records appended.", &|s| s.report.records_in);
    each(counter, "ringgate_bytes_in_total", "Bytes of batches appended.", &|s| s.report.bytes_in);
    each(counter, "ringgate_bytes_out_total", "Bytes of batches read.", &|s| s.report.bytes_out);
    each(counter, "ringgate_batches_refused_total", "Batches refused.", &|s| s.report.batches_refused);
    each(counter, "ringgate_commit_batches_total", "Batches of commits and group metadata.", &|s| {
        s.report.commit_batches
    });
    each(counter, "ringgate_commit_records_total", "Records in these batches.", &|s| s.report.commit_records);
    each(counter, "ringgate_connection_panics_total", "Connections that a panic ended.", &|s| s.panics);

    all.extend(requests::families(shards));
    all.extend(requests::hops(shards));
    all.extend(of_iggy(shards));

    let mut limits = Family::counter("ringgate_limit_hit_total", "How often a limit was met, by its setting.");
    for shard in shards {
        let number = shard.report.shard.to_string();
        for &(limit, count) in shard.limits_hit.iter().chain(&shard.report.limits_hit) {
            limits.push(&[("shard", &number), ("limit", limit)], count);
        }
    }
    all.push(limits);

    all.extend(lanes(shards));

    let mut lag =
        Family::gauge("ringgate_loop_lag_seconds", "How long the shard took to answer the guard's last poke.");
    let mut stalls = Family::counter("ringgate_guard_stalls_total", "Pokes that took longer than 250 ms.");
    for (shard, stats) in stats.iter().enumerate() {
        let number = shard.to_string();
        lag.push(&[("shard", &number)], stats.lag_us() as f64 / 1e6);
        stalls.push(&[("shard", &number)], stats.stalls());
    }
    all.extend([lag, stalls]);
    all.extend(slices(shards));
    all
}
