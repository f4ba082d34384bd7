//! Heartbeat (API 12): a member of a classic group lives.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use ringgate_group::{ErrorCode, Request, Response, request};
use ringgate_shards::call::HeartbeatSeenCall;

use super::groups::{ask, may_read, text, wrong_kind};
use super::{Authorizer, Outcome, RequestContext};

/// Serves a Heartbeat.
pub async fn handle(ctx: &RequestContext, request: HeartbeatRequest) -> Outcome {
    let error = match denied(ctx, &request.group_id) {
        Some(error) => error,
        None => match ask(ctx, &request.group_id, Request::Heartbeat(to_group(&request))).await {
            Response::Heartbeat(error) => error,
            other => wrong_kind(&other),
        },
    };
    ctx.respond(&HeartbeatResponse::default().with_error_code(error.0))
}

/// Refreshes the session of a Heartbeat whose turn is still to come; nobody waits for it.
pub(super) fn seen(ctx: &RequestContext, request: &HeartbeatRequest) {
    if denied(ctx, &request.group_id).is_none() {
        let owner = ctx.shard().route().group(&request.group_id);
        drop(ctx.shard().submit_to(owner, HeartbeatSeenCall { heartbeat: to_group(request) }));
    }
}

/// What is answered to who may not read with the group.
fn denied(authorizer: &dyn Authorizer, group_id: &str) -> Option<ErrorCode> {
    (!may_read(authorizer, group_id)).then_some(ErrorCode::GROUP_AUTHORIZATION_FAILED)
}

fn to_group(request: &HeartbeatRequest) -> request::HeartbeatRequest {
    request::HeartbeatRequest {
        group_id: text(&request.group_id),
        generation_id: request.generation_id,
        member_id: text(&request.member_id),
        group_instance_id: request.group_instance_id.as_ref().map(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::super::testing::{Rules, as_read, versions};
    use super::*;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::protocol::StrBytes;

    #[test]
    fn every_version_carries_who_lives_and_the_coordinators_code() {
        let string = StrBytes::from_static_str;
        for version in versions(12) {
            let mut request = HeartbeatRequest::default()
                .with_group_id(GroupId(string("g")))
                .with_generation_id(7)
                .with_member_id(string("m"));
            if version >= 3 {
                request = request.with_group_instance_id(Some(string("i")));
            }
            let asked = to_group(&as_read(version, &request));
            assert_eq!((asked.group_id.as_str(), asked.generation_id, asked.member_id.as_str()), ("g", 7, "m"));
            assert_eq!(asked.group_instance_id.as_ref().map(|i| i.as_str()), (version >= 3).then_some("i"));
            let code = ErrorCode::REBALANCE_IN_PROGRESS.0;
            let read = as_read(version, &HeartbeatResponse::default().with_error_code(code));
            assert_eq!(read.error_code, 27, "version {version}");
        }
    }

    #[test]
    fn who_may_not_read_with_the_group_is_answered_30() {
        let rules = Rules { denied_group: Some((Operation::Read, "g")), ..Default::default() };
        assert_eq!(denied(&rules, "g"), Some(ErrorCode::GROUP_AUTHORIZATION_FAILED));
        assert_eq!(denied(&rules, "other"), None);
    }
}
