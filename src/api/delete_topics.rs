//! DeleteTopics (API 20).

use std::collections::HashSet;

use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::call::DeleteTopicsCall;
use ringgate_shards::controller::CONTROLLER;
use uuid::Uuid;

use super::topics::topic_name;
use super::{Operation, Outcome, RequestContext, Resource};

/// The first version that says why.
const MESSAGE_SINCE: i16 = 5;
/// The first version that takes ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 6;

/// One topic of the request and what is known of it so far.
struct Asked {
    name: Option<TopicName>,
    id: Uuid,
    refused: Option<(ErrorCode, String)>,
}

/// Serves a DeleteTopics.
pub async fn handle(ctx: &RequestContext, request: DeleteTopicsRequest) -> Outcome {
    let named: Vec<(Option<TopicName>, Uuid)> = if ctx.api_version >= TOPIC_IDS_SINCE {
        request.topics.into_iter().map(|t| (t.name, t.topic_id)).collect()
    } else {
        request.topic_names.into_iter().map(|name| (Some(name), Uuid::nil())).collect()
    };
    let mut seen = HashSet::new();
    let asked: Vec<Asked> = named.into_iter().map(|(name, id)| resolve(ctx, name, id, &mut seen)).collect();
    let topics: Vec<Uuid> = asked.iter().filter(|a| a.refused.is_none()).map(|a| a.id).collect();
    let mut done = if topics.is_empty() {
        Vec::new().into_iter()
    } else {
        ctx.shard().submit_to(CONTROLLER, DeleteTopicsCall { topics }).await.0.into_iter()
    };
    let responses = asked.into_iter().map(|asked| {
        let failed = match asked.refused {
            Some(refused) => Some(refused),
            None => done.next().and_then(Result::err),
        };
        response(ctx.api_version, asked.name, asked.id, failed)
    });
    ctx.respond(&DeleteTopicsResponse::default().with_responses(responses.collect()))
}

fn resolve(ctx: &RequestContext, name: Option<TopicName>, id: Uuid, seen: &mut HashSet<Uuid>) -> Asked {
    let catalogue = ctx.shard().catalogue();
    if name.is_some() && !id.is_nil() {
        let refused = (ErrorCode::INVALID_REQUEST, "You may not specify both topic name and topic id.".to_string());
        return Asked { name, id, refused: Some(refused) };
    }
    let found = match &name {
        Some(name) => catalogue.topic(name),
        None => catalogue.topic_by_id(id),
    };
    let refused = match found {
        None if name.is_some() => {
            Some((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.".to_string()))
        }
        None => Some((ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic ID.".to_string())),
        Some(topic) if !ctx.allowed(Operation::Delete, Resource::Topic(&topic.name)) => {
            Some((ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed to delete the topic".to_string()))
        }
        Some(topic) if !seen.insert(topic.id) => {
            Some((ErrorCode::INVALID_REQUEST, "The topic is named twice.".to_string()))
        }
        Some(_) => None,
    };
    match found {
        Some(topic) => Asked { name: Some(topic_name(&topic.name)), id: topic.id, refused },
        None => Asked { name, id, refused },
    }
}

fn response(
    version: i16,
    name: Option<TopicName>,
    id: Uuid,
    failed: Option<(ErrorCode, String)>,
) -> DeletableTopicResult {
    let mut response = DeletableTopicResult::default();
    response = if version >= TOPIC_IDS_SINCE {
        response.with_name(name).with_topic_id(id)
    } else {
        response.with_name(Some(name.unwrap_or_default()))
    };
    if let Some((error, message)) = failed {
        response = response.with_error_code(error.0);
        if version >= MESSAGE_SINCE {
            response = response.with_error_message(Some(StrBytes::from_string(message)));
        }
    }
    response
}
