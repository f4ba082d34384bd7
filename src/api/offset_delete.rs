//! OffsetDelete (API 47): committed offsets of single partitions go, where no member of the group reads the
//! topic (KIP-496); answered when that is durable.

use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use ringgate_group::request::DeleteTopicOffsets;
use ringgate_group::{ErrorCode, Request, Response};
use ringgate_shards::turn::Turn;

use super::groups::{ask, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// Serves an OffsetDelete. Partitions that do not exist are answered here; the others go to the group's
/// coordinator, which is asked also when none is left: whether there is such a group is for it to say.
pub async fn handle(ctx: &RequestContext, request: OffsetDeleteRequest) -> Outcome {
    let (known, delete) = match plan(&ctx.view(), &request).await {
        Ok(plan) => plan,
        Err(error) => return ctx.respond(&OffsetDeleteResponse::default().with_error_code(error.0)),
    };
    match ask(ctx, &request.group_id, Request::OffsetDelete(delete)).await {
        Response::OffsetDelete(deleted) => {
            let partitions = known.len();
            ctx.respond_to_many(partitions, response(&request, known, deleted).await).await
        }
        other => wrong_kind(&other),
    }
}

/// What is known of each partition before the coordinator is asked, in request order; and the others.
type Plan = (Vec<Option<ErrorCode>>, ringgate_group::request::OffsetDeleteRequest);

async fn plan(view: &View<'_>, request: &OffsetDeleteRequest) -> Result<Plan, ErrorCode> {
    if !view.allowed(Operation::Delete, Resource::Group(&request.group_id)) {
        return Err(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
    let mut known = Vec::new();
    let mut topics = Vec::new();
    let mut turn = Turn::default();
    for topic in &request.topics {
        turn.partition().await;
        let found = view.catalogue.topic(&topic.name);
        let readable = view.allowed(Operation::Read, Resource::Topic(&topic.name));
        let mut deletes = DeleteTopicOffsets { name: text(&topic.name), partition_indexes: Vec::new() };
        for partition in &topic.partitions {
            turn.partition().await;
            let index = partition.partition_index;
            known.push(if !readable {
                Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
            } else if found.and_then(|topic| topic.partition(index)).is_none() {
                Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            } else {
                deletes.partition_indexes.push(index);
                None
            });
        }
        if !deletes.partition_indexes.is_empty() {
            topics.push(deletes);
        }
    }
    let delete = ringgate_group::request::OffsetDeleteRequest { group_id: text(&request.group_id), topics };
    Ok((known, delete))
}

/// The answer: the request's topics and partitions in its order, or the group's error and nothing else.
async fn response(
    request: &OffsetDeleteRequest,
    known: Vec<Option<ErrorCode>>,
    deleted: ringgate_group::response::OffsetDeleteResponse,
) -> OffsetDeleteResponse {
    if deleted.error_code.is_err() {
        return OffsetDeleteResponse::default().with_error_code(deleted.error_code.0);
    }
    let mut known = known.into_iter();
    let mut deleted = deleted.topics.into_iter().flat_map(|(_, partitions)| partitions);
    let mut turn = Turn::default();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (partition, known) in topic.partitions.iter().zip(&mut known) {
            turn.partition().await;
            let answered = || deleted.next().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |(_, code)| code);
            let answer = OffsetDeleteResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(known.unwrap_or_else(answered).0);
            partitions.push(answer);
        }
        topics.push(OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    OffsetDeleteResponse::default().with_topics(topics)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
    use kafka_protocol::protocol::StrBytes;

    fn request(asked: &[(&str, &[i32])]) -> OffsetDeleteRequest {
        let topics = asked.iter().map(|(name, partitions)| {
            let partition = |&index: &i32| OffsetDeleteRequestPartition::default().with_partition_index(index);
            OffsetDeleteRequestTopic::default()
                .with_name(topic_name(name))
                .with_partitions(partitions.iter().map(partition).collect())
        });
        let group_id = GroupId(StrBytes::from_static_str("g"));
        as_read(0, &OffsetDeleteRequest::default().with_group_id(group_id).with_topics(topics.collect()))
    }

    /// (partition, code) in order, where the coordinator answers every partition with its own number.
    fn served(world: &World, asked: &[(&str, &[i32])]) -> Vec<(i32, i16)> {
        let request = request(asked);
        let (known, delete) = finish(plan(&world.view(0), &request)).expect("the group may be changed");
        assert_eq!(delete.group_id.as_str(), "g");
        let answer = |topic: DeleteTopicOffsets| {
            (topic.name, topic.partition_indexes.iter().map(|&p| (p, ErrorCode(p as i16))).collect())
        };
        let topics = delete.topics.into_iter().map(answer).collect();
        let deleted = ringgate_group::response::OffsetDeleteResponse { error_code: ErrorCode::NONE, topics };
        let response = as_read(0, &finish(response(&request, known, deleted)));
        response.topics.iter().flat_map(|t| &t.partitions).map(|p| (p.partition_index, p.error_code)).collect()
    }

    #[test]
    fn the_coordinator_is_asked_for_what_exists_and_everything_is_answered_in_request_order() {
        assert_eq!(versions(47), 0..=0);
        let world = World::with(&[("a", 90), ("b", 1)]);
        let found = served(&world, &[("no", &[0]), ("a", &[86, 0, 90]), ("b", &[0])]);
        assert_eq!(found, [(0, 3), (86, 86), (0, 0), (90, 3), (0, 0)]);
    }

    #[test]
    fn an_error_of_the_group_is_answered_without_topics() {
        let refused = ringgate_group::response::OffsetDeleteResponse {
            error_code: ErrorCode::NON_EMPTY_GROUP,
            topics: Vec::new(),
        };
        let response = as_read(0, &finish(response(&request(&[("a", &[0])]), vec![None], refused)));
        assert_eq!((response.error_code, response.topics.len()), (68, 0));
    }

    #[test]
    fn who_may_not_do_it_is_told_so() {
        let mut world = World::with(&[("a", 1)]);
        world.authorizer.denied_topic = Some((Operation::Read, "a"));
        assert_eq!(served(&world, &[("a", &[0])]), [(0, 29)]);
        world.authorizer.denied_group = Some((Operation::Delete, "g"));
        assert_eq!(finish(plan(&world.view(0), &request(&[]))).unwrap_err(), ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
}
