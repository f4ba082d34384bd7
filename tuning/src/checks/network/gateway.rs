//! The gateway that runs on the host, if one does.

use crate::check::Look;
use crate::cpu_set::CpuSet;
use crate::host::{Reading, field};

use super::sockets;

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

/// Where each of its shards may run, in the order of shards: its threads are called so.
pub(super) fn shards(look: Look<'_>) -> Vec<CpuSet> {
    let Some(pid) = pid(look) else { return Vec::new() };
    let tasks = look.host.list(format!("/proc/{pid}/task")).unwrap_or_default();
    let mut shards: Vec<(u32, CpuSet)> = tasks
        .iter()
        .filter_map(|task| {
            let name = look.host.read(format!("/proc/{pid}/task/{task}/comm"));
            let shard = name.text()?.strip_prefix("shard-")?.parse().ok()?;
            let status = look.host.read(format!("/proc/{pid}/task/{task}/status"));
            let allowed = status.text().and_then(|text| field(text, "Cpus_allowed_list")).and_then(CpuSet::list);
            Some((shard, allowed.unwrap_or_default()))
        })
        .collect();
    shards.sort_by_key(|(shard, _)| *shard);
    shards.into_iter().map(|(_, cpus)| cpus).collect()
}

/// How many shards there are, or are planned.
pub(super) fn shard_count(look: Look<'_>) -> Option<usize> {
    Some(shards(look).len()).filter(|count| *count > 0).or(look.plan.shards)
}
