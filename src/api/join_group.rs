//! JoinGroup (API 11): a member offers itself; answered when the group's next generation begins.

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use ringgate_group::request::Protocol;
use ringgate_group::{ErrorCode, Request, Response, Text};
use ringgate_shards::call::GroupCall;

use super::groups::{client_host, may_read, string, text, wrong_kind};
use super::{Authorizer, Outcome, RequestContext};

/// The first version with a rebalance timeout.
const REBALANCE_TIMEOUT_SINCE: i16 = 1;
/// The first version with static members (KIP-345).
const INSTANCE_IDS_SINCE: i16 = 5;
/// The first version that echoes the protocol type and lets the name be null (KIP-559).
const PROTOCOL_TYPE_SINCE: i16 = 7;
/// The first version with `skip_assignment` (KIP-814).
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

/// Serves a JoinGroup.
pub async fn handle(ctx: &RequestContext, request: JoinGroupRequest) -> Outcome {
    if let Some(denied) = denied(ctx, ctx.api_version, &request.group_id) {
        return ctx.respond(&denied);
    }
    let owner = ctx.shard().route().group(&request.group_id);
    ctx.connection.parks_at(owner);
    let request = Request::Join(to_group(ctx.api_version, &request, ctx.client_id.as_deref(), client_host(ctx)));
    match ctx.shard().submit_to(owner, GroupCall { connection: ctx.connection.id, request }).await.0 {
        Response::Join(joined) => {
            let version = ctx.api_version;
            ctx.respond_with_members(joined.members.len(), move || response(version, joined)).await
        }
        other => wrong_kind(&other),
    }
}

/// The answer to who may not read with the group.
fn denied(authorizer: &dyn Authorizer, version: i16, group_id: &str) -> Option<JoinGroupResponse> {
    let refused = || response(version, refusal(ErrorCode::GROUP_AUTHORIZATION_FAILED));
    (!may_read(authorizer, group_id)).then(refused)
}

