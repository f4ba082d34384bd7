//! The state of one group, and what adding and removing a member does to it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::consumer::ConsumerGroup;
use super::ctx::{At, Ctx, GroupRef, Wait};
use super::member::{Member, Offer, ParkedJoin, ParkedSync};
use super::members::Members;
use super::offsets::Offsets;
use super::stats::Rebalances;
use super::work::Work;
use super::{Input, responses};
use crate::limits::GROUP_BYTES;
use crate::pieced::PiecedMap;
use crate::record::GroupMetadata;
use crate::{ConnectionId, ErrorCode, PersistId, Text, TimerKey};

/// Kafka's states of a group. A dead group is one that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// No members; perhaps offsets.
    Empty,
    /// Waiting for members to join.
    PreparingRebalance,
    /// Waiting for the leader's assignments.
    CompletingRebalance,
    /// All have their assignments.
    Stable,
    /// A consumer group (KIP-848) whose members have no targets for its epoch yet.
    Assigning,
    /// A consumer group (KIP-848) whose members are on their way to their targets.
    Reconciling,
}

impl State {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// All of them.
    pub const ALL: [State; State::COUNT] = [
        State::Empty,
        State::PreparingRebalance,
        State::CompletingRebalance,
        State::Stable,
        State::Assigning,
        State::Reconciling,
    ];

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
            State::Assigning => "Assigning",
            State::Reconciling => "Reconciling",
        }
    }
}

/// A member id that was given out with 79 and has not joined.
#[derive(Debug)]
pub(super) struct Pending {
    pub uid: u64,
    pub connection: ConnectionId,
    pub deadline_ms: u64,
}

/// The first rebalance of an empty group (1.7).
#[derive(Debug)]
pub(super) struct InitialDelay {
    /// A further member came since the timer was armed.
    pub added: bool,
    pub delay_ms: u64,
    pub remaining_ms: u64,
}

/// Why a group's inputs wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    None,
    /// Until this write is decided.
    Write(PersistId),
    /// Until no offset of the group is being written.
    OffsetWrites,
}

/// What a group's members subscribe to.
#[derive(Debug)]
pub(super) enum Subscriptions {
    /// Some member's metadata says nothing that can be read.
    Unknown,
    Topics(HashSet<Text>),
}

#[derive(Debug)]
pub(super) struct Group {
    pub this: GroupRef,
    pub id: Text,
    pub state: State,
    /// Since when, ms since the epoch.
    pub state_timestamp_ms: i64,
    pub protocol_type: Text,
    pub protocol_name: Option<Text>,
    pub generation: i32,
    pub leader: Option<u32>,

    pub members: Members<Member>,
    pub ids: PiecedMap<Text, u32>,
    pub instances: PiecedMap<Text, u32>,
    /// (slot, uid) in join order; entries of removed members are skipped and swept up now and then.
    order: Vec<(u32, u64)>,
    /// Entries of `order` before this one are of removed members.
    first_live: usize,
    /// How many members offer a protocol.
    pub support: HashMap<Text, usize>,
    rebalance_timeouts: BTreeMap<i32, usize>,
    pub pending: PiecedMap<Text, Pending>,
    pub pending_ids: PiecedMap<u64, Text>,

    /// Members with a parked join.
    pub joined: usize,
    pub initial: Option<InitialDelay>,
    pub join_deadline_ms: Option<u64>,
    /// Members that have not synced since the last join phase, while the sync timer runs.
    pub owed: usize,
    pub sync_deadline_ms: Option<u64>,
    /// When the sessions of all members started anew.
    pub sessions_from_ms: u64,
    /// Assignments of other epochs do not count.
    pub assignment_epoch: u64,
    /// Partitions that its members have, as [`GroupStats`](super::GroupStats) counts them.
    pub assigned_partitions: usize,
    pub rebalances: Rebalances,
    /// The subscriptions of a generation, once somebody needed them.
    pub subscriptions: Option<(i32, Subscriptions)>,

    /// What a consumer group (KIP-848) has in the place of all that is above; the group is that, then.
    pub consumer: Option<Box<ConsumerGroup>>,
    /// How often it was one and has ceased to be while writes were under way.
    pub consumer_ends: u64,

