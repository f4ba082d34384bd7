//! Bounds of the front of house that users do not set. Those that they set are rows of
//! [`SETTINGS`](crate::config::table::SETTINGS).

use std::time::Duration;

/// Shards of one gateway: node ids are `gateway_id x 1000 + shard`.
pub const SHARDS_MAX: usize = 1000;

/// Open files kept apart from client connections: partitions' files, rings, epoll, logs, the admin port.
pub const DESCRIPTORS_RESERVED: u64 = 512;

/// Open files of a shard beside those: its rings, its wake-up, its coordinator's log, and its sockets of one
/// listener.
pub const DESCRIPTORS_PER_SHARD: u64 = 7;

/// A shard's sockets of each further listener.
pub const DESCRIPTORS_PER_LISTENER: u64 = 2;

/// Partitions of the whole gateway where nobody says how many and the open files carry them: recovery at
/// start stays in seconds.
pub const PARTITIONS_DEFAULT: u64 = 10_000;

/// The fewest open files that the gateway starts with: as many again for clients.
pub const OPEN_FILES_MIN: u64 = 2 * DESCRIPTORS_RESERVED;

/// Bytes of a TOML configuration file: every setting with a paragraph of comment fits many times.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;

/// How long a scrape waits for the shards: below the 10 s after which Prometheus gives up.
pub const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);

/// Questions that wait for a shard at a time: those of every admin connection and of the watch, many times over.
pub const DESK_QUESTIONS_MAX: usize = 1_024;

/// How often the gateway looks at itself for its history and its findings.
pub const WATCH_STEP: Duration = Duration::from_secs(5);

/// Points of the history: half an hour.
pub const HISTORY_POINTS: usize = 360;

/// How often the lags of single groups are kept.
pub const GROUP_HISTORY_STEP: Duration = Duration::from_secs(30);

/// Groups whose lags are kept over time: those that lag the most, and those that somebody looks at; about 1 KB each.
pub const GROUP_HISTORIES_MAX: usize = 1_000;

/// Findings that are told at a time; groups beyond are counted.
pub const FINDINGS_MAX: usize = 100;

/// Committed offsets that a census holds against the ends of partitions, at 16 bytes each. A group of which some are left
/// out has no lag.
pub const CENSUS_OFFSETS_MAX: usize = 1_000_000;

/// Partitions of which a census asks a shard in one go, which takes about 100 us.
pub const CENSUS_ASKED_AT_ONCE: usize = 512;

/// Topics of whose ends a census asks Iggy, a request each: those that it was not asked of for longest.
pub const CENSUS_TOPICS_ASKED: usize = 100;

/// Topics of whose ends Iggy is asked for somebody who looks at one group.
pub const DETAIL_TOPICS_ASKED: usize = 20;

/// Members, or partitions, of one group or topic that the API tells of.
pub const API_ROWS_MAX: usize = 1_000;

/// Groups or topics on one page of the API, at most.
pub const API_PAGE_MAX: usize = 500;

/// Bytes of the query of one request to the API.
pub const API_QUERY_BYTES_MAX: usize = 4_096;

/// The part of the time that censuses may take: 1/20. A census that takes longer than this of `census_interval` makes the
/// next one wait.
pub const SHARE_OF_CENSUS: u32 = 20;

/// Partitions whose lag `/metrics` shows, where it shows any: those that lag the most.
pub const METRICS_PARTITION_SERIES_MAX: usize = 10_000;

/// Connections to the admin port: a few scrapers and people, so that it cannot eat the descriptors. For one more, the one
/// that has waited longest for its client is closed.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Requests of `/metrics` and `/api` that are answered at a time.
pub const ADMIN_QUESTIONS_MAX: usize = 32;

/// Requests of `/readyz`, which waits for all shards, that are answered at a time.
pub const ADMIN_READINESS_MAX: usize = 16;

// There is always a connection that gives its place to whoever asks for health.
const _: () = assert!(ADMIN_QUESTIONS_MAX + ADMIN_READINESS_MAX < ADMIN_CONNECTIONS_MAX);

/// How long an admin connection may take to send a request's head, or stay idle between two. No round number: who asks
/// every 5, 10 or 15 s shall not find the connection closing at that moment.
pub const ADMIN_HEADER_TIMEOUT: Duration = Duration::from_secs(7);

/// How long the API may take to answer: less than the live page waits.
pub const API_TIMEOUT: Duration = Duration::from_secs(7);

