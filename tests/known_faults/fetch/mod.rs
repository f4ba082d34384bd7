//! Fetch and its sessions.

mod bounds;
mod log_ends;
mod sessions;
pub mod topic_ids;
mod waiting;
