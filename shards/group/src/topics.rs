//! What a coordinator knows of topics.

use std::fmt::Debug;

/// One version of what topics there are, as consumer groups (KIP-848) need to know it.
pub trait Topics: Debug + Send + Sync {
    /// Grows with every change.
    fn version(&self) -> u64;

    /// The id and the number of partitions of the topic with this name.
    fn topic(&self, name: &str) -> Option<(u128, i32)>;

    /// The name of the topic with this id.
    fn name_of(&self, id: u128) -> Option<&str>;

    /// Calls `see` with every topic's name.
    fn for_each_name<'a>(&'a self, see: &mut dyn FnMut(&'a str));
}

/// Before anybody said what topics there are.
#[derive(Debug)]
pub(crate) struct NoTopics;

impl Topics for NoTopics {
    fn version(&self) -> u64 {
        0
    }

    fn topic(&self, _: &str) -> Option<(u128, i32)> {
        None
    }

    fn name_of(&self, _: u128) -> Option<&str> {
        None
    }

    fn for_each_name<'a>(&'a self, _: &mut dyn FnMut(&'a str)) {}
}
