//! DescribeGroups and ListGroups (4.8, 4.9).

use bytes::Bytes;

use super::ctx::Ctx;
use super::group::{Group, State};
use crate::limits::WORK_SLICE_MEMBERS;
use crate::request::ListGroupsRequest;
use crate::response::{DescribedGroup, DescribedGroupMember, ListedGroup};
use crate::{ErrorCode, ReplyToken, Response, Text};

/// A description on its way.
#[derive(Debug)]
pub(super) struct Description {
    token: ReplyToken,
    described: Box<DescribedGroup>,
    at: usize,
}

/// A group that cannot be described.
pub(super) fn refused(group_id: Text, error_code: ErrorCode) -> Response {
    Response::DescribeGroup(DescribedGroup {
        error_code,
        error_message: None,
        group_id,
        group_state: Text::EMPTY,
        protocol_type: Text::EMPTY,
        protocol_data: Text::EMPTY,
        members: Vec::new(),
    })
}

/// A group that is not there is dead; from v6 that is an error (KIP-1043).
pub(super) fn dead(api_version: i16, group_id: Text) -> Response {
    let is_error = api_version >= 6;
    Response::DescribeGroup(DescribedGroup {
        error_code: if is_error { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::NONE },
        error_message: is_error.then(|| Text::from(format!("Group {group_id} not found."))),
        group_id,
        group_state: Text::from_static("Dead"),
        protocol_type: Text::EMPTY,
        protocol_data: Text::EMPTY,
        members: Vec::new(),
    })
}

impl Group {
    pub(super) fn describe(&mut self, token: ReplyToken) {
        let protocol_data = match self.state {
            State::Stable => self.protocol_name.clone().unwrap_or_default(),
            _ => Text::EMPTY,
        };
        let described = DescribedGroup {
            error_code: ErrorCode::NONE,
            error_message: None,
            group_id: self.id.clone(),
            group_state: Text::from_static(self.state.name()),
            protocol_type: self.protocol_type.clone(),
            protocol_data,
            members: Vec::with_capacity(self.members.len()),
        };
        self.works.push_back(super::work::Work::Describe(Description { token, described: Box::new(described), at: 0 }));
    }

    pub(super) fn advance_description(&mut self, ctx: &mut Ctx, mut description: Description) -> Option<Description> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some(slot) = self.next_member(&mut description.at) else {
                ctx.reply(description.token, Response::DescribeGroup(*description.described));
                return None;
            };
            let member = self.member(slot);
            let member_metadata = match self.state {
                State::Stable => member.offer.metadata(self.protocol_name.as_ref()),
                _ => Bytes::new(),
            };
            description.described.members.push(DescribedGroupMember {
                member_id: member.member_id.clone(),
                group_instance_id: member.group_instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                member_metadata,
                member_assignment: member.assignment(self.assignment_epoch),
            });
        }
        Some(description)
    }

    /// The group as ListGroups shows it, if it passes the filters.
    pub(super) fn listed(&self, request: &ListGroupsRequest) -> Option<ListedGroup> {
        let (states, types) = (&request.states_filter, &request.types_filter);
        let is_state = |wanted: &Text| wanted.as_str().trim().eq_ignore_ascii_case(self.state.name());
        let group_type = if self.consumer.is_some() { "consumer" } else { "classic" };
        let is_type = |wanted: &Text| wanted.as_str().eq_ignore_ascii_case(group_type);
        let passes =
            (states.is_empty() || states.iter().any(is_state)) && (types.is_empty() || types.iter().any(is_type));
        passes.then(|| ListedGroup {
            group_id: self.id.clone(),
            protocol_type: self.protocol_type.clone(),
            group_state: Text::from_static(self.state.name()),
            group_type: Text::from_static(group_type),
        })
    }
}
