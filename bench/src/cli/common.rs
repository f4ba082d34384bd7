//! Flags that every scenario has.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ringgate_client::args::SecurityArgs;

use super::parse::{duration, share};
use super::search::SearchArgs;
use crate::engine::Pace;
use crate::plan::{Arrivals, Common, Load, UsageError, defaults};
use crate::scrape::{Choice, Prefix, Scraping, Url};

/// See the module.
#[derive(Debug, Clone, clap::Args)]
pub struct CommonArgs {
    /// Bootstrap servers of the target
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', help_heading = "Target")]
    pub bootstrap: Vec<String>,
    /// A name for the target in reports [default: its address]
    #[arg(long, help_heading = "Target")]
    pub name: Option<String>,
    /// The target's process on this machine, to sample its CPU and memory
    #[arg(long, value_name = "PID", help_heading = "Target")]
    pub server_pid: Option<u32>,
    /// Where the target serves its metrics in Prometheus' text format, to scrape once a second: http://HOST:PORT/metrics
    #[arg(long, value_name = "URL", help_heading = "Target")]
    pub server_metrics: Option<Url>,
    /// Keep the families of metrics that begin like this, beside ringgate's own of groups, requests and limits
    #[arg(long = "server-metric", value_name = "PREFIX", requires = "server_metrics", help_heading = "Target")]
    pub server_metric: Vec<Prefix>,

    /// Requests per second over all executors, whatever the target does: 1500, 10k, 1.5M
    #[arg(long, help_heading = "Load", conflicts_with = "closed")]
    pub rate: Option<String>,
    /// Closed loop: the next request when an earlier one is answered. Its latencies leave out what a stall would have
    /// done to requests that were not sent
    #[arg(long, help_heading = "Load")]
    pub closed: bool,
    /// How the slots of the schedule are spread: evenly, or as from many independent clients
    #[arg(long, value_name = "KIND", value_enum, default_value = "constant", help_heading = "Load")]
    pub arrivals: ArrivalsArg,
    /// The measured window
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "TIME", help_heading = "Load")]
    pub duration: Duration,
    /// What goes before it and is in no result
    #[arg(long, value_parser = duration, default_value = "5s", value_name = "TIME", help_heading = "Load")]
    pub warmup: Duration,
    /// Connections over all executors
    #[arg(long, default_value_t = defaults::CONNECTIONS, value_name = "N", help_heading = "Load")]
    pub connections: usize,
    /// Requests outstanding per connection at most
    #[arg(long, default_value_t = defaults::IN_FLIGHT, value_name = "N", help_heading = "Load")]
    pub in_flight: usize,
    /// Requests outstanding per executor at most; a slot that finds more waits, keeps its moment and counts as overflow
    #[arg(long, default_value_t = defaults::MAX_OUTSTANDING, value_name = "N", help_heading = "Load")]
    pub max_outstanding: usize,
    /// How long an answer may take
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "TIME", help_heading = "Load")]
    pub request_timeout: Duration,
    /// Share of errors over which the run is aborted
    #[arg(long, value_parser = share, default_value = "50%", value_name = "SHARE", help_heading = "Load")]
    pub error_limit: f64,

    /// `--search` and its own.
    #[command(flatten)]
    pub search: SearchArgs,

    /// Decides every random choice [default: a fresh one, which the result names]
    #[arg(long, help_heading = "Generator")]
    pub seed: Option<u64>,
    /// Executors, each a thread that drives its part
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Generator")]
    pub threads: u16,
    /// CPUs for the executors, one each: 2,3 or 4-7
    #[arg(long, value_parser = cpus, value_name = "LIST", help_heading = "Generator")]
    pub cpus: Option<Cpus>,
    /// How executors wait for the next slot: spin takes a core each; auto spins when slots are closer than 100 us and
    /// --cpus gives each executor its own
    #[arg(long, value_enum, default_value = "auto", help_heading = "Generator")]
    pub pace: PaceArg,
    /// Local addresses to connect from, in turn
    #[arg(long, value_delimiter = ',', value_name = "IP", help_heading = "Generator")]
    pub source_ips: Vec<IpAddr>,
    /// Prefix of every topic and group that the run makes [default: a fresh one]
    #[arg(long, help_heading = "Generator")]
    pub prefix: Option<String>,
    /// Where the run's directory is made
    #[arg(long, default_value = ".", value_name = "DIR", help_heading = "Output")]
    pub out: PathBuf,

    /// `--tls`, `--sasl` and their own.
    #[command(flatten)]
    pub security: SecurityArgs,
    /// Use this version of an API, by the API's number: 0=7
    #[arg(long = "api-version", value_parser = pin, value_name = "API=VERSION", help_heading = "Target")]
    pub api_versions: Vec<(i16, i16)>,
}

