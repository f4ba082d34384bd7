//! The process as a whole, by the names that Prometheus' own clients give these metrics, and which build it is.
//!
//! What `/proc` does not tell, in a container that hides it, is left out.

use std::fs;

use crate::admin::Family;

/// The kernel's ticks of `/proc` in a second (`USER_HZ`), the same on every architecture that has io_uring.
const TICKS_PER_SECOND: f64 = 100.0;

/// All that can be read at this moment.
pub(super) fn families() -> Vec<Family> {
    let mut all = vec![
        Family::gauge("ringgate_build_info", "Always 1; which build runs here.")
            .with(&[("version", env!("CARGO_PKG_VERSION"))], 1u64),
        Family::counter("process_cpu_seconds_total", "CPU time of all threads, in user space and kernel.")
            .with(&[], ringgate_runtime::process_cpu_time().as_secs_f64()),
    ];
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut gauge = |name, help, value: Option<f64>| {
        all.extend(value.map(|value| Family::gauge(name, help).with(&[], value)));
    };
    let status = read("/proc/self/status");
    gauge(
        "process_resident_memory_bytes",
        "Memory that is in RAM.",
        kib(&status, "VmRSS:").map(|kib| kib as f64 * 1024.0),
    );
    gauge(
        "process_virtual_memory_bytes",
        "Address space in use.",
        kib(&status, "VmSize:").map(|kib| kib as f64 * 1024.0),
    );
    let fds = fs::read_dir("/proc/self/fd").ok();
    // The one that reads the directory is none of the process's own.
    gauge("process_open_fds", "Open files.", fds.map(|fds| fds.count().saturating_sub(1) as f64));
    let limit = max_open_files(&read("/proc/self/limits"));
    gauge("process_max_fds", "Open files that there may be.", limit.map(|limit| limit as f64));
    let started = started(&read("/proc/self/stat"), &read("/proc/stat"));
    gauge("process_start_time_seconds", "When it started, in seconds since the epoch.", started);
    all
}

/// A line of `/proc/<pid>/status`, in KiB.
fn kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The soft limit of `/proc/<pid>/limits`; `None` also where there is none.
fn max_open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// When the process of this `/proc/<pid>/stat` started, by the boot time of `/proc/stat`.
fn started(stat: &str, of_machine: &str) -> Option<f64> {
    // The name, in parentheses, may hold anything; behind it the state is field 3, and the start field 22.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(22 - 3)?.parse().ok()?;
    let boot: u64 = of_machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot as f64 + ticks as f64 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_and_what_is_not_there_is_none() {
        let status = "Name:\tringgate\nVmSize:\t  204800 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n";
        assert_eq!(
            (kib(status, "VmRSS:"), kib(status, "VmSize:"), kib(status, "VmSwap:")),
            (Some(1024), Some(204_800), None)
        );
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            20000                1048576              files     \n";
        assert_eq!(max_open_files(limits), Some(20_000));
        assert_eq!(max_open_files(&limits.replace("20000", "unlimited")), None);
        let stat = "7 (a (odd) name) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 9 0 12345 1 2 3";
        assert_eq!(started(stat, "cpu  1 2\nbtime 1700000000\nprocesses 1\n"), Some(1_700_000_123.45));
        assert_eq!((started("", "btime 1\n"), started(stat, "")), (None, None));
    }

    #[test]
    fn this_process_has_all_of_them() {
        let text = crate::admin::exposition(&families());
        for name in [
            "ringgate_build_info",
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
            "process_start_time_seconds",
        ] {
            assert!(text.contains(&format!("\n{name}")), "{name}: {text}");
        }
    }
}
