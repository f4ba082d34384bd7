//! CreateTopics (API 19).

use std::collections::{BTreeMap, HashMap, HashSet};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::call::{CreateTopicsCall, TopicResult};
use ringgate_shards::catalogue::{NewTopic, Topic};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::topic_config::{TopicConfig, shown};

use super::config_entries::{self, ConfigEntry};
use super::topics::{name_error, replicas_error};
use super::{ApiSettings, Operation, Outcome, RequestContext, Resource, View};
use crate::net::limit_hits::Limit;

/// The first version that tells what was made (KIP-525).
const DETAILS_SINCE: i16 = 5;
/// The first version with topic ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 7;

/// Serves a CreateTopics: each topic is made or refused on its own.
pub async fn handle(ctx: &RequestContext, request: CreateTopicsRequest) -> Outcome {
    let Plan { slots, sound } = plan(&ctx.view(), &request);
    let made = if sound.is_empty() {
        Vec::new()
    } else {
        let call = CreateTopicsCall { topics: sound, validate_only: request.validate_only };
        ctx.shard().submit_to(CONTROLLER, call).await.0
    };
    ctx.respond(&response(&ctx.view(), &request, slots, made))
}

struct Plan<'a> {
    /// The topics to be answered, and why one is refused here.
    slots: Vec<(&'a CreatableTopic, Option<(ErrorCode, String)>)>,
    /// The others, for the controller.
    sound: Vec<NewTopic>,
}

fn plan<'a>(view: &View<'_>, request: &'a CreateTopicsRequest) -> Plan<'a> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *times.entry(topic.name.as_str()).or_default() += 1;
    }
    let mut plan = Plan { slots: Vec::new(), sound: Vec::new() };
    for topic in &request.topics {
        let checked = match times.remove(topic.name.as_str()) {
            // A name that stands there twice is answered once, as in Kafka.
            None => continue,
            Some(1) => check(view, topic),
            Some(_) => Err((ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_string())),
        };
        plan.slots.push((topic, checked.map(|new| plan.sound.push(new)).err()));
    }
    plan
}

fn check(view: &View<'_>, topic: &CreatableTopic) -> Result<NewTopic, (ErrorCode, String)> {
    let settings = view.settings;
    if !view.allowed(Operation::Create, Resource::Topic(&topic.name)) {
        return Err((ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed to create the topic".to_string()));
    }
    if let Some(why) = name_error(&topic.name) {
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, why));
    }
    // Told before anything else that may be wrong, as in Kafka: clients make sure of a topic this way.
    if view.catalogue.topic(&topic.name).is_some() {
        return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{}' already exists.", topic.name.as_str())));
    }
    let partitions = if topic.assignments.is_empty() {
        replication_factor(topic.replication_factor, settings)?;
        match topic.num_partitions {
            -1 => settings.num_partitions,
            n if n >= 1 => n,
            n => {
                let why = format!("Number of partitions is {n}; it must be larger than 0, or -1 for the default.");
                return Err((ErrorCode::INVALID_PARTITIONS, why));
            }
        }
    } else {
        assigned(view, topic)?
    };
    if partitions > settings.max_partitions_per_topic {
        view.limit_hits.count(Limit::MaxPartitionsPerTopic);
        let most = settings.max_partitions_per_topic;
        let why = format!("{partitions} partitions are over max_partitions_per_topic = {most}");
        return Err((ErrorCode::INVALID_PARTITIONS, why));
    }
    let mut config = BTreeMap::new();
    for setting in &topic.configs {
        let Some(value) = &setting.value else {
            let why = format!("Null value not supported for topic configs: {}", shown(&setting.name));
            return Err((ErrorCode::INVALID_CONFIG, why));
        };
        config.insert(setting.name.to_string(), value.to_string());
    }
    TopicConfig::parse(&config, settings.topic_defaults).map_err(|why| (ErrorCode::INVALID_CONFIG, why))?;
    Ok(NewTopic { name: topic.name.as_str().into(), partitions, config })
}

fn replication_factor(factor: i16, settings: &ApiSettings) -> Result<(), (ErrorCode, String)> {
    match factor {
        -1 | 1 => Ok(()),
        2.. if settings.accept_any_replication_factor => Ok(()),
        _ => {
            let why = format!(
                "Replication factor is {factor}; there is one copy here, so 1 or -1 is allowed \
                 (replication_factor_policy = accept takes any and ignores it)"
            );
            Err((ErrorCode::INVALID_REPLICATION_FACTOR, why))
        }
    }
}

/// The number of partitions of a manual assignment, which must name partitions 0 to n-1 once each. The
/// brokers must be there; who owns a partition is settled by its name all the same.
fn assigned(view: &View<'_>, topic: &CreatableTopic) -> Result<i32, (ErrorCode, String)> {
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        let why = "A manual partition assignment was given, so numPartitions and replicationFactor must be -1.";
        return Err((ErrorCode::INVALID_REQUEST, why.into()));
    }
    let refuse = |why: String| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
    let count = topic.assignments.len() as i32;
    let indexes: HashSet<i32> = topic.assignments.iter().map(|a| a.partition_index).collect();
    if indexes.len() != topic.assignments.len() || !indexes.iter().all(|index| (0..count).contains(index)) {
        return refuse(format!("the assigned partitions must be 0 to {}, each once", count - 1));
    }
    for assignment in &topic.assignments {
        if let Some(why) = replicas_error(view, assignment.partition_index, &assignment.broker_ids) {
            return refuse(why);
        }
    }
    Ok(count)
}

