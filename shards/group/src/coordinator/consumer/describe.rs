//! ConsumerGroupDescribe (6.11).

use super::ConsumerGroup;
use crate::coordinator::ctx::Ctx;
use crate::coordinator::group::State;
use crate::limits::WORK_SLICE_MEMBERS;
use crate::response::{ConsumerGroupDescribed, ConsumerGroupMember};
use crate::{ErrorCode, ReplyToken, Response, Text};

/// A description on its way.
#[derive(Debug)]
pub(in crate::coordinator) struct Description {
    token: ReplyToken,
    described: Box<ConsumerGroupDescribed>,
    at: usize,
}

/// A group that cannot be described.
pub(in crate::coordinator) fn refused(group_id: Text, error_code: ErrorCode, message: Option<String>) -> Response {
    Response::ConsumerGroupDescribe(ConsumerGroupDescribed {
        error_code,
        error_message: message.map(Text::from),
        group_id,
        group_state: Text::EMPTY,
        group_epoch: 0,
        assignment_epoch: 0,
        assignor_name: Text::EMPTY,
        members: Vec::new(),
    })
}

/// There is no such group, or it is a classic one.
pub(in crate::coordinator) fn not_found(group_id: Text) -> Response {
    let message = format!("Group {group_id} not found.");
    refused(group_id, ErrorCode::GROUP_ID_NOT_FOUND, Some(message))
}

impl ConsumerGroup {
    /// Begins a description.
    pub fn describe(&self, token: ReplyToken, state: State) -> Description {
        let described = ConsumerGroupDescribed {
            error_code: ErrorCode::NONE,
            error_message: None,
            group_id: self.id.clone(),
            group_state: Text::from_static(state.name()),
            group_epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor_name: Text::from_static(self.assignor().name()),
            members: Vec::with_capacity(self.members.len()),
        };
        Description { token, described: Box::new(described), at: 0 }
    }

    /// A slice of it; what is left, if anything.
    pub fn advance_description(&self, ctx: &mut Ctx, mut description: Description) -> Option<Description> {
        for _ in 0..WORK_SLICE_MEMBERS {
            if description.at >= self.members.capacity() {
                ctx.reply(description.token, Response::ConsumerGroupDescribe(*description.described));
                return None;
            }
            if let Some(member) = self.members.get(description.at) {
                description.described.members.push(ConsumerGroupMember {
                    member_id: member.member_id.clone(),
                    instance_id: member.instance_id.clone(),
                    rack_id: member.rack_id.clone(),
                    member_epoch: member.holding.epoch,
                    client_id: member.client_id.clone(),
                    client_host: member.client_host.clone(),
                    subscribed_topic_names: member.names.clone(),
                    subscribed_topic_regex: member.regex.clone(),
                    assignment: member.holding.assigned.clone(),
                    target_assignment: member.target.clone(),
                    is_classic: member.classic.is_some(),
                });
            }
            description.at += 1;
        }
        Some(description)
    }
}
