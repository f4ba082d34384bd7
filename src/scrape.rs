//! Asking every shard for its counters, from the admin thread.
//!
//! Shards keep plain counters that nobody else reads; a scrape is a question that each of them answers in
//! its turn.

pub mod catalogue;
mod groups;
mod iggy_listener;
mod loops;
mod process;
mod requests;
mod store;

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use ringgate_runtime::{FileThreads, ShardStats};
use ringgate_shards::call::ReportCall;
use ringgate_shards::metrics::ShardReport;

use crate::admin::{Family, LimitsMet, MetricsSource};
use crate::desks::{Desks, Here};
use crate::iggy;
use crate::net::accept::{ConnectionCount, Front};
use crate::net::request_stats::ApiStats;
use crate::readiness::Readiness;
use crate::watch::Watch;

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
            let report = *shard.submit_to(shard.id(), ReportCall).await.0;
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
    watch: Arc<Watch>,
    admin_limits: Arc<LimitsMet>,
}

impl Source {
    /// Over these.
    pub fn new(
        scrapes: Arc<Scrapes>,
        counts: Arc<ConnectionCount>,
        readiness: Arc<Readiness>,
        watch: Arc<Watch>,
        admin_limits: Arc<LimitsMet>,
    ) -> Source {
        Source { scrapes, counts, readiness, watch, admin_limits }
    }
}

/// A shard whose last answer to the guard took longer is not at work.
const STALLED_US: u64 = 5_000_000;

impl MetricsSource for Source {
    fn scrape(&self) -> Pin<Box<dyn Future<Output = Vec<Family>> + Send + '_>> {
        Box::pin(async {
            let shards = self.scrapes.ask().await;
            let (stats, file_jobs) = (self.scrapes.stats(), self.scrapes.queued_file_jobs());
            let mut all = families(&shards, stats, self.counts.open(), file_jobs, &self.admin_limits);
            all.extend(self.watch.families());
            all
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

fn families(
    shards: &[ShardScrape],
    stats: &[Arc<ShardStats>],
    connections: usize,
    file_jobs: usize,
    admin_limits: &LimitsMet,
) -> Vec<Family> {
    let mut all = vec![
        Family::gauge("ringgate_open_connections", "Connections of all shards.").with(&[], connections),
        Family::gauge("ringgate_file_jobs_queued", "File jobs that no thread has taken.").with(&[], file_jobs),
        Family::counter("ringgate_log_lines_dropped_total", "Lines of the log that stderr took too slowly to be kept.")
            .with(&[], crate::logging::lines_dropped()),
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
    each(gauge, "ringgate_mailbox_depth", "Requests of other shards that wait.", &|s| s.report.mailbox_depth as u64);
    each(counter, "ringgate_records_in_total", "Records appended.", &|s| s.report.records_in);
    each(counter, "ringgate_bytes_in_total", "Bytes of batches appended.", &|s| s.report.bytes_in);
    each(counter, "ringgate_bytes_out_total", "Bytes of batches read.", &|s| s.report.bytes_out);
    each(gauge, "ringgate_cached_bytes", "Bytes of batches that are held in memory for Fetches at the tail.", &|s| {
        s.report.cached_bytes as u64
    });
    each(counter, "ringgate_cached_reads_total", "Reads of partitions that found their batches in memory.", &|s| {
        s.report.cached_reads
    });
    each(counter, "ringgate_disk_reads_total", "Reads of partitions that had to go to the disk.", &|s| {
        s.report.disk_reads
    });
    each(counter, "ringgate_batches_refused_total", "Batches refused.", &|s| s.report.batches_refused);
    each(counter, "ringgate_commit_batches_total", "Batches of commits and group metadata.", &|s| {
        s.report.commit_batches
    });
    each(counter, "ringgate_commit_records_total", "Records in these batches.", &|s| s.report.commit_records);
    each(counter, "ringgate_connection_panics_total", "Connections that a panic ended.", &|s| s.panics);

    all.extend(requests::families(shards));
    all.extend(requests::hops(shards));
    all.extend(groups::families(shards));
    all.extend(store::files(shards));
    all.extend(store::lanes(shards));
    all.extend(iggy_listener::families(shards));
    all.extend(loops::families(shards, stats));
    all.extend(process::families());

    let mut limits = Family::counter("ringgate_limit_hit_total", "How often a limit was met, by its setting.");
    for shard in shards {
        let number = shard.report.shard.to_string();
        for &(limit, count) in shard.limits_hit.iter().chain(&shard.report.limits_hit) {
            limits.push(&[("shard", &number), ("limit", limit)], count);
        }
    }
    all.push(limits);
    // The admin port is no shard's.
    let name = "ringgate_admin_limit_hit_total";
    let mut limits = Family::counter(name, "How often a limit of the admin port was met: see Watching.");
    for (limit, count) in admin_limits.iter() {
        limits.push(&[("limit", limit)], count);
    }
    all.push(limits);

    all
}
