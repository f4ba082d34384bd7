//! ListOffsets (API 2): offsets by time, and the ends of partitions.

use std::collections::HashMap;

use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::call::{ListOffsetsCall, PartitionListOffsets, PartitionOffset};
use ringgate_shards::turn::Turn;

use super::by_owner::{Answers, ByOwner, Place};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 4;

/// The special timestamps that a version knows: -2 and -1 always, -3 from 7 (KIP-734), -4 from 8
/// (KIP-405), -5 from 9 (KIP-1005).
fn lowest_timestamp(version: i16) -> i64 {
    match version {
        ..7 => -2,
        7 => -3,
        8 => -4,
        _ => -5,
    }
}

/// Serves a ListOffsets. Every record is stable when it is written, so isolation makes no difference.
pub async fn handle(ctx: &RequestContext, request: ListOffsetsRequest) -> Outcome {
    let Plan { slots, by_owner } = plan(&ctx.view(), &request).await;
    let calls: Vec<_> = by_owner
        .into_questions()
        .map(|(owner, partitions)| ctx.shard().submit_to(owner, ListOffsetsCall { partitions }))
        .collect();
    let mut answers = Answers::new();
    for call in calls {
        answers.push(call.await.0);
    }
    let partitions = slots.len();
    ctx.respond_to_many(partitions, response(ctx.api_version, &request, slots, answers).await).await
}

/// What becomes of each partition of the request, in order.
type Slot = Result<Place, ErrorCode>;

struct Plan {
    slots: Vec<Slot>,
    by_owner: ByOwner<PartitionListOffsets>,
}

async fn plan(view: &View<'_>, request: &ListOffsetsRequest) -> Plan {
    let mut turn = Turn::default();
    let mut times: HashMap<(&str, i32), usize> = HashMap::new();
    for topic in &request.topics {
        turn.partition().await;
        for partition in &topic.partitions {
            turn.partition().await;
            *times.entry((&topic.name, partition.partition_index)).or_default() += 1;
        }
    }
    let mut plan = Plan { slots: Vec::new(), by_owner: ByOwner::new() };
    for topic in &request.topics {
        for partition in &topic.partitions {
            turn.partition().await;
            // A partition that is named twice is answered nowhere, as in Kafka.
            let slot = match times.get(&(topic.name.as_str(), partition.partition_index)) {
                Some(2..) => Err(ErrorCode::INVALID_REQUEST),
                _ => resolve(view, &topic.name, partition).map(|(owner, question)| plan.by_owner.push(owner, question)),
            };
            plan.slots.push(slot);
        }
    }
    plan
}

