//! What the members of a `consumer` group subscribe to.

use std::collections::HashSet;

use super::group::{Group, Subscriptions};
use super::work::Work;
use crate::Text;
use crate::limits::WORK_SLICE_MEMBERS;

/// Subscriptions on their way into one set.
#[derive(Debug)]
pub(super) struct Subscribing {
    at: usize,
    topics: HashSet<Text>,
}

/// The topics of a subscription, of which only the beginning that all versions share is read: some
/// clients write a version whose later fields they leave out. `None`: cannot be read.
fn topics(mut metadata: &[u8]) -> Option<Vec<Text>> {
    let version = i16::from_be_bytes(take(&mut metadata)?);
    let count = usize::try_from(i32::from_be_bytes(take(&mut metadata)?)).ok()?;
    if version < 0 {
        return None;
    }
    let mut topics = Vec::with_capacity(count.min(metadata.len() / 2));
    for _ in 0..count {
        let length = usize::try_from(i16::from_be_bytes(take(&mut metadata)?)).ok()?;
        let (name, rest) = metadata.split_at_checked(length)?;
        topics.push(Text::from(std::str::from_utf8(name).ok()?));
        metadata = rest;
    }
    Some(topics)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
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
            match topics(&self.member(slot).offer.metadata(self.protocol_name.as_ref())) {
                Some(topics) => subscribing.topics.extend(topics),
                None => {
                    self.subscriptions = Some((self.generation, Subscriptions::Unknown));
                    return None;
                }
            }
        }
        Some(subscribing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_that_all_versions_share_is_read() {
        let metadata = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x02bc";
        assert_eq!(topics(metadata), Some(vec![Text::from("a"), Text::from("bc")]));
        assert_eq!(topics(b"\x00\x00\x00\x00\x00\x00"), Some(Vec::new()));
    }

    #[test]
    fn a_hostile_count_reads_as_nothing_and_allocates_nothing() {
        assert_eq!(topics(b"\x00\x00\x7f\xff\xff\xff"), None);
        assert_eq!(topics(b"\x00\x00\xff\xff\xff\xff"), None);
        assert_eq!(topics(b"\x00"), None);
    }
}
