//! The shards of a gateway that runs.

use std::collections::BTreeMap;

use crate::cpu_set::CpuSet;
use crate::host::{Host, field};

/// A shard's own thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardThread {
    /// Its directory below `/proc`.
    pub directory: String,
    /// Where it may run; none where nobody knows.
    pub cpus: CpuSet,
}

/// Those of a process, by the shards' numbers: its threads are called so. Those that help a shard bear its name as well, and
/// may run anywhere, so of one name the narrowest counts, and of equals the first, which was made first.
pub fn shard_threads(host: &Host, pid: u32) -> BTreeMap<u32, ShardThread> {
    let tasks = format!("/proc/{pid}/task");
    let mut shards: BTreeMap<u32, ShardThread> = BTreeMap::new();
    for task in host.list(&tasks).unwrap_or_default() {
        let directory = format!("{tasks}/{task}");
        let name = host.read(format!("{directory}/comm"));
        let Some(shard) = name.text().and_then(|name| name.strip_prefix("shard-")?.parse().ok()) else { continue };
        let status = host.read(format!("{directory}/status"));
        let cpus = status.text().and_then(|text| field(text, "Cpus_allowed_list")).and_then(CpuSet::list);
        let thread = ShardThread { directory, cpus: cpus.unwrap_or_default() };
        match shards.get(&shard) {
            Some(known) if known.cpus.len() <= thread.cpus.len() => {}
            _ => drop(shards.insert(shard, thread)),
        }
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_threads_with_one_name_the_pinned_one_is_the_shard() {
        let directory = tempfile::tempdir().unwrap();
        let host = Host::below(directory.path());
        for (task, name, cpus) in [
            (9, "ringgate", "0-3"),
            (10, "shard-0", "0-3"),
            (11, "shard-0", "2"),
            (12, "shard-1", "3"),
            (13, "shard-1", "3"),
        ] {
            let task = host.at(format!("/proc/7/task/{task}"));
            std::fs::create_dir_all(&task).unwrap();
            std::fs::write(task.join("comm"), format!("{name}\n")).unwrap();
            std::fs::write(task.join("status"), format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\n")).unwrap();
        }
        let shards = shard_threads(&host, 7);
        let found: Vec<(u32, &str, String)> =
            shards.iter().map(|(shard, thread)| (*shard, thread.directory.as_str(), thread.cpus.to_string())).collect();
        assert_eq!(found, [(0, "/proc/7/task/11", "2".into()), (1, "/proc/7/task/12", "3".into())]);
        assert!(shard_threads(&host, 8).is_empty());
    }
}