fn resolve(
    view: &View<'_>,
    name: &str,
    wanted: &ListOffsetsPartition,
) -> Result<(ShardId, PartitionListOffsets), ErrorCode> {
    if !view.allowed(Operation::Describe, Resource::Topic(name)) {
        return Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    if wanted.timestamp < lowest_timestamp(view.version) {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let topic = view.catalogue.topic(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let at = topic.partition(wanted.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let epoch = if view.version >= LEADER_EPOCH_SINCE { wanted.current_leader_epoch } else { -1 };
    let question = PartitionListOffsets { at, timestamp: wanted.timestamp, current_leader_epoch: epoch };
    Ok((topic.owner(view.route, wanted.partition_index), question))
}

/// The answer: the request's topics and partitions in its order.
async fn response(
    version: i16,
    request: &ListOffsetsRequest,
    slots: Vec<Slot>,
    mut answers: Answers<PartitionOffset>,
) -> ListOffsetsResponse {
    let mut turn = Turn::default();
    let mut slots = slots.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (wanted, slot) in topic.partitions.iter().zip(&mut slots) {
            turn.partition().await;
            let found = slot.and_then(|place| answers.take(place).ok_or(ErrorCode::UNKNOWN_SERVER_ERROR));
            let response = ListOffsetsPartitionResponse::default().with_partition_index(wanted.partition_index);
            partitions.push(match found {
                Err(error) => response.with_error_code(error.0),
                Ok(found) => {
                    let response = response
                        .with_error_code(found.error.0)
                        .with_timestamp(found.timestamp)
                        .with_offset(found.offset);
                    if version >= LEADER_EPOCH_SINCE {
                        response.with_leader_epoch(found.leader_epoch)
                    } else {
                        response
                    }
                }
            });
        }
        topics.push(ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    ListOffsetsResponse::default().with_topics(topics)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, turns, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::list_offsets_request::ListOffsetsTopic;

    /// Topics with (partition, timestamp) each.
    fn request(topics: &[(&str, &[(i32, i64)])]) -> ListOffsetsRequest {
        let partition = |&(index, timestamp): &(i32, i64)| {
            ListOffsetsPartition::default()
                .with_partition_index(index)
                .with_timestamp(timestamp)
                .with_current_leader_epoch(4)
        };
        let topics = topics.iter().map(|(name, partitions)| {
            let partitions = partitions.iter().map(partition).collect();
            ListOffsetsTopic::default().with_name(topic_name(name)).with_partitions(partitions)
        });
        ListOffsetsRequest::default().with_topics(topics.collect())
    }

    /// The offset that owners find is ten times the partition, the epoch the one they were asked for.
    fn served(world: &World, version: i16, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let Plan { slots, by_owner } = finish(plan(&world.view(version), request));
        let mut answers = Answers::new();
        for (_, asked) in by_owner.into_questions() {
            let found = |q: PartitionListOffsets| PartitionOffset {
                at: q.at,
                error: ErrorCode::NONE,
                timestamp: q.timestamp,
                offset: i64::from(q.at.partition) * 10,
                leader_epoch: q.current_leader_epoch,
            };
            answers.push(asked.into_iter().map(found).collect());
        }
        as_read(version, &finish(response(version, request, slots, answers)))
    }

    fn codes(response: &ListOffsetsResponse) -> Vec<i16> {
        response.topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect()
    }

    #[test]
    fn every_version_answers_in_request_order_and_tells_epochs_from_4() {
        let world = World::with(&[("a", 8), ("b", 8)]);
        let partitions: Vec<(i32, i64)> = (0..8).rev().map(|p| (p, 1000 + i64::from(p))).collect();
        let request = request(&[("b", &partitions), ("a", &partitions)]);
        for version in versions(2) {
            let response = served(&world, version, &request);
            assert_eq!(response.topics.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
            for topic in &response.topics {
                for (found, partition) in topic.partitions.iter().zip((0..8).rev()) {
                    assert_eq!((found.partition_index, found.error_code), (partition, 0));
                    assert_eq!((found.offset, found.timestamp), (partition as i64 * 10, 1000 + partition as i64));
                    assert_eq!(found.leader_epoch, if version >= 4 { 4 } else { -1 }, "version {version}");
                }
            }
        }
    }

    #[test]
    fn a_special_timestamp_that_a_version_lacks_is_answered_35() {
        let world = World::with(&[("a", 1)]);
        for version in versions(2) {
            for (timestamp, since) in [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, i16::MAX), (-99, i16::MAX)] {
                let response = served(&world, version, &request(&[("a", &[(0, timestamp)])]));
                let found = &response.topics[0].partitions[0];
                if version >= since {
                    assert_eq!((found.error_code, found.offset), (0, 0), "{timestamp} in version {version}");
                } else {
                    assert_eq!((found.error_code, found.offset, found.timestamp), (35, -1, -1), "{timestamp}");
                }
            }
        }
    }

    #[test]
    fn a_partition_named_twice_is_answered_42_and_the_others_are_served() {
        let world = World::with(&[("a", 2)]);
        let within = request(&[("a", &[(0, -1), (0, -2), (1, -1)])]);
        assert_eq!(codes(&served(&world, 5, &within)), [42, 42, 0]);
        let across = request(&[("a", &[(0, -1)]), ("a", &[(1, -1), (0, -1)])]);
        assert_eq!(codes(&served(&world, 5, &across)), [42, 0, 42]);
    }

    #[test]
    fn what_does_not_exist_is_answered_3_and_what_may_not_be_seen_29() {
        let mut world = World::with(&[("a", 1)]);
        let request = request(&[("a", &[(0, -1), (1, -1), (-1, -1)]), ("no", &[(0, -1)])]);
        assert_eq!(codes(&served(&world, 5, &request)), [0, 3, 3, 3]);
        world.authorizer.denied_topic = Some((Operation::Describe, "no"));
        assert_eq!(codes(&served(&world, 5, &request)), [0, 3, 3, 29]);
    }

    #[test]
    fn a_request_of_many_partitions_lets_others_have_their_turn() {
        let world = World::with(&[("a", 1)]);
        let partitions: Vec<(i32, i64)> = (0..10_000).map(|partition| (partition, -1)).collect();
        let request = request(&[("a", &partitions)]);
        let (planned, Plan { slots, .. }) = turns(plan(&world.view(5), &request));
        assert!(planned > 0);
        assert_eq!(slots.len(), 10_000);
        let (answered, response) = turns(response(5, &request, slots, Answers::new()));
        assert!(answered > 0);
        assert_eq!(response.topics[0].partitions.len(), 10_000);
    }
}
