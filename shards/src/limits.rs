//! Bounds of a shard's own work. Bounds that users set are in [`ShardSettings`](crate::settings::ShardSettings).

/// Effects of the coordinator carried out in one go, so that the 10,000 answers of one rebalance do not
/// hold up other groups: at about 2 us each this is well under 1 ms.
pub const EFFECTS_SLICE: usize = 128;

/// Effects carried out between two looks at the clock.
pub const EFFECTS_PER_LOOK: usize = 8;

/// How late, in ms, the timer's wake-up must be for the shard to count as stalled (a suspended machine,
/// SIGSTOP): sessions are then extended by the delay.
pub const STALL_MS: u64 = 1000;

/// The longest sleep, in ms, while any timer is armed: a stall is measured to within this.
pub const LOOK_EVERY_MS: u64 = 500;

/// Bytes that a shard reads from disk for Fetches at a time; above it each Fetch that needs the disk gets one
/// batch. Two large answers fit, and clients that read far behind cannot fill the memory together.
pub const DISK_READ_BYTES_MAX: usize = 96 << 20;

/// Records of groups and offsets that are encoded on the shard itself: at about 1 ns a byte well under
/// 1 ms. The metadata of 10,000 members is several MiB.
pub const ENCODE_HERE_BYTES: usize = 256 << 10;

/// Members of a group whose record is encoded on the shard itself.
pub const ENCODE_HERE_MEMBERS: usize = 256;

/// Partitions looked at for old segments in one go, when none has any: at about 1 us each well under 1 ms. What
/// goes of one partition, a checkpoint with 4,096 producers at most, is a slice of its own.
pub const RETENTION_SLICE: usize = 64;

/// How far, in ms, a record's own timestamp may lie ahead of the gateway's clock: `message.timestamp.after.max.ms`
/// as Kafka 4 has it (KIP-937, KIP-1030), which is listed and cannot be set. Beyond are wrong clocks and wrong
/// units, and what they stamp would not become too old in anybody's lifetime.
pub const TIMESTAMP_AFTER_MAX_MS: i64 = 3_600_000;

/// Partitions of a Fetch seen to between two looks at the clock: the clock costs about a tenth of one.
pub const PARTITIONS_PER_LOOK: usize = 32;

/// Timers carried out in one go.
pub const TIMERS_SLICE: usize = 256;

/// Bytes of records walked in one go before everything else gets its turn: about 100 us of
/// decompression.
pub const WALK_SLICE: usize = 128 << 10;

/// Open files that partitions leave to client connections, however many topics there are.
pub const CONNECTIONS_KEPT: usize = 64;

/// How often a partition says in the log that its records cannot be read, and a shard that its groups cannot be kept, at
/// most: clients ask again and again.
pub const UNREADABLE_SAID_MS: i64 = 60_000;

/// Streams of a gateway, each about 500 bytes in memory; an Iggy server takes 2^20.
pub const STREAMS_MAX: usize = 65_536;

/// Topics of a stream, as an Iggy server has it. Those of stream `kafka` are bounded by `max_partitions` alone.
pub const TOPICS_PER_STREAM_MAX: usize = 4096;

/// Consumer groups (Iggy's) of a topic: as many groups as one gateway coordinates by default. An Iggy server takes
/// 2^20.
pub const GROUPS_PER_TOPIC_MAX: usize = 100_000;

/// Consumer groups (Iggy's) that are made in one go: at about 5 us each under 1 ms.
pub const GROUPS_MADE_AT_ONCE: usize = 128;

/// Consumer groups (Iggy's) of all topics together, each about 300 bytes in memory with its name.
pub const CONSUMER_GROUPS_MAX: usize = 1_000_000;

/// Answers to an Iggy session's changes of one partition that are kept for when it asks again, as an Iggy server has
/// it. Clients have one such request under way at a time.
pub const ATTEMPTS_PER_LANE_MAX: usize = 128;

/// Partitions, counted once for each session that changes them, for which a shard keeps such answers: up to 7 KiB
/// each. The one that was not used for longest makes room, and its requests are too old from then on.
pub const ATTEMPT_LANES_MAX: usize = 16_384;

const _: () = assert!(GROUPS_PER_TOPIC_MAX <= CONSUMER_GROUPS_MAX && STREAMS_MAX <= 1 << 20);

/// How often a shard looks whether others want room for groups: clients that were refused try again for longer.
pub const PLACES_LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

const _: () = assert!(LOOK_EVERY_MS < STALL_MS && EFFECTS_SLICE > 0 && TIMERS_SLICE > 0 && RETENTION_SLICE > 0);

/// How often a shard looks whether the lease is held again, and how late a timer may be then.
pub const LEASE_LOOK_MS: u64 = 500;

/// Groups whose offsets are loaded together, by one look at every topic of the store.
pub const GROUPS_PER_LOAD: usize = 256;

/// How often a shard that loads groups in the background looks whether some are done.
pub const LOAD_LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// How often a shard that ends looks whether its writes are decided.
pub const IDLE_LOOK: std::time::Duration = std::time::Duration::from_millis(5);
