//! DescribeGroups (API 15): groups and their members, each from its owner.

use futures_util::future::join_all;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};
use ringgate_group::request::DescribeGroupRequest;
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{GROUP_OPERATIONS, OPERATIONS_NOT_ASKED, ask, may_describe, string, text, wrong_kind};
use super::{Outcome, RequestContext};

/// The first version with authorized operations (KIP-430).
const OPERATIONS_SINCE: i16 = 3;
/// The first version that shows static members' names.
const INSTANCE_IDS_SINCE: i16 = 4;
/// The first version that says why (KIP-1043).
const MESSAGE_SINCE: i16 = 6;

/// Serves a DescribeGroups.
pub async fn handle(ctx: &RequestContext, request: DescribeGroupsRequest) -> Outcome {
    let asked = request.include_authorized_operations;
    let groups = join_all(request.groups.into_iter().map(|group| describe(ctx, group, asked))).await;
    ctx.respond(&DescribeGroupsResponse::default().with_groups(groups))
}

async fn describe(ctx: &RequestContext, group_id: GroupId, operations_asked: bool) -> DescribedGroup {
    if !may_describe(ctx, &group_id) {
        let code = ErrorCode::GROUP_AUTHORIZATION_FAILED.0;
        return DescribedGroup::default().with_group_id(group_id).with_error_code(code);
    }
    let request = DescribeGroupRequest { api_version: ctx.api_version, group_id: text(&group_id) };
    match ask(ctx, &group_id, Request::DescribeGroup(request)).await {
        Response::DescribeGroup(described) => response(ctx.api_version, group_id, operations_asked, described),
        other => wrong_kind(&other),
    }
}

fn response(
    version: i16,
    group_id: GroupId,
    operations_asked: bool,
    described: ringgate_group::response::DescribedGroup,
) -> DescribedGroup {
    let member = |m: ringgate_group::response::DescribedGroupMember| {
        let member = DescribedGroupMember::default()
            .with_member_id(string(&m.member_id))
            .with_client_id(string(&m.client_id))
            .with_client_host(string(&m.client_host))
            .with_member_metadata(m.member_metadata)
            .with_member_assignment(m.member_assignment);
        if version >= INSTANCE_IDS_SINCE {
            member.with_group_instance_id(m.group_instance_id.as_ref().map(string))
        } else {
            member
        }
    };
    let mut group = DescribedGroup::default()
        .with_error_code(described.error_code.0)
        .with_group_id(group_id)
        .with_group_state(string(&described.group_state))
        .with_protocol_type(string(&described.protocol_type))
        .with_protocol_data(string(&described.protocol_data))
        .with_members(described.members.into_iter().map(member).collect());
    if version >= OPERATIONS_SINCE {
        let told = operations_asked && !described.error_code.is_err();
        group = group.with_authorized_operations(if told { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED });
    }
    if version >= MESSAGE_SINCE {
        group = group.with_error_message(described.error_message.as_ref().map(string));
    }
    group
}
