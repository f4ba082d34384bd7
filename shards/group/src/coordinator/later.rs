//! A store that tells of groups at the start and of their offsets when they are first asked for, and of which the
//! gateway may lose hold.

use super::Coordinator;
use super::ctx::Phase;
use crate::limits::GROUP_ID_BYTES_MAX;
use crate::record::OffsetValue;
use crate::{ErrorCode, Now, ReplyToken, Request, Text};

impl Coordinator {
    /// Offsets of groups come later than the groups, with [`Coordinator::load_offsets`]. To be called before
    /// [`Coordinator::load`].
    pub fn load_offsets_later(&mut self) {
        self.ctx.loads_offsets_later = true;
    }

    /// The group whose offsets are to be loaded before the request is taken in. Also one that is not there: the store
    /// may have offsets of it and nothing else. Members that sync, heartbeat and leave need none.
    pub fn wants_offsets<'a>(&self, request: &'a Request) -> Option<&'a Text> {
        let (group_id, is_for_members) = match request {
            Request::Join(join) => (&join.group_id, true),
            Request::ConsumerGroupHeartbeat(heartbeat) => (&heartbeat.group_id, true),
            Request::ConsumerGroupDescribe(group_id) => (group_id, true),
            Request::OffsetCommit(commit) => (&commit.group_id, false),
            Request::OffsetFetch(fetch) => (&fetch.group_id, false),
            Request::OffsetDelete(delete) => (&delete.group_id, false),
            Request::DeleteGroup(delete) => (&delete.group_id, false),
            Request::DescribeGroup(describe) => (&describe.group_id, true),
            Request::Sync(_) | Request::Heartbeat(_) | Request::Leave(_) | Request::ListGroups(_) => return None,
        };
        if !self.ctx.loads_offsets_later || self.ctx.phase != Phase::Active || group_id.len() > GROUP_ID_BYTES_MAX {
            return None;
        }
        let is_wanted = match self.by_id.get(group_id) {
            Some(slot) => self.groups[*slot as usize].offsets_missing && !is_for_members,
            None => true,
        };
        is_wanted.then_some(group_id)
    }

    /// Whether the offsets of a group are still to be loaded.
    pub fn lacks_offsets(&self, group_id: &Text) -> bool {
        self.by_id.get(group_id).is_none_or(|slot| self.groups[*slot as usize].offsets_missing)
    }

    /// Groups whose offsets are still to be loaded.
    pub fn groups_without_offsets(&self) -> Vec<Text> {
        self.groups.iter().filter(|(_, group)| group.offsets_missing).map(|(_, group)| group.id.clone()).collect()
    }

    /// What the store has of a group's offsets. A group that is not there is made of them, if there are any.
    pub fn load_offsets(&mut self, now: Now, group_id: &Text, offsets: Vec<(Text, i32, OffsetValue)>) {
        let at = self.ctx.at(now);
        if self.by_id.get(group_id).is_none() && offsets.is_empty() {
            return;
        }
        let slot = self.loaded(at, group_id);
        let group = &mut self.groups[slot as usize];
        group.offsets_missing = false;
        for (topic, partition, value) in offsets {
            group.offsets.insert(&mut self.ctx, topic, partition, value);
        }
        self.settle(slot);
    }

    /// Answers a request with this code where requests of its kind have one, instead of taking it in.
    pub fn refuse(&mut self, now: Now, token: ReplyToken, request: Request, error: ErrorCode) {
        let phase = match self.ctx.phase {
            Phase::Active => std::mem::replace(&mut self.ctx.phase, Phase::Refusing(error)),
            other => other,
        };
        self.handle_request(now, token, crate::ConnectionId(u64::MAX), request);
        self.ctx.phase = phase;
    }
}
