//! How deep CPUs sleep.

use std::collections::BTreeMap;

use super::{CPUS, cpus_that_count};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{only_for_latency, settled};
use crate::cpu_set::CpuSet;
use crate::fix::{Fix, Knob};
use crate::host::Reading;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "cstates",
    area: Area::Cpu,
    why: "a shard sleeps whenever it has nothing to do, and a core in a deep idle state takes 50 to 200 us to wake: it is added \
          to the next request",
    run: |look| settled(cstates(look)),
}];

/// The longest way back from idling, in microseconds.
const EXIT_US_MAX: u64 = 10;

/// What processes ask the kernel for while they hold it open.
const BOUND: &str = "/dev/cpu_dma_latency";

/// An idle state of one CPU that takes too long to leave.
struct Deep {
    cpu: usize,
    name: String,
    exit_us: u64,
    switch: String,
}

fn cstates(look: Look<'_>) -> Result<Found, Found> {
    let want = format!("idle states that are left within {EXIT_US_MAX} us on the shards' CPUs");
    only_for_latency(look, "cores that are busy do not idle, and the power of those that do makes them faster")?;
    let cpus = cpus_that_count(look);
    let (deep, is_told) = deep_states(look, &cpus);
    if !is_told {
        return Err(Found::not_applicable("the kernel tells of no idle states: a hypervisor decides how a CPU waits"));
    }
    if deep.is_empty() {
        return Ok(Found::fine(format!("CPUs {cpus}: no state over {EXIT_US_MAX} us is in use"), want));
    }
    if let Some(pid) = look.plan.pid.filter(|pid| holds_bound(look, *pid)) {
        return Ok(Found::fine(format!("process {pid} holds {BOUND} (hold_cpu_latency)"), want));
    }
    if let Some(us) = bound(look).filter(|us| *us <= EXIT_US_MAX) {
        return Ok(Found::fine(format!("{BOUND} is held at {us} us"), want));
    }
    let mut by_state: BTreeMap<(u64, &str), CpuSet> = BTreeMap::new();
    for state in &deep {
        by_state.entry((state.exit_us, &state.name)).or_default().0.insert(state.cpu);
    }
    let read = by_state.iter().map(|((exit_us, name), cpus)| format!("{name} takes {exit_us} us (CPUs {cpus})"));
    let read = read.collect::<Vec<_>>().join(", ");
    let mut fixes: Vec<Fix> = deep.iter().map(|state| Fix::Knob(Knob::file(&state.switch, 1))).collect();
    let by_itself = "or leave them, and ringgate serve --hold-cpu-latency: the same for as long as it serves";
    fixes.push(Fix::Advice(by_itself.into()));
    Ok(Found::wrong(Verdict::Warning, read, want, fixes))
}

/// The states in use that are too deep, and whether the kernel tells of any at all.
fn deep_states(look: Look<'_>, cpus: &CpuSet) -> (Vec<Deep>, bool) {
    let mut deep = Vec::new();
    let mut is_told = false;
    for cpu in cpus.iter() {
        let directory = format!("{CPUS}/cpu{cpu}/cpuidle");
        for state in look.host.list(&directory).unwrap_or_default() {
            let read = |file: &str| look.host.read(format!("{directory}/{state}/{file}")).text().map(str::to_owned);
            let Some(exit_us) = read("latency").and_then(|text| text.parse::<u64>().ok()) else { continue };
            is_told = true;
            if exit_us <= EXIT_US_MAX || read("disable").is_some_and(|text| text != "0") {
                continue;
            }
            let name = read("name").unwrap_or_else(|| state.clone());
            deep.push(Deep { cpu, name, exit_us, switch: format!("{directory}/{state}/disable") });
        }
    }
    (deep, is_told)
}

/// What the kernel keeps to because some process asks for it, in microseconds: root may read it, as four bytes.
fn bound(look: Look<'_>) -> Option<u64> {
    match look.host.read_bytes(BOUND, 4) {
        Ok(bytes) => i32::from_le_bytes(bytes.try_into().ok()?).try_into().ok(),
        Err(Reading::Absent | Reading::Unread(_) | Reading::Text(_)) => None,
    }
}

/// Whether a gateway holds it, which never asks for more than 0 us. Other users' files are not seen but by root.
fn holds_bound(look: Look<'_>, pid: u32) -> bool {
    let descriptors = format!("/proc/{pid}/fd");
    let names = look.host.list(&descriptors).unwrap_or_default();
    names.iter().any(|name| look.host.link(format!("{descriptors}/{name}")).text() == Some(BOUND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    /// A CPU with a shallow and a deep state.
    fn severity(disable: &str, bound: Option<i32>) -> (Severity, usize) {
        let (kept, host) = host(&[
            ("/proc/self/status", "Cpus_allowed_list:\t0\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "2\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", disable),
        ]);
        if let Some(us) = bound {
            std::fs::create_dir(kept.path().join("dev")).unwrap();
            std::fs::write(host.at(BOUND), us.to_le_bytes()).unwrap();
        }
        let found = settled(cstates(Look { host: &host, plan: &Plan::default() }));
        (Severity::of(&found.verdict), found.fixes.len())
    }

    #[test]
    fn a_deep_state_counts_unless_it_is_off_or_somebody_holds_the_bound() {
        assert_eq!(severity("0", None), (Severity::Warning, 2));
        assert_eq!(severity("1", None), (Severity::Ok, 0));
        assert_eq!(severity("0", Some(0)), (Severity::Ok, 0));
        assert_eq!(severity("0", Some(2_000_000_000)), (Severity::Warning, 2), "what holds when nobody asks");
        assert_eq!(severity("0", Some(-1)), (Severity::Warning, 2));
    }

    #[test]
    fn a_gateway_that_holds_the_bound_needs_nothing_more() {
        let of = |target: &str| {
            let (_kept, host) = host(&[
                ("/proc/7/status", "Cpus_allowed_list:\t0\n"),
                ("/proc/7/fd/3", "socket:[99]"),
                ("/proc/7/fd/9", target),
                ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n"),
            ]);
            let plan = Plan { pid: Some(7), ..Plan::default() };
            let found = settled(cstates(Look { host: &host, plan: &plan }));
            (Severity::of(&found.verdict), found.read)
        };
        let held = "process 7 holds /dev/cpu_dma_latency (hold_cpu_latency)".to_owned();
        assert_eq!(of("/dev/cpu_dma_latency"), (Severity::Ok, held));
        assert_eq!(of("/dev/null").0, Severity::Warning);
    }
}
