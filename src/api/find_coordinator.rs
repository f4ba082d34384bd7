//! FindCoordinator (API 10): which node coordinates a group: its owner's, so that members walk to the
//! owning core by themselves.

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;

use super::groups::may_describe;
use super::{Outcome, RequestContext};
use crate::net::advertise::Node;

/// The first version with a message.
const MESSAGE_SINCE: i16 = 1;
/// The first version that asks for several.
const BATCH_SINCE: i16 = 4;
/// Kafka's number for a consumer group.
const GROUP: i8 = 0;
/// Kafka's number for a transactional id.
const TRANSACTION: i8 = 1;

/// Serves a FindCoordinator.
pub async fn handle(ctx: &RequestContext, request: FindCoordinatorRequest) -> Outcome {
    let find = |key: &StrBytes| find(ctx, request.key_type, key);
    if ctx.api_version >= BATCH_SINCE {
        let coordinators = request.coordinator_keys.iter().map(|key| batch_entry(key.clone(), find(key))).collect();
        return ctx.respond(&FindCoordinatorResponse::default().with_coordinators(coordinators));
    }
    let mut response = FindCoordinatorResponse::default();
    let message = match find(&request.key) {
        Ok(node) => {
            response.node_id = BrokerId(node.id);
            response.host = StrBytes::from_string(node.host);
            response.port = i32::from(node.port);
            "NONE".to_string()
        }
        Err((error, message)) => {
            response.error_code = error.0;
            response.node_id = BrokerId(-1);
            response.port = -1;
            message
        }
    };
    if ctx.api_version >= MESSAGE_SINCE {
        response.error_message = Some(StrBytes::from_string(message));
    }
    ctx.respond(&response)
}

fn find(ctx: &RequestContext, key_type: i8, key: &str) -> Result<Node, (ErrorCode, String)> {
    match key_type {
        GROUP if !may_describe(ctx, key) => {
            Err((ErrorCode::GROUP_AUTHORIZATION_FAILED, "not allowed to describe the group".into()))
        }
        GROUP => Ok(ctx.connection.advertised.node_of(ctx.shard().route().group(key), ctx.connection.local)),
        TRANSACTION => Err((ErrorCode::INVALID_REQUEST, "transactions are not supported".into())),
        other => Err((ErrorCode::INVALID_REQUEST, format!("key type {other} is not known; allowed is 0, a group"))),
    }
}

fn batch_entry(key: StrBytes, found: Result<Node, (ErrorCode, String)>) -> Coordinator {
    let entry = Coordinator::default().with_key(key);
    match found {
        Ok(node) => entry
            .with_node_id(BrokerId(node.id))
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
            .with_error_message(Some(StrBytes::new())),
        Err((error, message)) => entry
            .with_node_id(BrokerId(-1))
            .with_port(-1)
            .with_error_code(error.0)
            .with_error_message(Some(StrBytes::from_string(message))),
    }
}
