//! From text to a checked [`Config`].

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringgate_group::MigrationPolicy;
use ringgate_runtime::{Placement, SliceClock};
use ringgate_shards::store::iggy::{Credentials, IggySettings};
use ringgate_shards::store::mapping::OnUnknown;

use super::error::{ConfigError, Source, refused};
use super::sources::Given;
use super::table::{Kind, Setting, find};
use super::{Config, Fsync, Host, LogFormat, Password, iggy, units};
use crate::iggy::limits::{PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN};
use crate::limits::{DESCRIPTORS_RESERVED, PARTITIONS_DEFAULT, SHARDS_MAX, SHARE_OF_IGGY_AT_STOP};
use crate::net::advertise::Advertise;

/// Reads every value and holds them against each other and the host. What `auto` came to, and the store
/// that `data` stands for, are written back into `given`.
///
/// # Errors
/// Every value that its row refuses; if there is none, everything that does not go together.
pub fn check(given: &mut Given, host: &Host) -> Result<(Config, Vec<String>), ConfigError> {
    let mut values = Values { given, problems: Vec::new(), read: HashSet::new() };
    let mut config = read(&mut values, host);
    let read = std::mem::take(&mut values.read);
    let problems = std::mem::take(&mut values.problems);
    debug_assert!(super::table::SETTINGS.iter().all(|setting| read.contains(setting.name)));
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let mut problems = Vec::new();
    check_shards(&mut config, given, host, &mut problems);
    check_ports(&config, given, &mut problems);
    check_bounds(&config, given, host, &mut problems);
    if config.iggy.is_some() && config.iggy_listen.is_some() {
        let why = "iggy_listen and store = iggy://... are both set; allowed: one of them, since Iggy's clients can ask \
                   the Iggy that holds the records";
        problems.push(why.into());
    }
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let warnings = warnings(&config, given);
    Ok((config, warnings))
}

