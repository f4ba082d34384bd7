//! Every bound of the tools: its unit and why this number.

/// Groups that one request names: an answer about as many large groups stays within a few MB.
pub const GROUPS_ASKED: usize = 100;

/// Requests of so many groups that are worked on at a time; what is shown comes in order, so this many are held.
pub const BATCHES: usize = 4;

/// Topics that one request names.
pub const TOPICS_ASKED: usize = 500;

/// Partitions that one ListOffsets names: a search by time costs the leader a read for each.
pub const PARTITIONS_ASKED: usize = 1_000;

/// Requests outstanding per broker at most: Kafka's brokers read no more from a connection before they answer.
pub const IN_FLIGHT: usize = 5;

/// What the assignment of one member may decode to: 100,000 partitions and room.
pub const ASSIGNMENT_DECODED_BYTES_MAX: usize = 16 << 20;

/// Bytes of a file of offsets: a million lines.
pub const OFFSETS_FILE_BYTES_MAX: u64 = 64 << 20;
