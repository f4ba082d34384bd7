//! Metadata (API 3): nodes, topics and who leads each partition: the node of the owning shard, so that
//! clients walk to the owning core by themselves. Makes missing topics when that is asked and allowed.

use std::sync::Arc;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::call::CreateTopicsCall;
use ringgate_shards::catalogue::{NewTopic, Topic};
use ringgate_shards::controller::CONTROLLER;

use super::groups::OPERATIONS_NOT_ASKED;
use super::topics::{CLUSTER_OPERATIONS, TOPIC_OPERATIONS, name_error, topic_name};
use super::{Operation, Outcome, RequestContext, Resource};

/// The first version with a controller.
const CONTROLLER_SINCE: i16 = 1;
/// The first version with a cluster id.
const CLUSTER_ID_SINCE: i16 = 2;
/// The first version that says whether topics may be made; before, they may.
const AUTO_CREATE_SINCE: i16 = 4;
/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 7;
/// The first version with authorized operations (KIP-430).
const OPERATIONS_SINCE: i16 = 8;
/// The last version with the cluster's authorized operations (KIP-700).
const CLUSTER_OPERATIONS_UNTIL: i16 = 10;
/// The first version with topic ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 10;

/// One topic of the answer.
enum Told {
    Topic(Arc<Topic>),
    Not { error: ErrorCode, name: Option<String>, id: uuid::Uuid },
}

/// Serves a Metadata.
pub async fn handle(ctx: &RequestContext, request: MetadataRequest) -> Outcome {
    let version = ctx.api_version;
    let told = match &request.topics {
        None => all(ctx),
        // Version 0 cannot say null.
        Some(topics) if version == 0 && topics.is_empty() => all(ctx),
        Some(topics) => {
            let may_create = version < AUTO_CREATE_SINCE || request.allow_auto_topic_creation;
            named(ctx, topics, may_create && ctx.connection.settings.auto_create_topics).await
        }
    };
    let topics = told.into_iter().map(|told| topic_response(ctx, told, request.include_topic_authorized_operations));
    let advertised = &ctx.connection.advertised;
    let brokers = advertised.nodes(ctx.connection.local).into_iter().map(|node| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(node.id))
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
    });
    let mut response = MetadataResponse::default().with_brokers(brokers.collect()).with_topics(topics.collect());
    if version >= CONTROLLER_SINCE {
        response = response.with_controller_id(BrokerId(advertised.controller(ctx.connection.local).id));
    }
    if version >= CLUSTER_ID_SINCE {
        let cluster_id = ctx.connection.settings.cluster_id.clone();
        response = response.with_cluster_id(Some(StrBytes::from_string(cluster_id)));
    }
    if (OPERATIONS_SINCE..=CLUSTER_OPERATIONS_UNTIL).contains(&version) {
        let asked = request.include_cluster_authorized_operations;
        response =
            response.with_cluster_authorized_operations(if asked { CLUSTER_OPERATIONS } else { OPERATIONS_NOT_ASKED });
    }
    ctx.respond(&response)
}

fn all(ctx: &RequestContext) -> Vec<Told> {
    let catalogue = ctx.shard().catalogue();
    let visible = catalogue.topics().filter(|t| ctx.allowed(Operation::Describe, Resource::Topic(&t.name)));
    visible.cloned().map(Told::Topic).collect()
}

