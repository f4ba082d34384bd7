//! DeleteRecords (API 21): the records before an offset go, and the log start offset moves.

use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::call::{DeleteRecordsCall, PartitionDeleteRecords, PartitionRecordsDeleted};
use ringgate_shards::turn::Turn;

use super::by_owner::{Answers, ByOwner, Place};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// Serves a DeleteRecords. There are no other replicas to wait for, so its timeout makes no difference.
pub async fn handle(ctx: &RequestContext, request: DeleteRecordsRequest) -> Outcome {
    let Plan { slots, by_owner } = plan(&ctx.view(), &request).await;
    let calls: Vec<_> = by_owner
        .into_questions()
        .map(|(owner, partitions)| ctx.shard().submit_to(owner, DeleteRecordsCall { partitions }))
        .collect();
    let mut answers = Answers::new();
    for call in calls {
        answers.push(call.await.0);
    }
    let partitions = slots.len();
    ctx.respond_to_many(partitions, response(&request, slots, answers).await).await
}

/// What becomes of each partition of the request, in order.
type Slot = Result<Place, ErrorCode>;

struct Plan {
    slots: Vec<Slot>,
    by_owner: ByOwner<PartitionDeleteRecords>,
}

async fn plan(view: &View<'_>, request: &DeleteRecordsRequest) -> Plan {
    let mut turn = Turn::default();
    let mut plan = Plan { slots: Vec::new(), by_owner: ByOwner::new() };
    for topic in &request.topics {
        turn.partition().await;
        for wanted in &topic.partitions {
            turn.partition().await;
            let slot = resolve(view, &topic.name, wanted.partition_index, wanted.offset)
                .map(|(owner, question)| plan.by_owner.push(owner, question));
            plan.slots.push(slot);
        }
    }
    plan
}

fn resolve(
    view: &View<'_>,
    name: &str,
    partition: i32,
    offset: i64,
) -> Result<(ShardId, PartitionDeleteRecords), ErrorCode> {
    if !view.allowed(Operation::Delete, Resource::Topic(name)) {
        return Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    let topic = view.catalogue.topic(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let at = topic.partition(partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    Ok((topic.owner(view.route, partition), PartitionDeleteRecords { at, offset }))
}

/// The answer: the request's topics and partitions in its order.
async fn response(
    request: &DeleteRecordsRequest,
    slots: Vec<Slot>,
    mut answers: Answers<PartitionRecordsDeleted>,
) -> DeleteRecordsResponse {
    let mut turn = Turn::default();
    let mut slots = slots.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (wanted, slot) in topic.partitions.iter().zip(&mut slots) {
            turn.partition().await;
            let (error, low_watermark) =
                match slot.and_then(|at| answers.take(at).ok_or(ErrorCode::UNKNOWN_SERVER_ERROR)) {
                    Ok(deleted) => (deleted.error, deleted.low_watermark),
                    Err(error) => (error, -1),
                };
            let result = DeleteRecordsPartitionResult::default()
                .with_partition_index(wanted.partition_index)
                .with_low_watermark(low_watermark)
                .with_error_code(error.0);
            partitions.push(result);
        }
        topics.push(DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};

    /// Topics with (partition, offset) each, as the gateway reads them in a version.
    fn request(version: i16, topics: &[(&str, &[(i32, i64)])]) -> DeleteRecordsRequest {
        let topics = topics.iter().map(|(name, partitions)| {
            let partitions = partitions.iter().map(|&(partition, offset)| {
                DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset)
            });
            DeleteRecordsTopic::default().with_name(topic_name(name)).with_partitions(partitions.collect())
        });
        as_read(version, &DeleteRecordsRequest::default().with_topics(topics.collect()).with_timeout_ms(1000))
    }

    /// (partition, code, low watermark) of all partitions in order; owners find every offset above 100 out
    /// of range.
    fn served(world: &World, version: i16, topics: &[(&str, &[(i32, i64)])]) -> Vec<(i32, i16, i64)> {
        let request = request(version, topics);
        let view = world.view(version);
        let Plan { slots, by_owner } = finish(plan(&view, &request));
        let mut answers = Answers::new();
        for (owner, asked) in by_owner.into_questions() {
            let answer = |q: PartitionDeleteRecords| {
                let topic = view.catalogue.topic_by_id(q.at.topic).expect("it was looked up");
                assert_eq!(topic.owner(view.route, q.at.partition), owner, "each owner is asked for its own");
                let in_range = q.offset <= 100;
                PartitionRecordsDeleted {
                    at: q.at,
                    error: if in_range { ErrorCode::NONE } else { ErrorCode::OFFSET_OUT_OF_RANGE },
                    low_watermark: if in_range { q.offset } else { -1 },
                }
            };
            answers.push(asked.into_iter().map(answer).collect());
        }
        let response = as_read(version, &finish(response(&request, slots, answers)));
        assert!(response.topics.iter().map(|t| t.name.as_str()).eq(topics.iter().map(|t| t.0)));
        let partitions = response.topics.iter().flat_map(|t| &t.partitions);
        partitions.map(|p| (p.partition_index, p.error_code, p.low_watermark)).collect()
    }

    #[test]
    fn every_version_asks_the_owners_and_answers_in_request_order() {
        let world = World::with(&[("a", 8), ("b", 2)]);
        let asked: Vec<(i32, i64)> = (0..8).rev().map(|p| (p, 10 * i64::from(p))).collect();
        for version in versions(21) {
            let found = served(&world, version, &[("b", &[(1, 101), (0, 7)]), ("a", &asked)]);
            let mut expected = vec![(1, 1, -1), (0, 0, 7)];
            expected.extend(asked.iter().map(|&(partition, offset)| (partition, 0, offset)));
            assert_eq!(found, expected, "version {version}");
        }
    }

    #[test]
    fn what_does_not_exist_is_answered_3_and_what_may_not_be_deleted_29() {
        let mut world = World::with(&[("a", 1), ("b", 1)]);
        let asked: &[(&str, &[(i32, i64)])] = &[("a", &[(0, 5), (1, 5), (-1, 5)]), ("no", &[(0, 5)]), ("b", &[(0, 5)])];
        assert_eq!(served(&world, 2, asked).iter().map(|p| p.1).collect::<Vec<_>>(), [0, 3, 3, 3, 0]);
        world.authorizer.denied_topic = Some((Operation::Delete, "a"));
        assert_eq!(served(&world, 2, asked).iter().map(|p| p.1).collect::<Vec<_>>(), [29, 29, 29, 3, 0]);
    }
}