fn read(values: &mut Values<'_>, host: &Host) -> Config {
    let allowed = host.allowed_cpus.len().clamp(1, SHARDS_MAX);
    let cpus = values.cpus("cpus", &host.allowed_cpus);
    let cpu_count = cpus.as_ref().map_or(allowed, |cpus| cpus.len().min(SHARDS_MAX));
    let shards = values.count_or("shards", cpu_count as u64);
    let connections = host.open_files.saturating_sub(DESCRIPTORS_RESERVED);
    // A partition holds a file open for as long as the topic lives, over restarts too: were all descriptors
    // given to partitions, the gateway could neither accept nor start again.
    let partitions = PARTITIONS_DEFAULT.min(connections / 2);
    let (advertised_host, advertised_port) = values.advertised_host("advertised_host");
    let shutdown_timeout = values.time("shutdown_timeout");
    Config {
        listen: values.addresses("listen"),
        advertise: if values.choice("advertise") == "gateway" { Advertise::Gateway } else { Advertise::Shards },
        advertised_host,
        advertised_port,
        gateway_id: values.count("gateway_id") as u16,
        iggy_listen: values.optional_address("iggy_listen"),
        iggy_root_password: values.password("iggy_root_password"),
        ready_file: values.path("ready_file"),
        shards: shards as u16,
        placement: cpus.map_or(Placement::Unpinned, Placement::Cpus),
        spin: values.time("spin"),
        slice_clock: if values.choice("slice_clock") == "cpu" { SliceClock::Cpu } else { SliceClock::Wall },
        incoming_cpu: values.choice("incoming_cpu") == "true",
        lock_memory: values.choice("lock_memory") == "true",
        hold_cpu_latency: values.choice("hold_cpu_latency") == "true",
        mailbox_capacity: values.count("mailbox_capacity") as usize,
        shutdown_timeout,
        iggy: values.iggy_store(shutdown_timeout),
        data: values.store_directory(),
        fsync: values.fsync("fsync"),
        offset_linger: values.time("offset_linger"),
        segment_bytes: values.size("segment_bytes"),
        tail_cache_bytes: values.size("tail_cache_bytes") as usize,
        file_threads: values.count("file_threads") as usize,
        auto_create_topics: values.choice("auto_create_topics") == "true",
        num_partitions: values.count("num_partitions") as i32,
        max_partitions_per_topic: values.count("max_partitions_per_topic") as i32,
        max_partitions: values.count_or("max_partitions", partitions) as usize,
        accept_any_replication_factor: values.choice("replication_factor_policy") == "accept",
        message_max_bytes: values.size("message_max_bytes") as usize,
        log_retention: values.time("log_retention"),
        log_retention_bytes: values.size("log_retention_bytes"),
        retention_check_interval: values.time("retention_check_interval"),
        producer_id_expiration: values.time("producer_id_expiration"),
        max_producers_per_partition: values.count("max_producers_per_partition") as usize,
        min_session_timeout: values.time("min_session_timeout"),
        max_session_timeout: values.time("max_session_timeout"),
        max_rebalance_timeout: values.time("max_rebalance_timeout"),
        initial_rebalance_delay: values.time("initial_rebalance_delay"),
        max_members_per_group: values.count("max_members_per_group") as usize,
        max_member_blob_bytes: values.size("max_member_blob_bytes") as usize,
        max_groups: values.count("max_groups") as usize,
        max_total_members: values.count("max_total_members") as usize,
        max_group_memory: values.size("max_group_memory") as usize,
        max_total_patterns: values.count("max_total_patterns") as usize,
        offset_metadata_max_bytes: values.size("offset_metadata_max_bytes") as usize,
        offsets_retention: values.time("offsets_retention"),
        offsets_retention_check_interval: values.time("offsets_retention_check_interval"),
        consumer_session_timeout: values.time("consumer_session_timeout"),
        consumer_heartbeat_interval: values.time("consumer_heartbeat_interval"),
        consumer_assignment_interval: values.time("consumer_assignment_interval"),
        consumer_regex_refresh_interval: values.time("consumer_regex_refresh_interval"),
        consumer_migration_policy: match values.choice("consumer_migration_policy").as_str() {
            "upgrade" => MigrationPolicy::Upgrade,
            "downgrade" => MigrationPolicy::Downgrade,
            "disabled" => MigrationPolicy::Disabled,
            _ => MigrationPolicy::Bidirectional,
        },
        max_frame_size: values.size("max_frame_size") as usize,
        max_decoded_bytes: values.size("max_decoded_bytes") as usize,
        max_decompressed_bytes: values.size("max_decompressed_bytes") as usize,
        max_requests_in_flight: values.count("max_requests_in_flight") as usize,
        max_in_flight_bytes: values.size("max_in_flight_bytes") as usize,
        max_connections: values.count_or("max_connections", connections) as usize,
        max_connections_per_ip: values.count("max_connections_per_ip") as usize,
        idle_timeout: values.time("idle_timeout"),
        frame_timeout: values.time("frame_timeout"),
        send_timeout: values.time("send_timeout"),
        max_fetch_sessions: values.count("max_fetch_sessions") as usize,
        max_fetch_bytes: values.size("max_fetch_bytes") as usize,
        max_fetch_wait: values.time("max_fetch_wait"),
        open_files: host.open_files,
        admin_listen: values.optional_address("admin_listen"),
        admin_hosts: values.text("admin_hosts"),
        census_interval: values.time("census_interval"),
        metrics_group_series_max: values.count("metrics_group_series_max") as usize,
        metrics_partition_lag: values.choice("metrics_partition_lag") == "true",
        log_format: if values.choice("log_format") == "json" { LogFormat::Json } else { LogFormat::Text },
        log_level: match values.choice("log_level").as_str() {
            "error" => tracing::Level::ERROR,
            "warn" => tracing::Level::WARN,
            "debug" => tracing::Level::DEBUG,
            "trace" => tracing::Level::TRACE,
            _ => tracing::Level::INFO,
        },
    }
}

/// Reads the values one by one; each method is for rows of one [`Kind`]. A value that is refused is noted
/// and stands as whatever is at hand: nobody sees the result.
struct Values<'a> {
    given: &'a mut Given,
    problems: Vec<String>,
    read: HashSet<&'static str>,
}

