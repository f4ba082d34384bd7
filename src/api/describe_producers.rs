//! DescribeProducers (API 61): the idempotent producers that partitions remember (KIP-664). A shard's own port
//! tells of the partitions that this shard owns, the shared port of all.

use std::collections::HashSet;

use kafka_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse, ProducerId};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::call::{DescribeProducersCall, PartitionProducers, TopicPartition};
use ringgate_shards::turn::Turn;

use super::by_owner::{Answers, ByOwner, Place};
use super::{Operation, Outcome, RequestContext, Resource, View};
use crate::net::connection::Door;

/// Stands for a coordinator epoch and for the offset of an open transaction: there are no transactions.
const NONE: i32 = -1;

/// Serves a DescribeProducers.
pub async fn handle(ctx: &RequestContext, request: DescribeProducersRequest) -> Outcome {
    let Plan { slots, by_owner } = plan(&ctx.view(), ctx.connection.door, &request).await;
    let calls: Vec<_> = by_owner
        .into_questions()
        .map(|(owner, partitions)| ctx.shard().submit_to(owner, DescribeProducersCall { partitions }))
        .collect();
    let mut answers = Answers::new();
    let mut told = slots.len();
    for call in calls {
        let described = call.await.0;
        told += described.iter().map(|partition| partition.producers.len()).sum::<usize>();
        answers.push(described);
    }
    ctx.respond_to_many(told, response(&request, slots, answers).await).await
}

/// What becomes of each partition of the request, in order.
type Slot = Result<Place, (ErrorCode, Option<String>)>;

struct Plan {
    slots: Vec<Slot>,
    by_owner: ByOwner<TopicPartition>,
}

/// A partition has up to thousands of producers, so one that is named twice is described once: a request must not
/// be able to ask for them without end.
async fn plan(view: &View<'_>, door: Door, request: &DescribeProducersRequest) -> Plan {
    let mut plan = Plan { slots: Vec::new(), by_owner: ByOwner::new() };
    let mut seen = HashSet::new();
    let mut turn = Turn::default();
    for topic in &request.topics {
        turn.partition().await;
        for &partition in &topic.partition_indexes {
            turn.partition().await;
            let slot = resolve(view, door, &topic.name, partition).and_then(|(owner, at)| {
                if seen.insert(at) {
                    Ok(plan.by_owner.push(owner, at))
                } else {
                    Err((ErrorCode::INVALID_REQUEST, Some("the partition is named twice".into())))
                }
            });
            plan.slots.push(slot);
        }
    }
    plan
}

fn resolve(
    view: &View<'_>,
    door: Door,
    name: &str,
    partition: i32,
) -> Result<(ShardId, TopicPartition), (ErrorCode, Option<String>)> {
    // Kafka asks for the right to read here, not to describe.
    if !view.allowed(Operation::Read, Resource::Topic(name)) {
        return Err((ErrorCode::TOPIC_AUTHORIZATION_FAILED, None));
    }
    let topic = view.catalogue.topic(name);
    let Some((topic, at)) = topic.and_then(|topic| Some((topic, topic.partition(partition)?))) else {
        return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None));
    };
    let owner = topic.owner(view.route, partition);
    match door {
        Door::Shard(shard) if shard != owner => {
            let node = view.advertised.id_of(owner);
            let why = format!("{name}-{partition} is led by node {node}");
            Err((ErrorCode::NOT_LEADER_OR_FOLLOWER, Some(why)))
        }
        _ => Ok((owner, at)),
    }
}

