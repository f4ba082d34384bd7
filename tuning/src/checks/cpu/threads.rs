//! Threads of cores.

use super::{START_ON_CHOSEN, pinned};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::settled;
use crate::cpu_set::CpuSet;
use crate::fix::Fix;
use crate::plan::Profile;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "smt",
    area: Area::Cpu,
    why: "two shards on one core take its cache and its pipelines from each other: more is done in all, each piece later",
    run: |look| settled(smt(look)),
}];

fn smt(look: Look<'_>) -> Result<Found, Found> {
    let want = match look.plan.profile {
        Profile::Latency => "one shard for each core",
        Profile::Throughput | Profile::Shared => "a shard for each thread of a core is fine",
    };
    let topology = look.topology().map_err(|why| Found::unread(why, want))?;
    let has_threads = topology.siblings.values().any(|siblings| siblings.len() > 1);
    if topology.siblings.is_empty() {
        return Err(Found::not_applicable("the kernel does not tell which CPUs are threads of one core"));
    }
    if !has_threads {
        return Ok(Found::fine("every CPU is a core of its own", want));
    }
    let Some(pinned) = pinned(look) else {
        return Err(Found::not_applicable("shards are not pinned to CPUs"));
    };
    let shared: Vec<CpuSet> = pinned
        .cpus
        .iter()
        .map(|cpu| topology.core_of(*cpu))
        .filter(|core| pinned.cpus.iter().filter(|cpu| core.contains(**cpu)).count() > 1)
        .collect();
    let mut cores: Vec<String> = shared.iter().map(CpuSet::to_string).collect();
    cores.sort_unstable();
    cores.dedup();
    let count = cores.len();
    if count == 0 {
        return Ok(Found::fine(format!("{}, each on a core of its own", pinned.text), want));
    }
    let cores = if count == 1 { "1 core holds".into() } else { format!("{count} cores hold") };
    let read = format!("{}: {cores} more than one of them", pinned.text);
    if look.plan.profile != Profile::Latency {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Warning, read, want, vec![Fix::Advice(START_ON_CHOSEN.into())]))
}
