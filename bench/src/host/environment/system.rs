//! The kernel, memory, and what is around this process: a container, a virtual machine, other load.

use std::io;

use super::facts::Facts;
use crate::host::process::status_number;
use crate::host::root::unexpected;

/// Where a virtual machine names itself.
const MACHINE: [(&str, &str); 3] = [
    ("machine_vendor", "sys/class/dmi/id/sys_vendor"),
    ("machine_product", "sys/class/dmi/id/product_name"),
    ("hypervisor", "sys/hypervisor/type"),
];

/// Files that container runtimes leave in a container.
const CONTAINER: [(&str, &str); 3] = [
    ("docker", ".dockerenv"),
    ("podman", "run/.containerenv"),
    ("kubernetes", "var/run/secrets/kubernetes.io/serviceaccount/namespace"),
];

pub(super) fn tell(facts: &mut Facts) {
    facts.file("hostname", "proc/sys/kernel/hostname");
    facts.file("kernel", "proc/sys/kernel/osrelease");
    facts.file("kernel_build", "proc/sys/kernel/version");
    facts.file("kernel_command_line", "proc/cmdline");
    let os = facts.root.text("etc/os-release").and_then(|text| {
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        name.map(|name| name.trim_matches('"').to_owned()).ok_or_else(|| unexpected("etc/os-release", &text))
    });
    facts.read("os", os);
    for (fact, file) in MACHINE {
        facts.file(fact, file);
    }
    let container = CONTAINER.iter().find(|(_, file)| facts.root.path(file).exists()).map(|(kind, _)| *kind);
    facts.set("container", container.unwrap_or("none seen"));

    let memory = facts.root.text("proc/meminfo");
    for (fact, name) in
        [("memory_bytes", "MemTotal"), ("memory_available_bytes_at_start", "MemAvailable"), ("swap_bytes", "SwapTotal")]
    {
        let bytes = match &memory {
            Ok(text) => status_number(text, name).map(|kib| kib << 10).ok_or_else(|| unexpected("proc/meminfo", text)),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        facts.read(fact, bytes);
    }
    facts.file("transparent_huge_pages", "sys/kernel/mm/transparent_hugepage/enabled");
    facts.file("load_average_at_start", "proc/loadavg");
    facts.file("pressure_cpu_at_start", "proc/pressure/cpu");
}
