//! The service itself: what systemd gives it, what becomes of it when memory is short or it crashes, and the clock that
//! its records are stamped by.

mod crash;
mod environment;
mod journald;
mod oom;
mod service;
mod time_sync;
mod unit;

use crate::check::Check;

/// By file, in the order in which they are listed.
pub const CHECKS: [&[Check]; 6] =
    [unit::CHECKS, oom::CHECKS, crash::CHECKS, environment::CHECKS, journald::CHECKS, time_sync::CHECKS];
