//! OffsetFetch (API 9): committed offsets, of one group or from version 8 on of several.

use std::collections::HashSet;

use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::request::FetchTopic;
use ringgate_group::response::FetchedOffset;
use ringgate_group::{ErrorCode, Request, Response, Text};
use ringgate_shards::Pending;
use ringgate_shards::call::GroupAnswered;
use ringgate_shards::turn::Turn;

use super::groups::{may_describe, string, submit, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The first version with an error for the group, and with null for all topics.
const GROUP_ERROR_SINCE: i16 = 2;
/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 5;
/// The first version that asks for several groups (KIP-709).
const GROUPS_SINCE: i16 = 8;
/// The first version with member ids (KIP-848).
const MEMBERS_SINCE: i16 = 9;

/// Topic names and partitions that are asked for; `None`: all.
type Wanted = Option<Vec<(StrBytes, Vec<i32>)>>;

/// What is asked of one group.
struct Asked {
    group_id: GroupId,
    member_id: Option<Text>,
    member_epoch: i32,
    require_stable: bool,
    wanted: Wanted,
    /// The request has asked for this group already.
    repeated: bool,
}

/// What one group has.
struct Fetched {
    error: ErrorCode,
    topics: Vec<(StrBytes, Vec<FetchedOffset>)>,
}

impl Fetched {
    /// Topics and partitions.
    fn weight(&self) -> usize {
        self.topics.iter().map(|(_, offsets)| 1 + offsets.len()).sum::<usize>() + 1
    }
}

/// Serves an OffsetFetch. The owners of several groups are asked at once.
pub async fn handle(ctx: &RequestContext, request: OffsetFetchRequest) -> Outcome {
    if ctx.api_version >= GROUPS_SINCE {
        let mut turn = Turn::default();
        let mut submitted = Vec::with_capacity(request.groups.len());
        for asked in several(ctx.api_version, request) {
            let answer = submit_fetch(ctx, &asked, &mut turn).await;
            submitted.push((asked, answer));
        }
        let mut groups = Vec::with_capacity(submitted.len());
        let mut partitions = 0;
        for (asked, answer) in submitted {
            let fetched = fetched(ctx, &asked, answer, &mut turn).await;
            partitions += fetched.weight();
            groups.push(group_response(asked.group_id, fetched, &mut turn).await);
        }
        return ctx.respond_to_many(partitions, OffsetFetchResponse::default().with_groups(groups)).await;
    }
    let mut turn = Turn::default();
    let asked = single(request);
    let answer = submit_fetch(ctx, &asked, &mut turn).await;
    let fetched = fetched(ctx, &asked, answer, &mut turn).await;
    let partitions = fetched.weight();
    let response = single_response(ctx.api_version, asked.wanted, fetched, &mut turn).await;
    ctx.respond_to_many(partitions, response).await
}

/// The one group of a request up to version 7.
fn single(request: OffsetFetchRequest) -> Asked {
    let topics = request.topics;
    Asked {
        group_id: request.group_id,
        member_id: None,
        member_epoch: -1,
        require_stable: request.require_stable,
        wanted: topics.map(|topics| topics.into_iter().map(|t| (t.name.0, t.partition_indexes)).collect()),
        repeated: false,
    }
}

/// The groups of a request from version 8 on.
fn several(version: i16, request: OffsetFetchRequest) -> Vec<Asked> {
    let require_stable = request.require_stable;
    let mut seen = HashSet::new();
    let asked = |group: OffsetFetchRequestGroup| {
        let (member_id, member_epoch) = if version >= MEMBERS_SINCE {
            (group.member_id.as_ref().map(text), group.member_epoch)
        } else {
            (None, -1)
        };
        let topics = group.topics;
        let wanted = topics.map(|topics| topics.into_iter().map(|t| (t.name.0, t.partition_indexes)).collect());
        let repeated = !seen.insert(group.group_id.clone());
        Asked { group_id: group.group_id, member_id, member_epoch, require_stable, wanted, repeated }
    };
    request.groups.into_iter().map(asked).collect()
}

async fn submit_fetch(
    ctx: &RequestContext,
    asked: &Asked,
    turn: &mut Turn,
) -> Result<Pending<GroupAnswered>, ErrorCode> {
    let request = to_group(&ctx.view(), asked, turn).await?;
    Ok(submit(ctx, &asked.group_id, Request::OffsetFetch(request)))
}

/// What became of a group that was asked for.
async fn fetched(
    ctx: &RequestContext,
    asked: &Asked,
    answer: Result<Pending<GroupAnswered>, ErrorCode>,
    turn: &mut Turn,
) -> Fetched {
    match answer {
        Err(error) => Fetched { error, topics: Vec::new() },
        Ok(answer) => match answer.await.0 {
            Response::OffsetFetch(answer) => join(&ctx.view(), &asked.wanted, answer, turn).await,
            other => wrong_kind(&other),
        },
    }
}

fn may_describe_topic(view: &View<'_>, name: &str) -> bool {
    view.allowed(Operation::Describe, Resource::Topic(name))
}

/// The question for the coordinator: only about topics that the client may see.
async fn to_group(
    view: &View<'_>,
    asked: &Asked,
    turn: &mut Turn,
) -> Result<ringgate_group::request::OffsetFetchRequest, ErrorCode> {
    turn.partition().await;
    if !may_describe(view.authorizer, &asked.group_id) {
        return Err(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
    // A request must not be able to ask for all offsets of a large group without end.
    if asked.repeated {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    let mut visible = Vec::new();
    for (name, partitions) in asked.wanted.iter().flatten() {
        turn.partition().await;
        if may_describe_topic(view, name) {
            visible.push(FetchTopic {
                name: text(name),
                topic_id: view.catalogue.topic(name).map_or(0, |t| t.id.as_u128()),
                partition_indexes: partitions.clone(),
            });
        }
    }
    let topics = asked.wanted.is_some().then_some(visible);
    Ok(ringgate_group::request::OffsetFetchRequest {
        group_id: text(&asked.group_id),
        member_id: asked.member_id.clone(),
        member_epoch: asked.member_epoch,
        require_stable: asked.require_stable,
        topics,
    })
}

/// The coordinator's answer and what is known without it, in the order asked.
async fn join(
    view: &View<'_>,
    wanted: &Wanted,
    answer: ringgate_group::response::OffsetFetchResponse,
    turn: &mut Turn,
) -> Fetched {
    let error = answer.error_code;
    if error.is_err() {
        return Fetched { error, topics: Vec::new() };
    }
    let mut answers = answer.topics.into_iter();
    let mut topics = Vec::new();
    match wanted {
        None => {
            for topic in answers {
                turn.partition().await;
                // An offset of a topic that is gone, or was made again, is gone with it.
                let name = topic.name.as_str();
                let same = |id: u128| topic.topic_id == 0 || topic.topic_id == id;
                if view.catalogue.topic(name).is_some_and(|t| same(t.id.as_u128())) && may_describe_topic(view, name) {
                    topics.push((string(&topic.name), topic.partitions));
                }
            }
        }
        Some(wanted) => {
            for (name, partitions) in wanted {
                turn.partition().await;
                let offsets = if may_describe_topic(view, name) {
                    answers.next().map(|topic| topic.partitions).unwrap_or_default()
                } else {
                    nothing(partitions, ErrorCode::TOPIC_AUTHORIZATION_FAILED)
                };
                topics.push((name.clone(), offsets));
            }
        }
    }
    Fetched { error, topics }
}

fn nothing(partitions: &[i32], error_code: ErrorCode) -> Vec<FetchedOffset> {
    let none = |&partition_index: &i32| FetchedOffset {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Text::EMPTY,
        error_code,
    };
    partitions.iter().map(none).collect()
}

/// One group's part of the answer, from version 8 on.
async fn group_response(group_id: GroupId, fetched: Fetched, turn: &mut Turn) -> OffsetFetchResponseGroup {
    let mut topics = Vec::with_capacity(fetched.topics.len());
    for (name, offsets) in fetched.topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(offsets.len());
        for offset in offsets {
            turn.partition().await;
            let partition = OffsetFetchResponsePartitions::default()
                .with_partition_index(offset.partition_index)
                .with_committed_offset(offset.committed_offset)
                .with_committed_leader_epoch(offset.committed_leader_epoch)
                .with_metadata(Some(string(&offset.metadata)))
                .with_error_code(offset.error_code.0);
            partitions.push(partition);
        }
        topics.push(OffsetFetchResponseTopics::default().with_name(TopicName(name)).with_partitions(partitions));
    }
    OffsetFetchResponseGroup::default().with_group_id(group_id).with_topics(topics).with_error_code(fetched.error.0)
}

/// The answer for one group, up to version 7. Version 1 has no error for the group: it stands at each
/// partition.
async fn single_response(version: i16, wanted: Wanted, fetched: Fetched, turn: &mut Turn) -> OffsetFetchResponse {
    let mut topics = fetched.topics;
    if fetched.error.is_err() && version < GROUP_ERROR_SINCE {
        let wanted = wanted.unwrap_or_default().into_iter();
        topics = wanted.map(|(name, partitions)| (name, nothing(&partitions, fetched.error))).collect();
    }
    let mut told = Vec::with_capacity(topics.len());
    for (name, offsets) in topics {
        turn.partition().await;
        let mut partitions = Vec::with_capacity(offsets.len());
        for offset in offsets {
            turn.partition().await;
            let partition = OffsetFetchResponsePartition::default()
                .with_partition_index(offset.partition_index)
                .with_committed_offset(offset.committed_offset)
                .with_metadata(Some(string(&offset.metadata)))
                .with_error_code(offset.error_code.0);
            partitions.push(if version >= LEADER_EPOCH_SINCE {
                partition.with_committed_leader_epoch(offset.committed_leader_epoch)
            } else {
                partition
            });
        }
        told.push(OffsetFetchResponseTopic::default().with_name(TopicName(name)).with_partitions(partitions));
    }
    let response = OffsetFetchResponse::default().with_topics(told);
    if version >= GROUP_ERROR_SINCE { response.with_error_code(fetched.error.0) } else { response }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, id_of, turns, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestTopic, OffsetFetchRequestTopics};
    use ringgate_group::response::FetchedTopic;

    type Offsets = Vec<(String, Vec<(i32, i64, i32, String, i16)>)>;

    fn offset(partition_index: i32) -> FetchedOffset {
        FetchedOffset {
            partition_index,
            committed_offset: 100 + i64::from(partition_index),
            committed_leader_epoch: 4,
            metadata: "meta".into(),
            error_code: ErrorCode::NONE,
        }
    }

    /// A coordinator that has an offset for everything named, and for `all` where nothing is.
    fn coordinator(
        request: ringgate_group::request::OffsetFetchRequest,
        error_code: ErrorCode,
        all: &[(&str, u128)],
    ) -> ringgate_group::response::OffsetFetchResponse {
        let topic = |name: Text, topic_id, partitions: Vec<i32>| FetchedTopic {
            name,
            topic_id,
            partitions: partitions.into_iter().map(offset).collect(),
        };
        let topics = match request.topics {
            _ if error_code.is_err() => Vec::new(),
            Some(topics) => topics.into_iter().map(|t| topic(t.name, t.topic_id, t.partition_indexes)).collect(),
            None => all.iter().map(|&(name, id)| topic(name.into(), id, vec![0])).collect(),
        };
        ringgate_group::response::OffsetFetchResponse { group_id: request.group_id, error_code, topics }
    }

    /// What a client reads of one group: its error, and (topic, [(partition, offset, epoch, metadata, error)]).
    fn served(
        world: &World,
        version: i16,
        topics: Option<&[(&str, &[i32])]>,
        error: ErrorCode,
        all: &[(&str, u128)],
    ) -> (i16, Offsets) {
        let view = world.view(version);
        let group_id = GroupId(StrBytes::from_static_str("g"));
        let turn = &mut Turn::default();
        let fetch = |asked: &Asked| match finish(to_group(&view, asked, &mut Turn::default())) {
            Ok(request) => finish(join(&view, &asked.wanted, coordinator(request, error, all), &mut Turn::default())),
            Err(error) => Fetched { error, topics: Vec::new() },
        };
        let read = |i: i32, o: i64, e: i32, m: &Option<StrBytes>, code: i16| {
            (i, o, e, m.as_ref().map_or("<null>".into(), |m| m.to_string()), code)
        };
        if version >= GROUPS_SINCE {
            let topic = |(name, partitions): &(&str, &[i32])| {
                let partitions = partitions.to_vec();
                OffsetFetchRequestTopics::default().with_name(topic_name(name)).with_partition_indexes(partitions)
            };
            let topics = topics.map(|topics| topics.iter().map(topic).collect());
            let group = OffsetFetchRequestGroup::default().with_group_id(group_id).with_topics(topics);
            let request = OffsetFetchRequest::default().with_groups(vec![group]);
            let groups = several(version, request).into_iter().map(|asked| {
                let fetched = fetch(&asked);
                finish(group_response(asked.group_id, fetched, turn))
            });
            let response = as_read(version, &OffsetFetchResponse::default().with_groups(groups.collect()));
            let [group] = &response.groups[..] else { panic!("{response:?}") };
            assert_eq!(group.group_id.as_str(), "g");
            let topics = group.topics.iter().map(|t| {
                let partitions = t.partitions.iter().map(|p| {
                    let (offset, epoch) = (p.committed_offset, p.committed_leader_epoch);
                    read(p.partition_index, offset, epoch, &p.metadata, p.error_code)
                });
                (t.name.to_string(), partitions.collect())
            });
            (group.error_code, topics.collect())
        } else {
            let topic = |(name, partitions): &(&str, &[i32])| {
                let partitions = partitions.to_vec();
                OffsetFetchRequestTopic::default().with_name(topic_name(name)).with_partition_indexes(partitions)
            };
            let topics = topics.map(|topics| topics.iter().map(topic).collect());
            let asked = single(OffsetFetchRequest::default().with_group_id(group_id).with_topics(topics));
            let fetched = fetch(&asked);
            let response = as_read(version, &finish(single_response(version, asked.wanted, fetched, turn)));
            let topics = response.topics.iter().map(|t| {
                let partitions = t.partitions.iter().map(|p| {
                    let (offset, epoch) = (p.committed_offset, p.committed_leader_epoch);
                    read(p.partition_index, offset, epoch, &p.metadata, p.error_code)
                });
                (t.name.to_string(), partitions.collect())
            });
            (response.error_code, topics.collect())
        }
    }

    fn names(topics: &Offsets) -> Vec<&str> {
        topics.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn every_version_tells_offsets_in_the_order_asked_and_epochs_from_5() {
        let world = World::with(&[("a", 3)]);
        for version in versions(9) {
            let wanted: &[(&str, &[i32])] = &[("no", &[7]), ("a", &[2, 0])];
            let (error, topics) = served(&world, version, Some(wanted), ErrorCode::NONE, &[]);
            let epoch = if version >= 5 { 4 } else { -1 };
            let told = |p: i32| (p, 100 + i64::from(p), epoch, "meta".to_string(), 0);
            let expected = vec![("no".to_string(), vec![told(7)]), ("a".to_string(), vec![told(2), told(0)])];
            assert_eq!((error, topics), (0, expected), "version {version}");
        }
    }

    #[test]
    fn s100_a_groups_error_stands_at_each_partition_in_version_1_and_at_the_group_from_2() {
        let world = World::with(&[("a", 3)]);
        for version in versions(9) {
            let (error, topics) =
                served(&world, version, Some(&[("a", &[0, 1])]), ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, &[]);
            if version == 1 {
                let told = |p: i32| (p, -1, -1, String::new(), 14);
                assert_eq!((error, topics), (0, vec![("a".to_string(), vec![told(0), told(1)])]));
            } else {
                assert_eq!((error, topics), (14, vec![]), "version {version}");
            }
        }
    }

    #[test]
    fn null_is_all_that_the_group_has_of_topics_that_are_still_there() {
        let mut world = World::with(&[("a", 1), ("b", 1), ("again", 1)]);
        let (a, b, other) = (id_of(0).as_u128(), id_of(1).as_u128(), id_of(9).as_u128());
        let all = [("a", a), ("again", other), ("gone", other), ("b", 0)];
        for version in 2..=9 {
            let (error, topics) = served(&world, version, None, ErrorCode::NONE, &all);
            assert_eq!((error, names(&topics)), (0, vec!["a", "b"]), "version {version}");
            let none: &[(&str, &[i32])] = &[];
            assert!(served(&world, version, Some(none), ErrorCode::NONE, &all).1.is_empty(), "version {version}");
        }
        world.authorizer.denied_topic = Some((Operation::Describe, "a"));
        let (_, topics) = served(&world, 9, None, ErrorCode::NONE, &[("a", a), ("b", b)]);
        assert_eq!(names(&topics), ["b"]);
    }

    #[test]
    fn the_coordinator_is_told_which_topic_now_has_the_name() {
        let world = World::with(&[("a", 1)]);
        let wanted = Some(vec![("a".to_string().into(), vec![0]), ("no".to_string().into(), vec![0])]);
        let group_id = GroupId(StrBytes::from_static_str("g"));
        let asked =
            Asked { group_id, member_id: None, member_epoch: -1, require_stable: true, wanted, repeated: false };
        let request = finish(to_group(&world.view(7), &asked, &mut Turn::default())).expect("allowed");
        let ids: Vec<u128> = request.topics.expect("named").iter().map(|t| t.topic_id).collect();
        assert_eq!(ids, [id_of(0).as_u128(), 0]);
        assert!(request.require_stable);
    }

    #[test]
    fn a_group_that_is_asked_for_twice_is_answered_42_the_second_time() {
        let world = World::with(&[]);
        let group = |name| OffsetFetchRequestGroup::default().with_group_id(GroupId(StrBytes::from_static_str(name)));
        let request = OffsetFetchRequest::default().with_groups(["a", "b", "a"].map(group).to_vec());
        let asked = several(8, request);
        let answers = asked
            .iter()
            .map(|asked| finish(to_group(&world.view(8), asked, &mut Turn::default())).map(|r| r.group_id.to_string()));
        let answers: Vec<_> = answers.collect();
        assert_eq!(answers, [Ok("a".into()), Ok("b".into()), Err(ErrorCode::INVALID_REQUEST)]);
    }

    #[test]
    fn member_and_epoch_count_from_version_9() {
        let group = OffsetFetchRequestGroup::default()
            .with_member_id(Some(StrBytes::from_static_str("m")))
            .with_member_epoch(3)
            .with_topics(None);
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        let told = |version| {
            let asked = several(version, request.clone()).remove(0);
            (asked.member_id.map(|m| m.to_string()), asked.member_epoch)
        };
        assert_eq!(told(8), (None, -1));
        assert_eq!(told(9), (Some("m".into()), 3));
    }

    #[test]
    fn s099_a_denied_topic_is_answered_29_in_its_place_and_a_denied_group_30() {
        let mut world = World::with(&[("a", 1), ("b", 1), ("c", 1)]);
        world.authorizer.denied_topic = Some((Operation::Describe, "b"));
        let wanted: &[(&str, &[i32])] = &[("a", &[0]), ("b", &[0]), ("c", &[0])];
        for version in versions(9) {
            let (_, topics) = served(&world, version, Some(wanted), ErrorCode::NONE, &[]);
            let told: Vec<_> = topics.iter().map(|(name, p)| (name.as_str(), p[0].1, p[0].4)).collect();
            assert_eq!(told, [("a", 100, 0), ("b", -1, 29), ("c", 100, 0)], "version {version}");
        }
        world.authorizer.denied_group = Some((Operation::Describe, "g"));
        assert_eq!(served(&world, 8, Some(wanted), ErrorCode::NONE, &[]), (30, vec![]));
    }

    #[test]
    fn a_request_of_many_partitions_lets_others_have_their_turn() {
        let world = World::with(&[("a", 1)]);
        let view = world.view(7);
        let names: Vec<String> = (0..1_000).map(|n| format!("t{n}")).collect();
        let topics = names.iter().map(|name| (topic_name(name).0, (0..10).collect())).collect();
        let asked = Asked { wanted: Some(topics), ..single(OffsetFetchRequest::default()) };
        let turn = &mut Turn::default();
        let (planned, request) = turns(to_group(&view, &asked, turn));
        let answer = coordinator(request.expect("a request"), ErrorCode::NONE, &[]);
        let (joined, fetched) = turns(join(&view, &asked.wanted, answer, turn));
        let (answered, response) = turns(single_response(7, asked.wanted, fetched, turn));
        assert_eq!(response.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>(), 10_000);
        assert!(planned > 0 && joined > 0 && answered > 0, "{planned}, {joined}, {answered}");
    }
}
