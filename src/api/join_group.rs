//! JoinGroup (API 11): a member offers itself; answered when the group's next generation begins.

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use ringgate_group::request::Protocol;
use ringgate_group::{ErrorCode, Request, Response, Text};
use ringgate_shards::call::GroupCall;

use super::groups::{may_read, string, text, wrong_kind};
use super::{Outcome, RequestContext};

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
    if !may_read(ctx, &request.group_id) {
        let refused = refusal(ErrorCode::GROUP_AUTHORIZATION_FAILED);
        return ctx.respond(&response(ctx.api_version, refused));
    }
    let owner = ctx.shard().route().group(&request.group_id);
    ctx.connection.parks_at(owner);
    let request = Request::Join(to_group(ctx, &request));
    match ctx.shard().submit_to(owner, GroupCall { connection: ctx.connection.id, request }).await.0 {
        Response::Join(joined) => ctx.respond(&response(ctx.api_version, joined)),
        other => wrong_kind(&other),
    }
}

fn to_group(ctx: &RequestContext, request: &JoinGroupRequest) -> ringgate_group::request::JoinGroupRequest {
    let protocol = |p: &kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol| Protocol {
        name: text(&p.name),
        metadata: p.metadata.clone(),
    };
    ringgate_group::request::JoinGroupRequest {
        api_version: ctx.api_version,
        group_id: text(&request.group_id),
        member_id: text(&request.member_id),
        group_instance_id: request.group_instance_id.as_ref().map(text),
        protocol_type: text(&request.protocol_type),
        protocols: request.protocols.iter().map(protocol).collect(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if ctx.api_version >= REBALANCE_TIMEOUT_SINCE {
            request.rebalance_timeout_ms
        } else {
            -1
        },
        client_id: ctx.client_id.as_deref().map_or(Text::EMPTY, Text::from),
        client_host: Text::from(format!("/{}", ctx.connection.peer.ip().to_canonical())),
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
    use super::*;
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::protocol::{Decodable, Encodable};

    fn round_trip(version: i16, joined: ringgate_group::response::JoinGroupResponse) -> JoinGroupResponse {
        let mut bytes = BytesMut::new();
        response(version, joined).encode(&mut bytes, version).unwrap();
        JoinGroupResponse::decode(&mut bytes.freeze(), version).unwrap()
    }

    #[test]
    fn a_leaders_answer_can_be_written_in_every_version() {
        for version in 0..=9 {
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
            let read = round_trip(version, joined);
            assert_eq!(read.members[0].group_instance_id.is_some(), version >= 5);
            assert_eq!(read.protocol_type.is_some(), version >= 7);
            assert_eq!(read.skip_assignment, version >= 9);
            assert_eq!(read.protocol_name.as_deref(), Some("range"));
        }
    }

    #[test]
    fn a_refusals_protocol_name_is_empty_up_to_version_6_and_null_from_7() {
        for version in 0..=9 {
            let read = round_trip(version, refusal(ErrorCode::UNKNOWN_MEMBER_ID));
            assert_eq!(read.protocol_name.as_deref(), if version >= 7 { None } else { Some("") });
            assert_eq!(read.generation_id, -1);
        }
    }
}
