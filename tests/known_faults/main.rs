//! Faults that users reported of Kafka-compatible systems, each as a test that the gateway does better.
//!
//! `kNNN_<sentence>`: NNN is the number of the row in the collection of reports that the project keeps; the
//! sentence is the right behaviour. A file per area. Where DESIGN decides otherwise than the row, the
//! test shows what DESIGN says, and says so.

#[path = "../common/mod.rs"]
mod common;

mod admin;
mod admin_groups;
mod api_versions;
mod fetch;
mod groups;
mod list_offsets;
mod malformed;
mod memory_and_shutdown;
mod metadata;
mod offsets;
mod produce;