async fn named(ctx: &RequestContext, topics: &[MetadataRequestTopic], may_create: bool) -> Vec<Told> {
    let catalogue = ctx.shard().catalogue();
    let mut told: Vec<Told> = Vec::with_capacity(topics.len());
    let mut missing: Vec<NewTopic> = Vec::new();
    for topic in topics {
        let not = |error, name: Option<&str>| Told::Not { error, name: name.map(String::from), id: topic.topic_id };
        let (found, name) = match topic.name.as_ref().map(|name| name.as_str()) {
            Some(name) => (catalogue.topic(name), Some(name)),
            None => (catalogue.topic_by_id(topic.topic_id), None),
        };
        told.push(match (found, name) {
            (Some(found), _) if !ctx.allowed(Operation::Describe, Resource::Topic(&found.name)) => {
                not(ErrorCode::TOPIC_AUTHORIZATION_FAILED, name)
            }
            (Some(found), _) => Told::Topic(found.clone()),
            (None, None) => not(ErrorCode::UNKNOWN_TOPIC_ID, None),
            (None, Some(name)) if name_error(name).is_some() => not(ErrorCode::INVALID_TOPIC_EXCEPTION, Some(name)),
            (None, Some(name)) => {
                if may_create
                    && !missing.iter().any(|m| &*m.name == name)
                    && ctx.allowed(Operation::Create, Resource::Topic(name))
                {
                    missing.push(NewTopic {
                        name: name.into(),
                        partitions: ctx.connection.settings.num_partitions,
                        config: Default::default(),
                    });
                }
                not(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(name))
            }
        });
    }
    if !missing.is_empty() {
        create(ctx, missing, &mut told).await;
    }
    told
}

/// Makes topics and fills in what became of them. One that somebody else made meanwhile is fine.
async fn create(ctx: &RequestContext, missing: Vec<NewTopic>, told: &mut [Told]) {
    let names: Vec<Arc<str>> = missing.iter().map(|m| m.name.clone()).collect();
    let call = CreateTopicsCall { topics: missing, validate_only: false };
    let results = ctx.shard().submit_to(CONTROLLER, call).await.0;
    let catalogue = ctx.shard().catalogue();
    for (name, result) in names.into_iter().zip(results) {
        let became = match (catalogue.topic(&name), result) {
            (Some(topic), _) => Ok(topic.clone()),
            (None, Ok(topic)) => Ok(topic),
            (None, Err((error, message))) => {
                tracing::warn!(topic = %name, %error, message, "a topic could not be made");
                Err(error)
            }
        };
        for slot in told.iter_mut() {
            let Told::Not { error, name: Some(wanted), .. } = slot else { continue };
            if **wanted == *name {
                match &became {
                    Ok(topic) => *slot = Told::Topic(topic.clone()),
                    Err(why) => *error = *why,
                }
            }
        }
    }
}

fn topic_response(ctx: &RequestContext, told: Told, operations_asked: bool) -> MetadataResponseTopic {
    let version = ctx.api_version;
    let mut response = match told {
        Told::Topic(topic) => {
            let partitions = (0..topic.partitions).map(|p| partition_response(ctx, &topic, p)).collect();
            let response =
                MetadataResponseTopic::default().with_name(Some(topic_name(&topic.name))).with_partitions(partitions);
            if version >= TOPIC_IDS_SINCE { response.with_topic_id(topic.id) } else { response }
        }
        Told::Not { error, name, id } => {
            let mut response = MetadataResponseTopic::default().with_error_code(error.0);
            // Only from version 12 on may the name be null.
            response = match name {
                None if version >= 12 => response.with_name(None),
                name => response.with_name(Some(topic_name(&name.unwrap_or_default()))),
            };
            if version >= TOPIC_IDS_SINCE { response.with_topic_id(id) } else { response }
        }
    };
    if version >= OPERATIONS_SINCE {
        let told = operations_asked && response.error_code == 0;
        response =
            response.with_topic_authorized_operations(if told { TOPIC_OPERATIONS } else { OPERATIONS_NOT_ASKED });
    }
    response
}

fn partition_response(ctx: &RequestContext, topic: &Topic, partition: i32) -> MetadataResponsePartition {
    let owner = topic.owner(ctx.shard().route(), partition);
    let leader = BrokerId(ctx.connection.advertised.node_of(owner, ctx.connection.local).id);
    let response = MetadataResponsePartition::default()
        .with_partition_index(partition)
        .with_leader_id(leader)
        .with_replica_nodes(vec![leader])
        .with_isr_nodes(vec![leader]);
    if ctx.api_version >= LEADER_EPOCH_SINCE {
        response.with_leader_epoch(ctx.shard().leader_epoch())
    } else {
        response
    }
}
