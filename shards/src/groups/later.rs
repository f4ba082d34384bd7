//! Groups whose store tells of their offsets when they are first asked for, and of which the gateway may lose hold.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ringgate_group::{ConnectionId, ErrorCode, ReplyToken, Request, Text};

use super::Groups;
use crate::ShardHandle;
use crate::limits::{GROUPS_PER_LOAD, LEASE_LOOK_MS, LOAD_LOOK};
use crate::store::GroupLog;
use crate::store::iggy;
use crate::timers::TimerKey;

/// Requests that wait for offsets to be loaded, and since when groups cannot be answered.
#[derive(Default)]
pub(super) struct Later {
    parked: RefCell<HashMap<Text, Vec<Parked>>>,
    /// Groups to be loaded; those that somebody waits for come first.
    wanted: RefCell<VecDeque<Text>>,
    loading: Cell<bool>,
    suspended_ms: Cell<Option<u64>>,
    /// All groups that the store has are here.
    is_complete: Cell<bool>,
    /// Lists of groups, which wait for that.
    lists: RefCell<Vec<Parked>>,
}

/// A request that waits for its group's offsets. Connections bound how many there are.
struct Parked {
    token: ReplyToken,
    connection: ConnectionId,
    request: Request,
}

impl Later {
    /// All groups that the store has are here.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete.get()
    }
}

impl Groups {
    /// Whether groups may be answered. Time in which they may not counts for no session.
    pub(super) fn is_held(&self) -> bool {
        let now_ms = self.clock.mono_ms();
        if !self.log.is_held() {
            if self.later.suspended_ms.get().is_none() {
                tracing::warn!("the lease is over: groups are not answered until it is renewed");
                self.later.suspended_ms.set(Some(now_ms));
            }
            return false;
        }
        if let Some(since_ms) = self.later.suspended_ms.take() {
            tracing::info!("the lease is held again: groups are answered");
            self.coordinator.borrow_mut().handle_stall(now_ms.saturating_sub(since_ms));
        }
        true
    }

