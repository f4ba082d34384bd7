//! ConsumerGroupDescribe (API 69): consumer groups (KIP-848) with their members, each from its owner.

use futures_util::future::join_all;
use kafka_protocol::messages::consumer_group_describe_response::{Assignment, DescribedGroup, Member, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, GroupId, TopicName};
use ringgate_group::{ErrorCode, PartitionSet, Request, Response, response};
use ringgate_shards::catalogue::Catalogue;
use ringgate_shards::turn::Turn;
use uuid::Uuid;

use super::groups::{GROUP_OPERATIONS, OPERATIONS_NOT_ASKED, ask, distinct, may_describe, string, text, wrong_kind};
use super::topics::topic_name;
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The first version that tells which protocol a member speaks (KIP-1099).
const MEMBER_TYPE_SINCE: i16 = 1;
/// A member that speaks the classic protocol.
const CLASSIC: i8 = 0;
/// A member that speaks the consumer protocol.
const CONSUMER: i8 = 1;

/// Serves a ConsumerGroupDescribe.
pub async fn handle(ctx: &RequestContext, request: ConsumerGroupDescribeRequest) -> Outcome {
    let asked = request.include_authorized_operations;
    let groups = join_all(distinct(request.group_ids).into_iter().map(|group| describe(ctx, group))).await;
    let (version, catalogue) = (ctx.api_version, ctx.shard().catalogue());
    let members: usize = groups.iter().map(|(_, described)| described.as_ref().map_or(0, |it| it.members.len())).sum();
    ctx.respond_with_members(groups.len() + members, move || {
        let told = |(group_id, described)| match described {
            Ok(described) => to_kafka(version, &catalogue, group_id, asked, described),
            Err(error) => refused(group_id, error),
        };
        ConsumerGroupDescribeResponse::default().with_groups(groups.into_iter().map(told).collect())
    })
    .await
}

/// A group as its owner describes it, or why the client is not told.
async fn describe(
    ctx: &RequestContext,
    group_id: GroupId,
) -> (GroupId, Result<response::ConsumerGroupDescribed, ErrorCode>) {
    if !may_describe(ctx, &group_id) {
        return (group_id, Err(ErrorCode::GROUP_AUTHORIZATION_FAILED));
    }
    let described = match ask(ctx, &group_id, Request::ConsumerGroupDescribe(text(&group_id))).await {
        Response::ConsumerGroupDescribe(described) => described,
        other => wrong_kind(&other),
    };
    let sees = sees_topics(&ctx.view(), &described).await;
    (group_id, if sees { Ok(described) } else { Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED) })
}

/// Whether the client may look at every topic that the members have or are to have.
async fn sees_topics(view: &View<'_>, described: &response::ConsumerGroupDescribed) -> bool {
    let sees = |partitions: &PartitionSet| {
        let mut topics = partitions.by_topic().filter_map(|(id, _)| view.catalogue.topic_by_id(Uuid::from_u128(id)));
        topics.all(|topic| view.allowed(Operation::Describe, Resource::Topic(&topic.name)))
    };
    let mut turn = Turn::default();
    for member in &described.members {
        if !sees(&member.assignment) || !sees(&member.target_assignment) {
            return false;
        }
        turn.partition().await;
    }
    true
}

fn refused(group_id: GroupId, error: ErrorCode) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(group_id)
        .with_error_code(error.0)
        .with_authorized_operations(OPERATIONS_NOT_ASKED)
}

fn to_kafka(
    version: i16,
    catalogue: &Catalogue,
    group_id: GroupId,
    operations_asked: bool,
    described: response::ConsumerGroupDescribed,
) -> DescribedGroup {
    let told = operations_asked && !described.error_code.is_err();
    DescribedGroup::default()
        .with_error_code(described.error_code.0)
        .with_error_message(described.error_message.as_ref().map(string))
        .with_group_id(group_id)
        .with_group_state(string(&described.group_state))
        .with_group_epoch(described.group_epoch)
        .with_assignment_epoch(described.assignment_epoch)
        .with_assignor_name(string(&described.assignor_name))
        .with_members(described.members.iter().map(|member| member_response(version, catalogue, member)).collect())
        .with_authorized_operations(if told { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED })
}

