//! The configuration: every setting is a row of [`table`], may come from a flag, the environment or a TOML
//! file, and ends as a field of [`Config`].
//!
//! [`load`] is the one place where settings are read. A [`Config`] is checked when it is made, against
//! itself and the host, and is trusted from then on. A refusal names the field, the value, where it came
//! from and what is allowed.

mod check;
mod error;
mod iggy;
pub mod kafka_names;
mod report;
mod sources;
pub mod table;
mod units;

use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringgate_group::MigrationPolicy;
use ringgate_runtime::{Placement, SliceClock};

pub use error::{ConfigError, Source};
pub use kafka_names::{BrokerSetting, BrokerSettings};
pub use report::{Report, Row};
pub use ringgate_shards::settings::Fsync;
use ringgate_shards::store::iggy::IggySettings;
pub use sources::Flags;
pub use units::{duration_text, size_text};

use crate::limits::CONFIG_FILE_BYTES_MAX;
use crate::net::advertise::Advertise;

/// The checked configuration. What a field is for stands in its row of [`table::SETTINGS`].
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Config {
    pub listen: Vec<SocketAddr>,
    pub advertise: Advertise,
    /// The name in `advertised_host`, an IPv6 address without brackets.
    pub advertised_host: Option<String>,
    /// The port in `advertised_host`; only in gateway mode.
    pub advertised_port: Option<u16>,
    pub gateway_id: u16,
    pub iggy_listen: Option<SocketAddr>,
    pub iggy_root_password: Option<Password>,
    pub ready_file: Option<PathBuf>,
    pub shards: u16,
    /// `cpus`: with [`Placement::Cpus`] one for each shard.
    pub placement: Placement,
    /// Zero: sleep at once.
    pub spin: Duration,
    pub slice_clock: SliceClock,
    /// Only with [`Placement::Cpus`].
    pub incoming_cpu: bool,
    pub lock_memory: bool,
    pub hold_cpu_latency: bool,
    pub mailbox_capacity: usize,
    pub shutdown_timeout: Duration,
    /// Where the embedded store lies.
    pub data: PathBuf,
    /// The Iggy store, which takes the place of the embedded one.
    pub iggy: Option<IggySettings>,
    pub fsync: Fsync,
    /// Zero: write as soon as the disk is free.
    pub offset_linger: Duration,
    pub segment_bytes: u64,
    /// For each shard.
    pub tail_cache_bytes: usize,
    pub file_threads: usize,
    pub auto_create_topics: bool,
    pub num_partitions: i32,
    pub max_partitions_per_topic: i32,
    pub max_partitions: usize,
    /// `replication_factor_policy = accept`.
    pub accept_any_replication_factor: bool,
    pub message_max_bytes: usize,
    /// Zero: records are kept for ever.
    pub log_retention: Duration,
    /// Zero: no bound.
    pub log_retention_bytes: u64,
    pub retention_check_interval: Duration,
    pub producer_id_expiration: Duration,
    pub max_producers_per_partition: usize,
    pub min_session_timeout: Duration,
    pub max_session_timeout: Duration,
    pub max_rebalance_timeout: Duration,
    pub initial_rebalance_delay: Duration,
    pub max_members_per_group: usize,
    pub max_member_blob_bytes: usize,
    pub max_groups: usize,
    pub max_total_members: usize,
    pub max_group_memory: usize,
    pub max_total_patterns: usize,
    pub offset_metadata_max_bytes: usize,
    /// Zero: for ever.
    pub offsets_retention: Duration,
    pub offsets_retention_check_interval: Duration,
    pub consumer_session_timeout: Duration,
    pub consumer_heartbeat_interval: Duration,
    /// Zero: with every change.
    pub consumer_assignment_interval: Duration,
    pub consumer_regex_refresh_interval: Duration,
    pub consumer_migration_policy: MigrationPolicy,
    pub max_frame_size: usize,
    pub max_decoded_bytes: usize,
    pub max_decompressed_bytes: usize,
    pub max_requests_in_flight: usize,
    /// For each shard.
    pub max_in_flight_bytes: usize,
    pub max_connections: usize,
    /// Zero: no limit.
    pub max_connections_per_ip: usize,
    pub idle_timeout: Duration,
    pub frame_timeout: Duration,
    pub send_timeout: Duration,
    /// For each shard.
    pub max_fetch_sessions: usize,
    pub max_fetch_bytes: usize,
    pub max_fetch_wait: Duration,
    pub admin_listen: Option<SocketAddr>,
    /// Names with commas between them.
    pub admin_hosts: Option<String>,
    /// Zero: only when somebody asks.
    pub census_interval: Duration,
    pub metrics_group_series_max: usize,
    pub metrics_partition_lag: bool,
    /// The limit of open files of this process, of which [`Config::own_open_files`] are its own.
    pub open_files: u64,
    pub log_format: LogFormat,
    pub log_level: tracing::Level,
}

/// A password, which is not shown.
#[derive(Clone)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("********")
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the host allows, as far as settings depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The CPUs that this process may run on.
    pub allowed_cpus: Vec<usize>,
    /// The soft limit of open files.
    pub open_files: u64,
}

/// A checked configuration and what there is to say about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Every setting's value and where it came from.
    pub report: Report,
    /// What deserves a word but stops nothing.
    pub warnings: Vec<String>,
}

/// Reads flags, environment and the TOML file (`config_flag`, else `RINGGATE_CONFIG`), in that precedence,
/// and checks the whole.
///
/// # Errors
/// Everything that is wrong, as far as it can be told at once.
pub fn load(
    flags: &Flags,
    config_flag: Option<&str>,
    environment: &[(OsString, OsString)],
    host: &Host,
) -> Result<Loaded, ConfigError> {
    let file = match sources::config_file(config_flag, environment) {
        Some(path) => {
            let path = PathBuf::from(path);
            let text = read_file(&path).map_err(|problem| ConfigError { problems: vec![problem] })?;
            Some((path, text))
        }
        None => None,
    };
    let file = file.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
    let mut gathered = sources::gather(flags, environment, file)?;
    let (config, warnings) = check::check(&mut gathered.given, host)?;
    gathered.warnings.extend(warnings);
    Ok(Loaded { config, report: Report::new(&gathered.given), warnings: gathered.warnings })
}

fn read_file(path: &Path) -> Result<String, String> {
    let refused = |what: String| format!("config = {:?} cannot be read: {what}; allowed: a TOML file", path.display());
    let file = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(CONFIG_FILE_BYTES_MAX + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 > CONFIG_FILE_BYTES_MAX => {
            Err(refused(format!("it is larger than {}", size_text(CONFIG_FILE_BYTES_MAX))))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(refused(error.to_string())),
    }
}
