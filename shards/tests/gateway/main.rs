//! Whole shards over an engine in memory, without a network: what one asks, another answers.

mod consumer_offsets;
mod iggy_changes;
mod messages;
mod world;
