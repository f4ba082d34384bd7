//! Every bound of the load generator: its unit and why this number.

use std::time::Duration;

/// The longest latency that is told apart; longer ones are recorded as this and counted as clipped.
pub const LATENCY_MAX: Duration = Duration::from_secs(3_600);

/// Significant decimal digits of every histogram: 0.1 % of any value.
pub const LATENCY_DIGITS: u8 = 3;

/// How often executors hand over what they recorded; one line of the series, one record of the log.
pub const INTERVAL: Duration = Duration::from_secs(1);
