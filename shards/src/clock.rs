//! The two clocks of a shard.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time for timers, counted from the gateway's start, and wall-clock time for what is stored.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now. Shards of one gateway share one.
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Milliseconds since the start; never goes back.
    pub fn mono_ms(self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Microseconds since the start.
    pub fn mono_us(self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Nanoseconds since the start.
    pub fn mono_ns(self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// When that was or will be.
    pub fn instant(self, mono_ms: u64) -> Instant {
        self.start + std::time::Duration::from_millis(mono_ms)
    }

    /// Microseconds since the epoch, as Iggy's batches carry them.
    pub fn wall_us(self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
    }

    /// Milliseconds since the epoch, as records and offsets carry them.
    pub fn wall_ms(self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
    }
}
