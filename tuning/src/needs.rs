//! What a gateway takes of a host, as its own limits have it. The gateway's tests hold these numbers against the limits that
//! it runs with, which this crate does not know.

/// Locked memory without which a gateway does not start, in bytes.
pub const MEMLOCK_BYTES_MIN: u64 = 512 << 10;

/// Locked memory of a shard, in bytes: 64 KiB of buffers, registered on each of its three rings.
pub const MEMLOCK_BYTES_PER_SHARD: u64 = 3 * (64 << 10);

/// Before Linux 5.12 the rings themselves count as well: three with 1,024 entries each.
pub const MEMLOCK_RING_BYTES_PER_SHARD: u64 = 3 * (128 << 10);

/// Open files without which a gateway does not start.
pub const OPEN_FILES_MIN: u64 = 1024;

/// Open files that are no client's connection and no shard's.
pub const OPEN_FILES_RESERVED: u64 = 512;

/// Open files of a shard: its rings, its wake-up, its coordinator's log, its sockets.
pub const OPEN_FILES_PER_SHARD: u64 = 7;

/// Threads of a shard: itself, and the runtime's helper.
pub const THREADS_PER_SHARD: u64 = 2;

/// Threads beside the shards': the main one, the guard, logs, signals, the deadline of a stop, the admin port, and those of
/// an Iggy listener or store; the rest is for files (`file_threads`, 16 unless it is set).
pub const THREADS_RESERVED: u64 = 64;

/// Parts of address space with which a gateway runs: the kernel's own default, of which it takes a small part.
pub const MEMORY_MAPS: u64 = 65_530;

/// Locked memory of so many shards, in bytes.
pub fn memlock_bytes(shards: u64, rings_count: bool) -> u64 {
    let rings = if rings_count { MEMLOCK_RING_BYTES_PER_SHARD } else { 0 };
    (shards * (MEMLOCK_BYTES_PER_SHARD + rings)).max(MEMLOCK_BYTES_MIN)
}

/// Open files of so many shards and connections, partitions apart.
pub fn open_files(shards: u64, connections: u64) -> u64 {
    (OPEN_FILES_RESERVED + shards * OPEN_FILES_PER_SHARD).saturating_add(connections).max(OPEN_FILES_MIN)
}

/// Threads of so many shards.
pub fn threads(shards: u64) -> u64 {
    THREADS_RESERVED + shards * THREADS_PER_SHARD
}
