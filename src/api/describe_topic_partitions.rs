//! DescribeTopicPartitions (API 75): topics and their leaders in pages (KIP-966), for clients that look at
//! clusters of very many partitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use ringgate_group::ErrorCode;
use ringgate_shards::catalogue::Topic;
use ringgate_shards::turn::Turn;

use super::topics::{TOPIC_OPERATIONS, name_error, topic_name};
use super::{Operation, Outcome, RequestContext, Resource, View};
use crate::limits::DESCRIBED_PARTITIONS_MAX;

/// Serves a DescribeTopicPartitions.
pub async fn handle(ctx: &RequestContext, request: DescribeTopicPartitionsRequest) -> Outcome {
    let page = plan(&ctx.view(), &request).await;
    let told = page.told.len();
    // As many partitions as a page may have are encoded here; names that mean nothing are not bounded.
    ctx.respond_to_many(told, response(&ctx.view(), page).await).await
}

/// What one answer tells of: topics by name, as many partitions as fit.
#[derive(Debug, Default)]
struct Page {
    told: Vec<Told>,
    /// Where the next page begins.
    next: Option<(Arc<str>, i32)>,
}

#[derive(Debug)]
enum Told {
    Partitions(Arc<Topic>, std::ops::Range<i32>),
    Not(Arc<str>, ErrorCode),
}

/// The page that the cursor asks for. No topics at all stand for every topic, as in Kafka, where what may not be
/// seen is left out; a cursor that cannot be is an error of every topic that is named.
async fn plan(view: &View<'_>, request: &DescribeTopicPartitionsRequest) -> Page {
    let mut turn = Turn::default();
    let (from_topic, from_partition) = match &request.cursor {
        Some(cursor) if cursor.partition_index < 0 => {
            let mut told = Vec::with_capacity(request.topics.len());
            for topic in &request.topics {
                turn.partition().await;
                told.push(Told::Not(topic.name.as_str().into(), ErrorCode::INVALID_REQUEST));
            }
            return Page { told, next: None };
        }
        Some(cursor) => (cursor.topic_name.as_str(), cursor.partition_index),
        None => ("", 0),
    };
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    if request.topics.is_empty() {
        for topic in view.catalogue.topics() {
            turn.partition().await;
            if *topic.name >= *from_topic && view.allowed(Operation::Describe, Resource::Topic(&topic.name)) {
                names.insert(topic.name.clone());
            }
        }
    }
    for topic in &request.topics {
        turn.partition().await;
        if topic.name.as_str() >= from_topic {
            names.insert(Arc::from(topic.name.as_str()));
        }
    }
    let mut room = request.response_partition_limit.clamp(1, DESCRIBED_PARTITIONS_MAX);
    let mut page = Page::default();
    for name in names {
        turn.partition().await;
        if room == 0 {
            page.next = Some((name, 0));
            break;
        }
        let topic = match look(view, &name) {
            Ok(topic) => topic,
            Err(error) => {
                page.told.push(Told::Not(name, error));
                continue;
            }
        };
        let begin = if *name == *from_topic { from_partition.min(topic.partitions) } else { 0 };
        let end = topic.partitions.min(begin.saturating_add(room));
        room -= end - begin;
        page.told.push(Told::Partitions(topic.clone(), begin..end));
        if end < topic.partitions {
            page.next = Some((name, end));
            break;
        }
    }
    page
}

