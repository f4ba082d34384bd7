//! Every bound of the client: its unit and why this number.

use std::time::Duration;

/// What the counts of one answer may decode to: Metadata of as many partitions as a fleet may have, and as much again.
pub const RESPONSE_DECODED_BYTES_MAX: usize = 1 << 30;

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

/// Groups whose coordinators are asked for in one request.
pub const COORDINATORS_ASKED: usize = 500;

/// Iterations of a SCRAM password that a target may ask for: Kafka's least is 4,096, and a million take a second for
/// which an executor does nothing else.
pub const SCRAM_ITERATIONS_MAX: u32 = 1_000_000;
