//! The one table of settings: a row gives a setting its flag, environment variable and TOML key, what is
//! allowed, its default and its help.
//!
//! To add a setting, add a row here, a field to [`Config`](super::Config) and a line to
//! `check::check`; the tests there hold the three against each other.

use std::time::Duration;

use super::units::{duration_text, size_text};
use crate::iggy::limits::{PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN};

/// A row of the table.
#[derive(Debug)]
pub struct Setting {
    /// The TOML key; flag and environment variable are made from it.
    pub name: &'static str,
    /// The heading that `--help` and `ringgate config` list it under.
    pub section: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What holds where nobody says anything, as a user would write it; `None`: nothing.
    pub default: Option<&'static str>,
    /// Why one would set it, in a sentence or two.
    pub help: &'static str,
    /// Whether its value is shown to nobody.
    pub secret: bool,
}

/// What values a setting takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// One or more `HOST:PORT`, separated by commas or given several times.
    Addresses,
    /// `HOST:PORT`, or `none`.
    OptionalAddress,
    /// `HOST` or `HOST:PORT`.
    AdvertisedHost,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Bool,
    /// A whole number in a range; `auto` where that is allowed.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// What `auto` comes to, in words; `None`: `auto` is not allowed.
        auto: Option<&'static str>,
    },
    /// Bytes in a range.
    Size {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A duration in a range, or zero where that is allowed.
    Time {
        /// The least, apart from zero.
        min: Duration,
        /// The most.
        max: Duration,
        /// What zero means, in words; `None`: zero is not allowed.
        zero: Option<&'static str>,
    },
    /// A file or directory.
    Path,
    /// A password.
    Password,
    /// Any text.
    Text,
    /// `embedded:DIR` or `iggy://HOST[:PORT],...`.
    Store,
    /// `always`, `never` or an interval.
    Fsync,
    /// CPU numbers and ranges, `auto` or `none`.
    Cpus,
}

impl Setting {
    /// The flag, with its dashes.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.to_ascii_uppercase())
    }

    /// The value as it may be shown.
    pub fn shown<'a>(&self, value: &'a str) -> &'a str {
        if self.secret { "********" } else { value }
    }

    /// What is allowed, in words that go on from "allowed: ".
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Addresses => "HOST:PORT, several separated by commas; port 0 lets the kernel choose".into(),
            Kind::OptionalAddress => "HOST:PORT, or none".into(),
            Kind::AdvertisedHost => "a host name or address, in gateway mode also HOST:PORT".into(),
            Kind::Choice(words) => words.join(" or "),
            Kind::Bool => "true or false".into(),
            Kind::Count { min, max, auto } => {
                let auto = auto.map(|means| format!(", or auto ({means})")).unwrap_or_default();
                format!("a whole number from {min} to {max}{auto}")
            }
            Kind::Size { min, max } => {
                format!("a size from {} to {}, such as 1048576, 64MiB or 100MB", size_text(min), size_text(max))
            }
            Kind::Time { min, max, zero } => {
                let zero = zero.map(|means| format!(", or 0 ({means})")).unwrap_or_default();
                format!(
                    "a duration from {} to {}{zero}, such as 500ms, 10s or 7d",
                    duration_text(min),
                    duration_text(max)
                )
            }
            Kind::Path => "a path".into(),
            Kind::Password => format!("{PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX} bytes"),
            Kind::Text => "a text".into(),
            Kind::Store => format!("embedded:DIR, or {}", super::iggy::ALLOWED),
            Kind::Fsync => "always, never, or an interval from 1ms to 1h, such as 500ms".into(),
            Kind::Cpus => "CPU numbers and ranges such as 0-3,6, each once; auto; or none (not pinned)".into(),
        }
    }
}

/// What every environment variable of ringgate begins with.
pub const VARIABLE_PREFIX: &str = "RINGGATE_";

/// The row of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// A row whose value is shown to nobody; it has no default.
const fn secret_row(section: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Setting {
    Setting { name, section, kind, default: None, help, secret: true }
}

/// A row that is not secret.
const fn row(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    help: &'static str,
) -> Setting {
    Setting { name, section, kind, default, help, secret: false }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, auto: None }
}

