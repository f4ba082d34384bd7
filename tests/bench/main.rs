//! `ringgate-bench` against a real gateway: what it measures is there, and what it checks holds.
//!
//! The load generator's own tests hold it against servers whose delays and faults are known; here it meets the gateway
//! that it was made for. No test judges speed: a run that says of itself that the generator was late is as good
//! here as any other.

#[path = "../common/mod.rs"]
mod common;

mod commit_storm;
mod connections;
mod fleet;
mod records;
mod run;
mod scrape;
