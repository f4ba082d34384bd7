//! Bounds and sizes of the embedded store, each with its unit and its reason.

/// Buffers of one `pwritev`: Linux takes 1,024 (`IOV_MAX`).
pub const WRITE_BUFFERS: usize = 1024;

/// Bytes after which a partition goes on in another segment (Kafka's `segment.bytes`), unless its topic says
/// otherwise.
pub const SEGMENT_BYTES: u64 = 1 << 30;

/// Milliseconds for which a segment is appended to (Kafka's `segment.ms`), unless its topic says otherwise: so
/// that what a slow partition holds becomes too old by and by, though it never fills a segment.
pub const SEGMENT_MS: i64 = 604_800_000;

/// Bytes between two entries of a segment's index (Kafka's `index.interval.bytes`): a look-up reads at most
/// this much, and a batch, for nothing; a 1 GiB segment has at most 4 MiB of index.
pub const INDEX_INTERVAL_BYTES: u64 = 4096;

/// Bytes appended to a partition from one checkpoint to the next: what recovery reads at most.
pub const CHECKPOINT_BYTES: u64 = 64 << 20;

/// Bytes that may be written and not synced before a sync is started that nobody asked for. It bounds how
/// long closing a segment, which syncs it, can take.
pub const UNSYNCED_BYTES: u64 = 64 << 20;

/// Bytes that a scan reads at once.
pub const SCAN_CHUNK_BYTES: usize = 1 << 20;

/// Bytes behind a broken frame that are searched for whole frames, to tell a torn tail from damage.
pub const RESUME_SEARCH_BYTES: usize = 64 << 20;

/// The largest frame that this search takes for one: keeps it linear, and real logs have smaller ones.
pub const RESUME_FRAME_BYTES: usize = 1 << 20;

/// Bytes that a batch which the log start cuts may decompress to when it is looked into: what one request
/// may bring at most by default.
pub const LOOKUP_DECOMPRESSED_BYTES: usize = 256 << 20;

/// Bytes of a block that was never written when they are all zero: disks write at least this much.
pub const DISK_BLOCK_BYTES: usize = 512;

/// Batches of an idempotent producer that are remembered (Kafka: 5, the most a producer has in flight).
pub const PRODUCER_WINDOW: usize = 5;

/// Idempotent producers that a partition remembers; the least recently used goes first. About 200 bytes
/// each.
pub const PRODUCERS_PER_PARTITION: usize = 4096;

/// Milliseconds after which an idle producer is forgotten (Kafka's `producer.id.expiration.ms`).
pub const PRODUCER_EXPIRATION_MS: i64 = 24 * 60 * 60 * 1000;

/// Consumers of Iggy's of one kind whose offsets a partition keeps, as an Iggy server has it. Some 50 bytes each.
pub const CONSUMER_OFFSETS_MAX: usize = 4096;

/// Records of a file of consumers' offsets above which, and above twice the live ones, it is written anew: 23 KiB.
pub const CONSUMER_OFFSETS_PAST: usize = 1024;

/// Record bytes that a shard keeps in memory for consumers at the tail.
pub const TAIL_CACHE_BYTES: usize = 64 << 20;

/// Bytes after which the coordinator's log goes on in another file.
pub const COORDINATOR_FILE_BYTES: u64 = 16 << 20;

/// Closed files of the coordinator's log that make a snapshot worth while.
pub const COORDINATOR_FILES: usize = 4;

/// Records of the catalogue's log above which, and above twice the live ones, it is written anew at start.
pub const CATALOGUE_RECORDS: usize = 1000;

/// Findings of one kind that a look through a directory keeps; all are counted. At most some 300 bytes each.
pub const VERIFY_FINDINGS: usize = 1000;

/// Gaps in one file after which the rest of it is not looked at: finding where it goes on reads up to
/// [`RESUME_SEARCH_BYTES`] each time.
pub const VERIFY_BREAKS_PER_FILE: usize = 16;

/// Bytes above which a frame is read whole only once its CRC is known to be right.
pub const VERIFY_WHOLE_FRAME_BYTES: usize = 16 << 20;

/// Index entries that are read at once.
pub const VERIFY_INDEX_ENTRIES: usize = 4096;

/// Bytes of records that are walked from one look at whether it goes on to the next.
pub const VERIFY_WALK_BYTES: usize = 1 << 20;

const _: () = assert!(INDEX_INTERVAL_BYTES > 0 && CHECKPOINT_BYTES >= INDEX_INTERVAL_BYTES);
const _: () = assert!(RESUME_FRAME_BYTES <= RESUME_SEARCH_BYTES && PRODUCER_WINDOW > 0);
const _: () = assert!(COORDINATOR_FILES > 0 && TAIL_CACHE_BYTES > 0 && WRITE_BUFFERS <= 1024);