impl Values<'_> {
    fn row(&mut self, name: &str) -> (&'static Setting, Option<(String, Source)>) {
        let Some(setting) = find(name) else { unreachable!("{name} has no row") };
        self.read.insert(setting.name);
        (setting, self.given.get(setting.name).map(|(text, source)| (text.trim().to_owned(), source.clone())))
    }

    /// The value as `parse` reads it; `None` where nothing was said or what was said is refused.
    fn parsed<T>(&mut self, name: &str, parse: impl FnOnce(Kind, &str) -> Result<T, Option<String>>) -> Option<T> {
        let (setting, given) = self.row(name);
        let (text, source) = given?;
        match parse(setting.kind, &text) {
            Ok(value) => Some(value),
            Err(allowed) => {
                let allowed = allowed.unwrap_or_else(|| setting.allowed());
                self.problems.push(refused(setting, &text, &source, &allowed));
                None
            }
        }
    }

    fn count(&mut self, name: &str) -> u64 {
        self.count_or(name, 0)
    }

    /// `auto` is `automatic`, and shown as that from then on.
    fn count_or(&mut self, name: &str, automatic: u64) -> u64 {
        let mut was_auto = false;
        let value = self.parsed(name, |kind, text| {
            let Kind::Count { min, max, auto } = kind else { unreachable!("{name} is no count") };
            if text == "auto" && auto.is_some() {
                was_auto = true;
                return Ok(automatic);
            }
            units::whole(text).filter(|value| (min..=max).contains(value)).ok_or(None)
        });
        if was_auto && let Some((text, _)) = self.given.get_mut(name) {
            *text = automatic.to_string();
        }
        value.unwrap_or(automatic)
    }

    fn size(&mut self, name: &str) -> u64 {
        let value = self.parsed(name, |kind, text| {
            let Kind::Size { min, max } = kind else { unreachable!("{name} is no size") };
            units::size(text).filter(|value| (min..=max).contains(value)).ok_or(None)
        });
        value.unwrap_or_default()
    }

    fn time(&mut self, name: &str) -> Duration {
        let value = self.parsed(name, |kind, text| {
            let Kind::Time { min, max, zero } = kind else { unreachable!("{name} is no duration") };
            let fits = |value: &Duration| (min..=max).contains(value) || value.is_zero() && zero.is_some();
            units::duration(text).filter(fits).ok_or(None)
        });
        value.unwrap_or_default()
    }

    fn choice(&mut self, name: &str) -> String {
        let value = self.parsed(name, |kind, text| {
            let words = match kind {
                Kind::Choice(words) => words,
                Kind::Bool => &["true", "false"],
                _ => unreachable!("{name} is no choice"),
            };
            if words.contains(&text) { Ok(text.to_owned()) } else { Err(None) }
        });
        value.unwrap_or_default()
    }

    fn path(&mut self, name: &str) -> Option<PathBuf> {
        self.parsed(name, |_, text| if text.is_empty() { Err(None) } else { Ok(PathBuf::from(text)) })
    }

    fn password(&mut self, name: &str) -> Option<Password> {
        let fits = PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX;
        self.parsed(name, |_, text| if fits.contains(&text.len()) { Ok(Password(text.to_owned())) } else { Err(None) })
    }

    fn fsync(&mut self, name: &str) -> Fsync {
        let value = self.parsed(name, |_, text| match text {
            "always" => Ok(Fsync::Always),
            "never" => Ok(Fsync::Never),
            interval => units::duration(interval)
                .filter(|value| (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(value))
                .map(Fsync::Interval)
                .ok_or(None),
        });
        value.unwrap_or(Fsync::Always)
    }

    /// The CPUs to pin to; `None`: not pinned.
    fn cpus(&mut self, name: &str, allowed: &[usize]) -> Option<Vec<usize>> {
        let value = self.parsed(name, |_, text| match text {
            "auto" => Ok(Some(allowed.to_vec())),
            "none" => Ok(None),
            list => {
                let cpus = units::cpu_list(list).ok_or(None)?;
                match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                    Some(cpu) => Err(Some(format!("CPUs of {allowed:?}; this process may not run on CPU {cpu}"))),
                    None => Ok(Some(cpus)),
                }
            }
        });
        value.unwrap_or_default()
    }

    fn addresses(&mut self, name: &str) -> Vec<SocketAddr> {
        let value = self
            .parsed(name, |_, text| text.split(',').map(|part| address(part.trim())).collect::<Result<Vec<_>, _>>());
        value.unwrap_or_default()
    }

    fn optional_address(&mut self, name: &str) -> Option<SocketAddr> {
        let value = self.parsed(name, |_, text| match text {
            "none" => Ok(None),
            text => address(text).map(Some),
        });
        value.flatten()
    }

    fn advertised_host(&mut self, name: &str) -> (Option<String>, Option<u16>) {
        match self.parsed(name, |_, text| host_and_port(text).ok_or(None)) {
            Some((host, port)) => (Some(host), port),
            None => (None, None),
        }
    }

    /// Where `store` or `data` says that the embedded store lies.
    fn store_directory(&mut self) -> PathBuf {
        let data = self.path("data");
        let (store, given_store) = self.row("store");
        let (data_setting, given_data) = self.row("data");
        if let (Some((data_text, data_source)), Some((store_text, store_source))) = (&given_data, &given_store)
            && *store_source != Source::Default
        {
            self.problems.push(format!(
                "data = {data_text:?} (from {}) and store = {:?} (from {}) are both set; allowed: one of them, \
                 since data is short for store = embedded:DIR",
                data_source.of(data_setting),
                super::error::without_password(store_text),
                store_source.of(store),
            ));
            return PathBuf::new();
        }
        if let (Some(data), Some((text, source))) = (data, given_data) {
            self.given.insert("store", (format!("embedded:{text}"), source));
            return data;
        }
        let value = self.parsed("store", |_, text| match text.strip_prefix("embedded:") {
            Some(directory) if !directory.is_empty() => Ok(PathBuf::from(directory)),
            _ if text.starts_with(iggy::SCHEME) => Ok(PathBuf::new()),
            _ => Err(None),
        });
        value.unwrap_or_default()
    }

    /// The Iggy store, where `store` says so. All its rows are read, so that each is checked.
    fn iggy_store(&mut self, shutdown_timeout: Duration) -> Option<IggySettings> {
        let problems = self.problems.len();
        let servers = self.parsed("store", |_, text| match text.strip_prefix(iggy::SCHEME) {
            Some(servers) => iggy::servers(servers).map(Some).map_err(Some),
            None => Ok(None),
        });
        let file = self.file("iggy_credentials", iggy::credentials);
        let (_, given_username) = self.row("iggy_username");
        let username = self.text("iggy_username");
        let password = self.password("iggy_password").map(|password| password.0);
        let topics = self.file("iggy_topics", iggy::topics);
        let skip = self.choice("iggy_unknown_messages") == "skip";
        let (send_clients, offset_clients) = (self.count("iggy_send_clients"), self.count("iggy_offset_clients"));
        let (timeout, metadata_refresh) = (self.time("iggy_timeout"), self.time("iggy_metadata_refresh"));
        let settings = IggySettings {
            servers: servers.flatten()?,
            credentials: match (file, username.zip(password.clone())) {
                (Some(file), _) => {
                    let told = given_username.is_some_and(|(_, source)| source != Source::Default);
                    if told || password.is_some() {
                        let why =
                            "iggy_credentials and iggy_username or iggy_password are both set; allowed: one of them";
                        self.problems.push(why.into());
                    }
                    file
                }
                (None, Some((username, password))) => Credentials { username, password },
                (None, None) => {
                    if self.problems.len() == problems {
                        let why = "store = iggy://... needs a password; allowed: RINGGATE_IGGY_PASSWORD, or \
                                   iggy_credentials = FILE";
                        self.problems.push(why.into());
                    }
                    return None;
                }
            },
            send_clients: send_clients as usize,
            offset_clients: offset_clients as usize,
            timeout,
            timeout_at_stop: timeout.min(shutdown_timeout / SHARE_OF_IGGY_AT_STOP),
            metadata_refresh,
            unknown_messages: if skip { OnUnknown::Skip } else { OnUnknown::Stop },
            topics: topics.unwrap_or_default(),
        };
        Some(settings)
    }

    /// What `read` finds in a file.
    fn file<T>(&mut self, name: &str, read: impl FnOnce(&Path) -> Result<T, String>) -> Option<T> {
        self.parsed(name, |_, path| if path.is_empty() { Err(None) } else { read(Path::new(path)).map_err(Some) })
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.parsed(name, |_, text| if text.is_empty() { Err(None) } else { Ok(text.to_owned()) })
    }
}