/// How long an admin connection may leave an answer unread: one that sleeps, or that nobody looks at any more, gives its
/// place to others.
pub const ADMIN_SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the admin port does not accept after the system refused a connection.
pub const ADMIN_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a stop waits for the admin port's answers under way.
pub const ADMIN_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Log lines that wait for stderr; beyond it lines are dropped, since a shard never waits for a terminal.
pub const LOG_LINES_QUEUED: usize = 65_536;

/// Lines that a shard logs about connections that it closes, and again about those that it turns away, in one
/// [`CONNECTION_LINES_PERIOD`]: all of what a network of clients does, and 40 KB/s of what a flood does. The
/// metrics count all of them.
pub const CONNECTION_LINES_MAX: u64 = 200;

/// The period of [`CONNECTION_LINES_MAX`].
pub const CONNECTION_LINES_PERIOD: Duration = Duration::from_secs(1);

/// How long a stop gives a client to read its last answers and close: a round trip and a client's reaction.
pub const FAREWELL: Duration = Duration::from_millis(500);

/// The part of `shutdown_timeout` for which what waits for Iggy at a stop goes on waiting: 1/4. A client that is slow to
/// read its answer may then still take 1/2.
pub const SHARE_OF_IGGY_AT_STOP: u32 = 4;

/// The part of `shutdown_timeout` for which a stop waits for Iggy to take note that the lease is given back: 1/5.
pub const SHARE_OF_LEASE_AT_STOP: u32 = 5;

/// How long a start waits for a port that is taken: a killed gateway's ports are free when the kernel has
/// taken its io_uring down, some tens of milliseconds after the process.
pub const PORT_PATIENCE: Duration = Duration::from_secs(2);

/// How often it looks meanwhile.
pub const PORT_RETRY: Duration = Duration::from_millis(10);

/// Bytes of a frame, not all of which have come, up to which it may be among the last quarter of
/// `max_in_flight_bytes`: one read.
pub const SMALL_FRAME_BYTES: usize = 64 << 10;

/// Bytes of a request that are decoded on the shard itself: some 3,000 partitions of 100 ns. Records are not
/// decoded, so Produce always is.
pub const DECODE_HERE_BYTES: usize = 32 << 10;

/// Partitions of a response that are encoded on the shard itself, at about 200 ns each.
pub const ENCODE_HERE_PARTITIONS: usize = 2_000;

/// Members or groups that a request or response names and that the shard itself turns from the codec's shape into the
/// coordinator's, or back and encodes, at up to 1 us each.
pub const MEMBERS_HERE: usize = 256;

/// Partitions in one answer to DescribeTopicPartitions, whatever it asks (Kafka's
/// `max.request.partition.size.limit`).
pub const DESCRIBED_PARTITIONS_MAX: i32 = 2_000;

/// How long a fetch session must have been idle before another may take its place (Kafka's
/// `min.incremental.fetch.session.eviction.ms`): shorter, and clients would push each other out in turns.
pub const FETCH_SESSION_IDLE_MIN: Duration = Duration::from_secs(120);

/// Partitions that a fetch session remembers; who wants more is served without one. Consumers have tens to
/// a few thousand.
pub const FETCH_SESSION_PARTITIONS_MAX: usize = 10_000;

/// Fetch sessions of one connection; beyond it a new one takes the place of the least recently used of
/// them. Clients keep to one, and some have opened one at every poll.
pub const FETCH_SESSIONS_PER_CONNECTION_MAX: usize = 4;

/// What a fetch session takes of memory for a partition, its topic's name apart.
pub const FETCH_SESSION_PARTITION_BYTES: usize = 130;

/// What all fetch sessions of a shard take of memory: half a million partitions; beyond it clients fetch
/// without one.
pub const FETCH_SESSION_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(FETCH_SESSION_PARTITIONS_MAX * FETCH_SESSION_PARTITION_BYTES * 16 < FETCH_SESSION_BYTES_MAX);

/// Settings that a change of one resource may name: many times as many as a topic has, and few enough to be gone
/// through in one go.
pub const ALTERED_SETTINGS_MAX: usize = 1_000;

/// Topics or nodes whose settings are told in one go: at about 10 us each well under 1 ms.
pub const DESCRIBED_RESOURCES_SLICE: usize = 32;

const _: () = assert!(OPEN_FILES_MIN > DESCRIPTORS_RESERVED);
const _: () = assert!(SHARDS_MAX <= u16::MAX as usize);
