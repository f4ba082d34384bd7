//! SyncGroup (API 14): a member asks for its assignment; answered when the leader's is durable.

use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use ringgate_group::request::Assignment;
use ringgate_group::{ErrorCode, Request, Response};
use ringgate_shards::call::GroupCall;

use super::groups::{may_read, string, text, wrong_kind};
use super::{Outcome, RequestContext};

/// The first version with protocol type and name, both ways (KIP-559).
const PROTOCOL_TYPE_SINCE: i16 = 5;

/// Serves a SyncGroup.
pub async fn handle(ctx: &RequestContext, request: SyncGroupRequest) -> Outcome {
    let refuse = |error: ErrorCode| ctx.respond(&SyncGroupResponse::default().with_error_code(error.0));
    if ctx.api_version >= PROTOCOL_TYPE_SINCE && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return refuse(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    if !may_read(ctx, &request.group_id) {
        return refuse(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
    let owner = ctx.shard().route().group(&request.group_id);
    ctx.connection.parks_at(owner);
    let request = Request::Sync(to_group(ctx, &request));
    match ctx.shard().submit_to(owner, GroupCall { connection: ctx.connection.id, request }).await.0 {
        Response::Sync(synced) => {
            let mut response =
                SyncGroupResponse::default().with_error_code(synced.error_code.0).with_assignment(synced.assignment);
            if ctx.api_version >= PROTOCOL_TYPE_SINCE {
                response = response
                    .with_protocol_type(synced.protocol_type.as_ref().map(string))
                    .with_protocol_name(synced.protocol_name.as_ref().map(string));
            }
            ctx.respond(&response)
        }
        other => wrong_kind(&other),
    }
}

fn to_group(ctx: &RequestContext, request: &SyncGroupRequest) -> ringgate_group::request::SyncGroupRequest {
    ringgate_group::request::SyncGroupRequest {
        api_version: ctx.api_version,
        group_id: text(&request.group_id),
        generation_id: request.generation_id,
        member_id: text(&request.member_id),
        group_instance_id: request.group_instance_id.as_ref().map(text),
        protocol_type: request.protocol_type.as_ref().map(text),
        protocol_name: request.protocol_name.as_ref().map(text),
        assignments: request
            .assignments
            .iter()
            .map(|a| Assignment { member_id: text(&a.member_id), assignment: a.assignment.clone() })
            .collect(),
    }
}
