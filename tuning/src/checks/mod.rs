//! Every check, by area.

mod memory;
mod network;
mod process;

use crate::check::Check;

/// All checks, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [memory::CHECKS].into_iter().chain(network::CHECKS).chain(process::CHECKS).flatten()
}
