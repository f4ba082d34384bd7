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

/// What glibc and mimalloc, threads, and everything mapped beside them are sure to stay below, as databases ask for it.
const PLENTY: u64 = 262_144;

fn map_count(look: Look<'_>) -> Result<Found, Found> {
    let want = format!("vm.max_map_count >= {PLENTY}, and twice what a gateway has");
    let most = sysctl(look, "vm.max_map_count", &want)?;
    let mut read = format!("vm.max_map_count = {most}");
    let maps = look.plan.pid.and_then(|_| Some(look.process_file("maps").text()?.lines().count() as u64));
    if let Some(maps) = maps {
        read.push_str(&format!(", {maps} in use"));
    }
    let twice = maps.unwrap_or_default().saturating_mul(2);
    if most >= PLENTY.max(twice) {
        return Ok(Found::fine(read, want));
    }
    // With the kernel's own default a gateway runs: what is missing is room for what is mapped beside it.
    let verdict = if most < needs::MEMORY_MAPS.max(twice) { Verdict::Warning } else { Verdict::Advice };
    let value = PLENTY.max(twice.next_power_of_two());
    Ok(Found::wrong(verdict, read, want, vec![Fix::Knob(Knob::sysctl("vm.max_map_count", value))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    fn found(most: &str, maps: usize) -> (Severity, Vec<String>) {
        let (_kept, host) =
            host(&[("/proc/sys/vm/max_map_count", most), ("/proc/7/maps", &"00400000-00452000 r-xp\n".repeat(maps))]);
        let found = settled(map_count(Look { host: &host, plan: &Plan { pid: Some(7), ..Plan::default() } }));
        (Severity::of(&found.verdict), found.fixes.iter().map(Fix::text).collect())
    }

    #[test]
    fn the_kernels_default_runs_but_what_is_wanted_has_room() {
        assert_eq!(found("262144", 100), (Severity::Ok, vec![]));
        let fix = |value: u64| vec![format!("sysctl -w vm.max_map_count={value}")];
        assert_eq!(found("65530", 100), (Severity::Advice, fix(262_144)));
        assert_eq!(found("65529", 100), (Severity::Warning, fix(262_144)));
        assert_eq!(found("262144", 140_000), (Severity::Warning, fix(524_288)), "twice what is there");
    }
}
