//! The gateway watching itself: what it does now, what is wrong and since when, how far behind consumers are.
//!
//! Everything here runs on the admin thread, also while nobody looks, so that who opens the page learns when something
//! began. A [`sample::Sample`] of every shard's counters is taken each [`WATCH_STEP`]; a [`census::Census`] of groups and
//! partitions each `census_interval`. Shards are asked in slices, through [`Desks`]; what is kept is of bounded size.

pub mod asking;
pub mod census;
pub mod detail;
pub mod findings;
pub mod history;
pub mod lag;
pub mod sample;
mod symptoms;
pub mod trend;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::admin::Family;
use crate::desks::Desks;
use crate::limits::{METRICS_PARTITION_SERIES_MAX, SCRAPE_TIMEOUT, SHARE_OF_CENSUS, WATCH_STEP};
use crate::net::accept::ConnectionCount;
use crate::readiness::Readiness;
use crate::scrape::Scrapes;
use asking::IggyEnds;
use census::{Census, Gathering};
use findings::Findings;
use history::{GroupHistories, History, Point};
use sample::{Sample, Step};

/// What is set of the watch.
#[derive(Debug, Clone)]
pub struct WatchSettings {
    /// How often groups and partitions are gone through; `None`: only when somebody asks.
    pub census_interval: Option<Duration>,
    /// Groups whose lag `/metrics` shows.
    pub group_series_max: usize,
    /// Whether `/metrics` shows the lag of partitions.
    pub partition_lag: bool,
}

/// What the gateway is, as it was started.
#[derive(Debug, Clone)]
pub struct About {
    /// The cluster id that clients see.
    pub cluster_id: String,
    /// `shards` or `gateway`.
    pub advertise: &'static str,
    /// `embedded` or `iggy`.
    pub store: &'static str,
    /// The data directory, or Iggy's servers.
    pub location: String,
    /// `always`, `never` or an interval; none on Iggy.
    pub fsync: Option<String>,
    /// Node id, shard and address of each node.
    pub nodes: Vec<(i32, u16, String)>,
}

/// The watch.
pub struct Watch {
    desks: Arc<Desks>,
    scrapes: Arc<Scrapes>,
    counts: Arc<ConnectionCount>,
    readiness: Arc<Readiness>,
    settings: WatchSettings,
    started_ms: i64,
    about: OnceLock<About>,
    seen: Mutex<Seen>,
    /// One census at a time.
    turn: tokio::sync::Mutex<IggyEnds>,
    /// One look at all groups for somebody who asks at a time.
    looking: tokio::sync::Mutex<()>,
}

/// What was seen so far.
#[derive(Default)]
pub struct Seen {
    /// The last sample.
    pub sample: Sample,
    /// What happened between the last two.
    pub step: Step,
    /// The last half hour.
    pub history: History,
    /// What is wrong.
    pub findings: Findings,
    /// The lags of some groups.
    pub group_histories: GroupHistories,
    /// When each limit was last met, in ms since the epoch, of those that were met while somebody watched.
    pub limits_met_ms: HashMap<&'static str, i64>,
    /// The last census.
    pub census: Option<Arc<Census>>,
    census_took: Duration,
}

