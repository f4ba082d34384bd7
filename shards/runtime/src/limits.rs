//! Sizes and periods of the runtime.

use std::time::Duration;

/// A read takes from a block of this size; small reads share one.
pub const BUFFER_BLOCK_BYTES: usize = 64 << 10;

/// A block with less room than this is replaced before a read, so that a read is worth its system call.
pub const BUFFER_ROOM_MIN: usize = 8 << 10;

/// Slices given to one vectored send (the kernel takes at most 1024, `IOV_MAX`).
pub const SEND_SLICES_MAX: usize = 256;

/// Bytes given to one vectored send: the kernel copies them at about 5 GB/s, so this is some 50 us for
/// which the shard does nothing else.
pub const SEND_BYTES_MAX: usize = 256 << 10;

/// A send to a peer that takes everything lets the shard's other tasks run after this many bytes. Over loopback the
/// sender pays for the receiving side, too: a megabyte takes it 700 us.
pub const SEND_TURN_BYTES: usize = 256 << 10;

/// Connections accepted in a row before the shard's other tasks get their turn.
pub const ACCEPT_TURN: u32 = 64;

/// How long a task works before it lets others run, when it keeps a [`Budget`](crate::Budget): a tenth of
/// [`PREEMPT`], so that a look at the sockets follows soon after.
pub const TURN: Duration = Duration::from_micros(100);

/// How many bytes a task moves before it lets others run: 100 us of copying, with room to spare.
pub const TURN_BYTES: usize = 512 << 10;

/// Registered memory of each executor: its default of 10 MiB is resident and serves files that this
/// runtime does not read through the ring.
pub const IO_MEMORY_BYTES: usize = 64 << 10;

/// Entries of each ring: sockets with an armed poll at a time, before the runtime queues them.
pub const RING_DEPTH: usize = 1024;

/// A busy executor looks at sockets, timers and other shards this often. The runtime's own 100 ms would
/// be the latency of everything else on a busy shard.
pub const PREEMPT: Duration = Duration::from_millis(1);

/// What slices are counted by. The fourth is the bound of the design: no slice takes over a millisecond.
pub const SLICE_BOUNDS: [Duration; 8] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
];

/// How long each executor sleeps before it counts as started: its first sleep takes tens of milliseconds.
pub const WARM_UP: Duration = Duration::from_millis(1);

/// An executor that says nothing for this long while it is started is poked: far above what a start takes
/// on an idle machine, so that it happens only where it helps.
pub const START_POKE: Duration = Duration::from_millis(50);

/// The guard's period while the shards work: bounds a stall.
pub const GUARD_PERIOD_MIN: Duration = Duration::from_millis(2);

/// The guard's period while nothing happens.
pub const GUARD_PERIOD_MAX: Duration = Duration::from_millis(100);

/// A poke that is answered later than this counts as a stall.
pub const GUARD_STALL: Duration = Duration::from_millis(250);

/// The window of the longest lag: that of the usual scrape, so that none misses it.
pub const LAG_WINDOW: Duration = Duration::from_secs(15);

/// Pending connections of a listener; the kernel lowers it to `net.core.somaxconn`.
pub const LISTEN_BACKLOG: i32 = 65_535;

/// The least locked memory that the runtime starts with, in bytes.
pub const MEMLOCK_BYTES_MIN: u64 = 512 << 10;

/// What C libraries allocate from this size on has pages of its own, which go back to the system when they are
/// freed.
pub const MMAP_THRESHOLD_BYTES: i32 = 512 << 10;

/// Free bytes at the end of the heap that are kept for what comes next.
pub const TRIM_THRESHOLD_BYTES: i32 = 8 << 20;

const _: () = assert!(BUFFER_ROOM_MIN < BUFFER_BLOCK_BYTES);
const _: () = assert!(SEND_SLICES_MAX <= 1024);
const _: () = assert!(SEND_BYTES_MAX <= SEND_TURN_BYTES);
const _: () = assert!(TURN.as_nanos() <= PREEMPT.as_nanos());
const _: () = assert!(GUARD_PERIOD_MIN.as_nanos() < GUARD_PERIOD_MAX.as_nanos());
// Else an idle shard would count as stalled.
const _: () = assert!(GUARD_PERIOD_MAX.as_nanos() < GUARD_STALL.as_nanos());

/// A connection that is silent for this long is probed by the kernel: a host that lost its power or its
/// network says nothing, and a member that waits in a group is not idle by the gateway's own clock. The
/// kernel's default is two hours.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Between two probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Probes without an answer after which the connection is dead: two minutes in all, far above any stall of
/// a network that comes back.
pub const KEEPALIVE_PROBES: u32 = 6;

/// How often a ring is tried that the kernel has no memory for.
pub const MEMORY_TRIES: u32 = 8;

/// The first pause between two tries; each is twice the one before, 1.3 s together.
pub const MEMORY_PAUSE: Duration = Duration::from_millis(10);
