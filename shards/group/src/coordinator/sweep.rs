//! What concerns all groups, a few at a time.

use std::sync::Arc;

use super::ctx::Phase;
use super::group::State;
use super::{Coordinator, DeletedTopic, Input};
use crate::Now;
use crate::limits::SWEEP_SLICE_GROUPS;

/// A walk over all groups.
#[derive(Debug)]
pub(super) struct Sweep {
    kind: Kind,
    now: Now,
    next: usize,
}

#[derive(Debug, Clone)]
enum Kind {
    TopicsDeleted(Arc<[DeletedTopic]>),
    Expire,
    Shutdown,
}

impl Coordinator {
    /// Topics are gone, and with them their offsets in all groups.
    pub fn handle_topics_deleted(&mut self, now: Now, topics: Vec<DeletedTopic>) {
        if !topics.is_empty() {
            self.sweeps.push_back(Sweep { kind: Kind::TopicsDeleted(topics.into()), now, next: 0 });
        }
    }

    /// Lets offsets expire, and empty groups without any. To be called every few minutes; does nothing while
    /// the last such call is not through.
    pub fn handle_expiry(&mut self, now: Now) {
        let under_way = self.sweeps.iter().any(|sweep| matches!(sweep.kind, Kind::Expire));
        if self.ctx.phase == Phase::Active && !under_way {
            self.sweeps.push_back(Sweep { kind: Kind::Expire, now, next: 0 });
        }
    }

    /// The gateway stops: whoever waits is answered 16, whoever comes later is refused. Writes under way are
    /// still to be reported, and their requests answered.
    pub fn handle_shutdown(&mut self, now: Now) {
        self.ctx.phase = Phase::Stopped;
        self.sweeps.clear();
        self.sweeps.push_back(Sweep { kind: Kind::Shutdown, now, next: 0 });
    }

    /// A slice of the first sweep; `None` where there is none.
    pub(super) fn sweep(&mut self) -> Option<bool> {
        let sweep = self.sweeps.front_mut()?;
        let at = self.ctx.at(sweep.now);
        let kind = sweep.kind.clone();
        let slots = sweep.next..sweep.next + SWEEP_SLICE_GROUPS;
        sweep.next = slots.end;
        if slots.end >= self.groups.capacity() {
            self.sweeps.pop_front();
        }
        for slot in slots {
            let Some(group) = self.groups.get(slot) else { continue };
            let is_concerned = match &kind {
                Kind::TopicsDeleted(_) => !group.offsets.is_empty() || group.offset_writes > 0,
                Kind::Expire => !group.offsets_missing && (!group.offsets.is_empty() || group.state == State::Empty),
                Kind::Shutdown => !group.members.is_empty() || group.is_busy(),
            };
            if is_concerned {
                let input = match &kind {
                    Kind::TopicsDeleted(topics) => Input::TopicsDeleted(topics.clone()),
                    Kind::Expire => Input::Expire,
                    Kind::Shutdown => Input::Shutdown,
                };
                self.submit(at, slot as u32, input);
            }
        }
        Some(true)
    }
}
