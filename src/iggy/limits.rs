//! Bounds of the Iggy listener that users do not set.

use std::time::Duration;

/// Requests of one link that are read ahead of their answers: what the SDK keeps in flight on a link.
pub const REQUESTS_PER_LINK_MAX: usize = 256;

/// Requests of one link that wait for messages, as an Iggy server has it: beyond it they are refused
/// (`DeferredPollCapacityExceeded(90)`).
pub const WAITING_PER_LINK_MAX: usize = 64;

/// The same of all links of a shard.
pub const WAITING_PER_SHARD_MAX: usize = 1_024;

/// How long a request may wait for messages, whatever it asks: an Iggy server's own limit.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// Batches whose messages are gone through, cut or converted on the shard itself, by their bytes: well under 1 ms.
pub const CONVERT_HERE_BYTES: usize = 64 << 10;

/// A read gets at most this share (one in so many) of what is left for answers: the largest ones leave something to
/// others, and those of the usual size get all that they want.
pub const READ_SHARE: usize = 4;

/// Streams, topics, partitions or groups of a list that the shard itself writes, at about 1 us each.
pub const LISTED_HERE: usize = 256;

/// Sessions of the gateway, with a link or waiting for one: some 300 bytes each, answers to repeat apart.
pub const SESSIONS_MAX: usize = 65_536;

/// How long a session outlives its last link: many times the SDK's longest pause between two attempts to
/// connect (10 s).
pub const SESSION_LEASE: Duration = Duration::from_secs(60);

/// How often sessions are looked at for those whose lease is over.
pub const SESSION_SWEEP: Duration = Duration::from_secs(5);

/// Changes of metadata whose answers a session keeps for a client that asks again. Clients have one at a time.
pub const SESSION_ANSWERS_MAX: usize = 8;

/// Sign-ins that wait for their password to be checked; it takes a hash of some 20 ms, one at a time. Those
/// with a password that was right before do not wait.
pub const SIGN_INS_WAITING_MAX: usize = 64;

/// The shortest password of the root user, in bytes: Iggy's own.
pub const PASSWORD_BYTES_MIN: usize = 3;

/// The longest, in bytes: Iggy's own.
pub const PASSWORD_BYTES_MAX: usize = 100;
