//! Limits: of the kernel, of this process, of its control groups.

use serde_json::{Map, Value};

use super::facts::Facts;
use crate::host::cgroup::{CpuGroup, memory_limit_bytes};

/// Settings of the kernel that a benchmark of a network server depends on.
const SYSCTLS: [&str; 34] = [
    "fs.file-max",
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.threads-max",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.swappiness",
];

pub(super) fn tell(facts: &mut Facts) {
    let mut sysctls = Map::new();
    for name in SYSCTLS {
        // One that this kernel does not have is not a setting of it.
        if let Ok(text) = facts.root.text(format!("proc/sys/{}", name.replace('.', "/"))) {
            sysctls.insert(name.to_owned(), text.into());
        }
    }
    facts.set("sysctls", sysctls);

    let limits = facts.root.text("proc/self/limits").map(|text| process_limits(&text));
    facts.read("limits", limits);

    let cpus = CpuGroup::of_process(&facts.root, "self").map(|group| group.limit_cpus());
    facts.read("cgroup_cpus", cpus.map(|limit| limit.map_or(Value::from("no limit"), Value::from)));
    let memory = memory_limit_bytes(&facts.root, "self");
    facts.read("cgroup_memory_bytes", memory.map(|limit| limit.map_or(Value::from("no limit"), Value::from)));
}

/// By name: soft and hard. Columns are parted by two blanks or more, names have single ones.
fn process_limits(text: &str) -> Value {
    let lines = text.lines().skip(1).filter_map(|line| {
        let (name, rest) = line.split_once("  ")?;
        let mut values = rest.split_ascii_whitespace();
        let (soft, hard) = (values.next()?, values.next()?);
        Some((name.to_owned(), serde_json::json!({ "soft": soft, "hard": hard })))
    });
    lines.collect::<Map<_, _>>().into()
}
