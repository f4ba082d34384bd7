//! Every check, by area.

mod cpu;
mod kernel;
mod memory;
mod network;
mod process;
mod settings;

use crate::check::{Check, Look};

/// All checks, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static Check> {
    let areas: [&[&[Check]]; 5] = [&kernel::CHECKS, &cpu::CHECKS, &memory::CHECKS, &network::CHECKS, &process::CHECKS];
    areas.into_iter().flatten().copied().flatten()
}

/// The process of the gateway that runs.
pub(crate) fn gateway(look: Look<'_>) -> Option<u32> {
    network::gateway::pid(look)
}
