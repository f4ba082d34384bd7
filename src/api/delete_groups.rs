//! DeleteGroups (API 42): empty groups and their offsets go; answered when that is durable.

use futures_util::future::join_all;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse, GroupId};
use ringgate_group::request::DeleteGroupRequest;
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{ask, distinct, text, wrong_kind};
use super::{Authorizer, Operation, Outcome, RequestContext, Resource};

/// Serves a DeleteGroups: each group is deleted or refused on its own, one that is named twice once.
pub async fn handle(ctx: &RequestContext, request: DeleteGroupsRequest) -> Outcome {
    let results = join_all(distinct(request.groups_names).into_iter().map(|group| delete(ctx, group))).await;
    ctx.respond(&DeleteGroupsResponse::default().with_results(results))
}

async fn delete(ctx: &RequestContext, group_id: GroupId) -> DeletableGroupResult {
    let error = match denied(ctx, &group_id) {
        Some(error) => error,
        None => {
            let request = DeleteGroupRequest { group_id: text(&group_id) };
            match ask(ctx, &group_id, Request::DeleteGroup(request)).await {
                Response::DeleteGroup(error) => error,
                other => wrong_kind(&other),
            }
        }
    };
    DeletableGroupResult::default().with_group_id(group_id).with_error_code(error.0)
}

/// What is answered to who may not delete the group.
fn denied(authorizer: &dyn Authorizer, group_id: &str) -> Option<ErrorCode> {
    let allowed = authorizer.allowed(Operation::Delete, Resource::Group(group_id));
    (!allowed).then_some(ErrorCode::GROUP_AUTHORIZATION_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::testing::{Rules, as_read, versions};
    use kafka_protocol::protocol::StrBytes;

    #[test]
    fn a_group_that_is_named_twice_is_answered_once_in_its_place() {
        let named = ["b", "a", "b"].map(|name| GroupId(StrBytes::from_static_str(name)));
        let left: Vec<_> = distinct(named.to_vec()).iter().map(|group| group.to_string()).collect();
        assert_eq!(left, ["b", "a"]);
    }

    #[test]
    fn an_answer_can_be_written_in_every_version() {
        for version in versions(42) {
            let group_id = GroupId(StrBytes::from_static_str("g"));
            let result = DeletableGroupResult::default().with_group_id(group_id).with_error_code(68);
            let response = DeleteGroupsResponse::default().with_results(vec![result]);
            assert_eq!(as_read(version, &response).results[0].error_code, 68);
        }
    }

    #[test]
    fn who_may_not_delete_a_group_is_answered_30_for_it() {
        let rules = Rules { denied_group: Some((Operation::Delete, "g")), ..Default::default() };
        assert_eq!(denied(&rules, "g"), Some(ErrorCode::GROUP_AUTHORIZATION_FAILED));
        assert_eq!(denied(&rules, "other"), None);
    }
}
