//! CPUs: how fast they answer, what else runs on them, and what is near what.

mod clock;
mod frequency;
mod idle;
mod isolation;
mod nodes;
mod reports;
mod scheduler;
mod threads;

use crate::check::{Check, Look};
use crate::cpu_set::CpuSet;
use crate::running;

/// By file, in the order in which they are listed.
pub const CHECKS: [&[Check]; 8] = [
    frequency::CHECKS,
    idle::CHECKS,
    threads::CHECKS,
    isolation::CHECKS,
    clock::CHECKS,
    nodes::CHECKS,
    scheduler::CHECKS,
    reports::CHECKS,
];

/// Where the kernel tells of CPUs.
const CPUS: &str = "/sys/devices/system/cpu";

/// How to start a gateway on the CPUs that `doctor cpus` chooses.
const START_ON_CHOSEN: &str = "ringgate serve --cpus \"$(ringgate doctor cpus)\"";

/// Where shards are, or would be.
struct Pinned {
    /// A shard's CPU each.
    cpus: Vec<usize>,
    /// Whose: `shards of process 4711 on CPUs 0-3`.
    text: String,
}

/// The CPUs of the running gateway's shards, or else those that `serve` takes where nobody says: the first that it may
/// run on. `None` where shards are not pinned, or nobody knows.
fn pinned(look: Look<'_>) -> Option<Pinned> {
    if let Some(pid) = look.plan.pid {
        let threads = running::shard_threads(look.host, pid).into_values();
        let pinned = threads.filter(|thread| thread.cpus.len() == 1);
        let cpus: Vec<usize> = pinned.filter_map(|thread| thread.cpus.iter().next()).collect();
        let text = format!("the shards of process {pid} are on CPUs {}", cpus.iter().copied().collect::<CpuSet>());
        return (!cpus.is_empty()).then_some(Pinned { cpus, text });
    }
    let topology = look.topology().ok()?;
    let cpus: Vec<usize> = topology.allowed.iter().take(look.shards()).collect();
    let text = format!("`serve` without --cpus takes CPUs {}", cpus.iter().copied().collect::<CpuSet>());
    Some(Pinned { cpus, text })
}

/// The CPUs that count: of the running gateway's shards, or else those that `doctor cpus` chooses.
fn cpus_that_count(look: Look<'_>) -> CpuSet {
    let running = look.plan.pid.and_then(|_| pinned(look));
    running.map_or_else(|| look.shard_cpus(), |pinned| pinned.cpus.into_iter().collect())
}
