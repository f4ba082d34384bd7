//! What sort of host it is: some properties are another's to decide in a container or a virtual machine.

use crate::host::Host;

/// The kernel's name of the namespace that its first process is in (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

impl Host {
    /// Whether this process is in a container, whose kernel is its host's.
    pub fn is_container(&self) -> bool {
        // In the first namespace of processes there is no container around, whatever an image has left lying there.
        if self.link("/proc/self/ns/pid").text() == Some(FIRST_NAMESPACE) {
            return false;
        }
        let marked = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
        if marked.iter().any(|path| self.exists(path)) {
            return true;
        }
        let first = self.read("/proc/1/cgroup");
        let names = ["/docker", "/kubepods", "/lxc", "/libpod", "/containerd"];
        first.text().is_some_and(|text| text.lines().any(|line| names.iter().any(|name| line.contains(name))))
    }

    /// Whether its processors are those of a hypervisor.
    pub fn is_virtual(&self) -> bool {
        let cpuinfo = self.read("/proc/cpuinfo");
        let flags = cpuinfo.text().into_iter().flat_map(str::lines).find(|line| line.starts_with("flags"));
        let says_so = flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
        let vendor = self.read("/sys/class/dmi/id/sys_vendor");
        let vendors = ["QEMU", "Amazon EC2", "Microsoft Corporation", "VMware, Inc.", "Xen", "innotek GmbH"];
        // Amazon's bare metal has its name as well, but no such flag.
        let is_x86 = flags.is_some();
        says_so || !is_x86 && vendor.text().is_some_and(|vendor| vendors.contains(&vendor))
    }

    /// A parameter of the running kernel's command line: `nohz_full` of `nohz_full=1-3`, "" of one without a value.
    pub fn boot_parameter(&self, name: &str) -> Option<String> {
        let line = self.read("/proc/cmdline");
        let words = line.text()?.split_whitespace();
        words
            .filter_map(|word| word.split_once('=').or(Some((word, ""))))
            .rfind(|(key, _)| *key == name)
            .map(|(_, value)| value.trim_matches('"').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;

    #[test]
    fn a_container_is_known_by_its_marks_or_its_first_process() {
        let (_kept, docker) = host(&[("/.dockerenv", "")]);
        assert!(docker.is_container());
        let (_kept, pod) = host(&[("/proc/1/cgroup", "11:cpu:/kubepods/burstable/pod1/2\n")]);
        assert!(pod.is_container());
        let (_kept, plain) = host(&[("/proc/1/cgroup", "0::/init.scope\n")]);
        assert!(!plain.is_container());
    }

    #[test]
    fn what_an_image_left_lying_makes_no_container() {
        let (_kept, host) = host(&[("/.dockerenv", ""), ("/proc/self/ns/mnt", "")]);
        std::os::unix::fs::symlink(FIRST_NAMESPACE, host.at("/proc/self/ns/pid")).unwrap();
        assert!(!host.is_container());
    }

    #[test]
    fn a_virtual_machine_is_known_by_its_processors() {
        let (_kept, vm) = host(&[("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor sse\n")]);
        assert!(vm.is_virtual());
        let metal = [("/proc/cpuinfo", "flags : fpu sse\n"), ("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n")];
        assert!(!host(&metal).1.is_virtual());
        let (_kept, arm) = host(&[("/proc/cpuinfo", "Features : fp\n"), ("/sys/class/dmi/id/sys_vendor", "QEMU\n")]);
        assert!(arm.is_virtual());
    }

    #[test]
    fn the_last_of_a_boot_parameter_counts() {
        let (_kept, host) = host(&[("/proc/cmdline", "ro quiet isolcpus=1 isolcpus=2-3 nohz_full\n")]);
        assert_eq!(host.boot_parameter("isolcpus").as_deref(), Some("2-3"));
        assert_eq!(host.boot_parameter("nohz_full").as_deref(), Some(""));
        assert_eq!(host.boot_parameter("isol"), None);
    }
}