/// `HOST:PORT`; a name that has an IPv4 address stands for that.
fn address(text: &str) -> Result<SocketAddr, Option<String>> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // A port that is no number would be looked up as a service.
    let (host, port) = text.rsplit_once(':').ok_or(None)?;
    let Some(port) = units::whole(port).filter(|_| !host.is_empty()) else { return Err(None) };
    if port > u64::from(u16::MAX) {
        return Err(Some("HOST:PORT with a port from 0 to 65535".into()));
    }
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| Some(format!("HOST:PORT with a host that can be looked up, and {host:?} cannot: {error}")))?
        .collect();
    found.iter().find(|address| address.is_ipv4()).or(found.first()).copied().ok_or(None)
}

/// `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT` or a bare IPv6 address.
pub(super) fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some((text.to_owned(), None));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    // A DNS name is at most 253 characters (RFC 1035 leaves 255 octets on the wire).
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || host.len() > 253 || !host.chars().all(name) {
        return None;
    }
    let port = match port {
        Some(port) => Some(u16::try_from(units::whole(port)?).ok().filter(|&port| port > 0)?),
        None => None,
    };
    Some((host.to_owned(), port))
}

fn check_shards(config: &mut Config, given: &mut Given, host: &Host, problems: &mut Vec<String>) {
    let shards = usize::from(config.shards);
    if let Placement::Cpus(cpus) = &mut config.placement {
        if shards > cpus.len() {
            problems.push(format!(
                "{} is more than the CPUs to pin to, {cpus:?}; allowed: at most {} with {}, or any number with \
                 cpus = none (this process may run on {:?})",
                named(given, "shards"),
                cpus.len(),
                named(given, "cpus"),
                host.allowed_cpus
            ));
        }
        cpus.truncate(shards);
        if let Some((text, _)) = given.get_mut("cpus") {
            *text = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        }
    } else if config.incoming_cpu {
        problems.push(format!(
            "{} does not go with {}; allowed: CPUs of their own for the shards, or incoming_cpu = false",
            named(given, "incoming_cpu"),
            named(given, "cpus")
        ));
    }
}

