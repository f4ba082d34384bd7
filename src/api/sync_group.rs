//! SyncGroup (API 14): a member asks for its assignment; answered when the leader's is durable.

use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use ringgate_group::request::Assignment;
use ringgate_group::{ErrorCode, Request, Response};
use ringgate_shards::call::GroupCall;

use super::groups::{may_read, string, text, wrong_kind};
use super::{Outcome, RequestContext, View};

/// The first version with protocol type and name, both ways (KIP-559).
const PROTOCOL_TYPE_SINCE: i16 = 5;

/// Serves a SyncGroup.
pub async fn handle(ctx: &RequestContext, request: SyncGroupRequest) -> Outcome {
    if let Some(error) = refusal(&ctx.view(), &request) {
        return ctx.respond(&SyncGroupResponse::default().with_error_code(error.0));
    }
    let owner = ctx.shard().route().group(&request.group_id);
    ctx.connection.parks_at(owner);
    let request = Request::Sync(ctx.taken_in(request.assignments.len(), request, to_group).await);
    match ctx.shard().submit_to(owner, GroupCall { connection: ctx.connection.id, request }).await.0 {
        Response::Sync(synced) => ctx.respond(&response(ctx.api_version, synced)),
        other => wrong_kind(&other),
    }
}

/// Why the coordinator need not be asked, if so.
fn refusal(view: &View<'_>, request: &SyncGroupRequest) -> Option<ErrorCode> {
    let nameless = request.protocol_type.is_none() || request.protocol_name.is_none();
    if view.version >= PROTOCOL_TYPE_SINCE && nameless {
        return Some(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    (!may_read(view.authorizer, &request.group_id)).then_some(ErrorCode::GROUP_AUTHORIZATION_FAILED)
}

fn to_group(version: i16, request: &SyncGroupRequest) -> ringgate_group::request::SyncGroupRequest {
    let assignment =
        |a: &SyncGroupRequestAssignment| Assignment { member_id: text(&a.member_id), assignment: a.assignment.clone() };
    ringgate_group::request::SyncGroupRequest {
        api_version: version,
        group_id: text(&request.group_id),
        generation_id: request.generation_id,
        member_id: text(&request.member_id),
        group_instance_id: request.group_instance_id.as_ref().map(text),
        protocol_type: request.protocol_type.as_ref().map(text),
        protocol_name: request.protocol_name.as_ref().map(text),
        assignments: request.assignments.iter().map(assignment).collect(),
    }
}

fn response(version: i16, synced: ringgate_group::response::SyncGroupResponse) -> SyncGroupResponse {
    let response = SyncGroupResponse::default().with_error_code(synced.error_code.0).with_assignment(synced.assignment);
    if version < PROTOCOL_TYPE_SINCE {
        return response;
    }
    response
        .with_protocol_type(synced.protocol_type.as_ref().map(string))
        .with_protocol_name(synced.protocol_name.as_ref().map(string))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, versions};
    use super::super::{Operation, testing};
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::protocol::StrBytes;

    fn request() -> SyncGroupRequest {
        let string = StrBytes::from_static_str;
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(string("m2"))
            .with_assignment(Bytes::from_static(b"partitions"));
        SyncGroupRequest::default()
            .with_group_id(GroupId(string("g")))
            .with_generation_id(7)
            .with_member_id(string("m"))
            .with_group_instance_id(Some(string("i")))
            .with_protocol_type(Some(string("consumer")))
            .with_protocol_name(Some(string("range")))
            .with_assignments(vec![assignment])
    }

    #[test]
    fn the_coordinator_gets_everything_that_was_said() {
        for version in versions(14) {
            let asked = to_group(version, &request());
            assert_eq!((asked.api_version, asked.generation_id), (version, 7));
            assert_eq!((asked.group_id.as_str(), asked.member_id.as_str()), ("g", "m"));
            assert_eq!(asked.group_instance_id.as_ref().map(|i| i.as_str()), Some("i"));
            let names = [&asked.protocol_type, &asked.protocol_name].map(|n| n.as_ref().map(|n| n.as_str()));
            assert_eq!(names, [Some("consumer"), Some("range")]);
            let [assignment] = &asked.assignments[..] else { panic!("{asked:?}") };
            assert_eq!((assignment.member_id.as_str(), &assignment.assignment[..]), ("m2", &b"partitions"[..]));
        }
    }

    #[test]
    fn an_assignment_can_be_written_in_every_version_with_the_protocol_from_5() {
        for version in versions(14) {
            let synced = ringgate_group::response::SyncGroupResponse {
                error_code: ErrorCode::NONE,
                protocol_type: Some("consumer".into()),
                protocol_name: Some("range".into()),
                assignment: Bytes::from_static(b"partitions"),
            };
            let read = as_read(version, &response(version, synced));
            assert_eq!((read.error_code, &read.assignment[..]), (0, &b"partitions"[..]));
            let names = [read.protocol_type.as_deref(), read.protocol_name.as_deref()];
            assert_eq!(names, if version >= 5 { [Some("consumer"), Some("range")] } else { [None, None] });
            let refused = ringgate_group::response::SyncGroupResponse {
                error_code: ErrorCode::REBALANCE_IN_PROGRESS,
                protocol_type: None,
                protocol_name: None,
                assignment: Bytes::new(),
            };
            let read = as_read(version, &response(version, refused));
            assert_eq!((read.error_code, read.assignment.len(), read.protocol_name), (27, 0, None));
        }
    }

    #[test]
    fn s062_a_missing_protocol_is_answered_23_from_version_5_before_anything_else() {
        let mut world = World::with(&[]);
        world.authorizer = testing::Rules { denied_group: Some((Operation::Read, "g")), ..Default::default() };
        for version in versions(14) {
            for request in [request().with_protocol_type(None), request().with_protocol_name(None)] {
                let error = refusal(&world.view(version), &request).map(|e| e.0);
                assert_eq!(error, Some(if version >= 5 { 23 } else { 30 }), "version {version}");
            }
            assert_eq!(refusal(&world.view(version), &request()), Some(ErrorCode::GROUP_AUTHORIZATION_FAILED));
            assert_eq!(refusal(&World::with(&[]).view(version), &request()), None);
        }
    }
}