/// `--arrivals`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ArrivalsArg {
    /// Evenly
    Constant,
    /// As from many independent clients
    Poisson,
}

/// `--pace`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum PaceArg {
    /// Spin when sleep cannot keep the schedule and each executor has a CPU
    Auto,
    /// Sleep
    Sleep,
    /// Spin
    Spin,
}

/// CPUs by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus(pub Vec<usize>);

/// Name of the environment's password.
const PASSWORD: &str = "RINGGATE_BENCH_PASSWORD";

impl CommonArgs {
    /// `--pace`.
    pub fn pace(&self) -> Pace {
        match self.pace {
            PaceArg::Auto => Pace::Auto,
            PaceArg::Sleep => Pace::Sleep,
            PaceArg::Spin => Pace::Spin,
        }
    }

    /// `--server-metrics` and `--server-metric`.
    pub fn scraping(&self) -> Option<Scraping> {
        let choice = Choice { prefixes: self.server_metric.clone() };
        self.server_metrics.clone().map(|url| Scraping { url, choice })
    }

    /// Checks all of them together. `load` is what `--rate` came to; `id` the run's.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn common(&self, load: Load, id: &str) -> Result<Common, UsageError> {
        let refuse = |flag, value: &dyn ToString, allowed: &str| {
            Err(UsageError { flag, value: value.to_string(), allowed: allowed.to_string() })
        };
        if self.bootstrap.is_empty() {
            return refuse("bootstrap", &"", "HOST:PORT of at least one server of the target");
        }
        if let Some(wrong) = self.bootstrap.iter().find(|address| !is_host_and_port(address)) {
            return refuse("bootstrap", wrong, "HOST:PORT, several with commas between");
        }
        for (flag, count) in [
            ("connections", self.connections),
            ("in-flight", self.in_flight),
            ("max-outstanding", self.max_outstanding),
            ("threads", usize::from(self.threads)),
        ] {
            if count == 0 {
                return refuse(flag, &count, "at least 1");
            }
        }
        if let Some(Cpus(cpus)) = &self.cpus
            && cpus.len() != usize::from(self.threads)
        {
            let allowed = format!("as many CPUs as --threads {}, one for each", self.threads);
            return refuse("cpus", &list(cpus), &allowed);
        }
        if let (Some(Cpus(cpus)), Ok(ours)) = (&self.cpus, ringgate_runtime::allowed_cpus())
            && cpus.iter().any(|cpu| !ours.contains(cpu))
        {
            let allowed = format!("CPUs that this process may use: {}", list(&ours));
            return refuse("cpus", &list(cpus), &allowed);
        }
        for (flag, time, most) in [
            ("duration", self.duration, defaults::DURATION_MAX),
            ("warmup", self.warmup, defaults::DURATION_MAX),
            ("request-timeout", self.request_timeout, defaults::REQUEST_TIMEOUT_MAX),
        ] {
            if time > most || (time.is_zero() && flag != "warmup") {
                let most = format!("more than 0 and at most {}", humantime::format_duration(most));
                return refuse(flag, &humantime::format_duration(time), &most);
            }
        }
        Ok(Common {
            bootstrap: self.bootstrap.clone(),
            name: self.name.clone().unwrap_or_else(|| self.bootstrap.join(",")),
            load,
            duration: self.duration,
            warmup: self.warmup,
            connections: self.connections,
            in_flight: self.in_flight,
            max_outstanding: self.max_outstanding,
            request_timeout: self.request_timeout,
            seed: self.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0),
            security: self.security.security(PASSWORD)?,
            api_versions: self.api_versions.iter().copied().collect::<BTreeMap<i16, i16>>(),
            source_ips: self.source_ips.clone(),
            prefix: self.prefix.clone().unwrap_or_else(|| format!("bench-{id}")),
        })
    }

    /// `--arrivals`.
    pub fn arrivals(&self) -> Arrivals {
        match self.arrivals {
            ArrivalsArg::Constant => Arrivals::Constant,
            ArrivalsArg::Poisson => Arrivals::Poisson,
        }
    }
}

fn is_host_and_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|n| n > 0))
}

fn cpus(text: &str) -> Result<Cpus, String> {
    let wrong = || "CPUs by number: 2,3 or 4-7".to_string();
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
        if from > to || to > 65_535 {
            return Err(wrong());
        }
        cpus.extend(from..=to);
    }
    Ok(Cpus(cpus))
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn pin(text: &str) -> Result<(i16, i16), String> {
    let pin = text.split_once('=').and_then(|(api, version)| Some((api.parse().ok()?, version.parse().ok()?)));
    pin.ok_or_else(|| "an API's number and a version: 0=7".to_string())
}
