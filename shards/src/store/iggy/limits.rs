//! Bounds of the Iggy store. Bounds that users set are in [`IggySettings`](super::IggySettings).

use std::time::Duration;

/// Calls that a lane has been given and not answered. Connections bound what they ask for themselves; this many mean
/// that Iggy does not keep up, and more are refused with a code that clients try again at.
pub const LANE_CALLS_MAX: usize = 16_384;

/// How long a client waits before it dials a lost server again, the first time. The SDK doubles it with each failure,
/// up to 10 s, and adds jitter.
pub const RECONNECT_FIRST: Duration = Duration::from_millis(50);

/// How long one attempt to connect and sign in may take, dialling and both round trips.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The part of `iggy_timeout` that is left for a batch which had to wait for those before it: it waits for the rest at
/// most, since one that is sent when next to nothing is left can hardly come to a known end.
pub const SEND_SHARE: u32 = 4;

/// With so many batches of a partition that wait, and whenever twice as many do as were left, those go that nobody
/// waits for.
pub const ARRIVING_LOOKED_THROUGH: usize = 16;

/// The first and the longest wait between two attempts of a call that Iggy did not take.
pub const RETRY_FIRST: Duration = Duration::from_millis(20);
/// See [`RETRY_FIRST`].
pub const RETRY_LONGEST: Duration = Duration::from_millis(500);

/// Polls of one client that wait on the server at a time: the SDK and the server both allow 64.
pub const WAITING_POLLS_PER_CLIENT: usize = 60;

/// The least that a poll may ask for: a reply's header, a batch's and a message's.
pub const POLL_BYTES_MIN: usize = 344;

/// The most bytes of one poll. The real server reads 16 MiB at a time.
pub const POLL_BYTES_MAX: usize = 16 << 20;

/// The most messages of one poll; bytes run out first.
pub const POLL_MESSAGES_MAX: u32 = 100_000;

/// The largest batch that is sent. The SDK holds 64 MiB of a client's writes at a time.
pub const SEND_BYTES_MAX: usize = 32 << 20;

/// Records that are converted on the lane's own thread: at about 1 ns a byte well under 1 ms.
pub const CONVERT_HERE_BYTES: usize = 256 << 10;

/// Partitions of one Fetch that are read at a time.
pub const READS_AT_ONCE: usize = 32;

/// The least that a partition of a Fetch is read for, however many share its budget.
pub const READ_BYTES_MIN: usize = 64 << 10;

/// How long a poll waits on the server for the next record. Servers cut a wait at 30 s.
pub const TAIL_WAIT: Duration = Duration::from_secs(25);

/// How long such polls go on after the last consumer that waited: far more than it needs to come back.
pub const TAIL_LINGER: Duration = Duration::from_secs(1);

/// Bytes that such a poll brings: what producers of a partition send in a round trip.
pub const TAIL_BYTES: usize = 1 << 20;

const _: () = assert!(
    LANE_CALLS_MAX > 0
        && SEND_SHARE > 1
        && TAIL_BYTES < POLL_BYTES_MAX
        && SEND_BYTES_MAX < 64 << 20
        && READS_AT_ONCE > 0
        && POLL_BYTES_MIN < POLL_BYTES_MAX
        && WAITING_POLLS_PER_CLIENT <= 64
        && RETRY_FIRST.as_millis() < RETRY_LONGEST.as_millis()
);

/// How long one call may take that looks at the lease or renews it: several fit before it ends.
pub const LEASE_CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// A segment of the side topic. Whole segments go when it is compacted.
pub const SIDE_SEGMENT_BYTES: u64 = 4 << 20;

/// Bytes of one read of the side topic.
pub const SIDE_READ_BYTES: usize = 8 << 20;

/// How often the side topic's partitions are looked at, whether one is worth compacting.
pub const SIDE_COMPACT_INTERVAL: Duration = Duration::from_secs(60);

/// Offsets, and topics' groups, that are read at a time when groups are loaded.
pub const OFFSET_READS_AT_ONCE: usize = 64;

/// How long a deleted group that would not go from Iggy is left alone before it is tried again.
pub const DELETE_AGAIN_AFTER: Duration = Duration::from_secs(1);

const _: () = assert!(LEASE_CALL_TIMEOUT.as_millis() * 4 < super::groups::lease::VALID_MS as u128);
