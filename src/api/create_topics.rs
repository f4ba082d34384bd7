//! CreateTopics (API 19).

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::call::{CreateTopicsCall, TopicResult};
use ringgate_shards::catalogue::{NewTopic, Topic};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::topic_config;

use super::topics::name_error;
use super::{ApiSettings, Operation, Outcome, RequestContext, Resource};

/// The first version that tells what was made (KIP-525).
const DETAILS_SINCE: i16 = 5;
/// The first version with topic ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 7;
/// Kafka's numbers for where a setting comes from.
const SOURCE_TOPIC: i8 = 1;
const SOURCE_DEFAULT: i8 = 5;

/// Serves a CreateTopics: each topic is made or refused on its own.
pub async fn handle(ctx: &RequestContext, request: CreateTopicsRequest) -> Outcome {
    let names: Vec<&str> = request.topics.iter().map(|t| t.name.as_str()).collect();
    let repeated: BTreeSet<&str> =
        names.iter().filter(|name| names.iter().filter(|other| other == name).count() > 1).copied().collect();
    let mut results: Vec<Option<TopicResult>> = Vec::new();
    let mut sound = Vec::new();
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    let mut order = Vec::new();
    for topic in &request.topics {
        let name = topic.name.as_str();
        // A name that stands there twice is answered once, as in Kafka.
        if !answered.insert(name) {
            continue;
        }
        order.push(topic);
        let checked = if repeated.contains(name) {
            Err((ErrorCode::INVALID_REQUEST, "Found multiple entries for this topic.".to_string()))
        } else if !ctx.allowed(Operation::Create, Resource::Topic(name)) {
            Err((ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed to create the topic".to_string()))
        } else {
            check(topic, &ctx.connection.settings)
        };
        match checked {
            Ok(new) => {
                sound.push(new);
                results.push(None);
            }
            Err(refused) => results.push(Some(Err(refused))),
        }
    }
    let call = CreateTopicsCall { topics: sound, validate_only: request.validate_only };
    let mut made = ctx.shard().submit_to(CONTROLLER, call).await.0.into_iter();
    let responses = order
        .into_iter()
        .zip(results)
        .map(|(topic, result)| {
            let unanswered = || Err((ErrorCode::UNKNOWN_SERVER_ERROR, "the controller did not answer".to_string()));
            let result = result.unwrap_or_else(|| made.next().unwrap_or_else(unanswered));
            response(ctx.api_version, topic, result, request.validate_only, &ctx.connection.settings)
        })
        .collect();
    ctx.respond(&CreateTopicsResponse::default().with_topics(responses))
}

fn check(topic: &CreatableTopic, settings: &ApiSettings) -> Result<NewTopic, (ErrorCode, String)> {
    if let Some(why) = name_error(&topic.name) {
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, why));
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
        assigned(topic, settings)?
    };
    if partitions > settings.max_partitions_per_topic {
        let most = settings.max_partitions_per_topic;
        let why = format!("{partitions} partitions are over max_partitions_per_topic = {most}");
        return Err((ErrorCode::INVALID_PARTITIONS, why));
    }
    let mut config = BTreeMap::new();
    for setting in &topic.configs {
        let Some(value) = &setting.value else {
            let why = format!("Null value not supported for topic configs: {}", setting.name.as_str());
            return Err((ErrorCode::INVALID_CONFIG, why));
        };
        config.insert(setting.name.to_string(), value.to_string());
    }
    topic_config::TopicConfig::parse(&config, settings.topic_defaults)
        .map_err(|why| (ErrorCode::INVALID_CONFIG, why))?;
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

/// The number of partitions of a manual assignment, which must name partitions 0 to n-1 once each.
fn assigned(topic: &CreatableTopic, settings: &ApiSettings) -> Result<i32, (ErrorCode, String)> {
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        let why = "Both numPartitions or replicationFactor and replicasAssignments were set.";
        return Err((ErrorCode::INVALID_REQUEST, why.into()));
    }
    let indexes: BTreeSet<i32> = topic.assignments.iter().map(|a| a.partition_index).collect();
    let count = topic.assignments.len() as i32;
    if indexes.len() != topic.assignments.len() || !indexes.iter().copied().eq(0..count) {
        let why = format!("the assignment's partitions are {indexes:?}; they must be 0 to {}, each once", count - 1);
        return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
    }
    for assignment in &topic.assignments {
        let replicas = assignment.broker_ids.len();
        if replicas == 0 || replicas > 1 && !settings.accept_any_replication_factor {
            let partition = assignment.partition_index;
            let why = format!("partition {partition} is assigned to {replicas} brokers; there is one copy here");
            return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
        }
    }
    Ok(count)
}

fn response(
    version: i16,
    topic: &CreatableTopic,
    result: TopicResult,
    validate_only: bool,
    settings: &ApiSettings,
) -> CreatableTopicResult {
    let mut response = CreatableTopicResult::default().with_name(topic.name.clone()).with_topic_config_error_code(0);
    match result {
        Err((error, message)) => {
            response = response.with_error_code(error.0).with_error_message(Some(StrBytes::from_string(message)));
            if version >= DETAILS_SINCE {
                response = response.with_num_partitions(-1).with_replication_factor(-1).with_configs(None);
            }
        }
        Ok(made) => {
            response = response.with_error_message(None);
            if version >= DETAILS_SINCE {
                response = response
                    .with_num_partitions(made.partitions)
                    .with_replication_factor(1)
                    .with_configs(Some(configs(&made, settings)));
            }
            if version >= TOPIC_IDS_SINCE && !validate_only {
                response = response.with_topic_id(made.id);
            }
        }
    }
    response
}

fn configs(topic: &Topic, settings: &ApiSettings) -> Vec<CreatableTopicConfigs> {
    let all = topic_config::listing(&topic.config, settings.topic_defaults);
    all.into_iter()
        .map(|setting| {
            CreatableTopicConfigs::default()
                .with_name(StrBytes::from_string(setting.name.to_string()))
                .with_value(Some(StrBytes::from_string(setting.value)))
                .with_read_only(setting.read_only)
                .with_config_source(if setting.is_set { SOURCE_TOPIC } else { SOURCE_DEFAULT })
        })
        .collect()
}
