//! ConsumerGroupHeartbeat (API 68): a member of a consumer group joins, lives, and leaves (KIP-848).

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use ringgate_group::{ErrorCode, PartitionSet, Request, Response, Text, request, response};
use uuid::Uuid;

use super::groups::{ask, client_host, may_read, string, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The first version with patterns.
const REGEX_SINCE: i16 = 1;

/// Serves a ConsumerGroupHeartbeat.
pub async fn handle(ctx: &RequestContext, request: ConsumerGroupHeartbeatRequest) -> Outcome {
    if let Err(error) = check_access(&ctx.view(), &request) {
        let refused = ConsumerGroupHeartbeatResponse::default().with_error_code(error.0);
        return ctx.respond(&refused);
    }
    let group_id = request.group_id.clone();
    let heartbeat = to_group(ctx.api_version, request, ctx.client_id.as_deref(), client_host(ctx));
    match ask(ctx, &group_id, Request::ConsumerGroupHeartbeat(Box::new(heartbeat))).await {
        Response::ConsumerGroupHeartbeat(answer) => ctx.respond(&to_kafka(answer)),
        other => wrong_kind(&other),
    }
}

/// The group must be readable, and every topic that is named must be visible.
fn check_access(view: &View<'_>, request: &ConsumerGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    if !may_read(view.authorizer, &request.group_id) {
        return Err(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
    let mut names = request.subscribed_topic_names.iter().flatten();
    match names.all(|name| view.allowed(Operation::Describe, Resource::Topic(name))) {
        true => Ok(()),
        false => Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
    }
}

fn to_group(
    version: i16,
    request: ConsumerGroupHeartbeatRequest,
    client_id: Option<&str>,
    client_host: Text,
) -> request::ConsumerGroupHeartbeatRequest {
    let owned = |topics: Vec<kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions>| {
        let partitions = topics.into_iter().flat_map(|topic| {
            let id = topic.topic_id.as_u128();
            topic.partitions.into_iter().map(move |partition| (id, partition))
        });
        partitions.collect::<PartitionSet>()
    };
    let regex = request.subscribed_topic_regex.as_ref().filter(|_| version >= REGEX_SINCE);
    request::ConsumerGroupHeartbeatRequest {
        api_version: version,
        group_id: text(&request.group_id),
        member_id: text(&request.member_id),
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.as_ref().map(text),
        rack_id: request.rack_id.as_ref().map(text),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        subscribed_topic_names: request
            .subscribed_topic_names
            .as_ref()
            .map(|names| names.iter().map(|name| text(name)).collect()),
        subscribed_topic_regex: regex.map(text),
        server_assignor: request.server_assignor.as_ref().map(text),
        topic_partitions: request.topic_partitions.map(owned),
        client_id: client_id.map_or(Text::EMPTY, Text::from),
        client_host,
    }
}

fn to_kafka(answer: response::ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse {
    let assignment = answer.assignment.map(|partitions| {
        let topics = partitions.by_topic().map(|(id, partitions)| {
            TopicPartitions::default().with_topic_id(Uuid::from_u128(id)).with_partitions(partitions.collect())
        });
        Assignment::default().with_topic_partitions(topics.collect())
    });
    ConsumerGroupHeartbeatResponse::default()
        .with_error_code(answer.error_code.0)
        .with_error_message(answer.error_message.as_ref().map(string))
        .with_member_id(answer.member_id.as_ref().map(string))
        .with_member_epoch(answer.member_epoch)
        .with_heartbeat_interval_ms(answer.heartbeat_interval_ms)
        .with_assignment(assignment)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as Owned;
    use kafka_protocol::protocol::StrBytes;

    fn request() -> ConsumerGroupHeartbeatRequest {
        let name = |name| StrBytes::from_static_str(name);
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(name("g")))
            .with_member_id(name("m"))
            .with_member_epoch(4)
            .with_instance_id(Some(name("i")))
            .with_rack_id(Some(name("r")))
            .with_rebalance_timeout_ms(60_000)
            .with_subscribed_topic_names(Some(vec![topic_name("a"), topic_name("b")]))
            .with_server_assignor(Some(name("range")))
            .with_topic_partitions(Some(vec![
                Owned::default().with_topic_id(Uuid::from_u128(2)).with_partitions(vec![3, 1]),
                Owned::default().with_topic_id(Uuid::from_u128(1)).with_partitions(vec![0]),
            ]))
    }

    #[test]
    fn every_version_brings_all_that_it_has_to_the_coordinator() {
        for version in versions(68) {
            let mut sent = request();
            if version >= REGEX_SINCE {
                sent.subscribed_topic_regex = Some(StrBytes::from_static_str("a.*"));
            }
            let asked = to_group(version, as_read(version, &sent), Some("app"), "/10.0.0.9".into());
            assert_eq!((asked.group_id.as_str(), asked.member_id.as_str(), asked.member_epoch), ("g", "m", 4));
            assert_eq!(asked.topic_partitions.map(|owned| owned.iter().collect()), Some(vec![(1, 0), (2, 1), (2, 3)]));
            assert_eq!(asked.subscribed_topic_names, Some(vec!["a".into(), "b".into()]));
            assert_eq!(asked.subscribed_topic_regex.is_some(), version >= REGEX_SINCE);
            assert_eq!((asked.client_id.as_str(), asked.client_host.as_str()), ("app", "/10.0.0.9"));
            let nothing = as_read(version, &ConsumerGroupHeartbeatRequest::default());
            let nothing = to_group(version, nothing, None, Text::EMPTY);
            assert_eq!((nothing.subscribed_topic_names, nothing.topic_partitions), (None, None), "null says nothing");
        }
    }

    #[test]
    fn an_answer_can_be_written_in_every_version() {
        for version in versions(68) {
            let answer = response::ConsumerGroupHeartbeatResponse {
                error_code: ErrorCode::NONE,
                error_message: None,
                member_id: Some("m".into()),
                member_epoch: 7,
                heartbeat_interval_ms: 5_000,
                assignment: Some([(1, 0), (1, 2), (2, 0)].into_iter().collect()),
            };
            let read = as_read(version, &to_kafka(answer.clone()));
            assert_eq!((read.member_epoch, read.heartbeat_interval_ms), (7, 5_000));
            let topics = read.assignment.expect("an assignment").topic_partitions;
            let topics: Vec<_> = topics.into_iter().map(|t| (t.topic_id.as_u128(), t.partitions)).collect();
            assert_eq!(topics, [(1, vec![0, 2]), (2, vec![0])]);
            let unchanged = response::ConsumerGroupHeartbeatResponse { assignment: None, ..answer };
            assert!(as_read(version, &to_kafka(unchanged)).assignment.is_none());
        }
    }

    #[test]
    fn who_may_not_read_the_group_or_see_a_topic_is_refused_as_a_whole() {
        let mut world = World::with(&[]);
        assert_eq!(check_access(&world.view(1), &request()), Ok(()));
        world.authorizer.denied_topic = Some((Operation::Describe, "b"));
        assert_eq!(check_access(&world.view(1), &request()), Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        world.authorizer.denied_group = Some((Operation::Read, "g"));
        assert_eq!(check_access(&world.view(1), &request()), Err(ErrorCode::GROUP_AUTHORIZATION_FAILED));
    }
}
