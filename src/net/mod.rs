//! Sockets: listeners, what addresses clients are told, and the life of a connection.

pub mod accept;
pub mod advertise;
pub mod budget;
pub mod connection;
pub mod limit_hits;
pub mod listeners;
pub mod log_budget;
pub mod request_stats;
