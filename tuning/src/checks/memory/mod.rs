//! Pages, swap, sockets' memory.

mod lock;
mod pages;
mod sockets;
mod swap;

use crate::check::Check;

/// By file, in the order in which they are listed.
pub const CHECKS: [&[Check]; 4] = [pages::CHECKS, swap::CHECKS, lock::CHECKS, sockets::CHECKS];