fn member_response(version: i16, catalogue: &Catalogue, member: &response::ConsumerGroupMember) -> Member {
    let names = member.subscribed_topic_names.iter().map(|name| TopicName(string(name)));
    let response = Member::default()
        .with_member_id(string(&member.member_id))
        .with_instance_id(member.instance_id.as_ref().map(string))
        .with_rack_id(member.rack_id.as_ref().map(string))
        .with_member_epoch(member.member_epoch)
        .with_client_id(string(&member.client_id))
        .with_client_host(string(&member.client_host))
        .with_subscribed_topic_names(names.collect())
        .with_subscribed_topic_regex(member.subscribed_topic_regex.as_ref().map(string))
        .with_assignment(assignment(catalogue, &member.assignment))
        .with_target_assignment(assignment(catalogue, &member.target_assignment));
    let member_type = if member.is_classic { CLASSIC } else { CONSUMER };
    if version >= MEMBER_TYPE_SINCE { response.with_member_type(member_type) } else { response }
}

/// Partitions by topic. One of a topic that is gone meanwhile is left out: it has no name any more.
fn assignment(catalogue: &Catalogue, partitions: &PartitionSet) -> Assignment {
    let topics = partitions.by_topic().filter_map(|(id, partitions)| {
        let topic = catalogue.topic_by_id(Uuid::from_u128(id))?;
        let response = TopicPartitions::default()
            .with_topic_id(topic.id)
            .with_topic_name(topic_name(&topic.name))
            .with_partitions(partitions.collect());
        Some(response)
    });
    Assignment::default().with_topic_partitions(topics.collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, id_of, versions};
    use super::*;
    use kafka_protocol::protocol::StrBytes;

    fn described(error_code: ErrorCode) -> response::ConsumerGroupDescribed {
        let first = id_of(0).as_u128();
        response::ConsumerGroupDescribed {
            error_code,
            error_message: None,
            group_id: "g".into(),
            group_state: "Stable".into(),
            group_epoch: 3,
            assignment_epoch: 2,
            assignor_name: "uniform".into(),
            members: vec![response::ConsumerGroupMember {
                member_id: "m".into(),
                instance_id: None,
                rack_id: Some("r".into()),
                member_epoch: 2,
                client_id: "app".into(),
                client_host: "/10.0.0.9".into(),
                subscribed_topic_names: ["a".into()].into(),
                subscribed_topic_regex: Some("a.*".into()),
                assignment: [(first, 0), (first, 1), (77, 0)].into_iter().collect(),
                target_assignment: [(first, 1)].into_iter().collect(),
                is_classic: false,
            }],
        }
    }

    fn read(world: &World, version: i16, asked: bool, described: response::ConsumerGroupDescribed) -> DescribedGroup {
        let group_id = GroupId(StrBytes::from_static_str("g"));
        let view = world.view(version);
        let group = if super::super::testing::finish(sees_topics(&view, &described)) {
            to_kafka(version, &view.catalogue, group_id, asked, described)
        } else {
            refused(group_id, ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        };
        as_read(version, &ConsumerGroupDescribeResponse::default().with_groups(vec![group])).groups.remove(0)
    }

    #[test]
    fn a_group_is_told_with_the_names_of_its_topics_in_every_version() {
        let world = World::with(&[("a", 2)]);
        for version in versions(69) {
            let group = read(&world, version, true, described(ErrorCode::NONE));
            assert_eq!((group.group_epoch, group.assignment_epoch, group.assignor_name.as_str()), (3, 2, "uniform"));
            assert_eq!(group.authorized_operations, GROUP_OPERATIONS);
            let member = &group.members[0];
            let topics = &member.assignment.topic_partitions;
            assert_eq!(topics.len(), 1, "a topic that is gone is left out");
            assert_eq!((topics[0].topic_name.as_str(), &topics[0].partitions), ("a", &vec![0, 1]));
            assert_eq!(member.target_assignment.topic_partitions[0].partitions, [1]);
            assert_eq!(member.member_type, if version >= MEMBER_TYPE_SINCE { CONSUMER } else { -1 });
        }
    }

    #[test]
    fn who_may_not_see_an_assigned_topic_is_told_nothing_of_the_group() {
        let mut world = World::with(&[("a", 2)]);
        world.authorizer.denied_topic = Some((Operation::Describe, "a"));
        let group = read(&world, 1, true, described(ErrorCode::NONE));
        assert_eq!((group.error_code, group.members.len()), (29, 0));
        assert_eq!(group.authorized_operations, OPERATIONS_NOT_ASKED);
    }
}
