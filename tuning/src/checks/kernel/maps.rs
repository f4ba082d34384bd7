//! Parts of address space.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{settled, sysctl};
use crate::fix::{Fix, Knob};
use crate::needs;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "map_count",
    area: Area::Kernel,
    why: "an allocation that needs one more part of address space than is allowed fails, and the process ends",
    run: |look| settled(map_count(look)),
}];

/// What those who need many have agreed on.
const PLENTY: u64 = 262_144;

fn map_count(look: Look<'_>) -> Result<Found, Found> {
    let want = format!("vm.max_map_count >= {}, and twice what a gateway has", needs::MEMORY_MAPS);
    let most = sysctl(look, "vm.max_map_count", &want)?;
    let mut read = format!("vm.max_map_count = {most}");
    let maps = look.plan.pid.and_then(|_| Some(look.process_file("maps").text()?.lines().count() as u64));
    if let Some(maps) = maps {
        read.push_str(&format!(", {maps} in use"));
    }
    if most >= needs::MEMORY_MAPS && maps.is_none_or(|maps| maps.saturating_mul(2) <= most) {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Warning, read, want, vec![Fix::Knob(Knob::sysctl("vm.max_map_count", PLENTY))]))
}
