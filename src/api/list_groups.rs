//! ListGroups (API 16): a shard's own port tells what that shard coordinates, since clients ask every node
//! and join the answers; the shared port tells of all.

use futures_util::future::join_all;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use ringgate_group::route::ShardId;
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{ask_shard, may_describe, string, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource};
use crate::net::connection::Door;

/// The first version with states.
const STATES_SINCE: i16 = 4;
/// The first version with types (KIP-848).
const TYPES_SINCE: i16 = 5;

/// Serves a ListGroups.
pub async fn handle(ctx: &RequestContext, request: ListGroupsRequest) -> Outcome {
    let shards: Vec<ShardId> = match ctx.connection.door {
        Door::Shard(shard) => vec![shard],
        Door::Bootstrap => ctx.shard().route().all().collect(),
    };
    let parts = join_all(shards.into_iter().map(|shard| list(ctx, shard, &request))).await;
    let all_visible = ctx.allowed(Operation::Describe, Resource::Cluster);
    let mut response = ListGroupsResponse::default();
    for (error, groups) in parts {
        if error.is_err() {
            response.error_code = error.0;
        }
        let visible = groups.into_iter().filter(|g| all_visible || may_describe(ctx, g.group_id.as_str()));
        response.groups.extend(visible.map(|g| listed(ctx.api_version, &g)));
    }
    ctx.respond(&response)
}

async fn list(
    ctx: &RequestContext,
    shard: ShardId,
    request: &ListGroupsRequest,
) -> (ErrorCode, Vec<ringgate_group::response::ListedGroup>) {
    let mut groups = Vec::new();
    let mut cursor = 0;
    loop {
        let page = ringgate_group::request::ListGroupsRequest {
            states_filter: request.states_filter.iter().map(text).collect(),
            types_filter: request.types_filter.iter().map(text).collect(),
            cursor,
        };
        match ask_shard(ctx, shard, Request::ListGroups(page)).await {
            Response::ListGroups(page) => {
                groups.extend(page.groups);
                match page.next {
                    Some(next) if !page.error_code.is_err() => cursor = next,
                    _ => return (page.error_code, groups),
                }
            }
            other => wrong_kind(&other),
        }
    }
}

fn listed(version: i16, group: &ringgate_group::response::ListedGroup) -> ListedGroup {
    let mut listed = ListedGroup::default()
        .with_group_id(GroupId(string(&group.group_id)))
        .with_protocol_type(string(&group.protocol_type));
    if version >= STATES_SINCE {
        listed = listed.with_group_state(string(&group.group_state));
    }
    if version >= TYPES_SINCE {
        listed = listed.with_group_type(string(&group.group_type));
    }
    listed
}