fn to_group(
    version: i16,
    request: &JoinGroupRequest,
    client_id: Option<&str>,
    client_host: Text,
) -> ringgate_group::request::JoinGroupRequest {
    let protocol = |p: &JoinGroupRequestProtocol| Protocol { name: text(&p.name), metadata: p.metadata.clone() };
    let timeout_is_there = version >= REBALANCE_TIMEOUT_SINCE;
    ringgate_group::request::JoinGroupRequest {
        api_version: version,
        group_id: text(&request.group_id),
        member_id: text(&request.member_id),
        group_instance_id: request.group_instance_id.as_ref().map(text),
        protocol_type: text(&request.protocol_type),
        protocols: request.protocols.iter().map(protocol).collect(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if timeout_is_there { request.rebalance_timeout_ms } else { -1 },
        client_id: client_id.map_or(Text::EMPTY, Text::from),
        client_host,
    }
}

fn refusal(error_code: ErrorCode) -> ringgate_group::response::JoinGroupResponse {
    ringgate_group::response::JoinGroupResponse {
        error_code,
        generation_id: -1,
        protocol_type: None,
        protocol_name: None,
        leader: Text::EMPTY,
        skip_assignment: false,
        member_id: Text::EMPTY,
        members: Vec::new(),
    }
}

fn response(version: i16, joined: ringgate_group::response::JoinGroupResponse) -> JoinGroupResponse {
    let member = |m: ringgate_group::response::JoinGroupResponseMember| {
        let member = JoinGroupResponseMember::default().with_member_id(string(&m.member_id)).with_metadata(m.metadata);
        if version >= INSTANCE_IDS_SINCE {
            member.with_group_instance_id(m.group_instance_id.as_ref().map(string))
        } else {
            member
        }
    };
    let mut response = JoinGroupResponse::default()
        .with_error_code(joined.error_code.0)
        .with_generation_id(joined.generation_id)
        .with_leader(string(&joined.leader))
        .with_member_id(string(&joined.member_id))
        .with_members(joined.members.into_iter().map(member).collect());
    let protocol_name = joined.protocol_name.as_ref().map(string);
    if version >= PROTOCOL_TYPE_SINCE {
        response =
            response.with_protocol_name(protocol_name).with_protocol_type(joined.protocol_type.as_ref().map(string));
    } else {
        response = response.with_protocol_name(Some(protocol_name.unwrap_or_default()));
    }
    if version >= SKIP_ASSIGNMENT_SINCE {
        response = response.with_skip_assignment(joined.skip_assignment);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::super::testing::{Rules, as_read, versions};
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::protocol::StrBytes;

    #[test]
    fn the_coordinator_gets_what_the_version_has() {
        let string = StrBytes::from_static_str;
        let protocol =
            JoinGroupRequestProtocol::default().with_name(string("range")).with_metadata(Bytes::from_static(b"topics"));
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(string("g")))
            .with_member_id(string("m"))
            .with_group_instance_id(Some(string("i")))
            .with_protocol_type(string("consumer"))
            .with_protocols(vec![protocol])
            .with_session_timeout_ms(45_000)
            .with_rebalance_timeout_ms(300_000);
        for version in versions(11) {
            let asked = to_group(version, &request, Some("app"), "/10.0.0.9".into());
            assert_eq!((asked.api_version, asked.session_timeout_ms), (version, 45_000));
            assert_eq!(asked.rebalance_timeout_ms, if version >= 1 { 300_000 } else { -1 }, "version {version}");
            assert_eq!((asked.group_id.as_str(), asked.member_id.as_str()), ("g", "m"));
            assert_eq!(asked.group_instance_id.as_ref().map(|i| i.as_str()), Some("i"));
            assert_eq!((asked.client_id.as_str(), asked.client_host.as_str()), ("app", "/10.0.0.9"));
            assert_eq!(asked.protocol_type.as_str(), "consumer");
            let expected = Protocol { name: "range".into(), metadata: Bytes::from_static(b"topics") };
            assert_eq!(asked.protocols, [expected]);
        }
        assert_eq!(to_group(0, &request, None, Text::EMPTY).client_id, Text::EMPTY);
    }

    #[test]
    fn a_leaders_answer_can_be_written_in_every_version() {
        for version in versions(11) {
            let joined = ringgate_group::response::JoinGroupResponse {
                error_code: ErrorCode::NONE,
                generation_id: 7,
                protocol_type: Some("consumer".into()),
                protocol_name: Some("range".into()),
                leader: "m1".into(),
                skip_assignment: true,
                member_id: "m1".into(),
                members: vec![ringgate_group::response::JoinGroupResponseMember {
                    member_id: "m1".into(),
                    group_instance_id: Some("i1".into()),
                    metadata: Bytes::from_static(b"meta"),
                }],
            };
            let read = as_read(version, &response(version, joined));
            assert_eq!((read.error_code, read.generation_id), (0, 7));
            assert_eq!((read.leader.as_str(), read.member_id.as_str()), ("m1", "m1"));
            assert_eq!((read.members[0].member_id.as_str(), &read.members[0].metadata[..]), ("m1", &b"meta"[..]));
            assert_eq!(read.members[0].group_instance_id.is_some(), version >= 5, "version {version}");
            assert_eq!(read.protocol_type.as_deref(), (version >= 7).then_some("consumer"), "version {version}");
            assert_eq!(read.skip_assignment, version >= 9, "version {version}");
            assert_eq!(read.protocol_name.as_deref(), Some("range"));
        }
    }

    #[test]
    fn s012_a_refusals_protocol_name_is_empty_up_to_version_6_and_null_from_7() {
        for version in versions(11) {
            let read = as_read(version, &response(version, refusal(ErrorCode::UNKNOWN_MEMBER_ID)));
            assert_eq!((read.error_code, read.generation_id), (25, -1));
            assert_eq!(read.protocol_name.as_deref(), if version >= 7 { None } else { Some("") });
            assert!(read.protocol_type.is_none() && read.members.is_empty());
            assert_eq!((read.leader.as_str(), read.member_id.as_str()), ("", ""));
        }
    }

    #[test]
    fn who_may_not_read_with_the_group_is_answered_30_and_no_id() {
        let rules = Rules { denied_group: Some((Operation::Read, "g")), ..Default::default() };
        for version in versions(11) {
            let read = as_read(version, &denied(&rules, version, "g").expect("denied"));
            assert_eq!((read.error_code, read.generation_id, read.member_id.as_str()), (30, -1, ""));
            assert!(denied(&rules, version, "other").is_none());
        }
    }
}
