//! A gateway whose store is an Iggy server: the Iggy listener of a second gateway.

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod known_faults;
mod offsets;
mod records;
mod starts;
mod stops;
mod topics;
