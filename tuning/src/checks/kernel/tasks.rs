//! Threads.

use super::{bound, has_capability, limit};
use crate::cgroup::ControlGroups;
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::sysctl_path;
use crate::fix::{Fix, Knob};
use crate::needs;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "tasks",
    area: Area::Kernel,
    why: "a shard is two threads, and a gateway that may not start one of its threads ends",
    run: tasks,
}];

/// Whoever has it may have more processes than the limit says.
const CAP_SYS_RESOURCE: u32 = 24;

fn tasks(look: Look<'_>) -> Found {
    let shards = look.shards() as u64;
    let needed = needs::threads(shards);
    let want =
        format!("room for {needed} threads, of which {shards} shards take {}", needs::THREADS_PER_SHARD * shards);
    let process = look.plan.pid.map_or("self".to_owned(), |pid| pid.to_string());
    let mut bounds: Vec<(String, u64)> = Vec::new();
    let mut fixes = Vec::new();
    for file in ControlGroups::of(look.host, &process).files(look.host, "pids", "pids.max", "pids.max") {
        let Ok(most) = file.text.parse::<u64>() else { continue };
        // A gateway that runs is among those that are there.
        let there = look.host.read(file.path.replace("pids.max", "pids.current"));
        let there = there.text().and_then(|text| text.parse::<u64>().ok()).filter(|_| look.plan.pid.is_none());
        let free = most.saturating_sub(there.unwrap_or(0));
        bounds.push((format!("{} = {most}, {} in use", file.path, there.unwrap_or(0)), free));
        if free < needed {
            let container = format!("docker run --pids-limit={}", most + needed);
            let unit = format!("[Service] TasksMax={}", (most + needed).next_power_of_two());
            fixes.push(if look.host.is_container() { Fix::Advice(container) } else { Fix::Unit(unit) });
        }
    }
    if let Some(processes) = limit(look, "Max processes").ok().filter(|_| !has_capability(look, CAP_SYS_RESOURCE)) {
        bounds.push((format!("processes of the user: {}", bound(processes.hard)), processes.hard));
        if processes.hard < needed {
            fixes.push(Fix::Unit("[Service] LimitNPROC=infinity".into()));
        }
    }
    for name in ["kernel.threads-max", "kernel.pid_max"] {
        let most = look.host.read(sysctl_path(name)).text().and_then(|text| text.parse::<u64>().ok());
        if let Some(most) = most {
            bounds.push((format!("{name} = {most}"), most));
            if most < needed {
                fixes.push(Fix::Knob(Knob::sysctl(name, needed.next_power_of_two().max(1 << 15))));
            }
        }
    }
    fixes.dedup();
    // The tightest says it all.
    match bounds.into_iter().min_by_key(|(_, free)| *free) {
        None => Found::unread("neither control groups nor limits tell", want),
        Some((read, free)) if free < needed => Found::wrong(Verdict::Blocker, read, want, fixes),
        Some((read, _)) => Found::fine(read, want),
    }
}
