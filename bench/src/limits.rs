//! Every bound of the load generator: its unit and why this number.

use std::time::Duration;

/// The longest latency that is told apart; longer ones are recorded as this and counted as clipped.
pub const LATENCY_MAX: Duration = Duration::from_secs(3_600);

/// Significant decimal digits of every histogram: 0.1 % of any value.
pub const LATENCY_DIGITS: u8 = 3;

/// How often executors hand over what they recorded; one line of the series, one record of the log.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The largest record value: what `max.request.size` and `message.max.bytes` would have to be raised for is far below.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Bytes of the values that are made before a run: more than the last level of most caches holds, so that copying costs
/// what it costs a real client, and made within milliseconds.
pub const POOL_BYTES_MAX: usize = 32 << 20;

/// Values made before a run: small records need no more to look different.
pub const POOL_VALUES_MAX: usize = 64 << 10;

/// Gaps and unacknowledged ranges that the check of delivery keeps per executor: a few MB. More come of a target that
/// is beyond saving, and are counted without being told apart any further.
pub const CHECK_RANGES_MAX: usize = 64 << 10;

/// Violations that are told in words; the others are counted.
pub const CHECK_EXAMPLES_MAX: usize = 20;

/// How often the server's process is looked at for its most memory and for its end: short against an interval, and two
/// reads of a small file each.
pub const SERVER_WATCH: Duration = Duration::from_millis(100);

/// Threads of the server in a row of the series, the busiest: as many as a chart can tell apart.
pub const SERVER_THREADS_SHOWN: usize = 16;

/// How long one scrape of the server's metrics may take, connection included: two intervals, so that a server which is busy is
/// still heard, and a dead one is given up before the run is over.
pub const SERVER_SCRAPE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long before the window's end the last scrape of it is asked for, unless the window is short: it has been answered when
/// members leave and topics are deleted.
pub const SERVER_SCRAPE_BEFORE: Duration = Duration::from_millis(200);

/// Bytes of one scrape: several times what a broker with some thousand partitions tells.
pub const SERVER_SCRAPE_BYTES_MAX: usize = 32 << 20;

/// Series that are kept of the server's metrics: what a table can show, and some hundred KB per minute of a run at most.
pub const SERVER_SERIES_MAX: usize = 512;

/// Different reasons for which scrapes failed that a result tells apart.
pub const SERVER_SCRAPE_REASONS_MAX: usize = 8;

/// Series in a chart of what the server says of itself, the most active: as many as there are colours.
pub const SERVER_SERIES_DRAWN: usize = 8;

/// Between the moment that all executors are ready and the schedule's start: more than it takes to tell them, so that
/// no first slot is late.
pub const LEAD: Duration = Duration::from_millis(50);

/// How long after the window's end slots that were due in it are still sent. What the target keeps waiting for longer
/// counts as unsent.
pub const LATE_SENDS: Duration = Duration::from_secs(1);

/// Lateness of the generator is held against this share of the primary operation's median.
pub const LATENESS_SHARE_MAX: f64 = 0.1;

/// Lateness up to this makes no run invalid, however fast the target is: it is what a wake-up costs on a machine that
/// is not tuned, and it is in `rt` (never left out) and shown by itself, so that nobody is misled. A tenth of a
/// loopback round trip of 50 us could be kept by no sleeping generator.
pub const LATENESS_FLOOR: Duration = Duration::from_micros(250);

/// An executor that is busy, or waits for a CPU, for more of the time than this has no room left for a burst: what it
/// measures is itself.
pub const GENERATOR_CPU_MAX: f64 = 0.8;

/// Errors that a run may have before their share is looked at.
pub const ERRORS_BEFORE_ABORT: u64 = 100;

/// Examples of what was wrong that a result keeps.
pub const EXAMPLES_MAX: usize = 20;

/// Exit code of a run that a signal ended: 128 + SIGINT, as shells have it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// How long an executor that is told to spin polls before it sleeps after all: longer than any run.
pub const SPIN: Duration = Duration::from_secs(24 * 3_600);

/// A sleeping executor wakes for slots of a schedule at most this often, and hands out all that are due: each wake-up takes
/// some 40 us of CPU with what follows it, so that slots of 20,000 per second, one by one, would take the whole core. What it
/// adds to lateness is below what a wake-up itself comes late.
pub const PACER_REST: Duration = Duration::from_micros(100);

/// Between slots that are further apart than this a sleeping executor keeps the schedule: a wake-up by timer comes
/// some 100 us late on a machine that does nothing else.
pub const SLEEP_PRECISION: Duration = Duration::from_micros(100);

/// Records that a producer has taken and that came to nothing yet: 40 MB. A schedule waits at more, which counts as
/// overflow; the records' moments stay as they were.
pub const BUFFERED_RECORDS_MAX: usize = 1 << 20;

/// Bytes of batches from which on a Produce request takes no further one: Kafka's `max.request.size`.
pub const PRODUCE_REQUEST_BYTES_MAX: usize = 1 << 20;

