//! What every scenario has.

use std::collections::BTreeMap;
use std::time::Duration;

use ringgate_client::{Options, Security};

use super::defaults;
use crate::result::Parameter;

/// When requests are meant to be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// By a schedule, whatever the target does.
    Open {
        /// Requests per second over all executors.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
    /// The next when an earlier one is answered: as many outstanding as there are connections times in-flight.
    Closed,
    /// By the scenario's own parameters, such as a heartbeat interval.
    Own,
}

/// How a schedule's slots are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// As from many independent clients; decided by the seed.
    Poisson,
}

/// What every scenario has, checked.
#[derive(Debug, Clone)]
pub struct Common {
    /// `host:port` of the target's bootstrap servers, at least one.
    pub bootstrap: Vec<String>,
    /// A name for the target in reports.
    pub name: String,
    /// Open or closed loop.
    pub load: Load,
    /// The measured window.
    pub duration: Duration,
    /// What goes before it and counts in no result.
    pub warmup: Duration,
    /// Connections over all executors, where the scenario does not say itself how many.
    pub connections: usize,
    /// Requests outstanding per connection at most.
    pub in_flight: usize,
    /// Requests outstanding over all connections of an executor at most; more are counted as overflow and wait.
    pub max_outstanding: usize,
    /// How long an answer may take.
    pub request_timeout: Duration,
    /// Decides every random choice.
    pub seed: u64,
    /// TLS and SASL.
    pub security: Security,
    /// Versions that were pinned, by API key; otherwise the highest that both sides have.
    pub api_versions: BTreeMap<i16, i16>,
    /// Local addresses to connect from, in turn: one address pair has 28,000 to 64,000 ports. None: the kernel's choice.
    pub source_ips: Vec<std::net::IpAddr>,
    /// Prefix of every topic and group that the run makes; fresh for every run.
    pub prefix: String,
}

impl Common {
    /// How the run's client behaves.
    pub fn client(&self) -> Options {
        Options {
            bootstrap: self.bootstrap.clone(),
            client_id: "ringgate-bench",
            request_timeout: self.request_timeout,
            in_flight: self.in_flight,
            security: self.security.clone(),
            api_versions: self.api_versions.clone(),
            source_ips: self.source_ips.clone(),
        }
    }

    /// All of it as a reader would write it, by flag name.
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name: &str, value: String, default: bool| Parameter { name: name.into(), value, default };
        let count = |name: &str, value: usize, default: usize| parameter(name, value.to_string(), value == default);
        let time = |name: &str, value: Duration, default: Duration| {
            parameter(name, humantime::format_duration(value).to_string(), value == default)
        };
        let flag = |name: &str| parameter(name, "true".into(), false);
        let mut parameters = vec![parameter("bootstrap", self.bootstrap.join(","), false)];
        match self.load {
            Load::Open { rate, arrivals } => {
                parameters.push(parameter("rate", rate.to_string(), false));
                let (arrivals, default) = match arrivals {
                    Arrivals::Constant => ("constant", true),
                    Arrivals::Poisson => ("poisson", false),
                };
                parameters.push(parameter("arrivals", arrivals.into(), default));
            }
            Load::Closed => parameters.push(flag("closed")),
            Load::Own => {}
        }
        parameters.extend([
            time("duration", self.duration, defaults::DURATION),
            time("warmup", self.warmup, defaults::WARMUP),
            count("connections", self.connections, defaults::CONNECTIONS),
            count("in-flight", self.in_flight, defaults::IN_FLIGHT),
            count("max-outstanding", self.max_outstanding, defaults::MAX_OUTSTANDING),
            time("request-timeout", self.request_timeout, defaults::REQUEST_TIMEOUT),
            parameter("seed", self.seed.to_string(), false),
            parameter("prefix", self.prefix.clone(), true),
        ]);
        if let Some(tls) = &self.security.tls {
            parameters.push(flag("tls"));
            if tls.insecure {
                parameters.push(flag("tls-insecure"));
            }
        }
        if let Some(sasl) = &self.security.sasl {
            parameters.push(parameter("sasl", sasl.mechanism.name().into(), false));
        }
        for (api, version) in &self.api_versions {
            parameters.push(parameter("api-version", format!("{api}={version}"), false));
        }
        if !self.source_ips.is_empty() {
            let ips: Vec<String> = self.source_ips.iter().map(ToString::to_string).collect();
            parameters.push(parameter("source-ips", ips.join(","), false));
        }
        parameters
    }
}