    pub offsets: Offsets,
    /// The store may have offsets that are not here yet.
    pub offsets_missing: bool,
    /// Writes of offsets that are not decided.
    pub offset_writes: usize,

    pub hold: Hold,
    pub works: VecDeque<Work>,
    pub inbox: VecDeque<(At, Input)>,
    /// In the coordinator's list of groups to go on with.
    pub is_ready: bool,
    /// As the coordinator has it in its list of groups that have nothing but their place.
    pub spare_since_ms: Option<i64>,
    /// To be taken out by the coordinator.
    pub is_removed: bool,
    /// When the step began that the works belong to.
    pub at: At,
}

impl Group {
    pub fn new(this: GroupRef, id: Text, at: At) -> Group {
        Group {
            this,
            id,
            state: State::Empty,
            state_timestamp_ms: at.wall_ms,
            protocol_type: Text::EMPTY,
            protocol_name: None,
            generation: 0,
            leader: None,
            members: Members::new(),
            ids: PiecedMap::new(),
            instances: PiecedMap::new(),
            order: Vec::new(),
            first_live: 0,
            support: HashMap::new(),
            rebalance_timeouts: BTreeMap::new(),
            pending: PiecedMap::new(),
            pending_ids: PiecedMap::new(),
            joined: 0,
            initial: None,
            join_deadline_ms: None,
            owed: 0,
            sync_deadline_ms: None,
            sessions_from_ms: 0,
            assignment_epoch: 0,
            assigned_partitions: 0,
            rebalances: Rebalances::default(),
            subscriptions: None,
            consumer: None,
            consumer_ends: 0,
            offsets: Offsets::default(),
            offsets_missing: false,
            offset_writes: 0,
            hold: Hold::None,
            works: VecDeque::new(),
            inbox: VecDeque::new(),
            is_ready: false,
            spare_since_ms: None,
            is_removed: false,
            at,
        }
    }

    pub fn bytes(&self) -> usize {
        GROUP_BYTES + self.id.len()
    }

    /// Whether inputs must queue.
    pub fn is_busy(&self) -> bool {
        self.hold != Hold::None || !self.works.is_empty() || !self.inbox.is_empty()
    }

    pub fn set_state(&mut self, ctx: &mut Ctx, state: State) {
        ctx.states[self.state as usize] -= 1;
        ctx.states[state as usize] += 1;
        let from = std::mem::replace(&mut self.state, state);
        self.state_timestamp_ms = self.at.wall_ms;
        self.count_transition(ctx, from);
    }

    /// The member that a request speaks for, or the error that it is answered with.
    pub fn identify(&self, member_id: &Text, group_instance_id: Option<&Text>) -> Result<u32, ErrorCode> {
        match group_instance_id {
            Some(instance) => match self.instances.get(instance) {
                None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(slot) if self.member(*slot).member_id == *member_id => Ok(*slot),
                Some(_) => Err(ErrorCode::FENCED_INSTANCE_ID),
            },
            None => self.ids.get(member_id).copied().ok_or(ErrorCode::UNKNOWN_MEMBER_ID),
        }
    }

    /// A member by a slot that is known to be taken.
    pub fn member(&self, slot: u32) -> &Member {
        &self.members[slot as usize]
    }

    /// As [`Group::member`].
    pub fn member_mut(&mut self, slot: u32) -> &mut Member {
        &mut self.members[slot as usize]
    }

    /// The member in a slot, if it is still that one.
    pub fn member_of(&self, slot: u32, uid: u64) -> Option<&Member> {
        self.members.get(slot as usize).filter(|member| member.uid == uid)
    }

    /// The next member in join order from `at`, which moves on.
    pub fn next_member(&self, at: &mut usize) -> Option<u32> {
        while let Some((slot, uid)) = self.order.get(*at) {
            *at += 1;
            if self.member_of(*slot, *uid).is_some() {
                return Some(*slot);
            }
        }
        None
    }

    pub fn leader_id(&self) -> Text {
        self.leader.map_or(Text::EMPTY, |slot| self.member(slot).member_id.clone())
    }

