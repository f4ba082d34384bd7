//! The front of house of the gateway: command line, configuration, listeners and the Kafka APIs.
//!
//! A start reads top to bottom in `main.rs`: parse, check, serve. [`config::Config`] is checked once,
//! before any work starts, and is trusted from then on.

pub mod admin;
pub mod cli;
pub mod config;
pub mod limits;
pub mod logging;
pub mod net {
    //! Sockets and what clients are told of them.
    pub mod advertise;
}
pub mod ready_file;
pub mod rlimits;
