//! What is in force when a flag is not given, and the most that it may be.

use std::time::Duration;

/// `--connections`.
pub const CONNECTIONS: usize = 1;
/// `--in-flight`: what Kafka's own producers have (`max.in.flight.requests.per.connection`).
pub const IN_FLIGHT: usize = 5;
/// `--max-outstanding`: ten seconds of 1,000 requests per second in memory, a few MiB.
pub const MAX_OUTSTANDING: usize = 10_000;
/// `--error-limit`, a share.
pub const ERROR_LIMIT: f64 = 0.5;
/// `--duration`.
pub const DURATION: Duration = Duration::from_secs(30);
/// `--warmup`.
pub const WARMUP: Duration = Duration::from_secs(5);
/// `--request-timeout`: Kafka clients' own (`request.timeout.ms`).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// `--duration` and `--warmup` at most: a schedule's interval numbers have room for far more.
pub const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// `--request-timeout` at most: longer latencies are clipped.
pub const REQUEST_TIMEOUT_MAX: Duration = crate::limits::LATENCY_MAX;
/// `--search-precision`.
pub const SEARCH_PRECISION: f64 = 0.05;
/// `--search-window`.
pub const SEARCH_WINDOW: Duration = Duration::from_secs(10);
/// `--search-warmup`.
pub const SEARCH_WARMUP: Duration = Duration::from_secs(3);
