//! CPUs that other work is kept away from.

use super::{CPUS, START_ON_CHOSEN, cpus_that_count};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{only_for_latency, settled, shown};
use crate::cpu_set::CpuSet;
use crate::fix::Fix;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "isolcpus",
        area: Area::Cpu,
        why: "whatever the scheduler puts on a shard's CPU makes the shard wait for its turn",
        run: |look| settled(isolcpus(look)),
    },
    Check {
        id: "nohz_full",
        area: Area::Cpu,
        why: "the tick interrupts a busy shard 100 to 1000 times a second; without it each system call is somewhat slower, so that \
              it pays only for shards that spin",
        run: |look| settled(nohz_full(look)),
    },
    Check {
        id: "rcu_nocbs",
        area: Area::Cpu,
        why: "the kernel's own deferred work runs on the CPU that caused it, in the middle of a shard's",
        run: |look| settled(rcu_nocbs(look)),
    },
];

const NOT_NEEDED: &str = "isolated CPUs are a matter of the last percentiles, and other work cannot use them";

/// What of these does not mean anything in a container, or in any other than the latency profile.
fn matters(look: Look<'_>) -> Result<(), Found> {
    only_for_latency(look, NOT_NEEDED)?;
    if look.host.is_container() {
        return Err(Found::not_applicable(
            "the kernel's command line is the host's: a container gets CPUs by its cpuset",
        ));
    }
    Ok(())
}

/// A set of CPUs that a file of the kernel holds.
fn set(look: Look<'_>, file: &str, want: &str) -> Result<CpuSet, Found> {
    let path = format!("{CPUS}/{file}");
    match look.host.read(&path) {
        crate::host::Reading::Text(text) => {
            // A kernel that knows the parameter and was not given it.
            let text = if text == "(null)" { String::new() } else { text };
            CpuSet::list(&text).ok_or_else(|| Found::unread(format!("{path} holds {}", shown(&text)), want))
        }
        reading => Err(Found::without(&reading, &format!("this kernel has no {path}"), want)),
    }
}

fn isolcpus(look: Look<'_>) -> Result<Found, Found> {
    matters(look)?;
    let want = "the shards' CPUs, on a machine that is the gateway's own";
    let isolated = set(look, "isolated", want)?;
    let shards = cpus_that_count(look);
    if isolated.is_empty() {
        let online = look.topology().map_or(CpuSet::default(), |topology| topology.online);
        if online.iter().all(|cpu| shards.contains(cpu)) {
            return Err(Found::not_applicable("shards take every CPU: none is left for other work"));
        }
        let fix = format!("isolcpus=managed_irq,domain,{shards} on the kernel's command line");
        return Ok(Found::wrong(Verdict::Advice, "no CPU is isolated", want, vec![Fix::Boot(fix)]));
    }
    let read = format!("isolated: {isolated}; shards: {shards}");
    if shards.iter().all(|cpu| isolated.contains(cpu)) {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Advice(START_ON_CHOSEN.into())]))
}

fn nohz_full(look: Look<'_>) -> Result<Found, Found> {
    matters(look)?;
    let want = "the CPUs of shards that spin (`serve --spin`); none otherwise";
    let full = set(look, "nohz_full", want)?;
    if full.is_empty() {
        return Ok(Found::fine("none", want));
    }
    let shards = cpus_that_count(look);
    let read = format!("nohz_full: {full}; shards: {shards}");
    if shards.iter().all(|cpu| full.contains(cpu)) {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Advice(START_ON_CHOSEN.into())]))
}

fn rcu_nocbs(look: Look<'_>) -> Result<Found, Found> {
    matters(look)?;
    let want = "the shards' CPUs, where they are isolated";
    let isolated = set(look, "isolated", want)?;
    if isolated.is_empty() {
        return Err(Found::not_applicable("no CPU is isolated, and alone it changes little"));
    }
    // Each of the two takes the work away.
    let away = ["rcu_nocbs", "nohz_full"].iter().filter_map(|name| look.host.boot_parameter(name));
    let all = |value: &str| matches!(value, "" | "all");
    let away: Vec<String> = away.collect();
    let text = if away.is_empty() { "none".into() } else { shown(&away.join(" ")) };
    let read = format!("rcu_nocbs: {text}; isolated: {isolated}");
    let covered: CpuSet = away.iter().filter_map(|value| CpuSet::list(value)).flat_map(|cpus| cpus.0).collect();
    if away.iter().any(|value| all(value)) || isolated.iter().all(|cpu| covered.contains(cpu)) {
        return Ok(Found::fine(read, want));
    }
    let fix = format!("rcu_nocbs={isolated} on the kernel's command line");
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Boot(fix)]))
}
