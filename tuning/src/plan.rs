//! What the host is to be good for.

use std::path::PathBuf;

/// What matters most: the same property is right for one and wrong for another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// The least delay, the last percentiles before all; a machine of the gateway's own.
    #[default]
    Latency,
    /// Most bytes for the CPU; a machine of the gateway's own.
    Throughput,
    /// The gateway is one of several users of the machine: what would take from others is left alone.
    Shared,
}

impl Profile {
    /// All, as `--profile` takes them.
    pub const ALL: [Profile; 3] = [Profile::Latency, Profile::Throughput, Profile::Shared];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Latency => "latency",
            Profile::Throughput => "throughput",
            Profile::Shared => "shared",
        }
    }
}

/// What a gateway is meant to do on this host.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What matters most.
    pub profile: Profile,
    /// Whether all cores are to have one speed always, so that runs can be compared, rather than the highest.
    pub flat_clock: bool,
    /// `serve --shards`, where it is known.
    pub shards: Option<usize>,
    /// Connections to be prepared for.
    pub connections: u64,
    /// Kafka's bootstrap port.
    pub port: u16,
    /// Other ports that it listens on: those of `serve --admin-listen`, `--iggy-listen` and further listeners.
    pub other_ports: Vec<u16>,
    /// `serve --data`.
    pub data: PathBuf,
    /// A gateway that runs, to look at instead of this process.
    pub pid: Option<u32>,
}

/// Connections that a host is prepared for unless one says otherwise.
pub const CONNECTIONS: u64 = 10_000;

/// The most connections that a host may be planned for: more than the addresses and ports of any network give.
pub const CONNECTIONS_MAX: u64 = 1 << 32;

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            profile: Profile::default(),
            flat_clock: false,
            shards: None,
            connections: CONNECTIONS,
            port: 9092,
            other_ports: Vec::new(),
            data: "ringgate-data".into(),
            pid: None,
        }
    }
}