const fn auto_count(min: u64, max: u64, means: &'static str) -> Kind {
    Kind::Count { min, max, auto: Some(means) }
}

const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max }
}

const fn time(min: Duration, max: Duration) -> Kind {
    Kind::Time { min, max, zero: None }
}

const fn time_or_zero(min: Duration, max: Duration, means: &'static str) -> Kind {
    Kind::Time { min, max, zero: Some(means) }
}

const LISTENING: &str = "Listening";
const SHARDS: &str = "Shards";
const STORE: &str = "Store";
const TOPICS: &str = "Topics";
const GROUPS: &str = "Groups";
const LIMITS: &str = "Limits";
const REPORTING: &str = "Reporting";

/// Every setting, in the order in which `--help` and `ringgate config` list them. No setting is called
/// `port`: Kubernetes sets `RINGGATE_PORT` in every pod beside a service of that name.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    row(LISTENING, "listen", Kind::Addresses, Some("127.0.0.1:9092"),
        "Where Kafka clients connect. In shards mode each shard also takes a port of its own: PORT + 1 + shard."),
    row(LISTENING, "advertise", Kind::Choice(&["shards", "gateway"]), Some("shards"),
        "shards: each shard is a Kafka node, and clients walk to the owning core by themselves. gateway: one \
         node and one port, for load balancers, NAT and very many clients."),
    row(LISTENING, "advertised_host", Kind::AdvertisedHost, None,
        "The name that clients are told to connect to; unset: the listener's own address, and with a wildcard \
         listener the address that the client reached. A port only in gateway mode."),
    row(LISTENING, "gateway_id", count(0, 65_535), Some("1"),
        "This gateway among others: its Kafka node ids are gateway_id x 1000 + shard."),
    row(LISTENING, "iggy_listen", Kind::OptionalAddress, Some("none"),
        "Where clients of Apache Iggy's binary protocol (0.12.2, TCP) connect; all shards share the port."),
    secret_row(LISTENING, "iggy_root_password", Kind::Password,
        "The password of the Iggy user iggy. Unset: the one before, or at the first start one that is made and shown \
         once. Better in the environment than on the command line, which others on the machine can read."),
    row(LISTENING, "ready_file", Kind::Path, None,
        "A file that gets all addresses as JSON once the gateway serves."),
    row(SHARDS, "shards", auto_count(1, 1000, "the CPUs that cpus allows"), Some("auto"),
        "How many threads, each with its groups and partitions, serve clients. May change at any restart."),
    row(SHARDS, "cpus", Kind::Cpus, Some("auto"),
        "The CPUs that shards are pinned to, in order; auto: the CPUs that this process may run on."),
    row(SHARDS, "spin", time_or_zero(Duration::from_micros(1), ms(10), "sleep at once"), Some("0"),
        "How long a shard polls before it sleeps: 50us takes the wake-up off the latency, for a CPU that is \
         never idle."),
    row(SHARDS, "slice_clock", Kind::Choice(&["wall", "cpu"]), Some("wall"),
        "What ringgate_slice_seconds is measured by. wall: the time of day, for next to nothing; on a busy machine \
         it shows waits for the CPU, too. cpu: the thread's own time, for about a microsecond a slice."),
    row(SHARDS, "incoming_cpu", Kind::Bool, Some("false"),
        "Whether a shard takes the connections on the shared port whose packets come in on its own CPU (SO_INCOMING_CPU), \
         rather than any by a hash. For pinned shards, a card with a queue for each on its CPU, and Linux 6.2."),
    row(SHARDS, "lock_memory", Kind::Bool, Some("false"),
        "Whether memory that the gateway has used stays where it is (mlockall), so that none is read back from a disk; it \
         is not given back either. Takes unlimited locked memory."),
    row(SHARDS, "hold_cpu_latency", Kind::Bool, Some("false"),
        "Whether CPUs are kept from idle states that take time to leave while the gateway serves (/dev/cpu_dma_latency \
         held at 0): a wake-up waits for no core, for power and heat of the whole machine."),
    row(SHARDS, "mailbox_capacity", count(16, 1 << 20), Some("1024"),
        "Requests of other shards that wait for one shard; when full, the senders stop reading."),
    row(SHARDS, "shutdown_timeout", time(ms(100), secs(HOUR)), Some("10s"),
        "How long a stop waits for what was read to be answered and written."),
    row(STORE, "data", Kind::Path, None,
        "The directory of the embedded store; the same as --store embedded:DIR."),
    row(STORE, "store", Kind::Store, Some("embedded:./ringgate-data"),
        "Where records, groups and offsets are kept: in a directory, or in an Apache Iggy server or cluster."),
    row(STORE, "iggy_credentials", Kind::Path, None,
        "A TOML file with username and password for Iggy; instead of iggy_username and iggy_password."),
    row(STORE, "iggy_username", Kind::Text, Some("iggy"),
        "As whom to sign in to Iggy."),
    secret_row(STORE, "iggy_password", Kind::Password,
        "The password for Iggy. Other users see command lines: better in the environment or in iggy_credentials."),
    row(STORE, "iggy_topics", Kind::Path, None,
        "A TOML file with a line NAME = { stream = \"...\", topic = \"...\" } for each topic that is not in Iggy's \
         stream kafka under its own name."),
    row(STORE, "iggy_send_clients", count(1, 64), Some("2"),
        "Connections of each shard to Iggy that write records; each has one write of a partition in flight."),
    row(STORE, "iggy_offset_clients", count(1, 64), Some("4"),
        "Connections of each shard to Iggy that keep offsets."),
    row(STORE, "iggy_timeout", time(secs(1), secs(300)), Some("10s"),
        "How long Iggy may take over a request, retries included, before the client is told to try again."),
    row(STORE, "iggy_metadata_refresh", time(ms(50), secs(HOUR)), Some("1s"),
        "How often Iggy is asked for its topics."),
    row(STORE, "iggy_unknown_messages", Kind::Choice(&["stop", "skip"]), Some("stop"),
        "What consumers get where a message was written by a mapping that this gateway does not understand: an error, \
         or the message behind it."),
    row(STORE, "fsync", Kind::Fsync, Some("always"),
        "always: what is acknowledged as durable is on disk. An interval or never: answered after the write, \
         lost in a power cut if not yet synced."),
    row(STORE, "offset_linger", time_or_zero(Duration::from_micros(1), secs(1), "write as soon as the disk is free"), Some("0"),
        "How long commits gather before they are written; while one batch is written the next gathers anyway."),
    row(STORE, "segment_bytes", size(MIB, i32::MAX as u64), Some("1GiB"),
        "A partition's file is closed before it grows past this; the default of the topic's segment.bytes."),
    row(STORE, "tail_cache_bytes", size(0, 1 << 40), Some("64MiB"),
        "Records kept in the memory of each shard for consumers at the tail."),
    row(STORE, "file_threads", count(1, 256), Some("16"),
        "Threads that carry out file work for all shards. While as many logs are synced as there are, writes wait."),
    row(TOPICS, "auto_create_topics", Kind::Bool, Some("true"),
        "Whether a topic is made when a client that allows it asks for one that is missing."),
    row(TOPICS, "num_partitions", count(1, 100_000), Some("1"),
        "Partitions of a topic that does not say how many."),
    row(TOPICS, "max_partitions_per_topic", count(1, 100_000), Some("1000"),
        "The most partitions that one topic may have."),
    row(TOPICS, "max_partitions", auto_count(1, 1_000_000, "10000, but at most half the open files less 512"), Some("auto"),
        "The most partitions of the whole gateway; each is a directory with an open file."),
    row(TOPICS, "replication_factor_policy", Kind::Choice(&["reject", "accept"]), Some("reject"),
        "What becomes of a replication factor above 1: refused, or taken and ignored."),
    row(TOPICS, "message_max_bytes", size(KIB, i32::MAX as u64), Some("1048588"),
        "The largest record batch that is taken; the default of the topic's max.message.bytes."),
    row(TOPICS, "log_retention", time_or_zero(ms(1), secs(3650 * DAY), "for ever"), Some("7d"),
        "How long records are kept, counted from the newest of their segment; the default of the topic's \
         retention.ms."),
    row(TOPICS, "log_retention_bytes", size(0, 1 << 50), Some("0"),
        "What a partition keeps before its oldest segments go, 0: no bound; the default of the topic's \
         retention.bytes."),
    row(TOPICS, "retention_check_interval", time(ms(10), secs(DAY)), Some("5m"),
        "How often partitions are looked at for segments that are too old or too many."),
    row(TOPICS, "producer_id_expiration", time(secs(1), secs(365 * DAY)), Some("24h"),
        "An idempotent producer is forgotten after so long without a record."),
    row(TOPICS, "max_producers_per_partition", count(16, 1 << 20), Some("4096"),
        "Idempotent producers that a partition remembers; beyond it the one unheard of for longest goes."),
    row(GROUPS, "min_session_timeout", time(ms(1), secs(DAY)), Some("6s"),
        "The shortest session timeout that a group member may ask for."),
    row(GROUPS, "max_session_timeout", time(ms(1), secs(DAY)), Some("30min"),
        "The longest session timeout that a group member may ask for."),
    row(GROUPS, "max_rebalance_timeout", time(ms(1), secs(DAY)), Some("30min"),
        "Longer rebalance timeouts (max.poll.interval.ms) count as this."),
    row(GROUPS, "initial_rebalance_delay", time_or_zero(ms(1), secs(HOUR), "no delay"), Some("3s"),
        "How long an empty group waits for more members before its first rebalance."),
    row(GROUPS, "max_members_per_group", count(1, 1_000_000), Some("20000"),
        "Members of one group."),
    row(GROUPS, "max_member_blob_bytes", size(KIB, 256 * MIB), Some("1MiB"),
        "The metadata of one join, and the assignment of one member."),
    row(GROUPS, "max_groups", count(1, 100_000_000), Some("100000"),
        "Groups of the whole gateway."),
    row(GROUPS, "max_total_members", count(1, 100_000_000), Some("200000"),
        "Members of all groups together, members still joining included."),
    row(GROUPS, "max_group_memory", size(MIB, 1 << 44), Some("1GiB"),
        "What the members of all groups store."),
    row(GROUPS, "max_total_patterns", count(1, 1_000_000), Some("10000"),
        "Patterns of topics that consumer groups subscribe to, over the whole gateway."),
    row(GROUPS, "offset_metadata_max_bytes", size(0, MIB), Some("4096"),
        "The metadata string of one committed offset."),
    row(GROUPS, "offsets_retention", time_or_zero(ms(1), secs(3650 * DAY), "for ever"), Some("7d"),
        "How long offsets outlive their group's last member."),
    row(GROUPS, "offsets_retention_check_interval", time(ms(10), secs(DAY)), Some("10min"),
        "How often committed offsets are looked at for those whose time is over."),
    row(GROUPS, "consumer_session_timeout", time(ms(1), secs(DAY)), Some("45s"),
        "How long a member of a consumer group (group.protocol=consumer) may be silent."),
    row(GROUPS, "consumer_heartbeat_interval", time(ms(1), secs(DAY)), Some("5s"),
        "How often members of consumer groups are told to heartbeat. Less than consumer_session_timeout."),
    row(GROUPS, "consumer_assignment_interval", time_or_zero(ms(1), secs(HOUR), "with every change"), Some("1s"),
        "How often the partitions of a consumer group are assigned anew at most."),
    row(GROUPS, "consumer_regex_refresh_interval", time(secs(10), secs(DAY)), Some("10min"),
        "How old the topics that a consumer group's pattern names may be."),
    row(GROUPS, "consumer_migration_policy", Kind::Choice(&["bidirectional", "upgrade", "downgrade", "disabled"]),
        Some("bidirectional"),
        "Whether a group may change between the classic and the consumer protocol while it has members."),
    row(LIMITS, "max_frame_size", size(KIB, i32::MAX as u64), Some("100MiB"),
        "The largest request."),
    row(LIMITS, "max_decoded_bytes", size(KIB, 1 << 40), Some("64MiB"),
        "What the counts of one request may decode to, records apart."),
    row(LIMITS, "max_decompressed_bytes", size(KIB, 1 << 40), Some("256MiB"),
        "What the record batches of one request may decompress to."),
    row(LIMITS, "max_requests_in_flight", count(1, 1024), Some("16"),
        "Requests of one connection that are read ahead of their answers."),
    row(LIMITS, "max_in_flight_bytes", size(KIB, 1 << 44), Some("256MiB"),
        "Unanswered requests of each shard; beyond it connections wait. More than max_frame_size."),
    row(LIMITS, "max_connections", auto_count(1, 100_000_000, "the limit of open files less 512"), Some("auto"),
        "Client connections of the whole gateway."),
    row(LIMITS, "max_connections_per_ip", count(0, 100_000_000), Some("0"),
        "Client connections from one address; 0: no limit of their own."),
    row(LIMITS, "idle_timeout", time(ms(100), secs(DAY)), Some("10min"),
        "A connection without a request is closed after this; one that waits for an answer is not idle."),
    row(LIMITS, "frame_timeout", time(ms(100), secs(HOUR)), Some("30s"),
        "How long a client may take to send one request."),
    row(LIMITS, "send_timeout", time(ms(100), secs(HOUR)), Some("30s"),
        "How long a client may leave an answer unread."),
    row(LIMITS, "max_fetch_sessions", count(0, 1 << 20), Some("1000"),
        "Incremental Fetch sessions of each shard; beyond it clients fetch without one."),
    row(LIMITS, "max_fetch_bytes", size(KIB, i32::MAX as u64), Some("55MiB"),
        "Records in one Fetch response, whatever the client asks."),
    row(LIMITS, "max_fetch_wait", time(ms(1), secs(HOUR)), Some("5min"),
        "How long a Fetch may wait for records, whatever the client asks."),
    row(REPORTING, "admin_listen", Kind::OptionalAddress, Some("none"),
        "Where a live page, /metrics, /healthz, /readyz and the API are served over HTTP. Nobody is asked who they are there: keep it private."),
    row(REPORTING, "admin_hosts", Kind::Text, None,
        "Names beside IP addresses and localhost by which browsers may ask for the page and the API of admin_listen, with \
         commas between them; *: any name."),
    row(REPORTING, "census_interval", time_or_zero(secs(1), secs(HOUR), "only when somebody asks"), Some("5s"),
        "How often groups and partitions are gone through for the lag of consumers, where there is an admin_listen; less \
         often where that takes long."),
    row(REPORTING, "metrics_group_series_max", count(0, 100_000), Some("1000"),
        "Groups whose lag /metrics shows: those that lag the most."),
    row(REPORTING, "metrics_partition_lag", Kind::Bool, Some("false"),
        "Whether /metrics shows the lag of each group on each partition, too: the 10,000 largest."),
    row(REPORTING, "log_format", Kind::Choice(&["text", "json"]), Some("text"),
        "How log lines are written to stderr."),
    row(REPORTING, "log_level", Kind::Choice(&["error", "warn", "info", "debug", "trace"]), Some("info"),
        "The least important log lines to write."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_lower_case_and_none_is_port() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert!(setting.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", setting.name);
            assert!(!["port", "config", "json", "help"].contains(&setting.name));
            assert!(!SETTINGS[..at].iter().any(|other| other.name == setting.name), "{} twice", setting.name);
            assert!(setting.help.ends_with('.'), "{}", setting.name);
        }
    }

    #[test]
    fn flag_and_variable_are_made_from_the_name() {
        let setting = find("max_frame_size").unwrap();
        assert_eq!(setting.flag(), "--max-frame-size");
        assert_eq!(setting.variable(), "RINGGATE_MAX_FRAME_SIZE");
    }

    #[test]
    fn a_secret_is_masked() {
        let setting = Setting { secret: true, ..row(STORE, "password", Kind::Path, None, "A secret.") };
        assert_eq!(setting.shown("hunter2"), "********");
        assert_eq!(find("fsync").unwrap().shown("always"), "always");
    }

    #[test]
    fn sections_stay_together() {
        let mut seen: Vec<&str> = Vec::new();
        for setting in SETTINGS {
            if seen.last() != Some(&setting.section) {
                assert!(!seen.contains(&setting.section), "{} is torn apart", setting.section);
                seen.push(setting.section);
            }
        }
    }
}