/// The answer: the request's topics and partitions in its order.
async fn response(
    request: &DescribeProducersRequest,
    slots: Vec<Slot>,
    mut answers: Answers<PartitionProducers>,
) -> DescribeProducersResponse {
    let mut slots = slots.into_iter();
    let mut turn = Turn::default();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for (&partition, slot) in topic.partition_indexes.iter().zip(&mut slots) {
            turn.partition().await;
            let answer = PartitionResponse::default().with_partition_index(partition);
            let described = slot.and_then(|at| answers.take(at).ok_or((ErrorCode::UNKNOWN_SERVER_ERROR, None)));
            partitions.push(match described {
                Ok(described) => {
                    let mut producers = Vec::with_capacity(described.producers.len());
                    for producer in &described.producers {
                        turn.partition().await;
                        producers.push(state(producer));
                    }
                    answer.with_error_code(described.error.0).with_active_producers(producers)
                }
                Err((error, why)) => answer.with_error_code(error.0).with_error_message(why.map(StrBytes::from_string)),
            });
        }
        topics.push(TopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    DescribeProducersResponse::default().with_topics(topics)
}

fn state(producer: &ringgate_shards::call::ActiveProducer) -> ProducerState {
    ProducerState::default()
        .with_producer_id(ProducerId(producer.producer_id))
        .with_producer_epoch(i32::from(producer.producer_epoch))
        .with_last_sequence(producer.last_sequence)
        .with_last_timestamp(producer.last_timestamp)
        .with_coordinator_epoch(NONE)
        .with_current_txn_start_offset(i64::from(NONE))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::describe_producers_request::TopicRequest;
    use ringgate_shards::call::ActiveProducer;

    /// (partition, code, producer ids); every partition has its own number as its one producer.
    fn served(world: &World, door: Door, version: i16, asked: &[(&str, &[i32])]) -> Vec<(i32, i16, Vec<i64>)> {
        let topics = asked.iter().map(|(name, partitions)| {
            TopicRequest::default().with_name(topic_name(name)).with_partition_indexes(partitions.to_vec())
        });
        let request = as_read(version, &DescribeProducersRequest::default().with_topics(topics.collect()));
        let Plan { slots, by_owner } = finish(plan(&world.view(version), door, &request));
        let mut answers = Answers::new();
        for (_, asked) in by_owner.into_questions() {
            let answer = |at: TopicPartition| {
                let producer = ActiveProducer {
                    producer_id: i64::from(at.partition),
                    producer_epoch: 2,
                    last_sequence: 7,
                    last_timestamp: 99,
                };
                PartitionProducers { at, error: ErrorCode::NONE, producers: vec![producer] }
            };
            answers.push(asked.into_iter().map(answer).collect());
        }
        let response = as_read(version, &finish(response(&request, slots, answers)));
        let partitions = response.topics.iter().flat_map(|t| &t.partitions);
        let described = partitions.map(|p| {
            let ids = p.active_producers.iter().map(|producer| {
                let rest = (producer.producer_epoch, producer.last_sequence, producer.last_timestamp);
                assert_eq!(rest, (2, 7, 99));
                assert_eq!((producer.coordinator_epoch, producer.current_txn_start_offset), (-1, -1));
                producer.producer_id.0
            });
            (p.partition_index, p.error_code, ids.collect())
        });
        described.collect()
    }

    #[test]
    fn the_shared_port_tells_of_every_partition_in_request_order() {
        let world = World::with(&[("a", 4)]);
        for version in versions(61) {
            let found = served(&world, Door::Bootstrap, version, &[("a", &[3, 0, 4]), ("no", &[0])]);
            assert_eq!(found, [(3, 0, vec![3]), (0, 0, vec![0]), (4, 3, vec![]), (0, 3, vec![])]);
        }
    }

    #[test]
    fn a_partition_that_is_named_twice_is_described_once() {
        let world = World::with(&[("a", 2)]);
        let found = served(&world, Door::Bootstrap, 0, &[("a", &[0, 1, 0]), ("a", &[1])]);
        assert_eq!(found, [(0, 0, vec![0]), (1, 0, vec![1]), (0, 42, vec![]), (1, 42, vec![])]);
    }

    #[test]
    fn a_shards_port_sends_on_to_the_leader_what_it_does_not_own() {
        let world = World::with(&[("a", 2)]);
        let codes = |shard| {
            let found = served(&world, Door::Shard(ShardId(shard)), 0, &[("a", &[0, 1])]);
            found.into_iter().map(|(_, code, _)| code).collect::<Vec<_>>()
        };
        let (first, second) = (codes(0), codes(1));
        assert!(first == [0, 6] && second == [6, 0] || first == [6, 0] && second == [0, 6], "{first:?} {second:?}");
    }

    #[test]
    fn who_may_not_read_is_told_29() {
        let mut world = World::with(&[("a", 1)]);
        world.authorizer.denied_topic = Some((Operation::Read, "a"));
        assert_eq!(served(&world, Door::Bootstrap, 0, &[("a", &[0])]), [(0, 29, vec![])]);
    }
}
