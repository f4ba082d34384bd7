//! Pages, swap, sockets' memory.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::{Fix, Knob};

/// See the [module](self).
pub const CHECKS: &[Check] = &[Check {
    id: "swap",
    area: Area::Memory,
    why: "a page that has to come back from a disk costs milliseconds, in the middle of a request",
    run: swap,
}];

/// The most that keeps a gateway's pages where they are as long as there is memory.
const SWAPPINESS_MAX: u64 = 10;

fn swap(look: Look<'_>) -> Found {
    let want = format!("vm.swappiness <= {SWAPPINESS_MAX}, or no swap");
    let swaps = look.host.read("/proc/swaps");
    if swaps.text().is_some_and(|text| text.lines().count() < 2) {
        return Found::fine("no swap (/proc/swaps)", want);
    }
    let reading = look.host.read("/proc/sys/vm/swappiness");
    let Some(value) = reading.text().and_then(|text| text.parse::<u64>().ok()) else {
        return Found::without(&reading, "this kernel does not swap", want);
    };
    let read = format!("vm.swappiness = {value}");
    if value <= SWAPPINESS_MAX {
        return Found::fine(read, want);
    }
    Found::wrong(Verdict::Warning, read, want, vec![Fix::Knob(Knob::sysctl("vm.swappiness", 1))])
}
