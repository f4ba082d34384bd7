//! A stock client's day, end to end: real gateways on loopback, driven by librdkafka and by krafka, and
//! by hand-written frames for what neither of them sends.
//!
//! One binary, so that librdkafka is linked once; a file per subject. Every test starts its own gateway.
//! No test judges speed: a wait ends with its event, or fails as hung after a minute.

#[path = "../common/mod.rs"]
mod common;

mod conformance;
mod connections;
mod consumer_protocol;
mod damage;
mod day;
mod disk_full;
mod fetching;
mod group_limits;
mod groups;
mod held;
mod hostile;
mod idempotence;
mod kills;
mod krafka_client;
mod limits;
mod lookups;
mod many_partitions;
mod member_process;
mod metrics;
mod offset_expiry;
mod offsets;
mod open_files;
mod produce_consume;
mod read_ahead;
mod readiness;
mod restarts;
mod retention;
mod routing;
mod stalls;
mod starts;
mod topic_settings;
mod topics;
mod watching;
