//! LeaveGroup: members, static members named by their instance, and ids that have not joined (1.11).

use super::ctx::{At, Ctx};
use super::group::Group;
use super::stats::Departure;
use crate::limits::WORK_SLICE_MEMBERS;
use crate::request::{LeaveGroupRequest, LeavingMember};
use crate::response::{LeaveGroupResponse, LeftMember};
use crate::{ErrorCode, ReplyToken, Response};

/// A batch that is leaving.
#[derive(Debug)]
pub(super) struct Leaving {
    token: ReplyToken,
    api_version: i16,
    members: std::vec::IntoIter<LeavingMember>,
    left: Vec<LeftMember>,
}

/// The answer. Up to v2 the error of the only member is the error of the request.
pub(super) fn response(api_version: i16, mut members: Vec<LeftMember>) -> Response {
    let mut error_code = ErrorCode::NONE;
    if api_version < 3 {
        error_code = members.first().map_or(ErrorCode::UNKNOWN_MEMBER_ID, |member| member.error_code);
        members.clear();
    }
    Response::Leave(LeaveGroupResponse { error_code, members })
}

/// A request that fails as a whole.
pub(super) fn refused(error_code: ErrorCode) -> Response {
    Response::Leave(LeaveGroupResponse { error_code, members: Vec::new() })
}

/// There is no such group, so there are no such members.
pub(super) fn unknown_group(request: LeaveGroupRequest) -> Response {
    let left = |member: LeavingMember| LeftMember {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        error_code: ErrorCode::UNKNOWN_MEMBER_ID,
    };
    response(request.api_version, request.members.into_iter().map(left).collect())
}

impl Group {
    pub(super) fn leave(&mut self, ctx: &mut Ctx, at: At, token: ReplyToken, request: LeaveGroupRequest) {
        debug_assert!(self.at.ms == at.ms);
        let leaving = Leaving {
            token,
            api_version: request.api_version,
            left: Vec::with_capacity(request.members.len()),
            members: request.members.into_iter(),
        };
        if let Some(rest) = self.advance_leaving(ctx, leaving) {
            self.works.push_back(super::work::Work::Leave(rest));
        }
    }

    pub(super) fn advance_leaving(&mut self, ctx: &mut Ctx, mut leaving: Leaving) -> Option<Leaving> {
        for _ in 0..WORK_SLICE_MEMBERS {
            let Some(member) = leaving.members.next() else {
                let any = leaving.left.iter().any(|left| left.error_code == ErrorCode::NONE);
                ctx.reply(leaving.token, response(leaving.api_version, leaving.left));
                if any {
                    self.joined_or_left(ctx, self.at);
                }
                return None;
            };
            let error_code = self.leave_one(ctx, &member).err().unwrap_or(ErrorCode::NONE);
            let LeavingMember { member_id, group_instance_id } = member;
            leaving.left.push(LeftMember { member_id, group_instance_id, error_code });
        }
        Some(leaving)
    }

    fn leave_one(&mut self, ctx: &mut Ctx, member: &LeavingMember) -> Result<(), ErrorCode> {
        if self.remove_pending(ctx, &member.member_id) {
            return Ok(());
        }
        let slot = match &member.group_instance_id {
            Some(instance) if member.member_id.is_empty() => self.instances.get(instance).copied(),
            instance => Some(self.identify(&member.member_id, instance.as_ref())?),
        };
        self.remove_and_answer(ctx, slot.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?);
        ctx.stats.depart(Departure::Left);
        Ok(())
    }
}
