//! A check, and what it finds.

use crate::cpu_set::CpuSet;
use crate::cpus;
use crate::fix::Fix;
use crate::host::{Host, Reading};
use crate::plan::Plan;
use crate::running::shard_threads;
use crate::topology::Topology;

/// Which part of a host a check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Kernel, io_uring, limits.
    Kernel,
    /// Cores, clocks, scheduling.
    Cpu,
    /// Pages, swap, sockets' memory.
    Memory,
    /// Sockets, queues, cards.
    Network,
    /// The service itself.
    Process,
}

impl Area {
    /// All, in the order in which they are listed.
    pub const ALL: [Area; 5] = [Area::Kernel, Area::Cpu, Area::Memory, Area::Network, Area::Process];

    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Area::Kernel => "Kernel, io_uring, limits",
            Area::Cpu => "CPU",
            Area::Memory => "Memory",
            Area::Network => "Network",
            Area::Process => "Process",
        }
    }

    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Area::Kernel => "kernel",
            Area::Cpu => "cpu",
            Area::Memory => "memory",
            Area::Network => "network",
            Area::Process => "process",
        }
    }
}

/// One property of a host.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// As `--only` takes it.
    pub id: &'static str,
    /// Where it is listed.
    pub area: Area,
    /// Why it matters, in a sentence.
    pub why: &'static str,
    /// Looks at it.
    pub run: fn(Look<'_>) -> Found,
}

/// What a check looks at.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The host.
    pub host: &'a Host,
    /// What it is to be good for.
    pub plan: &'a Plan,
}

impl Look<'_> {
    /// A file of the gateway that is looked at, or of this process, whose limits a gateway that it starts would have.
    pub fn process_file(&self, name: &str) -> Reading {
        self.host.read(self.process_path(name))
    }

    /// Where that file is.
    pub fn process_path(&self, name: &str) -> String {
        match self.plan.pid {
            Some(pid) => format!("/proc/{pid}/{name}"),
            None => format!("/proc/self/{name}"),
        }
    }

    /// Its CPUs.
    ///
    /// # Errors
    /// Nobody knows where this process may run: says why.
    pub fn topology(&self) -> Result<Topology, String> {
        Topology::read(self.host, self.plan.pid)
    }

    /// How many shards the plan has; where it does not say, as many as the gateway that is looked at has, or as CPUs are
    /// allowed, as `serve` has it.
    pub fn shards(&self) -> usize {
        let running = || self.plan.pid.map(|pid| shard_threads(self.host, pid).len()).filter(|count| *count > 0);
        let allowed = || self.topology().map_or(1, |topology| topology.allowed.len());
        self.plan.shards.or_else(running).unwrap_or_else(allowed).max(1)
    }

    /// The CPUs that shards should be pinned to, as `doctor cpus` chooses them; all that are allowed where they should
    /// not be pinned.
    pub fn shard_cpus(&self) -> CpuSet {
        let Ok(topology) = self.topology() else { return CpuSet::default() };
        let chosen = cpus::choose(&topology, self.plan.profile, self.plan.shards).ok().and_then(|choice| choice.cpus);
        chosen.map_or_else(|| topology.allowed.clone(), |cpus| cpus.into_iter().collect())
    }
}

/// How bad it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As wanted.
    Fine,
    /// Could be better.
    Advice,
    /// Costs latency, throughput or connections that a user would miss.
    Warning,
    /// A gateway does not start, or fails under its load.
    Blocker,
    /// Means nothing here, and why.
    NotApplicable(String),
    /// Nobody knows, and why.
    Unread(String),
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How bad it is.
    pub verdict: Verdict,
    /// What was read, and where: `vm.swappiness = 60`.
    pub read: String,
    /// What is wanted for this plan: `<= 10`.
    pub want: String,
    /// What mends it; empty when nothing is to be mended.
    pub fixes: Vec<Fix>,
}

impl Found {
    /// As wanted.
    pub fn fine(read: impl Into<String>, want: impl Into<String>) -> Found {
        Found { verdict: Verdict::Fine, read: read.into(), want: want.into(), fixes: Vec::new() }
    }

    /// Not as wanted.
    pub fn wrong(verdict: Verdict, read: impl Into<String>, want: impl Into<String>, fixes: Vec<Fix>) -> Found {
        Found { verdict, read: read.into(), want: want.into(), fixes }
    }

    /// Means nothing here.
    pub fn not_applicable(why: impl Into<String>) -> Found {
        Found::fine("", "").but(Verdict::NotApplicable(why.into()))
    }

    /// Nobody knows.
    pub fn unread(why: impl Into<String>, want: impl Into<String>) -> Found {
        Found::fine("", want).but(Verdict::Unread(why.into()))
    }

    /// Of a file that gave no text: not applicable where it is absent (`absent` says why that is), unread otherwise.
    pub fn without(reading: &Reading, absent: &str, want: impl Into<String>) -> Found {
        match reading {
            Reading::Unread(why) => Found::unread(why, want),
            _ => Found::not_applicable(absent),
        }
    }

    fn but(self, verdict: Verdict) -> Found {
        Found { verdict, ..self }
    }
}
