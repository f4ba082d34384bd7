//! DescribeGroups (API 15): groups and their members, each from its owner.

use futures_util::future::join_all;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};
use ringgate_group::request::DescribeGroupRequest;
use ringgate_group::{ErrorCode, Request, Response};

use super::groups::{GROUP_OPERATIONS, OPERATIONS_NOT_ASKED, ask, distinct, may_describe, string, text, wrong_kind};
use super::{Authorizer, Outcome, RequestContext};

/// The first version with authorized operations (KIP-430).
const OPERATIONS_SINCE: i16 = 3;
/// The first version that shows static members' names.
const INSTANCE_IDS_SINCE: i16 = 4;
/// The first version that says why (KIP-1043).
const MESSAGE_SINCE: i16 = 6;

/// Serves a DescribeGroups.
pub async fn handle(ctx: &RequestContext, request: DescribeGroupsRequest) -> Outcome {
    let (version, asked) = (ctx.api_version, request.include_authorized_operations);
    let groups = join_all(distinct(request.groups).into_iter().map(|group| describe(ctx, group))).await;
    let members = |told: &Told| if let Told::Described(_, described) = told { 1 + described.members.len() } else { 1 };
    ctx.respond_with_members(groups.iter().map(members).sum(), move || {
        let told = |told| match told {
            Told::Denied(denied) => denied,
            Told::Described(group_id, described) => response(version, group_id, asked, described),
        };
        DescribeGroupsResponse::default().with_groups(groups.into_iter().map(told).collect())
    })
    .await
}

/// What there is to say of a group.
enum Told {
    /// The client may not look at it.
    Denied(DescribedGroup),
    /// As its owner describes it.
    Described(GroupId, ringgate_group::response::DescribedGroup),
}

async fn describe(ctx: &RequestContext, group_id: GroupId) -> Told {
    if let Some(denied) = denied(ctx, &group_id) {
        return Told::Denied(denied);
    }
    let request = DescribeGroupRequest { api_version: ctx.api_version, group_id: text(&group_id) };
    match ask(ctx, &group_id, Request::DescribeGroup(request)).await {
        Response::DescribeGroup(described) => Told::Described(group_id, described),
        other => wrong_kind(&other),
    }
}

/// The answer to who may not look at the group.
fn denied(authorizer: &dyn Authorizer, group_id: &GroupId) -> Option<DescribedGroup> {
    let code = ErrorCode::GROUP_AUTHORIZATION_FAILED.0;
    let refused = || {
        DescribedGroup::default()
            .with_group_id(group_id.clone())
            .with_error_code(code)
            .with_authorized_operations(OPERATIONS_NOT_ASKED)
    };
    (!may_describe(authorizer, group_id)).then(refused)
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

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::super::testing::{Rules, as_read, versions};
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::protocol::StrBytes;

    fn described(error_code: ErrorCode) -> ringgate_group::response::DescribedGroup {
        let member = ringgate_group::response::DescribedGroupMember {
            member_id: "m".into(),
            group_instance_id: Some("i".into()),
            client_id: "app".into(),
            client_host: "/10.0.0.9".into(),
            member_metadata: Bytes::from_static(b"topics"),
            member_assignment: Bytes::from_static(b"partitions"),
        };
        ringgate_group::response::DescribedGroup {
            error_code,
            error_message: error_code.is_err().then(|| "Group g not found.".into()),
            group_id: "g".into(),
            group_state: if error_code.is_err() { "Dead".into() } else { "Stable".into() },
            protocol_type: "consumer".into(),
            protocol_data: "range".into(),
            members: if error_code.is_err() { Vec::new() } else { vec![member] },
        }
    }

    fn read(version: i16, operations_asked: bool, error_code: ErrorCode) -> DescribedGroup {
        let group_id = GroupId(StrBytes::from_static_str("g"));
        let group = response(version, group_id, operations_asked, described(error_code));
        as_read(version, &DescribeGroupsResponse::default().with_groups(vec![group])).groups.remove(0)
    }

    #[test]
    fn every_version_shows_the_group_and_its_members() {
        for version in versions(15) {
            let group = read(version, true, ErrorCode::NONE);
            assert_eq!((group.error_code, group.group_id.as_str(), group.group_state.as_str()), (0, "g", "Stable"));
            assert_eq!((group.protocol_type.as_str(), group.protocol_data.as_str()), ("consumer", "range"));
            let operations = if version >= 3 { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED };
            assert_eq!(group.authorized_operations, operations, "version {version}");
            let [member] = &group.members[..] else { panic!("{group:?}") };
            assert_eq!((member.member_id.as_str(), member.client_id.as_str()), ("m", "app"));
            assert_eq!(member.client_host.as_str(), "/10.0.0.9");
            assert_eq!(
                (&member.member_metadata[..], &member.member_assignment[..]),
                (&b"topics"[..], &b"partitions"[..])
            );
            assert_eq!(member.group_instance_id.as_deref(), (version >= 4).then_some("i"), "version {version}");
        }
    }

    #[test]
    fn a_group_that_is_named_often_is_described_once() {
        let named = |names: &[&'static str]| -> Vec<GroupId> {
            names.iter().map(|name| GroupId(StrBytes::from_static_str(name))).collect()
        };
        assert_eq!(distinct(named(&["b", "a", "b", "", "a", ""])), named(&["b", "a", ""]));
    }

    #[test]
    fn s109_operations_are_told_only_when_asked_and_without_an_error() {
        for version in versions(15) {
            assert_eq!(read(version, false, ErrorCode::NONE).authorized_operations, OPERATIONS_NOT_ASKED);
            assert_eq!(read(version, true, ErrorCode::NOT_COORDINATOR).authorized_operations, OPERATIONS_NOT_ASKED);
        }
        assert_eq!(GROUP_OPERATIONS, 3400, "as a Kafka 4 broker tells them");
    }

    #[test]
    fn s108_the_reason_is_told_from_version_6() {
        for version in versions(15) {
            let group = read(version, false, ErrorCode::GROUP_ID_NOT_FOUND);
            assert_eq!((group.error_code, group.group_state.as_str()), (69, "Dead"));
            assert_eq!(group.error_message.is_some(), version >= 6, "version {version}");
        }
    }

    #[test]
    fn s109_who_may_not_look_at_a_group_is_answered_30_without_a_state() {
        let rules = Rules { denied_group: Some((Operation::Describe, "g")), ..Default::default() };
        let group_id = |name| GroupId(StrBytes::from_static_str(name));
        for version in versions(15) {
            let group = denied(&rules, &group_id("g")).expect("denied");
            let group = as_read(version, &DescribeGroupsResponse::default().with_groups(vec![group])).groups.remove(0);
            assert_eq!((group.error_code, group.group_id.as_str(), group.group_state.as_str()), (30, "g", ""));
            assert_eq!(group.authorized_operations, OPERATIONS_NOT_ASKED);
        }
        assert!(denied(&rules, &group_id("other")).is_none());
    }
}
