//! How late a sleep ends.

use std::thread;
use std::time::{Duration, Instant};

use super::{Outcome, Setting, Taken};

const ASKED: Duration = Duration::from_millis(1);

pub(super) fn measure(setting: &Setting<'_>) -> Outcome {
    let until = Instant::now() + setting.budget(0.5);
    let mut times_ns = Vec::new();
    loop {
        let began = Instant::now();
        thread::sleep(ASKED);
        let ended = Instant::now();
        times_ns.push((ended - began).saturating_sub(ASKED).as_nanos() as u64);
        if ended >= until {
            return Taken::new(times_ns, "with the usual timer slack of 50 us");
        }
    }
}
