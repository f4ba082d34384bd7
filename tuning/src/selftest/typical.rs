//! What is usual, and how that is known.

use crate::host::Host;

/// What kind of machine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// A kernel on hardware.
    BareMetal,
    /// A kernel on a hypervisor.
    Virtual,
}

impl Machine {
    /// As its processors tell.
    pub fn of(host: &Host) -> Machine {
        let processors = host.read("/proc/cpuinfo");
        let is_virtual = processors.text().is_some_and(|text| {
            let mut flags = text.lines().filter(|line| line.starts_with("flags"));
            flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
        });
        if is_virtual { Machine::Virtual } else { Machine::BareMetal }
    }

    /// For people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Machine::BareMetal => "bare metal",
            Machine::Virtual => "a virtual machine",
        }
    }
}

/// How a number came to be here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// By this very measurement, on a machine of ours: two virtual CPUs, Linux 6.18, a release build, 2026-11. It was
    /// busy with other work, which moves the middle of many short times little.
    Measured,
    /// From what such hardware is built to do; not by us.
    Expected,
}

impl Source {
    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Expected => "expected",
        }
    }
}

/// What about half of the times do not exceed on a healthy machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usual {
    /// In ns.
    pub p50_ns: u64,
    /// How that is known.
    pub source: Source,
}

impl Usual {
    pub(super) fn words(self) -> String {
        let sign = match self.source {
            Source::Measured => '=',
            Source::Expected => '~',
        };
        format!("{sign} {}", super::time(self.p50_ns))
    }
}

/// What is usual of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Typical {
    id: &'static str,
    bare_metal: Usual,
    vm: Usual,
    /// Where to look when it takes much longer.
    pub when_slow: &'static str,
}

impl Typical {
    /// On a kind of machine.
    pub fn on(&self, machine: Machine) -> Usual {
        match machine {
            Machine::BareMetal => self.bare_metal,
            Machine::Virtual => self.vm,
        }
    }
}

/// What is usual of the measurement of that name.
pub fn of(id: &str) -> Option<&'static Typical> {
    TYPICAL.iter().find(|typical| typical.id == id)
}

const fn measured(p50_ns: u64) -> Usual {
    Usual { p50_ns, source: Source::Measured }
}

const fn expected(p50_ns: u64) -> Usual {
    Usual { p50_ns, source: Source::Expected }
}

const TYPICAL: &[Typical] = &[
    Typical {
        id: "wake_pair",
        bare_metal: expected(20_000),
        vm: measured(72_000),
        when_slow: "cores that sleep deeply (`cstates`, `governor`), busy neighbours (`steal`), or shards on two NUMA nodes",
    },
    Typical {
        id: "cross_core",
        bare_metal: expected(300),
        vm: measured(530),
        when_slow: "cores on two sockets (`numa_bind`), or virtual CPUs that are not cores of their own",
    },
    Typical {
        id: "loopback",
        bare_metal: expected(25_000),
        vm: measured(45_000),
        when_slow: "cores that sleep deeply (`cstates`, `governor`), or firewall rules for each packet (`conntrack`)",
    },
    Typical {
        id: "fdatasync",
        bare_metal: expected(100_000),
        vm: measured(300_000),
        when_slow: "a disk without a protected write cache, a network disk, or a file system that is written to by others",
    },
    Typical {
        id: "clock",
        bare_metal: expected(40),
        vm: measured(21),
        when_slow: "a clock that takes a system call or a hypervisor's help (`cpufreq_clock`)",
    },
    Typical {
        id: "sleep",
        bare_metal: expected(70_000),
        vm: measured(80_000),
        when_slow: "cores that sleep deeply (`cstates`), or CPUs with more to do than they can (`cgroup_cpu`, `steal`)",
    },
];
