//! `env.json`: where it ran.

mod cpu;
mod facts;
mod limits;
mod network;
mod system;

use crate::result::Environment;

use super::masked;
use super::root::Root;
use facts::Facts;

/// What is to be known of this machine and this process to judge a result or to repeat it. Reads some hundred
/// small files; a fact that cannot be read is absent, with its reason under `unread`.
pub fn environment(command: &[String]) -> Environment {
    environment_of(&Root::default(), command)
}

/// As [`environment`], in another tree.
pub fn environment_of(root: &Root, command: &[String]) -> Environment {
    let mut facts = Facts::new(root.clone());
    facts.set("command", masked(command));
    facts.set("bench_version", env!("CARGO_PKG_VERSION"));
    facts.set("bench_build", if cfg!(debug_assertions) { "debug" } else { "release" });
    cpu::tell(&mut facts);
    system::tell(&mut facts);
    network::tell(&mut facts);
    limits::tell(&mut facts);
    Environment { facts: facts.finish() }
}