    /// Takes in a request, when the group may be answered and what it asks for is here.
    pub(super) fn take(&self, shard: &ShardHandle, token: ReplyToken, connection: ConnectionId, request: Request) {
        if !self.is_held() {
            return self.refuse(token, request, ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        if let (GroupLog::Iggy(_), Request::ListGroups(_), false) = (&self.log, &request, self.later.is_complete.get())
        {
            return self.later.lists.borrow_mut().push(Parked { token, connection, request });
        }
        let wanted = self.coordinator.borrow().wants_offsets(&request).cloned();
        let Some(group_id) = wanted else {
            return self.coordinator.borrow_mut().handle_request(self.now(), token, connection, request);
        };
        let parked = Parked { token, connection, request };
        let mut all = self.later.parked.borrow_mut();
        match all.get_mut(&group_id) {
            Some(waiting) => waiting.push(parked),
            None => {
                let group_id = group_id.detached();
                all.insert(group_id.clone(), vec![parked]);
                self.later.wanted.borrow_mut().push_front(group_id);
            }
        }
        drop(all);
        self.load_wanted(shard);
    }

    fn refuse(&self, token: ReplyToken, request: Request, error: ErrorCode) {
        self.coordinator.borrow_mut().refuse(self.now(), token, request, error);
    }

    /// A connection is closed: what of it waits here is answered, to nobody.
    pub(super) fn withdraw(&self, connection: ConnectionId) {
        let mut withdrawn = Vec::new();
        for waiting in self.later.parked.borrow_mut().values_mut() {
            withdrawn.extend(waiting.extract_if(.., |parked| parked.connection == connection));
        }
        withdrawn.extend(self.later.lists.borrow_mut().extract_if(.., |parked| parked.connection == connection));
        for Parked { token, request, .. } in withdrawn {
            self.refuse(token, request, ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
    }

    /// A timer that is due while groups are not answered comes later: its group's time stands still.
    pub(super) fn put_off(&self, shard: &ShardHandle, key: ringgate_group::TimerKey) {
        shard.timers.arm(TimerKey::Group(key), self.clock.mono_ms() + LEASE_LOOK_MS);
    }

    fn load_wanted(&self, shard: &ShardHandle) {
        if self.later.loading.replace(true) {
            return;
        }
        let shard = shard.clone();
        ringgate_runtime::spawn_as("group_offsets", async move {
            let later = &shard.groups.later;
            while let GroupLog::Iggy(log) = &shard.groups.log {
                let groups: Vec<Text> = {
                    let mut wanted = later.wanted.borrow_mut();
                    let most = wanted.len().min(GROUPS_PER_LOAD);
                    wanted.drain(..most).collect()
                };
                if groups.is_empty() {
                    break;
                }
                shard.groups.load_some(&shard, log, groups).await;
            }
            later.loading.set(false);
        })
        .detach();
    }

    async fn load_some(&self, shard: &ShardHandle, log: &iggy::GroupLog, groups: Vec<Text>) {
        let loaded = log.load(shard, groups.clone(), self.clock.wall_ms()).await;
        let is_loaded = match loaded {
            Ok(loaded) => {
                for (group_id, offsets) in loaded {
                    let mut coordinator = self.coordinator.borrow_mut();
                    if coordinator.lacks_offsets(&group_id) {
                        coordinator.load_offsets(self.now(), &group_id, offsets);
                    }
                }
                true
            }
            Err(failure) => {
                tracing::warn!(%failure, groups = groups.len(), "offsets of groups cannot be loaded");
                false
            }
        };
        for group_id in groups {
            let parked = self.later.parked.borrow_mut().remove(&group_id).unwrap_or_default();
            for Parked { token, connection, request } in parked {
                if is_loaded && self.is_held() {
                    self.coordinator.borrow_mut().handle_request(self.now(), token, connection, request);
                    continue;
                }
                // A failed read is never "no offset".
                let error = match &request {
                    Request::OffsetFetch(_) => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
                    _ => ErrorCode::COORDINATOR_NOT_AVAILABLE,
                };
                self.refuse(token, request, error);
            }
        }
        self.pump(shard);
    }

    /// Loads what nobody has asked for, in the background: groups are listed, and expire, when they are here.
    pub(crate) async fn load_rest(shard: ShardHandle) {
        let groups = &shard.groups;
        let GroupLog::Iggy(log) = &groups.log else { return };
        let mut names = loop {
            match log.all_groups(&shard).await {
                Ok(names) => break names,
                Err(failure) => tracing::warn!(%failure, "the groups that Iggy has cannot be listed; trying again"),
            }
            for Parked { token, request, .. } in groups.later.lists.take() {
                groups.refuse(token, request, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
            }
            groups.pump(&shard);
            ringgate_runtime::sleep(Duration::from_millis(LEASE_LOOK_MS)).await;
        };
        // Groups that the side topic knows and Iggy has no offsets of.
        names.extend(groups.coordinator.borrow().groups_without_offsets());
        for some in names.chunks(GROUPS_PER_LOAD) {
            {
                let mut parked = groups.later.parked.borrow_mut();
                let mut wanted = groups.later.wanted.borrow_mut();
                for group_id in some.iter().filter(|group_id| groups.coordinator.borrow().lacks_offsets(group_id)) {
                    if !parked.contains_key(group_id) {
                        parked.insert(group_id.clone(), Vec::new());
                        wanted.push_back(group_id.clone());
                    }
                }
            }
            groups.load_wanted(&shard);
            while groups.later.loading.get() {
                ringgate_runtime::sleep(LOAD_LOOK).await;
            }
        }
        groups.later.is_complete.set(true);
        for Parked { token, connection, request } in groups.later.lists.take() {
            groups.take(&shard, token, connection, request);
        }
        groups.pump(&shard);
    }
}