/// The answer: the request's topics in its order.
fn response(
    view: &View<'_>,
    request: &CreateTopicsRequest,
    slots: Vec<(&CreatableTopic, Option<(ErrorCode, String)>)>,
    made: Vec<TopicResult>,
) -> CreateTopicsResponse {
    let mut made = made.into_iter();
    let topics = slots.into_iter().map(|(topic, refused)| {
        let unanswered = || Err((ErrorCode::UNKNOWN_SERVER_ERROR, "the controller did not answer".to_string()));
        let result = refused.map_or_else(|| made.next().unwrap_or_else(unanswered), Err);
        topic_response(view, topic, result, request.validate_only)
    });
    CreateTopicsResponse::default().with_topics(topics.collect())
}

fn topic_response(
    view: &View<'_>,
    topic: &CreatableTopic,
    result: TopicResult,
    validate_only: bool,
) -> CreatableTopicResult {
    let response = CreatableTopicResult::default().with_name(topic.name.clone());
    match result {
        Err((error, message)) => {
            let message = Some(StrBytes::from_string(message));
            let response = response.with_error_code(error.0).with_error_message(message);
            if view.version < DETAILS_SINCE {
                return response;
            }
            response.with_num_partitions(-1).with_replication_factor(-1).with_configs(None)
        }
        Ok(made) => {
            let mut response = response.with_error_message(None);
            if view.version >= DETAILS_SINCE {
                response = response
                    .with_num_partitions(made.partitions)
                    .with_replication_factor(1)
                    .with_configs(Some(configs(&made, view.settings)));
            }
            if view.version >= TOPIC_IDS_SINCE && !validate_only {
                response = response.with_topic_id(made.id);
            }
            response
        }
    }
}

