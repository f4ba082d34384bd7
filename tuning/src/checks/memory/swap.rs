//! Pages that leave memory.

use crate::cgroup::ControlGroups;
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{settled, sysctl};
use crate::fix::{Fix, Knob};
use crate::plan::Profile;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "swap",
    area: Area::Memory,
    why: "a page that has to come back from a disk costs milliseconds, in the middle of a request",
    run: |look| settled(swap(look)),
}];

/// The most that keeps a gateway's pages where they are as long as there is memory.
const SWAPPINESS_MAX: u64 = 10;

fn swap(look: Look<'_>) -> Result<Found, Found> {
    let want = format!("vm.swappiness <= {SWAPPINESS_MAX}, or no swap");
    let swaps = look.host.read("/proc/swaps");
    if swaps.text().is_some_and(|text| text.lines().count() < 2) {
        return Ok(Found::fine("no swap (/proc/swaps)", want));
    }
    let process = look.plan.pid.map_or("self".to_owned(), |pid| pid.to_string());
    let groups = ControlGroups::of(look.host, &process);
    let files = groups.files(look.host, "memory", "memory.swap.max", "memory.memsw.limit_in_bytes");
    if let Some(file) = files.iter().find(|file| !file.is_v1 && file.text == "0") {
        return Ok(Found::fine(format!("{} = 0", file.path), want));
    }
    let value = sysctl(look, "vm.swappiness", &want)?;
    let read = format!("vm.swappiness = {value}");
    if value <= SWAPPINESS_MAX {
        return Ok(Found::fine(read, want));
    }
    let fix = match look.plan.profile {
        Profile::Shared => Fix::Unit("[Service] MemorySwapMax=0".into()),
        Profile::Latency | Profile::Throughput => Fix::Knob(Knob::sysctl("vm.swappiness", 1)),
    };
    Ok(Found::wrong(Verdict::Warning, read, want, vec![fix]))
}
