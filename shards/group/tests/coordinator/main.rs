//! The coordinator under a small world that feeds it time, requests and completions. Names begin with the
//! number of the behaviour in the list of conformance scenarios.

mod admin;
mod bounds;
mod consumer_bounds;
mod consumer_groups;
mod consumer_store;
mod consumer_world;
mod heartbeat_and_leave;
mod joining;
mod large_commits;
mod large_groups;
mod later;
mod member_cost;
mod migration;
mod offsets;
mod random_operations;
mod rebalancing;
mod reported;
mod restart;
mod spare_groups;
mod static_members;
mod stats;
mod survey;
mod syncing;
mod world;
