//! `idle`'s parameters.

use crate::host::{Plateaus, Ports, Root, connections_max};
use crate::plan::{Common, Load, UsageError};
use crate::result::Parameter;

/// What the connections that are held do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, after ApiVersions.
    Idle,
    /// Stop within a frame: all of a request but its last byte is sent.
    HalfOpen,
    /// Ask and do not read the answers.
    SlowReader,
}

impl Kind {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Idle => "idle",
            Kind::HalfOpen => "half-open",
            Kind::SlowReader => "slow-reader",
        }
    }
}

/// What is held.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What connections do.
    pub kind: Kind,
    /// In how many equal steps of the window they are made.
    pub plateaus: u32,
    /// Of a slow reader: answers that it leaves unread.
    pub unread: u32,
    /// New connections per second at most, over all executors.
    pub connect_rate: f64,
    /// Round trips per second on the probe connections, over all executors.
    pub probe_rate: f64,
}

impl Plan {
    /// `--plateaus` by default, and at least: a line through two would fit whatever was measured.
    pub const PLATEAUS: u32 = Plateaus::LEAST as u32;
    /// `--unread` by default: some 50 KB of answers of a full-blown broker, more than a socket takes before its reader
    /// begins.
    pub const UNREAD: u32 = 100;
    /// `--unread` at most.
    pub const UNREAD_MAX: u32 = 100_000;
    /// `--connect-rate` by default.
    pub const CONNECT_RATE: f64 = 2_000.0;
    /// `--rate` by default: enough for a p99 within seconds, little enough to cost the server nothing that shows.
    pub const PROBE_RATE: f64 = 100.0;

    /// Checks them, and whether this host can hold so many.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn new(common: &Common, kind: Kind, plateaus: u32, unread: u32, connect_rate: f64) -> Result<Plan, UsageError> {
        let refuse = |flag, value: String, allowed: String| Err(UsageError { flag, value, allowed });
        let probe_rate = match common.load {
            Load::Open { rate, .. } => rate,
            Load::Own => Plan::PROBE_RATE,
            Load::Closed => {
                let allowed = "the probe has a schedule: give --rate, or nothing";
                return refuse("closed", String::new(), allowed.into());
            }
        };
        if plateaus < Plan::PLATEAUS {
            return refuse("plateaus", plateaus.to_string(), format!("at least {}", Plan::PLATEAUS));
        }
        if unread == 0 || unread > Plan::UNREAD_MAX {
            return refuse("unread", unread.to_string(), format!("from 1 to {}", Plan::UNREAD_MAX));
        }
        let connections = common.connections as u64;
        if connections < u64::from(plateaus) {
            let allowed = format!("at least one for each of --plateaus {plateaus}");
            return refuse("connections", connections.to_string(), allowed);
        }
        let most = connections_max();
        if connections > most {
            let allowed = format!(
                "at most {most}, for a hard limit of open files keeps this process from holding more: raise it (ulimit \
                 -Hn as root, LimitNOFILE= in a unit, nofile in limits.conf), or hold the rest from a second generator"
            );
            return refuse("connections", connections.to_string(), allowed);
        }
        let addresses = common.source_ips.len().max(1) as u64 * common.bootstrap.len() as u64;
        if let Ok(ports) = Ports::now(&Root::default())
            && connections > ports.per_address_pair * addresses
        {
            let allowed = format!(
                "at most {}: each local address has {} ports towards one address of the target. Give more of them \
                 (--source-ips 127.0.0.2,127.0.0.3 on loopback), or widen net.ipv4.ip_local_port_range",
                ports.per_address_pair * addresses,
                ports.per_address_pair
            );
            return refuse("connections", connections.to_string(), allowed);
        }
        Ok(Plan { kind, plateaus, unread, connect_rate, probe_rate })
    }

    /// As a reader would write them.
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name: &str, value: String, default: bool| Parameter { name: name.into(), value, default };
        let mut parameters = vec![
            parameter("kind", self.kind.name().into(), self.kind == Kind::Idle),
            parameter("plateaus", self.plateaus.to_string(), self.plateaus == Plan::PLATEAUS),
            parameter("connect-rate", self.connect_rate.to_string(), self.connect_rate == Plan::CONNECT_RATE),
            parameter("probe-rate", self.probe_rate.to_string(), self.probe_rate == Plan::PROBE_RATE),
        ];
        if self.kind == Kind::SlowReader {
            parameters.push(parameter("unread", self.unread.to_string(), self.unread == Plan::UNREAD));
        }
        parameters
    }
}
