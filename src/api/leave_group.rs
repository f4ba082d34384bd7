//! LeaveGroup (API 13): members go.

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use ringgate_group::request::LeavingMember;
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{ask, may_read, string, text, wrong_kind};
use super::{Outcome, RequestContext};

/// The first version that names several members (KIP-345).
const BATCH_SINCE: i16 = 3;

/// Serves a LeaveGroup.
pub async fn handle(ctx: &RequestContext, request: LeaveGroupRequest) -> Outcome {
    if !may_read(ctx, &request.group_id) {
        let code = ErrorCode::GROUP_AUTHORIZATION_FAILED.0;
        return ctx.respond(&LeaveGroupResponse::default().with_error_code(code));
    }
    match ask(ctx, &request.group_id, Request::Leave(to_group(ctx.api_version, &request))).await {
        Response::Leave(left) => ctx.respond(&response(ctx.api_version, left)),
        other => wrong_kind(&other),
    }
}

fn to_group(version: i16, request: &LeaveGroupRequest) -> ringgate_group::request::LeaveGroupRequest {
    let members = if version >= BATCH_SINCE {
        let member = |m: &kafka_protocol::messages::leave_group_request::MemberIdentity| LeavingMember {
            member_id: text(&m.member_id),
            group_instance_id: m.group_instance_id.as_ref().map(text),
        };
        request.members.iter().map(member).collect()
    } else {
        vec![LeavingMember { member_id: text(&request.member_id), group_instance_id: None }]
    };
    ringgate_group::request::LeaveGroupRequest { api_version: version, group_id: text(&request.group_id), members }
}

fn response(version: i16, left: ringgate_group::response::LeaveGroupResponse) -> LeaveGroupResponse {
    let mut response = LeaveGroupResponse::default().with_error_code(left.error_code.0);
    if version >= BATCH_SINCE {
        let member = |m: &ringgate_group::response::LeftMember| {
            MemberResponse::default()
                .with_member_id(string(&m.member_id))
                .with_group_instance_id(m.group_instance_id.as_ref().map(string))
                .with_error_code(m.error_code.0)
        };
        response = response.with_members(left.members.iter().map(member).collect());
    } else if !left.error_code.is_err() {
        // One member's error is the whole answer's.
        let member_error = left.members.first().map_or(0, |m| m.error_code.0);
        response = response.with_error_code(member_error);
    }
    response
}
