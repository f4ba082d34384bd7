//! What to do about a finding.

use std::path::PathBuf;

/// One way of mending one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// A value of the running kernel, which `doctor --apply` writes and `--revert` gives back.
    Knob(Knob),
    /// A kernel parameter, which takes a reboot: printed, never done.
    Boot(String),
    /// A line of the service's unit file, with its section: `[Service] LimitMEMLOCK=infinity`.
    Unit(String),
    /// A command that may take a network link down for a moment: printed, never done.
    Nic(String),
    /// A command or setting that is the reader's to decide on.
    Advice(String),
}

/// A file of `/proc/sys` or `/sys` that takes a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// Absolute, of the host.
    pub path: PathBuf,
    /// What it is to hold, as it is written.
    pub value: String,
}

impl Knob {
    /// `net.core.somaxconn` and what it is to be.
    pub fn sysctl(name: &str, value: impl ToString) -> Knob {
        Knob { path: format!("/proc/sys/{}", name.replace('.', "/")).into(), value: value.to_string() }
    }
}
