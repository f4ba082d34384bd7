//! LeaveGroup (API 13): members go.

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use ringgate_group::request::LeavingMember;
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{ask, may_read, string, text, wrong_kind};
use super::{Authorizer, Outcome, RequestContext};

/// The first version that names several members (KIP-345).
const BATCH_SINCE: i16 = 3;

/// Serves a LeaveGroup.
pub async fn handle(ctx: &RequestContext, request: LeaveGroupRequest) -> Outcome {
    if let Some(denied) = denied(ctx, &request.group_id) {
        return ctx.respond(&denied);
    }
    let (version, group_id) = (ctx.api_version, request.group_id.clone());
    let request = ctx.taken_in(request.members.len(), request, to_group).await;
    match ask(ctx, &group_id, Request::Leave(request)).await {
        Response::Leave(left) => ctx.respond_with_members(left.members.len(), move || response(version, left)).await,
        other => wrong_kind(&other),
    }
}

/// The answer to who may not read with the group.
fn denied(authorizer: &dyn Authorizer, group_id: &str) -> Option<LeaveGroupResponse> {
    let code = ErrorCode::GROUP_AUTHORIZATION_FAILED.0;
    (!may_read(authorizer, group_id)).then(|| LeaveGroupResponse::default().with_error_code(code))
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

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::super::testing::{Rules, as_read, versions};
    use super::*;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::messages::leave_group_request::MemberIdentity;
    use kafka_protocol::protocol::StrBytes;
    use ringgate_group::Text;
    use ringgate_group::response::LeftMember;

    fn left(
        error_code: ErrorCode,
        members: &[(&str, Option<&str>, ErrorCode)],
    ) -> ringgate_group::response::LeaveGroupResponse {
        let member = |&(id, instance, error_code): &(&str, Option<&str>, ErrorCode)| LeftMember {
            member_id: id.into(),
            group_instance_id: instance.map(Text::from),
            error_code,
        };
        let members = members.iter().map(member).collect();
        ringgate_group::response::LeaveGroupResponse { error_code, members }
    }

    #[test]
    fn one_member_leaves_up_to_version_2_and_several_from_3() {
        let string = StrBytes::from_static_str;
        for version in versions(13) {
            let mut request = LeaveGroupRequest::default().with_group_id(GroupId(string("g")));
            let expected = if version < 3 {
                request = request.with_member_id(string("m"));
                vec![LeavingMember { member_id: "m".into(), group_instance_id: None }]
            } else {
                let mut by_name = MemberIdentity::default().with_group_instance_id(Some(string("i")));
                if version >= 5 {
                    by_name = by_name.with_reason(Some(string("because")));
                }
                request = request.with_members(vec![MemberIdentity::default().with_member_id(string("m")), by_name]);
                vec![
                    LeavingMember { member_id: "m".into(), group_instance_id: None },
                    LeavingMember { member_id: "".into(), group_instance_id: Some("i".into()) },
                ]
            };
            let asked = to_group(version, &as_read(version, &request));
            assert_eq!((asked.api_version, asked.group_id.as_str()), (version, "g"));
            assert_eq!(asked.members, expected, "version {version}");
        }
    }

    #[test]
    fn s083_a_members_error_is_the_answers_up_to_version_2_and_stands_at_the_member_from_3() {
        for version in versions(13) {
            let one = left(ErrorCode::NONE, &[("m", Some("i"), ErrorCode::UNKNOWN_MEMBER_ID)]);
            let read = as_read(version, &response(version, one));
            if version < 3 {
                assert_eq!((read.error_code, read.members.len()), (25, 0), "version {version}");
            } else {
                let [member] = &read.members[..] else { panic!("{read:?}") };
                assert_eq!((read.error_code, member.error_code), (0, 25), "version {version}");
                assert_eq!((member.member_id.as_str(), member.group_instance_id.as_deref()), ("m", Some("i")));
            }
            let all = as_read(version, &response(version, left(ErrorCode::COORDINATOR_NOT_AVAILABLE, &[])));
            assert_eq!((all.error_code, all.members.len()), (15, 0), "version {version}");
            let coordinators = as_read(version, &response(version, left(ErrorCode::UNKNOWN_MEMBER_ID, &[])));
            assert_eq!(coordinators.error_code, 25);
        }
    }

    #[test]
    fn who_may_not_read_with_the_group_is_answered_30_as_a_whole() {
        let rules = Rules { denied_group: Some((Operation::Read, "g")), ..Default::default() };
        for version in versions(13) {
            let read = as_read(version, &denied(&rules, "g").expect("denied"));
            assert_eq!((read.error_code, read.members.len()), (30, 0));
        }
        assert!(denied(&rules, "other").is_none());
    }
}