/// Before leaders are looked up again and batches are sent again: Kafka's `retry.backoff.ms`.
pub const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What the records of one fetched batch may decompress to.
pub const FETCHED_BYTES_MAX: usize = 256 << 20;

/// Partitions of all topics that a run makes: what one Metadata answer and one list per executor hold with ease.
pub const PARTITIONS_MAX: usize = 100_000;

/// Different record keys: a table of their shares and partitions, 12 MB.
pub const KEYS_MAX: usize = 1_000_000;

/// Between two looks whether what was sent has come.
pub const STRAGGLER_LOOK: Duration = Duration::from_millis(10);

/// Between two looks whether a hook has ended: far below what starting a server takes.
pub const HOOK_LOOK: Duration = Duration::from_millis(20);

/// The last lines of what a failed hook wrote, which its error repeats; all of it is in its log.
pub const HOOK_TOLD: usize = 5;

/// How long one attempt to reach a target may take that was just started: one on the same network answers at once.
pub const REACH_ATTEMPT: Duration = Duration::from_secs(1);

/// Between two such attempts.
pub const REACH_PAUSE: Duration = Duration::from_millis(100);

/// Pairs of a comparison at most: a day of runs of a minute.
pub const PAIRS_MAX: u32 = 500;

/// Connections that `idle` makes at a time: enough that a distant target's round trips do not slow it down.
pub const HOLD_CONNECTING: usize = 32;

/// Connections that `idle` looks after at a time when it asks each at the end whether it still stands.
pub const HOLD_CHECKING: usize = 64;

/// How long before a plateau's end its memory is read, unless that is short: reading is over when the next begins.
pub const PLATEAU_READ_BEFORE: Duration = Duration::from_millis(200);

/// How long members of `commit-storm` may take until all hold an assignment of one generation, and a rebalance of theirs
/// until it goes on without those that are missing: far above Kafka's delay of the first rebalance, 3 s.
pub const MEMBERSHIP_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a member that waits for the others sends a heartbeat.
pub const MEMBERSHIP_POLL: Duration = Duration::from_millis(100);

/// `group.max.session.timeout.ms` by default, of Kafka's brokers.
pub const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(1_800);

/// Beside the run itself: for members that wait until all groups have formed, and for what is read at the end.
pub const SESSION_TIMEOUT_SPARE: Duration = Duration::from_secs(120);

/// What an assignment that a member is told may decode to: 100,000 partitions and room.
pub const ASSIGNMENT_DECODED_BYTES_MAX: usize = 16 << 20;

/// Members of a fleet: numbers of members, timers and connections are 32 bits with room, and memory is some KiB each.
pub const FLEET_MEMBERS_MAX: u32 = 4_000_000;

/// Groups of a fleet, each with at least one member.
pub const FLEET_GROUPS_MAX: u32 = 1_000_000;

/// Partitions of all topics of a fleet; every group remembers the owner of each.
pub const FLEET_PARTITIONS_MAX: u32 = 1_000_000;

/// Connections that a fleet's executor makes at a time: no listener's backlog is overrun by it.
pub const FLEET_CONNECTING_MAX: usize = 64;

/// Connections per broker that are kept for the next members that join, where members share connections.
pub const LOBBY_KEPT: usize = 256;

/// Before a member tries again what failed, as clients' `retry.backoff.ms`.
pub const MEMBER_PAUSE: Duration = Duration::from_millis(100);

/// The longest session that brokers give members of KIP-848 groups by default (`group.consumer.max.session.timeout.ms`):
/// so long may one that vanished be a member still.
pub const CONSUMER_SESSION_MAX: Duration = Duration::from_secs(60);

/// How long a run may take to delete the groups and topics that it made: far more than either takes, and an end all the same.
pub const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long groups that have members yet are asked to go again: leaving takes that of a few requests.
pub const CLEAN_UP_RETRY: Duration = Duration::from_secs(5);

/// Between two such attempts.
pub const CLEAN_UP_PAUSE: Duration = Duration::from_millis(100);

/// Groups that one request deletes: its answer comes well before any request times out.
pub const CLEAN_UP_GROUPS: usize = 500;

/// Bytes of an answer to a Fetch of a fleet's member, about: what many members may have come at once stays small.
pub const FLEET_FETCH_BYTES: i32 = 64 << 10;

/// How often a fleet that has ended looks whether what is outstanding is worth waiting for: a walk through all its members.
pub const FLEET_DRAIN_LOOK: Duration = Duration::from_millis(100);

/// Events and timers that a fleet looks at before others get their turn.
pub const FLEET_TURN: usize = 128;

const _: () = assert!(FLEET_GROUPS_MAX <= FLEET_MEMBERS_MAX);

/// The lowest rate that a search tries, in slots per second: a probe of seconds must have some.
pub const SEARCH_RATE_MIN: f64 = 1.0;

/// Runs of full length that a search makes at most, each at a lower rate than the one before.
pub const SEARCH_CONFIRMATIONS_MAX: usize = 5;

/// How often a probe whose generator was late is made again before the search ends there: one disturbance of the machine
/// is not worth minutes of probes.
pub const SEARCH_REPEATS: u32 = 1;
