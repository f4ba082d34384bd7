//! The gateway that runs on the host, if one does.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::check::Look;
use crate::cpu_set::CpuSet;
use crate::host::Reading;
use crate::running;

use super::sockets::{self, Listener};

/// Its process: the one that the plan names, or that listens on its port.
pub(in crate::checks) fn pid(look: Look<'_>) -> Option<u32> {
    let listening = || {
        let listeners = sockets::listeners(look, look.plan.port).unwrap_or_default();
        let owners = listeners.into_iter().filter_map(|one| one.owner);
        owners.into_iter().find(|(name, _)| is_gateway(name)).map(|(_, pid)| pid)
    };
    look.plan.pid.or_else(listening)
}

/// A file of its process, and whose that is; of this process where none runs.
pub(in crate::checks) fn file(look: Look<'_>, name: &str) -> (Reading, &'static str) {
    match pid(look) {
        Some(pid) => (look.host.read(format!("/proc/{pid}/{name}")), "the gateway"),
        None => (look.host.read(format!("/proc/self/{name}")), "this process, and a gateway that it starts"),
    }
}

/// Whether a process of that name is one.
pub(super) fn is_gateway(name: &str) -> bool {
    name.starts_with("ringgate")
}

/// Where each of its shards may run, in the order of shards.
pub(super) fn shards(look: Look<'_>) -> Vec<CpuSet> {
    let Some(pid) = pid(look) else { return Vec::new() };
    running::shard_threads(look.host, pid).into_values().map(|thread| thread.cpus).collect()
}

/// Its ports: the shared one, and one for each shard after it.
pub(super) fn ports(look: Look<'_>) -> RangeInclusive<u16> {
    let shards = shard_count(look).unwrap_or_else(|| look.shards());
    let last = look.plan.port.saturating_add(u16::try_from(shards).unwrap_or(u16::MAX));
    look.plan.port..=last
}

/// All ports that its process listens on, whatever is told there; none where none runs, or this user may not know.
pub(super) fn listening(look: Look<'_>) -> BTreeSet<u16> {
    let Some(pid) = pid(look) else { return BTreeSet::new() };
    let listeners = sockets::all_listeners(look).unwrap_or_default();
    let own = |one: &Listener| one.owner.as_ref().is_some_and(|(_, owner)| *owner == pid);
    listeners.into_iter().filter(own).map(|one| one.port).collect()
}

/// How many shards there are, or are planned.
pub(super) fn shard_count(look: Look<'_>) -> Option<usize> {
    Some(shards(look).len()).filter(|count| *count > 0).or(look.plan.shards)
}