    pub fn is_leader(&self, slot: u32) -> bool {
        self.leader == Some(slot)
    }

    /// The longest rebalance timeout of any member; 0 without members.
    pub fn rebalance_timeout_ms(&self) -> u64 {
        self.rebalance_timeouts.last_key_value().map_or(0, |(ms, _)| u64::try_from(*ms).unwrap_or_default())
    }

    /// Adds a member whose count and bytes have been reserved.
    pub fn add_member(&mut self, ctx: &mut Ctx, member: Member, protocol_type: &Text) -> u32 {
        if self.members.is_empty() && self.protocol_type != *protocol_type {
            self.protocol_type = protocol_type.detached();
        }
        if self.order.len() > 2 * self.members.len() + 64 {
            let members = &self.members;
            self.order.retain(|(slot, uid)| members.get(*slot as usize).is_some_and(|m| m.uid == *uid));
            self.first_live = 0;
        }
        let uid = member.uid;
        self.count_offer(&member.offer);
        let (member_id, instance) = (member.member_id.clone(), member.group_instance_id.clone());
        let slot = self.members.insert(member);
        self.order.push((slot, uid));
        self.ids.insert(member_id, slot);
        if let Some(instance) = instance {
            self.instances.insert(instance, slot);
        }
        self.leader.get_or_insert(slot);
        if let Some(initial) = &mut self.initial {
            initial.added = true;
        }
        ctx.members += 1;
        slot
    }

    /// Takes a member out. Whatever it has parked must have been answered.
    pub fn remove_member(&mut self, ctx: &mut Ctx, slot: u32) {
        let member = self.members.remove(slot as usize);
        debug_assert!(member.join.is_none() && member.sync.is_none());
        self.ids.remove(&member.member_id);
        if let Some(instance) = &member.group_instance_id {
            self.instances.remove(instance);
        }
        self.discount_offer(&member.offer);
        if self.sync_deadline_ms.is_some() && member.owes_sync_for == Some(self.generation) {
            self.sync_paid(ctx);
        }
        if member.armed_ms.is_some() {
            ctx.cancel(TimerKey::Session { group: self.this.slot, member: slot, uid: member.uid });
        }
        ctx.members -= 1;
        ctx.totals.remove_member();
        ctx.totals.remove_bytes(member.bytes());
        if self.leader == Some(slot) {
            self.leader = self.first_member();
        }
    }

    /// The first in join order. Passing removed ones once is enough, so it costs nothing in the long run.
    fn first_member(&mut self) -> Option<u32> {
        let mut at = self.first_live;
        let first = self.next_member(&mut at);
        self.first_live = at - usize::from(first.is_some());
        first
    }

    fn count_offer(&mut self, offer: &Offer) {
        for name in offer.names() {
            *self.support.entry(name.clone()).or_default() += 1;
        }
        *self.rebalance_timeouts.entry(offer.rebalance_timeout_ms).or_default() += 1;
    }