fn configs(topic: &Topic, settings: &ApiSettings) -> Vec<CreatableTopicConfigs> {
    let told = |entry: ConfigEntry<'_>| {
        CreatableTopicConfigs::default()
            .with_name(StrBytes::from_static_str(entry.name))
            .with_config_source(entry.source() as i8)
            .with_value(Some(StrBytes::from_string(entry.value)))
            .with_read_only(entry.read_only)
    };
    config_entries::of_topic(&topic.config, settings).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, id_of, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::BrokerId;
    use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopicConfig};
    use ringgate_shards::catalogue::{KAFKA, KAFKA_NAME};
    use uuid::Uuid;

    fn topic(name: &str, partitions: i32, replication_factor: i16) -> CreatableTopic {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(replication_factor)
    }

    fn assigned_to(name: &str, brokers: &[&[i32]]) -> CreatableTopic {
        let assignments = (0..).zip(brokers).map(|(partition, brokers)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(partition)
                .with_broker_ids(brokers.iter().map(|&id| BrokerId(id)).collect())
        });
        topic(name, -1, -1).with_assignments(assignments.collect())
    }

    fn configured(name: &str, settings: &[(&'static str, Option<&'static str>)]) -> CreatableTopic {
        let settings = settings.iter().map(|&(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(value.map(StrBytes::from_static_str))
        });
        topic(name, 1, 1).with_configs(settings.collect())
    }

    fn request(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
        CreateTopicsRequest::default().with_topics(topics)
    }

    /// The controller makes whatever it is asked to.
    fn served(world: &World, version: i16, request: &CreateTopicsRequest) -> CreateTopicsResponse {
        let view = world.view(version);
        let Plan { slots, sound } = plan(&view, request);
        let make = |new: NewTopic| {
            let id = id_of(7);
            let topic = Topic::new(id, 0, (KAFKA, KAFKA_NAME), new.name);
            Ok(Topic { partitions: new.partitions, config: new.config, created_at_ms: 1, ..topic }.into())
        };
        as_read(version, &response(&view, request, slots, sound.into_iter().map(make).collect()))
    }

    fn codes(world: &World, topics: Vec<CreatableTopic>) -> Vec<i16> {
        served(world, 7, &request(topics)).topics.iter().map(|t| t.error_code).collect()
    }

    #[test]
    fn every_version_tells_what_was_made_and_why_not_as_far_as_it_has_words() {
        let world = World::with(&[("there", 6)]);
        let mut made = configured("new", &[("segment.bytes", Some("2097152"))]);
        made.num_partitions = 4;
        let both = request(vec![made, topic("there", 1, 1)]);
        for version in versions(19) {
            let response = served(&world, version, &both);
            let [new, there] = &response.topics[..] else { panic!("{response:?}") };
            assert_eq!((new.name.as_str(), new.error_code, &new.error_message), ("new", 0, &None));
            assert_eq!((there.name.as_str(), there.error_code), ("there", 36));
            assert!(there.error_message.as_ref().is_some_and(|m| m.contains("already exists")));
            let details = (new.num_partitions, new.replication_factor);
            assert_eq!(details, if version >= 5 { (4, 1) } else { (-1, -1) }, "version {version}");
            assert_eq!((there.num_partitions, there.replication_factor), (-1, -1));
            assert_eq!(new.topic_id, if version >= 7 { id_of(7) } else { Uuid::nil() }, "version {version}");
            if version >= 5 {
                let configs = new.configs.as_ref().expect("settings");
                let segment = configs.iter().find(|c| c.name.as_str() == "segment.bytes").expect("segment.bytes");
                assert_eq!((segment.value.as_deref(), segment.config_source), (Some("2097152"), 1));
                let policy = configs.iter().find(|c| c.name.as_str() == "cleanup.policy").expect("cleanup.policy");
                assert_eq!((policy.value.as_deref(), policy.config_source), (Some("delete"), 5));
            }
        }
    }

    #[test]
    fn minus_1_takes_the_defaults() {
        let world = World::with(&[]);
        let response = served(&world, 7, &request(vec![topic("new", -1, -1)]));
        let new = &response.topics[0];
        assert_eq!((new.error_code, new.num_partitions, new.replication_factor), (0, 3, 1));
    }

    #[test]
    fn wrong_names_counts_and_factors_have_each_their_code() {
        let mut world = World::with(&[]);
        let names = vec![topic("", 1, 1), topic("..", 1, 1), topic("a/b", 1, 1), topic(&"x".repeat(250), 1, 1)];
        assert_eq!(codes(&world, names), [17, 17, 17, 17]);
        let counts = vec![topic("a", 0, 1), topic("b", -2, 1), topic("c", 101, 1), topic("d", 100, 1)];
        assert_eq!(codes(&world, counts), [37, 37, 37, 0]);
        let factors = || vec![topic("a", 1, 0), topic("b", 1, -2), topic("c", 1, 3), topic("d", 1, -1)];
        assert_eq!(codes(&world, factors()), [38, 38, 38, 0]);
        world.settings.accept_any_replication_factor = true;
        assert_eq!(codes(&world, factors()), [38, 38, 0, 0]);
    }

    #[test]
    fn a_topic_that_exists_is_answered_36_whatever_else_is_wrong() {
        let world = World::with(&[("there", 6)]);
        assert_eq!(codes(&world, vec![topic("there", 3, 3)]), [36]);
        let wrong = configured("there", &[("no.such", Some("1"))]);
        assert_eq!(codes(&world, vec![wrong]), [36]);
    }

    #[test]
    fn a_name_that_stands_there_twice_is_refused_once_and_the_others_are_made() {
        let world = World::with(&[]);
        let request = request(vec![topic("a", 1, 1), topic("b", 1, 1), topic("a", 2, 1)]);
        let response = served(&world, 7, &request);
        let told: Vec<_> = response.topics.iter().map(|t| (t.name.as_str(), t.error_code)).collect();
        assert_eq!(told, [("a", 42), ("b", 0)]);
    }

    #[test]
    fn an_assignment_counts_partitions_and_must_name_nodes_that_are_there() {
        let mut world = World::with(&[]);
        let response = served(&world, 7, &request(vec![assigned_to("a", &[&[1000], &[1001], &[1000]])]));
        assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (0, 3));
        let mut counted = assigned_to("a", &[&[1000]]);
        counted.num_partitions = 1;
        let mut gap = assigned_to("b", &[&[1000], &[1001]]);
        gap.assignments[1].partition_index = 2;
        let mut twice = assigned_to("c", &[&[1000], &[1001]]);
        twice.assignments[1].partition_index = 0;
        let nobody = assigned_to("d", &[&[]]);
        let stranger = assigned_to("e", &[&[1], &[1000]]);
        assert_eq!(codes(&world, vec![counted, gap, twice, nobody, stranger]), [42, 39, 39, 39, 39]);
        let two = || vec![assigned_to("f", &[&[1000, 1001]])];
        assert_eq!(codes(&world, two()), [39]);
        world.settings.accept_any_replication_factor = true;
        assert_eq!(codes(&world, two()), [0]);
    }

    #[test]
    fn a_setting_that_is_unknown_wrong_or_null_is_answered_40_and_named() {
        let world = World::with(&[]);
        for (name, value) in [("no.such", Some("1")), ("segment.bytes", Some("abc")), ("segment.bytes", None)] {
            let response = served(&world, 7, &request(vec![configured("a", &[(name, value)]), topic("b", 1, 1)]));
            let told: Vec<_> = response.topics.iter().map(|t| t.error_code).collect();
            assert_eq!(told, [40, 0]);
            assert!(response.topics[0].error_message.as_ref().is_some_and(|m| m.contains(name)), "{name}");
        }
    }

    #[test]
    fn who_may_not_create_learns_not_whether_the_topic_exists() {
        let mut world = World::with(&[("there", 1)]);
        world.authorizer.denied_topic = Some((Operation::Create, "there"));
        assert_eq!(codes(&world, vec![topic("there", 1, 1)]), [29]);
    }
}
