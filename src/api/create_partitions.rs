//! CreatePartitions (API 37, KIP-195): topics get more partitions.

use std::collections::HashMap;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::call::{CreatePartitionsCall, TopicResult};
use ringgate_shards::controller::{CONTROLLER, more_partitions};
use ringgate_shards::turn::Turn;
use uuid::Uuid;

use super::topics::replicas_error;
use super::{Operation, Outcome, RequestContext, Resource, View};
use crate::net::limit_hits::Limit;

/// Serves a CreatePartitions: each topic gets its partitions or is refused on its own.
pub async fn handle(ctx: &RequestContext, request: CreatePartitionsRequest) -> Outcome {
    let Plan { slots, sound } = plan(&ctx.view(), &request).await;
    let made = if sound.is_empty() {
        Vec::new()
    } else {
        let call = CreatePartitionsCall { topics: sound, validate_only: request.validate_only };
        ctx.shard().submit_to(CONTROLLER, call).await.0
    };
    let topics = slots.len();
    ctx.respond_to_many(topics, response(slots, made).await).await
}

struct Plan<'a> {
    /// The topics to be answered, and why one is refused here.
    slots: Vec<(&'a CreatePartitionsTopic, Option<(ErrorCode, String)>)>,
    /// The others, for the controller.
    sound: Vec<(Uuid, i32)>,
}

async fn plan<'a>(view: &View<'_>, request: &'a CreatePartitionsRequest) -> Plan<'a> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    let mut turn = Turn::default();
    for topic in &request.topics {
        turn.partition().await;
        *times.entry(topic.name.as_str()).or_default() += 1;
    }
    let mut plan = Plan { slots: Vec::new(), sound: Vec::new() };
    for topic in &request.topics {
        turn.partition().await;
        let checked = match times.remove(topic.name.as_str()) {
            // A name that stands there twice is answered once, as in Kafka.
            None => continue,
            Some(1) => check(view, topic),
            Some(_) => Err((ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_string())),
        };
        plan.slots.push((topic, checked.map(|id| plan.sound.push((id, topic.count))).err()));
    }
    plan
}

fn check(view: &View<'_>, asked: &CreatePartitionsTopic) -> Result<Uuid, (ErrorCode, String)> {
    if !view.allowed(Operation::Alter, Resource::Topic(&asked.name)) {
        return Err((ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed to alter the topic".to_string()));
    }
    let Some(topic) = view.catalogue.topic(&asked.name) else {
        let why = "This server does not host this topic.".to_string();
        return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why));
    };
    let more = more_partitions(topic, asked.count)?;
    let most = view.settings.max_partitions_per_topic;
    if asked.count > most {
        view.limit_hits.count(Limit::MaxPartitionsPerTopic);
        let why = format!("{} partitions are over max_partitions_per_topic = {most}", asked.count);
        return Err((ErrorCode::INVALID_PARTITIONS, why));
    }
    if let Some(assignments) = &asked.assignments {
        let refuse = |why: String| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
        let given = assignments.len();
        if given != more {
            return refuse(format!("{more} partition(s) more need an assignment each, and {given} are given"));
        }
        for (partition, assignment) in (topic.partitions..).zip(assignments) {
            if let Some(why) = replicas_error(view, partition, &assignment.broker_ids) {
                return refuse(why);
            }
        }
    }
    Ok(topic.id)
}

