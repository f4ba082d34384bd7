//! ListGroups (API 16): a shard's own port tells what that shard coordinates, since clients ask every node
//! and join the answers; the shared port tells of all.

use futures_util::future::join_all;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use ringgate_group::route::ShardId;
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{ask_shard, may_describe, string, text, wrong_kind};
use super::{Operation, Outcome, RequestContext, Resource, View};
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
    let (version, groups) = (ctx.api_version, parts.iter().flat_map(|(_, pages)| pages).map(Vec::len).sum());
    ctx.respond_with_members(groups, move || response(version, parts)).await
}

/// What a shard has, by slices of its groups: one list of very many would be moved as a whole whenever it grows.
type Pages = Vec<Vec<ringgate_group::response::ListedGroup>>;

/// Joins what the shards have. A shard that is loading makes the whole answer an error, with what the others
/// have.
fn response(version: i16, parts: Vec<(ErrorCode, Pages)>) -> ListGroupsResponse {
    let mut response = ListGroupsResponse::default();
    for (error, pages) in parts {
        if error.is_err() {
            response.error_code = error.0;
        }
        response.groups.extend(pages.iter().flatten().map(|group| listed(version, group)));
    }
    response
}

/// Leaves the groups that the client may look at.
fn visible(
    view: &View<'_>,
    mut page: Vec<ringgate_group::response::ListedGroup>,
) -> Vec<ringgate_group::response::ListedGroup> {
    if !view.allowed(Operation::Describe, Resource::Cluster) {
        page.retain(|group| may_describe(view.authorizer, group.group_id.as_str()));
    }
    page
}

/// What a shard has that the client may look at.
async fn list(ctx: &RequestContext, shard: ShardId, request: &ListGroupsRequest) -> (ErrorCode, Pages) {
    let mut groups = Pages::new();
    let mut cursor = 0;
    loop {
        let page = ringgate_group::request::ListGroupsRequest {
            states_filter: request.states_filter.iter().map(text).collect(),
            types_filter: request.types_filter.iter().map(text).collect(),
            cursor,
        };
        match ask_shard(ctx, shard, Request::ListGroups(page)).await {
            Response::ListGroups(page) => {
                groups.push(visible(&ctx.view(), page.groups));
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

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, versions};
    use super::*;

    fn group(group_id: &str) -> ringgate_group::response::ListedGroup {
        ringgate_group::response::ListedGroup {
            group_id: group_id.into(),
            protocol_type: "consumer".into(),
            group_state: "Stable".into(),
            group_type: "classic".into(),
        }
    }

    #[test]
    fn s107_every_version_lists_the_groups_of_all_shards_with_states_from_4_and_types_from_5() {
        for version in versions(16) {
            let parts = vec![
                (ErrorCode::NONE, vec![vec![group("a")], vec![group("b")]]),
                (ErrorCode::NONE, vec![vec![group("c")]]),
            ];
            let read = as_read(version, &response(version, parts));
            assert_eq!(read.error_code, 0);
            assert_eq!(read.groups.iter().map(|g| g.group_id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
            for group in &read.groups {
                assert_eq!(group.protocol_type.as_str(), "consumer");
                assert_eq!(group.group_state.as_str(), if version >= 4 { "Stable" } else { "" });
                assert_eq!(group.group_type.as_str(), if version >= 5 { "classic" } else { "" });
            }
        }
    }

    #[test]
    fn one_shard_that_loads_makes_the_answer_14() {
        let loading = || (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, vec![]);
        for parts in [vec![loading(), (ErrorCode::NONE, vec![])], vec![(ErrorCode::NONE, vec![]), loading()]] {
            assert_eq!(as_read(4, &response(4, parts)).error_code, 14);
        }
    }

    #[test]
    fn groups_that_may_not_be_described_are_left_out_for_who_may_not_describe_the_cluster() {
        let mut world = World::with(&[]);
        world.authorizer.denied_group = Some((Operation::Describe, "b"));
        let page = || vec![group("a"), group("b")];
        assert_eq!(visible(&world.view(4), page()).len(), 2);
        world.authorizer.cluster_denied = Some(Operation::Describe);
        let left = visible(&world.view(4), page());
        assert_eq!(left.iter().map(|g| g.group_id.as_str()).collect::<Vec<_>>(), ["a"]);
    }
}
