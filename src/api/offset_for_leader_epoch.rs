//! OffsetForLeaderEpoch (API 23): where a leader epoch's records end, by which a consumer finds out that it read
//! past a tail that was lost (KIP-101, KIP-320).

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::call::{OffsetForLeaderEpochCall, PartitionEpochEnd, PartitionLeaderEpoch};
use ringgate_shards::turn::Turn;

use super::by_owner::{Answers, ByOwner, Place};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// Serves an OffsetForLeaderEpoch.
pub async fn handle(ctx: &RequestContext, request: OffsetForLeaderEpochRequest) -> Outcome {
    let Plan { slots, by_owner } = plan(&ctx.view(), &request).await;
    let calls: Vec<_> = by_owner
        .into_questions()
        .map(|(owner, partitions)| ctx.shard().submit_to(owner, OffsetForLeaderEpochCall { partitions }))
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
    by_owner: ByOwner<PartitionLeaderEpoch>,
}

async fn plan(view: &View<'_>, request: &OffsetForLeaderEpochRequest) -> Plan {
    let mut plan = Plan { slots: Vec::new(), by_owner: ByOwner::new() };
    let mut turn = Turn::default();
    for topic in &request.topics {
        turn.partition().await;
        for wanted in &topic.partitions {
            turn.partition().await;
            let slot = resolve(view, &topic.topic, wanted).map(|(owner, question)| plan.by_owner.push(owner, question));
            plan.slots.push(slot);
        }
    }
    plan
}

fn resolve(
    view: &View<'_>,
    name: &str,
    wanted: &OffsetForLeaderPartition,
) -> Result<(ShardId, PartitionLeaderEpoch), ErrorCode> {
    if !view.allowed(Operation::Describe, Resource::Topic(name)) {
        return Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    let topic = view.catalogue.topic(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let at = topic.partition(wanted.partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let question = PartitionLeaderEpoch {
        at,
        current_leader_epoch: wanted.current_leader_epoch,
        leader_epoch: wanted.leader_epoch,
    };
    Ok((topic.owner(view.route, wanted.partition), question))
}

/// The answer: the request's topics and partitions in its order.
async fn response(
    request: &OffsetForLeaderEpochRequest,
    slots: Vec<Slot>,
    mut answers: Answers<PartitionEpochEnd>,
) -> OffsetForLeaderEpochResponse {
    let mut slots = slots.into_iter();
    let mut turn = Turn::default();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (wanted, slot) in topic.partitions.iter().zip(&mut slots) {
            turn.partition().await;
            let end = slot.and_then(|place| answers.take(place).ok_or(ErrorCode::UNKNOWN_SERVER_ERROR));
            let (error, leader_epoch, end_offset) = match end {
                Ok(end) => (end.error, end.leader_epoch, end.end_offset),
                Err(error) => (error, -1, -1),
            };
            let end = EpochEndOffset::default()
                .with_partition(wanted.partition)
                .with_error_code(error.0)
                .with_leader_epoch(leader_epoch)
                .with_end_offset(end_offset);
            partitions.push(end);
        }
        topics.push(OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions));
    }
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderTopic;

    /// (partition, code, epoch, end offset) of what is asked of (topic, partition); owners say that the epoch
    /// that is asked for ends at ten times its number.
    fn served(world: &World, version: i16, asked: &[(&str, i32)]) -> Vec<(i32, i16, i32, i64)> {
        let topics = asked.iter().map(|&(name, partition)| {
            let partition = OffsetForLeaderPartition::default()
                .with_partition(partition)
                .with_current_leader_epoch(5)
                .with_leader_epoch(3);
            OffsetForLeaderTopic::default().with_topic(topic_name(name)).with_partitions(vec![partition])
        });
        let request = as_read(version, &OffsetForLeaderEpochRequest::default().with_topics(topics.collect::<Vec<_>>()));
        let view = world.view(version);
        let Plan { slots, by_owner } = finish(plan(&view, &request));
        let mut answers = Answers::new();
        for (owner, asked) in by_owner.into_questions() {
            let answer = |q: PartitionLeaderEpoch| {
                let topic = view.catalogue.topic_by_id(q.at.topic).expect("it was looked up");
                assert_eq!(topic.owner(view.route, q.at.partition), owner, "each owner is asked for its own");
                assert_eq!(q.current_leader_epoch, 5);
                let end_offset = 10 * i64::from(q.leader_epoch);
                PartitionEpochEnd { at: q.at, error: ErrorCode::NONE, leader_epoch: q.leader_epoch, end_offset }
            };
            answers.push(asked.into_iter().map(answer).collect());
        }
        let response = as_read(version, &finish(response(&request, slots, answers)));
        let partitions = response.topics.iter().flat_map(|t| &t.partitions);
        partitions.map(|p| (p.partition, p.error_code, p.leader_epoch, p.end_offset)).collect()
    }

    #[test]
    fn every_version_asks_the_owners_and_answers_in_request_order() {
        let world = World::with(&[("a", 4), ("b", 1)]);
        for version in versions(23) {
            let found = served(&world, version, &[("b", 0), ("a", 3), ("a", 0), ("a", 4), ("no", 0)]);
            let end = |partition| (partition, 0, 3, 30);
            assert_eq!(found, [end(0), end(3), end(0), (4, 3, -1, -1), (0, 3, -1, -1)], "version {version}");
        }
    }

    #[test]
    fn who_may_not_see_a_topic_is_told_29() {
        let mut world = World::with(&[("a", 1), ("b", 1)]);
        world.authorizer.denied_topic = Some((Operation::Describe, "a"));
        assert_eq!(served(&world, 4, &[("a", 0), ("b", 0)]), [(0, 29, -1, -1), (0, 0, 3, 30)]);
    }
}