fn check_ports(config: &Config, given: &Given, problems: &mut Vec<String>) {
    if config.advertised_port.is_some() {
        if config.advertise == Advertise::Shards {
            problems.push(format!(
                "{} names a port; allowed: a host alone, since in shards mode each shard has a port of its own \
                 (with {}), or advertise = gateway",
                named(given, "advertised_host"),
                named(given, "advertise")
            ));
        }
        if config.listen.len() > 1 {
            problems.push(format!(
                "{} names one port for {} listeners; allowed: a host alone, or one listener",
                named(given, "advertised_host"),
                config.listen.len()
            ));
        }
    }
    let own = if config.advertise == Advertise::Shards { u32::from(config.shards) } else { 0 };
    let mut taken: Vec<Ports> = Vec::new();
    let listeners = config.listen.iter().map(|&address| ("listen", address, own));
    let single = [("iggy_listen", config.iggy_listen), ("admin_listen", config.admin_listen)];
    let single = single.into_iter().filter_map(|(name, address)| Some((name, address?, 0)));
    for (name, address, more) in listeners.chain(single) {
        if address.port() == 0 {
            continue;
        }
        let first = u32::from(address.port());
        let ports = Ports { name, address, first, last: first + more };
        if ports.last > u32::from(u16::MAX) {
            problems.push(format!(
                "{} needs the ports {first} to {}, its own and one for each of {} shards; allowed: a port up to {}",
                named(given, "listen"),
                ports.last,
                config.shards,
                u32::from(u16::MAX) - more
            ));
        }
        if let Some(other) = taken.iter().find(|other| ports.overlaps(other)) {
            problems.push(format!(
                "{name} {address} takes {ports} and {} {} takes {other}: they overlap; allowed: ports that are \
                 apart (in shards mode a listener takes its own port and the next {own})",
                other.name, other.address
            ));
        }
        taken.push(ports);
    }
}

