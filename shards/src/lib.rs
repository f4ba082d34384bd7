//! Back of house: what a shard owns, and its store.

pub mod store;