/// The answer: the request's topics in its order.
async fn response(
    slots: Vec<(&CreatePartitionsTopic, Option<(ErrorCode, String)>)>,
    made: Vec<TopicResult>,
) -> CreatePartitionsResponse {
    let mut made = made.into_iter();
    let mut turn = Turn::default();
    let mut results = Vec::with_capacity(slots.len());
    for (topic, refused) in slots {
        turn.partition().await;
        let unanswered = || Err((ErrorCode::UNKNOWN_SERVER_ERROR, "the controller did not answer".to_string()));
        let result = refused.map_or_else(|| made.next().unwrap_or_else(unanswered), Err);
        let response = CreatePartitionsTopicResult::default().with_name(topic.name.clone());
        results.push(match result {
            Ok(_) => response.with_error_message(None),
            Err((error, why)) => response.with_error_code(error.0).with_error_message(Some(StrBytes::from_string(why))),
        });
    }
    CreatePartitionsResponse::default().with_results(results)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, id_of, turns, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::BrokerId;
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsAssignment;

    fn topic(name: &str, count: i32) -> CreatePartitionsTopic {
        CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(count).with_assignments(None)
    }

    fn assigned_to(name: &str, count: i32, brokers: &[&[i32]]) -> CreatePartitionsTopic {
        let assignments = brokers.iter().map(|brokers| {
            CreatePartitionsAssignment::default().with_broker_ids(brokers.iter().map(|&id| BrokerId(id)).collect())
        });
        topic(name, count).with_assignments(Some(assignments.collect()))
    }

    /// The controller makes whatever it is asked to.
    fn served(
        world: &World,
        version: i16,
        topics: Vec<CreatePartitionsTopic>,
    ) -> (CreatePartitionsResponse, Vec<Uuid>) {
        let request = CreatePartitionsRequest::default().with_topics(topics);
        let Plan { slots, sound } = finish(plan(&world.view(version), &request));
        let ids: Vec<Uuid> = sound.iter().map(|(id, _)| *id).collect();
        let made = ids.iter().map(|&id| Ok(world.catalogue.topic_by_id(id).unwrap().clone())).collect();
        (as_read(version, &finish(response(slots, made))), ids)
    }

    fn codes(world: &World, topics: Vec<CreatePartitionsTopic>) -> Vec<i16> {
        served(world, 3, topics).0.results.iter().map(|result| result.error_code).collect()
    }

    #[test]
    fn every_version_answers_each_topic_on_its_own() {
        let world = World::with(&[("a", 3), ("b", 3)]);
        for version in versions(37) {
            let asked = vec![topic("no", 4), topic("a", 4), topic("b", 3), topic("a/b", 4)];
            let (response, asked) = served(&world, version, asked);
            let told: Vec<_> = response.results.iter().map(|r| (r.name.as_str(), r.error_code)).collect();
            assert_eq!(told, [("no", 3), ("a", 0), ("b", 37), ("a/b", 3)]);
            assert_eq!(asked, [id_of(0)]);
            assert_eq!(response.results[1].error_message, None);
            assert!(response.results[2].error_message.as_ref().is_some_and(|m| m.contains("already has 3")));
        }
    }

    #[test]
    fn a_count_must_be_more_than_there_are_and_no_more_than_a_topic_may_have() {
        let world = World::with(&[("a", 3)]);
        for (count, code) in [(3, 37), (2, 37), (0, 37), (-1, 37), (i32::MIN, 37), (4, 0), (100, 0), (101, 37)] {
            assert_eq!(codes(&world, vec![topic("a", count)]), [code], "{count}");
        }
    }

    #[test]
    fn a_name_that_stands_there_twice_is_refused_once_and_the_others_are_served() {
        let world = World::with(&[("a", 3), ("b", 3)]);
        let (response, ids) = served(&world, 3, vec![topic("a", 4), topic("b", 4), topic("a", 5)]);
        let told: Vec<_> = response.results.iter().map(|r| (r.name.as_str(), r.error_code)).collect();
        assert_eq!((told, ids), (vec![("a", 42), ("b", 0)], vec![id_of(1)]));
    }

    #[test]
    fn an_assignment_counts_what_is_added_and_must_name_nodes_that_are_there() {
        let mut world = World::with(&[("a", 3)]);
        for (brokers, code) in [
            (&[&[1000][..], &[1001]][..], 0),
            (&[&[1000]], 39),
            (&[], 39),
            (&[&[1000], &[1001], &[1000]], 39),
            (&[&[1000], &[7]], 39),
            (&[&[1000], &[]], 39),
            (&[&[1000], &[1000, 1001]], 39),
        ] {
            assert_eq!(codes(&world, vec![assigned_to("a", 5, brokers)]), [code], "{brokers:?}");
        }
        world.settings.accept_any_replication_factor = true;
        assert_eq!(codes(&world, vec![assigned_to("a", 4, &[&[1000, 1001]])]), [0]);
    }

    #[test]
    fn who_may_not_alter_learns_not_whether_the_topic_exists() {
        let mut world = World::with(&[("a", 3)]);
        world.authorizer.denied_topic = Some((Operation::Alter, "a"));
        assert_eq!(codes(&world, vec![topic("a", 4)]), [29]);
    }

    #[test]
    fn who_names_very_many_topics_lets_others_take_turns() {
        let world = World::with(&[("a", 3)]);
        let topics = (0..20_000).map(|nth| topic(&format!("no-{nth}"), 4)).collect();
        let request = CreatePartitionsRequest::default().with_topics(topics);
        let (planned, Plan { slots, .. }) = turns(plan(&world.view(3), &request));
        let (told, response) = turns(response(slots, Vec::new()));
        assert_eq!(response.results.len(), 20_000);
        assert!(planned > 2 && told > 2, "{planned} and {told} turns");
    }
}
