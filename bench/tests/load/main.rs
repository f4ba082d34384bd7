//! The program as a user runs it: `ringgate-bench` against servers of the tests' own.
//!
//! Machines that run tests are busy, so no test here depends on how fast anything is: whether a run may be believed is
//! for the program to say (exit code 5), and only what must hold on any machine is checked.

mod churn;
mod commit_storm;
mod common;
mod cut;
mod fleet;
mod floor;
mod gate;
mod idle;
mod metrics;
mod records;
mod search;
#[path = "../server/mod.rs"]
mod server;
mod shown;
mod truth;
mod usage;
mod verdict;
