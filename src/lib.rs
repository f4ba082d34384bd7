//! The front of house of the gateway: command line, configuration, listeners, the Kafka APIs and
//! the Iggy listener.
//!
//! A start reads top to bottom in `main.rs`: parse, check, serve. [`config::Config`] is checked once,
//! before any work starts, and is trusted from then on. [`serve`] brings everything up and down; [`net`] is
//! the life of a connection, [`api`] that of a request; [`iggy`] is both for
//! Iggy's protocol.

pub mod admin;
pub mod api;
pub mod cli;
pub mod config;
pub mod desks;
pub mod held;
pub mod iggy;
pub mod limits;
pub mod logging;
pub mod net;
mod parts;
pub mod readiness;
pub mod ready_file;
pub mod rlimits;
pub mod scrape;
pub mod serve;
pub mod watch;