/// The ports that one address takes.
struct Ports {
    name: &'static str,
    address: SocketAddr,
    first: u32,
    last: u32,
}

impl Ports {
    fn overlaps(&self, other: &Ports) -> bool {
        self.first <= other.last && other.first <= self.last && same_host(self.address.ip(), other.address.ip())
    }
}

impl std::fmt::Display for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last {
            write!(f, "port {}", self.first)
        } else {
            write!(f, "the ports {} to {}", self.first, self.last)
        }
    }
}

/// Whether sockets on both addresses get in each other's way: a wildcard takes every address, and the IPv6
/// one takes IPv4 along.
fn same_host(one: IpAddr, other: IpAddr) -> bool {
    let (one, other) = (one.to_canonical(), other.to_canonical());
    let takes = |wild: IpAddr, other: IpAddr| wild.is_unspecified() && (wild.is_ipv6() || other.is_ipv4());
    one == other || takes(one, other) || takes(other, one)
}

fn check_bounds(config: &Config, given: &Given, host: &Host, problems: &mut Vec<String>) {
    let mut needs = |holds: bool, name: &str, relation: &str, other: &str| {
        if !holds {
            problems.push(format!(
                "{} does not go with {}; allowed: {name} {relation} {other}",
                named(given, name),
                named(given, other)
            ));
        }
    };
    let c = config;
    needs(c.min_session_timeout <= c.max_session_timeout, "min_session_timeout", "at most", "max_session_timeout");
    needs(
        c.initial_rebalance_delay <= c.max_rebalance_timeout,
        "initial_rebalance_delay",
        "at most",
        "max_rebalance_timeout",
    );
    needs(
        c.consumer_heartbeat_interval < c.consumer_session_timeout,
        "consumer_heartbeat_interval",
        "less than",
        "consumer_session_timeout",
    );
    needs(c.max_in_flight_bytes > c.max_frame_size, "max_in_flight_bytes", "more than", "max_frame_size");
    needs(c.message_max_bytes <= c.max_frame_size, "message_max_bytes", "at most", "max_frame_size");
    needs(c.message_max_bytes as u64 <= c.segment_bytes, "message_max_bytes", "at most", "segment_bytes");
    needs(c.max_member_blob_bytes <= c.max_frame_size, "max_member_blob_bytes", "at most", "max_frame_size");
    needs(c.max_member_blob_bytes <= c.max_group_memory, "max_member_blob_bytes", "at most", "max_group_memory");
    needs(c.num_partitions <= c.max_partitions_per_topic, "num_partitions", "at most", "max_partitions_per_topic");
    let said = |name: &str| given.get(name).is_some_and(|(_, source)| *source != Source::Default);
    needs(
        c.max_partitions_per_topic as usize <= c.max_partitions
            || !said("max_partitions_per_topic") && !said("max_partitions"),
        "max_partitions_per_topic",
        "at most",
        "max_partitions",
    );
    let most = host.open_files.saturating_sub(DESCRIPTORS_RESERVED);
    for (name, count) in [("max_connections", c.max_connections), ("max_partitions", c.max_partitions)] {
        if count as u64 > most {
            problems.push(format!(
                "{} is more than the limit of open files carries; allowed: at most {most}, which is {} open files \
                 less {DESCRIPTORS_RESERVED} for files and threads (raise `ulimit -n`, systemd: LimitNOFILE)",
                named(given, name),
                host.open_files
            ));
        }
    }
}

fn warnings(config: &Config, given: &Given) -> Vec<String> {
    let mut warnings = Vec::new();
    let said = given.get("max_members_per_group").is_some_and(|(_, source)| *source != Source::Default);
    if said && config.max_members_per_group > config.max_connections {
        warnings.push(format!(
            "{} is above {}: a member needs a connection, so no group gets that large",
            named(given, "max_members_per_group"),
            named(given, "max_connections")
        ));
    }
    warnings
}

/// A setting with its value and where that came from.
fn named(given: &Given, name: &str) -> String {
    match (find(name), given.get(name)) {
        (Some(setting), Some((text, source))) => {
            format!("{name} = {:?} (from {})", setting.shown(text), source.of(setting))
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
