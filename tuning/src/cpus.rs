//! The CPUs that `serve --cpus` should get.

use std::fmt;

use crate::cpu_set::CpuSet;
use crate::plan::Profile;
use crate::topology::Topology;

/// Which CPUs, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// A shard's CPU each, the first shard's first; `None`: the kernel's scheduler is to place the shards.
    pub cpus: Option<Vec<usize>>,
    /// Where the network card's interrupts are to be handled; empty: wherever they are.
    pub interrupts: CpuSet,
    /// A sentence each.
    pub reasons: Vec<String>,
}

/// As `--cpus` takes it.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cpus) = &self.cpus else { return f.write_str("none") };
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        f.write_str(&cpus.join(","))
    }
}

/// From that many threads on some are kept for interrupts.
const THREADS_WITHOUT_KEEPING_ANY: usize = 4;
/// From that many cores on whole ones are kept for interrupts; before, threads of cores.
const CORES_WITHOUT_KEEPING_ONE: usize = 4;
/// Cores for each one that is kept for interrupts, as Seastar's `perftune.py` has it.
const CORES_PER_KEPT: usize = 16;

/// A physical core.
struct Core {
    /// Those of its threads that may be used, in order.
    threads: Vec<usize>,
    node: Option<usize>,
    is_near: bool,
    is_isolated: bool,
    interrupts: usize,
    is_kept: bool,
}

/// Chooses CPUs for `shards`, or for as many as the profile makes sensible.
///
/// One for each physical core, in [`Profile::Throughput`] for each thread; those of the network card's NUMA node first;
/// isolated ones alone when there are any; away from interrupts when there are enough. In [`Profile::Shared`] none is
/// taken from the machine's other users.
///
/// # Errors
/// There are more shards than CPUs that may be used: says how many, and what to do.
pub fn choose(topology: &Topology, profile: Profile, shards: Option<usize>) -> Result<Choice, String> {
    let mut reasons = Vec::new();
    if topology.allowed.is_empty() {
        return Err("none of the CPUs that this process may run on is online".into());
    }
    if profile == Profile::Shared {
        reasons.push("others use this machine, too: a pinned shard would wait for whoever has its CPU".into());
        return Ok(Choice { cpus: None, interrupts: CpuSet::default(), reasons });
    }
    if let Some(shards) = shards.filter(|shards| *shards > topology.allowed.len()) {
        return Err(format!(
            "{shards} shards, but this process may only run on CPUs {}; fewer shards, or `--cpus none`",
            topology.allowed
        ));
    }
    if topology.allowed.len() < topology.online.len() {
        reasons.push(format!("this process may run on CPUs {} of {}", topology.allowed, topology.online));
    }

    let mut cores = cores(topology);
    let isolated = cores.iter().filter(|core| core.is_isolated).count();
    say_isolated(topology, isolated, &mut reasons);
    let threads = if isolated > 0 { 0 } else { topology.allowed.len() };
    // Interrupts on a node that is not the card's reach across the machine for each packet: nothing is kept for that.
    let near = topology.card.as_ref().and_then(|card| topology.nodes.get(&card.node?)).filter(|cpus| !cpus.is_empty());
    let is_far = near.is_some() && !cores.iter().any(|core| core.is_near);
    let keep = kept_cores(if isolated > 0 || is_far { 0 } else { cores.len() }, threads);
    keep_for_interrupts(&mut cores, keep);

    // Best first: what is never taken unless it must be comes last.
    cores.sort_by_key(|core| {
        (
            isolated > 0 && !core.is_isolated,
            core.is_kept,
            !core.is_near,
            core.node,
            core.interrupts > 0,
            core.threads[0],
        )
    });
    let usable = cores.iter().filter(|core| !core.is_kept && (isolated == 0 || core.is_isolated)).count();
    let nth = |cores: &[Core], nth: usize| -> Vec<usize> {
        cores.iter().filter_map(|core| core.threads.get(nth).copied()).collect()
    };
    let most_threads = cores.iter().map(|core| core.threads.len()).max().unwrap_or(1);
    let firsts = nth(&cores[..usable], 0);
    let seconds: Vec<usize> = (1..most_threads).flat_map(|at| nth(&cores[..usable], at)).collect();
    let rest: Vec<usize> = (0..most_threads).flat_map(|at| nth(&cores[usable..], at)).collect();

    let mut sensible = firsts.len();
    if profile == Profile::Throughput {
        // On a small machine with threads, one of them is enough for the interrupts.
        let spare =
            usize::from(keep == 0 && isolated == 0 && threads > THREADS_WITHOUT_KEEPING_ANY && !seconds.is_empty());
        sensible += seconds.len() - spare;
    }
    let by_rank: Vec<usize> = firsts.iter().chain(&seconds).chain(&rest).copied().collect();
    let count = shards.unwrap_or(sensible);
    let cpus = by_rank[..count].to_vec();

    say_cores(profile, !seconds.is_empty(), count, firsts.len(), sensible, &mut reasons);
    say_nodes(topology, &cpus, &mut reasons);
    let serves = |cpu: &usize| !cpus.contains(cpu) && near.is_none_or(|near| near.contains(*cpu));
    let left: CpuSet = topology.allowed.iter().filter(serves).collect();
    let kept: CpuSet = cores[..].iter().filter(|core| core.is_kept).flat_map(|core| core.threads.clone()).collect();
    let interrupts: CpuSet = match kept.iter().filter(|cpu| left.contains(*cpu)).collect::<CpuSet>() {
        kept if !kept.is_empty() => kept,
        _ => left,
    };
    say_interrupts(topology, &cpus, &interrupts, &mut reasons);
    if let Some(quota) = topology.quota.filter(|quota| *quota < cpus.len() as f64) {
        reasons.push(format!(
            "the control group grants {quota} CPUs of time: {count} busy shards would be stopped for the rest of each \
             period; grant whole CPUs (cpuset, static CPU manager), or start fewer shards"
        ));
    }
    Ok(Choice { cpus: Some(cpus), interrupts, reasons })
}