fn look(view: &View<'_>, name: &str) -> Result<Arc<Topic>, ErrorCode> {
    if !view.allowed(Operation::Describe, Resource::Topic(name)) {
        return Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    match view.catalogue.topic(name) {
        Some(topic) => Ok(topic.clone()),
        None if name_error(name).is_some() => Err(ErrorCode::INVALID_TOPIC_EXCEPTION),
        None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}

async fn response(view: &View<'_>, page: Page) -> DescribeTopicPartitionsResponse {
    let mut turn = Turn::default();
    let mut topics = Vec::with_capacity(page.told.len());
    for told in page.told {
        turn.partition().await;
        topics.push(match told {
            Told::Partitions(topic, range) => {
                let mut partitions = Vec::with_capacity(range.len());
                for partition in range {
                    turn.partition().await;
                    partitions.push(partition_response(view, &topic, partition));
                }
                DescribeTopicPartitionsResponseTopic::default()
                    .with_name(Some(topic_name(&topic.name)))
                    .with_topic_id(topic.id)
                    .with_topic_authorized_operations(TOPIC_OPERATIONS)
                    .with_partitions(partitions)
            }
            Told::Not(name, error) => DescribeTopicPartitionsResponseTopic::default()
                .with_error_code(error.0)
                .with_name(Some(topic_name(&name)))
                .with_topic_authorized_operations(super::groups::OPERATIONS_NOT_ASKED),
        });
    }
    let next = page
        .next
        .map(|(name, partition)| Cursor::default().with_topic_name(topic_name(&name)).with_partition_index(partition));
    DescribeTopicPartitionsResponse::default().with_topics(topics).with_next_cursor(next)
}

fn partition_response(view: &View<'_>, topic: &Topic, partition: i32) -> DescribeTopicPartitionsResponsePartition {
    let leader = BrokerId(view.advertised.id_of(topic.owner(view.route, partition)));
    DescribeTopicPartitionsResponsePartition::default()
        .with_partition_index(partition)
        .with_leader_id(leader)
        .with_leader_epoch(view.leader_epoch)
        .with_replica_nodes(vec![leader])
        .with_isr_nodes(vec![leader])
        .with_eligible_leader_replicas(Some(Vec::new()))
        .with_last_known_elr(Some(Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, id_of, turns, versions};
    use super::*;
    use kafka_protocol::messages::describe_topic_partitions_request::{Cursor as AskedCursor, TopicRequest};

    /// One page as a client reads it: (topic, code, partitions), and where the next begins.
    type Read = (Vec<(String, i16, Vec<i32>)>, Option<(String, i32)>);

    fn read(world: &World, topics: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> Read {
        let topic = |name: &&str| TopicRequest::default().with_name(topic_name(name));
        let cursor = cursor.map(|(name, partition)| {
            AskedCursor::default().with_topic_name(topic_name(name)).with_partition_index(partition)
        });
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(topics.iter().map(topic).collect())
            .with_response_partition_limit(limit)
            .with_cursor(cursor);
        let page = finish(plan(&world.view(0), &as_read(0, &request)));
        let response = as_read(0, &finish(response(&world.view(0), page)));
        let told = response.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| partition.partition_index).collect();
            (topic.name.as_ref().expect("a name").to_string(), topic.error_code, partitions)
        });
        let next = response.next_cursor.map(|cursor| (cursor.topic_name.to_string(), cursor.partition_index));
        (told.collect(), next)
    }

    fn told(name: &str, code: i16, partitions: impl IntoIterator<Item = i32>) -> (String, i16, Vec<i32>) {
        (name.to_owned(), code, partitions.into_iter().collect())
    }

    #[test]
    fn pages_follow_each_other_without_a_gap_and_end() {
        assert_eq!(versions(75), 0..=0);
        let world = World::with(&[("b", 5), ("a", 2), ("c", 1)]);
        let (page, next) = read(&world, &[], 3, None);
        assert_eq!((page, next.clone()), (vec![told("a", 0, 0..2), told("b", 0, 0..1)], Some(("b".into(), 1))));
        let (page, next) = read(&world, &[], 4, next.as_ref().map(|(name, at)| (name.as_str(), *at)));
        assert_eq!((page, next.clone()), (vec![told("b", 0, 1..5)], Some(("c".into(), 0))));
        let (page, next) = read(&world, &[], 4, next.as_ref().map(|(name, at)| (name.as_str(), *at)));
        assert_eq!((page, next), (vec![told("c", 0, 0..1)], None));
    }

    #[test]
    fn named_topics_come_by_name_each_once_and_what_is_wrong_with_one_stays_with_it() {
        let world = World::with(&[("b", 1), ("a", 1)]);
        let (page, next) = read(&world, &["b", "no", "a/", "a", "b"], 2000, None);
        assert_eq!(page, [told("a", 0, [0]), told("a/", 17, []), told("b", 0, [0]), told("no", 3, [])]);
        assert_eq!(next, None);
        // A cursor behind the last partition, or at a topic that went meanwhile, goes on with the next topic.
        assert_eq!(read(&world, &[], 9, Some(("a", 7))).0, [told("a", 0, []), told("b", 0, [0])]);
        assert_eq!(read(&world, &[], 9, Some(("aa", 7))).0, [told("b", 0, [0])]);
    }

    #[test]
    fn a_page_holds_one_partition_at_least_and_no_more_than_the_limit() {
        let world = World::with(&[("a", DESCRIBED_PARTITIONS_MAX + 1)]);
        for (limit, expected) in [(i32::MIN, 1), (0, 1), (7, 7), (i32::MAX, DESCRIBED_PARTITIONS_MAX)] {
            let (page, next) = read(&world, &["a"], limit, None);
            assert_eq!((page, next), (vec![told("a", 0, 0..expected)], Some(("a".into(), expected))), "{limit}");
        }
    }

    #[test]
    fn a_topic_is_told_with_its_id_its_leaders_and_what_may_be_done() {
        let world = World::with(&[("a", 4)]);
        let view = world.view(0);
        let request = DescribeTopicPartitionsRequest::default().with_response_partition_limit(10);
        let response = as_read(0, &finish(response(&view, finish(plan(&view, &request)))));
        let topic = &response.topics[0];
        assert_eq!((topic.topic_id, topic.topic_authorized_operations), (id_of(0), TOPIC_OPERATIONS));
        for partition in &topic.partitions {
            let owner = view.catalogue.topics().next().expect("a").owner(view.route, partition.partition_index);
            assert_eq!((partition.leader_id.0, partition.leader_epoch), (view.advertised.id_of(owner), 5));
            assert_eq!(partition.isr_nodes, [partition.leader_id]);
        }
    }

    #[test]
    fn what_may_not_be_seen_is_left_out_of_all_and_refused_by_name() {
        let mut world = World::with(&[("a", 1), ("b", 1)]);
        world.authorizer.denied_topic = Some((Operation::Describe, "a"));
        assert_eq!(read(&world, &[], 9, None).0, [told("b", 0, [0])]);
        assert_eq!(read(&world, &["a", "b"], 9, None).0, [told("a", 29, []), told("b", 0, [0])]);
    }

    #[test]
    fn a_negative_partition_in_the_cursor_is_refused() {
        let world = World::with(&[("a", 1), ("b", 1)]);
        assert_eq!(read(&world, &["b"], 9, Some(("a", -1))), (vec![told("b", 42, [])], None));
    }

    #[test]
    fn who_names_very_many_topics_lets_others_take_turns() {
        let world = World::with(&[("a", 1)]);
        let topic = |nth| TopicRequest::default().with_name(topic_name(&format!("no-{nth}")));
        let request = DescribeTopicPartitionsRequest::default().with_topics((0..20_000).map(topic).collect());
        let view = world.view(0);
        let (planned, page) = turns(plan(&view, &request));
        let (told, response) = turns(response(&view, page));
        assert_eq!(response.topics.len(), 20_000);
        assert!(planned > 2 && told > 2, "{planned} and {told} turns");
    }
}
