//! What the gateway does at its bounds and at its end, seen from outside: limits as the metrics count
//! them, and stops. Limits as clients see them, hostile bytes and kills are in
//! `tests/end_to_end`.
//!
//! Every test starts its own gateway. No test judges speed: a wait ends with its event, or fails as hung.

#[path = "../common/mod.rs"]
mod common;

mod large_groups;
mod metrics;
mod pauses;
mod stops;