fn cores(topology: &Topology) -> Vec<Core> {
    let near = topology.card.as_ref().and_then(|card| card.node);
    let mut cores: Vec<Core> = Vec::new();
    for cpu in topology.allowed.iter() {
        if cores.iter().any(|core| core.threads.contains(&cpu)) {
            continue;
        }
        let mut threads: Vec<usize> =
            topology.core_of(cpu).iter().filter(|cpu| topology.allowed.contains(*cpu)).collect();
        if threads.is_empty() {
            threads.push(cpu);
        }
        let node = topology.node_of(cpu);
        cores.push(Core {
            node,
            is_near: near.is_some() && node == near,
            is_isolated: threads.iter().all(|cpu| topology.isolated.contains(*cpu)),
            interrupts: topology
                .card
                .as_ref()
                .map_or(0, |card| threads.iter().filter_map(|cpu| card.interrupts.get(cpu)).sum()),
            is_kept: false,
            threads,
        });
    }
    cores
}

/// How many cores the interrupts get to themselves.
fn kept_cores(cores: usize, threads: usize) -> usize {
    if threads <= THREADS_WITHOUT_KEEPING_ANY || cores <= CORES_WITHOUT_KEEPING_ONE {
        return 0;
    }
    cores.div_ceil(CORES_PER_KEPT)
}

/// Keeps those near the card that have the most of its interrupts anyway, or else the first.
fn keep_for_interrupts(cores: &mut [Core], count: usize) {
    cores.sort_by_key(|core| (!core.is_near, std::cmp::Reverse(core.interrupts), core.threads[0]));
    cores.iter_mut().take(count).for_each(|core| core.is_kept = true);
}

fn say_isolated(topology: &Topology, usable: usize, reasons: &mut Vec<String>) {
    if topology.isolated.is_empty() {
        return;
    }
    let isolated = &topology.isolated;
    if usable > 0 {
        reasons.push(format!("CPUs {isolated} are isolated from other work: shards go there, and nothing else does"));
    } else {
        reasons.push(format!(
            "CPUs {isolated} are isolated from other work, but this process may not run there: start the gateway with \
             `taskset --cpu-list {isolated}`, or with systemd's AllowedCPUs and CPUAffinity"
        ));
    }
}

fn say_cores(
    profile: Profile,
    has_threads: bool,
    count: usize,
    cores: usize,
    sensible: usize,
    reasons: &mut Vec<String>,
) {
    if count > sensible {
        reasons.push(format!(
            "{count} shards are more than the {sensible} that this machine is good for: some share a core with each \
             other or with the network card's interrupts"
        ));
    } else if profile == Profile::Throughput && count > cores {
        reasons
            .push("a shard for each thread of a core: more work is done in all, each piece of it more slowly".into());
    } else if has_threads {
        reasons.push("one shard for each physical core: its other threads are left idle or to interrupts".into());
    }
}

fn say_nodes(topology: &Topology, cpus: &[usize], reasons: &mut Vec<String>) {
    let Some(card) = &topology.card else { return };
    let Some(near) = card.node.filter(|_| topology.nodes.len() > 1) else { return };
    let count = cpus.iter().filter(|cpu| topology.node_of(**cpu) == Some(near)).count();
    reasons.push(if count == cpus.len() {
        format!("all on NUMA node {near}, where {} is attached", card.name)
    } else if count == 0 {
        format!(
            "none on NUMA node {near}, where {} is attached: every packet goes over the link between the nodes; CPUs {} are \
             near it, if this process may have them",
            card.name,
            topology.nodes.get(&near).cloned().unwrap_or_default()
        )
    } else {
        format!(
            "the first {count} on NUMA node {near}, where {} is attached; the others reach it and each other's memory \
             over the link between the nodes (`--shards {count}` keeps to the node)",
            card.name
        )
    });
}

fn say_interrupts(topology: &Topology, cpus: &[usize], interrupts: &CpuSet, reasons: &mut Vec<String>) {
    let Some(card) = &topology.card else { return };
    let disturbed: CpuSet = cpus.iter().copied().filter(|cpu| card.interrupts.contains_key(cpu)).collect();
    if !interrupts.is_empty() {
        reasons.push(format!("interrupts of {} belong on CPUs {interrupts}", card.name));
    }
    if !disturbed.is_empty() {
        reasons.push(format!("today some interrupts of {} are handled on the shards' CPUs {disturbed}", card.name));
    }
}
