//! What reading the clock takes.

use std::hint::black_box;
use std::time::Instant;

use super::{Outcome, Setting, Taken};

/// Read so often for one time: the clock does not tell what reading it once takes.
const READS: u32 = 1_000;

pub(super) fn measure(setting: &Setting<'_>) -> Outcome {
    let until = Instant::now() + setting.budget(0.2);
    let mut times_ns = Vec::new();
    loop {
        let began = Instant::now();
        for _ in 0..READS {
            black_box(Instant::now());
        }
        let ended = Instant::now();
        times_ns.push((ended - began).as_nanos() as u64 / u64::from(READS));
        if ended >= until {
            return Taken::new(times_ns, format!("means of {READS} in a row"));
        }
    }
}
