//! What the members of a `consumer` group subscribe to.

use std::collections::HashSet;

use super::group::{Group, Subscriptions};
use super::protocol::subscription;
use super::work::Work;
use crate::Text;
use crate::limits::WORK_SLICE_MEMBERS;

/// Subscriptions on their way into one set.
#[derive(Debug)]
pub(super) struct Subscribing {
    at: usize,
    topics: HashSet<Text>,
}

impl Group {
    /// Starts to find out what this generation subscribes to, unless that is known. Returns whether it is.
    pub(super) fn knows_subscriptions(&mut self) -> bool {
        if self.subscriptions.as_ref().is_some_and(|(generation, _)| *generation == self.generation) {
            return true;
        }
        if self.protocol_name.is_none() {
            self.subscriptions = Some((self.generation, Subscriptions::Unknown));
            return true;
        }
        self.works.push_back(Work::Subscribe(Subscribing { at: 0, topics: HashSet::new() }));
        false
    }

    pub(super) fn advance_subscribing(&mut self, mut subscribing: Subscribing) -> Option<Subscribing> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some(slot) = self.next_member(&mut subscribing.at) else {
                self.subscriptions = Some((self.generation, Subscriptions::Topics(subscribing.topics)));
                return None;
            };
            match subscription(&self.member(slot).offer.metadata(self.protocol_name.as_ref())) {
                Some(subscription) => subscribing.topics.extend(subscription.topics),
                None => {
                    self.subscriptions = Some((self.generation, Subscriptions::Unknown));
                    return None;
                }
            }
        }
        Some(subscribing)
    }
}