/// Milliseconds since the epoch.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl Watch {
    /// Over shards that need not be up yet.
    pub fn new(
        desks: Arc<Desks>,
        scrapes: Arc<Scrapes>,
        counts: Arc<ConnectionCount>,
        readiness: Arc<Readiness>,
        settings: WatchSettings,
    ) -> Watch {
        Watch {
            desks,
            scrapes,
            counts,
            readiness,
            settings,
            started_ms: now_ms(),
            about: OnceLock::new(),
            seen: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// What is being served, once that is known.
    pub fn serves(&self, about: About) {
        // There is one start.
        let _ = self.about.set(about);
    }

    /// What is being served; `None` while the gateway starts.
    pub fn about(&self) -> Option<&About> {
        self.about.get()
    }

    /// When the gateway was started, in ms since the epoch.
    pub fn started_ms(&self) -> i64 {
        self.started_ms
    }

    /// Where shards are asked.
    pub fn desks(&self) -> &Arc<Desks> {
        &self.desks
    }

    /// What was seen so far; to be let go of before anything is waited for.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches until it is dropped.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(self.take_samples(), self.take_censuses());
    }

    async fn take_samples(&self) {
        let mut step = tokio::time::interval(WATCH_STEP);
        step.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            step.tick().await;
            if self.readiness.missing().is_empty() {
                self.take_sample().await;
            }
        }
    }

    async fn take_sample(&self) {
        let shards = tokio::time::timeout(SCRAPE_TIMEOUT, self.scrapes.ask()).await.unwrap_or_default();
        let stats = self.scrapes.stats();
        let sample = Sample {
            at_ms: now_ms(),
            shards,
            loop_lags: stats.iter().map(|stats| Duration::from_micros(stats.longest_lag_us())).collect(),
            stalls: stats.iter().map(|stats| stats.stalls()).collect(),
            connections: self.counts.open(),
        };
        let mut seen = self.seen();
        let seen = &mut *seen;
        let step = Step::between(&seen.sample, &sample);
        let is_known = step.is_some();
        let step = step.unwrap_or_default();
        let longest = sample.loop_lags.iter().max().map(|lag| lag.as_secs_f64() * 1000.0);
        seen.history.push(
            sample.at_ms,
            Point {
                requests: is_known.then_some(step.requests),
                p99: step.took.p99,
                lag: seen.census.as_ref().and_then(|census| census.lag),
                connections: Some(sample.connections as u64),
                loop_lag: longest,
                records_in: is_known.then_some(step.records_in),
                shard_cpu: step.shards.iter().map(|shard| shard.cpu).collect(),
            },
        );
        for (limit, _) in &step.limits {
            seen.limits_met_ms.insert(limit, sample.at_ms);
        }
        let symptoms = symptoms::symptoms(&sample, &step, seen.census.as_deref(), self.desks.len());
        seen.findings.look(sample.at_ms, symptoms);
        (seen.sample, seen.step) = (sample, step);
    }

    async fn take_censuses(&self) {
        let Some(interval) = self.settings.census_interval else { return };
        loop {
            let began = Instant::now();
            if self.readiness.missing().is_empty() {
                self.take_census(&mut *self.turn.lock().await).await;
            }
            tokio::time::sleep(interval.max(began.elapsed() * SHARE_OF_CENSUS)).await;
        }
    }

    /// A census that is not older than it may be: the last one, or one that is made now.
    pub async fn census(&self) -> Option<Arc<Census>> {
        let oldest = self.settings.census_interval.map_or(WATCH_STEP, |interval| interval * 2);
        // Whoever asks again and again gets no larger share of the time than the watch itself.
        let oldest = oldest.max(self.seen().census_took * SHARE_OF_CENSUS * 2);
        let last = |this: &Watch| this.seen().census.clone();
        let is_new = |census: &Arc<Census>| now_ms() - census.at_ms < oldest.as_millis() as i64;
        if let Some(census) = last(self).filter(is_new) {
            return Some(census);
        }
        let mut turn = self.turn.lock().await;
        // Another may have made one meanwhile.
        match last(self).filter(is_new) {
            Some(census) => Some(census),
            // A busy gateway's last one is better than none.
            None => self.take_census(&mut turn).await.or_else(|| last(self)),
        }
    }

    async fn take_census(&self, iggy: &mut IggyEnds) -> Option<Arc<Census>> {
        let began = Instant::now();
        let known = asking::known(&self.desks).await?;
        let mut gathering = Gathering::new(&known.catalogue);
        asking::groups(&self.desks, &mut gathering).await?;
        let topics = gathering.topics().to_vec();
        let ends = match known.keeps_records {
            true => asking::ends(&self.desks, known.route, &topics).await,
            false => iggy.look(&self.desks, &known, &topics, gathering.committed_topics()).await,
        };
        let before = self.seen().census.clone();
        let partition_lags = if self.settings.partition_lag { METRICS_PARTITION_SERIES_MAX } else { 0 };
        let census = Arc::new(gathering.finish(&ends, before.as_deref(), now_ms(), partition_lags));
        let mut seen = self.seen();
        seen.group_histories.push(&census);
        seen.census = Some(census.clone());
        seen.census_took = began.elapsed();
        Some(census)
    }

    /// Lag, for `/metrics`, as of the last census.
    pub fn families(&self) -> Vec<Family> {
        let (census, took) = {
            let seen = self.seen();
            (seen.census.clone(), seen.census_took)
        };
        census.map(|census| lag::families(&census, took, &self.settings, now_ms())).unwrap_or_default()
    }
}
