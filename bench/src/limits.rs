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

/// A thread that used less than this share of the busiest one's CPU has another task than it: a timer, a log.
pub const WORKING_THREAD_SHARE: f64 = 0.01;

/// The largest answer that is read: above what a Fetch of 50 MiB, the default of clients, may come to with its last
/// batch whole.
pub const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// Request timeouts are looked for every sixteenth of their length, but no more often than this.
pub const TIMEOUT_LOOK_MIN: Duration = Duration::from_millis(5);

/// And no more rarely than this.
pub const TIMEOUT_LOOK_MAX: Duration = Duration::from_millis(250);

/// Connections whose timeouts are looked at before others get their turn: some 10 us.
pub const TIMEOUT_LOOK_SLOTS: usize = 4_096;

/// Answers of one connection that are taken in before others get their turn.
pub const ANSWERS_TURN: usize = 64;

/// Connections for questions of the client's own (who leads, who coordinates) at a time.
pub const CONTROL_CONNECTIONS: usize = 4;

/// Between two attempts at such a question.
pub const CONTROL_PAUSE: Duration = Duration::from_millis(100);

/// How long Kafka may take for changes of topics; it answers before they are complete otherwise.
pub const TOPIC_CHANGE_TIMEOUT: Duration = Duration::from_secs(30);
