//! Pages, swap, sockets' memory.

mod pages;
mod sockets;
mod swap;

use crate::check::Check;

/// By file, in the order in which they are listed.
pub const CHECKS: [&[Check]; 3] = [pages::CHECKS, swap::CHECKS, sockets::CHECKS];
