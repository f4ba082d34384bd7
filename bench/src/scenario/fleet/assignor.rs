//! What a leader of a classic group does: from who subscribed to who gets what.
//!
//! Every member of a fleet subscribes to all topics, so that topics are numbered the same for all and a partition is one
//! number: its own times the number of topics, plus its topic's. So partitions that are added have new numbers.

use std::fmt;
use std::str::FromStr;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use ringgate_wire::counts::check_assignment;

use crate::limits::ASSIGNMENT_DECODED_BYTES_MAX;

/// How a leader divides partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignor {
    /// Kafka's range assignor: of each topic a contiguous range for each member, by member id.
    Range,
    /// Kafka's round-robin assignor: partitions of all topics in turn to members, by member id.
    RoundRobin,
}

impl Assignor {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Range => "range",
            Assignor::RoundRobin => "roundrobin",
        }
    }

    /// Which partitions each of `members` gets, by their places in the order of member ids.
    pub fn assign(self, members: usize, topics: u32, partitions: u32) -> Vec<Vec<u32>> {
        let mut assigned = vec![Vec::new(); members];
        if members == 0 {
            return assigned;
        }
        match self {
            Assignor::Range => {
                let (each, more) = (partitions as usize / members, partitions as usize % members);
                for topic in 0..topics {
                    let mut next = 0;
                    for (place, assigned) in assigned.iter_mut().enumerate() {
                        let count = (each + usize::from(place < more)) as u32;
                        assigned.extend((next..next + count).map(|partition| partition * topics + topic));
                        next += count;
                    }
                }
            }
            Assignor::RoundRobin => {
                let all =
                    (0..topics).flat_map(|topic| (0..partitions).map(move |partition| partition * topics + topic));
                for (turn, partition) in all.enumerate() {
                    assigned[turn % members].push(partition);
                }
            }
        }
        assigned
    }
}

impl FromStr for Assignor {
    type Err = String;

    fn from_str(text: &str) -> Result<Assignor, String> {
        match text {
            "range" => Ok(Assignor::Range),
            "roundrobin" => Ok(Assignor::RoundRobin),
            other => Err(format!("{other:?} is no assignor: range or roundrobin")),
        }
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A member's subscription to these topics, as it goes into JoinGroup.
pub fn subscription(topics: &[StrBytes]) -> Bytes {
    let mut blob = BytesMut::new();
    blob.put_i16(0);
    let subscription = ConsumerProtocolSubscription::default().with_topics(topics.to_vec());
    subscription.encode(&mut blob, 0).expect("version 0 has all that is set");
    blob.freeze()
}

/// An assignment, as it goes into SyncGroup.
pub fn assignment(topics: &[StrBytes], partitions: &[u32]) -> Bytes {
    let mut by_topic = vec![Vec::new(); topics.len()];
    for partition in partitions {
        let (topic, partition) = (*partition as usize % topics.len(), *partition as usize / topics.len());
        by_topic[topic].push(partition as i32);
    }
    let by_topic = by_topic.into_iter().zip(topics).filter(|(partitions, _)| !partitions.is_empty());
    let by_topic = by_topic.map(|(partitions, topic)| {
        TopicPartition::default().with_topic(TopicName(topic.clone())).with_partitions(partitions)
    });
    let mut blob = BytesMut::new();
    blob.put_i16(0);
    let assignment = ConsumerProtocolAssignment::default().with_assigned_partitions(by_topic.collect());
    assignment.encode(&mut blob, 0).expect("version 0 has all that is set");
    blob.freeze()
}

/// The partitions of an assignment, as a member is told. One of an unknown topic comes out as a number that is not
/// there.
///
/// # Errors
/// It is no assignment; says why.
pub fn assigned(blob: Bytes, topics: &[StrBytes]) -> Result<Box<[u32]>, String> {
    if blob.is_empty() {
        // A member that the leader left out.
        return Ok(Box::default());
    }
    let version = check_assignment(&blob, ASSIGNMENT_DECODED_BYTES_MAX).map_err(|error| error.to_string())?;
    let mut blob = blob;
    blob.advance(2);
    let assignment = ConsumerProtocolAssignment::decode(&mut blob, version).map_err(|error| error.to_string())?;
    let mut partitions = Vec::new();
    for topic in &assignment.assigned_partitions {
        let number = topics.iter().position(|name| *name == topic.topic.0);
        partitions.extend(topic.partitions.iter().map(|partition| number_of(number, *partition, topics.len())));
    }
    Ok(partitions.into_boxed_slice())
}

/// A partition's number in the fleet, by its topic's; `u32::MAX` when there is none.
pub fn number_of(topic: Option<usize>, partition: i32, topics: usize) -> u32 {
    let number = topic.zip(usize::try_from(partition).ok()).map(|(topic, partition)| partition * topics + topic);
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics() -> Vec<StrBytes> {
        ["a", "b"].map(StrBytes::from_static_str).to_vec()
    }

    #[test]
    fn range_divides_each_topic_and_round_robin_all_of_them() {
        // Partition p of the first topic is 2p, of the second 2p + 1.
        assert_eq!(Assignor::Range.assign(2, 2, 3), [vec![0, 2, 1, 3], vec![4, 5]]);
        assert_eq!(Assignor::RoundRobin.assign(4, 2, 3), [vec![0, 3], vec![2, 5], vec![4], vec![1]]);
        assert_eq!(Assignor::Range.assign(3, 1, 2), [vec![0], vec![1], vec![]]);
        assert!(Assignor::Range.assign(0, 1, 2).is_empty());
    }

    #[test]
    fn an_assignment_comes_back_as_it_went() {
        for partitions in [vec![], vec![0], vec![0, 2, 4, 1, 11]] {
            let blob = assignment(&topics(), &partitions);
            assert_eq!(assigned(blob, &topics()).expect("an assignment")[..], partitions[..]);
        }
        assert!(assigned(Bytes::new(), &topics()).expect("left out").is_empty());
        let foreign = assignment(&[StrBytes::from_static_str("other")], &[0]);
        assert_eq!(assigned(foreign, &topics()).expect("an assignment")[..], [u32::MAX]);
        assert!(assigned(Bytes::from_static(&[0, 0, 127, 255, 255, 255]), &topics()).is_err(), "a count that lies");
    }

    #[test]
    fn a_subscription_is_what_coordinators_read() {
        let mut blob = subscription(&topics());
        assert_eq!(ringgate_wire::counts::check_subscription(&blob, 1 << 20), Ok(0));
        blob.advance(2);
        let read = ConsumerProtocolSubscription::decode(&mut blob, 0).expect("a subscription");
        assert_eq!(read.topics, topics());
    }
}