    fn discount_offer(&mut self, offer: &Offer) {
        for name in offer.names() {
            if let Some(count) = self.support.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.support.remove(name);
                }
            }
        }
        if let Some(count) = self.rebalance_timeouts.get_mut(&offer.rebalance_timeout_ms) {
            *count -= 1;
            if *count == 0 {
                self.rebalance_timeouts.remove(&offer.rebalance_timeout_ms);
            }
        }
    }

    /// Puts another offer in the place of a member's, whose bytes have been reserved, and returns the old.
    /// What the group subscribes to may be something else with it, also where no rebalance follows.
    pub fn replace_offer(&mut self, slot: u32, offer: Offer) -> Offer {
        self.subscriptions = None;
        self.count_offer(&offer);
        let old = std::mem::replace(&mut self.member_mut(slot).offer, offer);
        self.discount_offer(&old);
        old
    }

    /// Parks a join. An older one of the same member is answered 27: its client has moved on.
    pub fn park_join(&mut self, ctx: &mut Ctx, slot: u32, parked: ParkedJoin) {
        if let Some(older) = self.take_join(ctx, slot) {
            let member_id = self.member(slot).member_id.clone();
            let response = responses::join_error(older.api_version, ErrorCode::REBALANCE_IN_PROGRESS, member_id);
            ctx.reply(older.token, response);
        }
        ctx.waits.insert((parked.connection, self.this.slot, Wait::Join(slot)));
        self.member_mut(slot).join = Some(parked);
        self.joined += 1;
    }

    pub fn take_join(&mut self, ctx: &mut Ctx, slot: u32) -> Option<ParkedJoin> {
        let parked = self.member_mut(slot).join.take()?;
        ctx.waits.remove(&(parked.connection, self.this.slot, Wait::Join(slot)));
        self.joined -= 1;
        Some(parked)
    }

    /// Parks a sync, as [`Group::park_join`].
    pub fn park_sync(&mut self, ctx: &mut Ctx, slot: u32, parked: ParkedSync) {
        if let Some(older) = self.take_sync(ctx, slot) {
            ctx.reply(older.token, responses::sync_error(ErrorCode::REBALANCE_IN_PROGRESS));
        }
        ctx.waits.insert((parked.connection, self.this.slot, Wait::Sync(slot)));
        self.member_mut(slot).sync = Some(parked);
    }

    pub fn take_sync(&mut self, ctx: &mut Ctx, slot: u32) -> Option<ParkedSync> {
        let parked = self.member_mut(slot).sync.take()?;
        ctx.waits.remove(&(parked.connection, self.this.slot, Wait::Sync(slot)));
        Some(parked)
    }

    /// One of those that had to sync has, or is gone.
    pub fn sync_paid(&mut self, ctx: &mut Ctx) {
        self.owed -= 1;
        if self.owed == 0 {
            self.cancel_sync_timer(ctx);
        }
    }

    pub fn cancel_sync_timer(&mut self, ctx: &mut Ctx) {
        self.owed = 0;
        if self.sync_deadline_ms.take().is_some() {
            ctx.cancel(TimerKey::Sync { group: self.this.slot, uid: self.this.uid });
        }
    }

    /// Drops an id that was given out. Returns whether there was one.
    pub fn remove_pending(&mut self, ctx: &mut Ctx, member_id: &Text) -> bool {
        let Some(pending) = self.pending.remove(member_id) else { return false };
        self.pending_ids.remove(&pending.uid);
        ctx.waits.remove(&(pending.connection, self.this.slot, Wait::Pending(pending.uid)));
        ctx.cancel(TimerKey::Pending { group: self.this.slot, uid: pending.uid });
        ctx.totals.remove_member();
        true
    }

    /// What is kept of the group, without its members.
    pub fn metadata(&self) -> GroupMetadata {
        GroupMetadata {
            group_id: self.id.clone(),
            protocol_type: self.protocol_type.clone(),
            generation: self.generation,
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.map(|slot| self.member(slot).member_id.clone()),
            state_timestamp_ms: self.state_timestamp_ms,
            members: Vec::new(),
        }
    }

    /// Everything that must hold between two steps.
    #[cfg(debug_assertions)]
    pub fn check(&self) {
        if !self.works.is_empty() {
            return;
        }
        if let Some(consumer) = &self.consumer {
            consumer.check();
            assert!(self.members.is_empty() && self.pending.is_empty());
            return assert_eq!(self.state, consumer.state());
        }
        assert_eq!(self.ids.len(), self.members.len());
        assert!(self.joined <= self.members.len());
        assert!(self.owed == 0 || self.sync_deadline_ms.is_some());
        assert_eq!(self.members.is_empty(), self.leader.is_none());
        match self.state {
            State::Empty => assert!(self.members.is_empty() && self.join_deadline_ms.is_none()),
            State::PreparingRebalance => assert!(self.join_deadline_ms.is_some()),
            State::CompletingRebalance | State::Stable => {
                assert!(!self.members.is_empty() && self.joined == 0 && self.join_deadline_ms.is_none());
                assert!(self.protocol_name.is_some());
            }
            State::Assigning | State::Reconciling => unreachable!("a classic group has no such state"),
        }
    }
}
