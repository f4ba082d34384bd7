//! What a host should be like for a gateway whose latencies are to be short, and how to make it so.
//!
//! A [check](check::Check) looks at one property through a [`Host`], which reads the machine's own `/proc` and `/sys`
//! or those of a tree that stands for another one. What it finds names what was read, what is wanted, and the exact
//! [fix](fix::Fix). Nothing here changes a host but the carrying out of a fix that says so.

pub mod apply;
pub mod cgroup;
pub mod check;
pub mod checks;
mod commands;
pub mod cpu_set;
pub mod cpus;
pub mod files;
pub mod fix;
pub mod host;
mod interfaces;
mod kind;
pub mod needs;
mod open;
pub mod plan;
pub mod report;
pub mod running;
pub mod selftest;
pub mod topology;

pub use check::{Area, Check, Found, Look, Verdict};
pub use cpu_set::CpuSet;
pub use fix::{Fix, Knob};
pub use host::{Host, Reading};
pub use open::own_place;
pub use plan::{Plan, Profile};
pub use report::{Finding, Severity};
pub use topology::Topology;
