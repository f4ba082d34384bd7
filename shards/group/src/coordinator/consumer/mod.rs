//! Consumer groups of the protocol of KIP-848: members heartbeat, the coordinator assigns.
//!
//! A [`ConsumerGroup`] has what such a group has beside its offsets, which are kept as those of a classic
//! group. Each heartbeat (`heartbeat`) takes in what the member says, raises the group's epoch when the
//! members' wishes or the topics have changed (`subscriptions`), gives everybody a target when that is due
//! (`target`), and brings the one member a step nearer to its target (`reconcile`). Other members learn of it by
//! their own heartbeats, so none of this takes longer in a large group, but for the assignment itself, which a
//! large group has computed elsewhere.
//!
//! What must stay true: a partition is with one member at most. Epochs only grow. An answer goes out when all that
//! it may tell of is kept, whichever step that is of: writes of a group are decided in their order, and what a
//! failed one held is with the next.

mod classic;
mod describe;
mod heartbeat;
mod leave;
mod load;
mod member;
mod offsets;
mod reconcile;
mod subscriptions;
mod target;
mod topic_names;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ctx::{Ctx, GroupRef};
use super::group::State;
use super::members::Members;
use crate::assignor::ASSIGNORS;
use crate::pieced::PiecedMap;
use crate::record::ConsumerGroupMetadata;
use crate::{PartitionSet, Record, StoreError, Text, TopicIdPartition};
pub(super) use classic::{by_id, to_bytes};
pub(super) use describe::{Description, not_found, refused as not_described};
pub(super) use heartbeat::{check, check_first, refused};
use member::Member;
pub(super) use member::{Classic, Member as ConsumerMember};
pub use reconcile::MemberState;
use subscriptions::Pattern;
pub use subscriptions::ResolvedRegex;
pub use subscriptions::resolve as resolve_regexes;
pub(super) use target::Assigned;
pub use topic_names::TopicNames;

#[derive(Debug)]
pub(super) struct ConsumerGroup {
    this: GroupRef,
    id: Text,
    epoch: i32,
    /// The epoch that the members' targets are for.
    assignment_epoch: i32,
    /// When targets were last made.
    assigned_at_ms: Option<u64>,
    /// Targets are being made elsewhere, for this epoch.
    assigning: Option<i32>,
    members: Members<Member>,
    ids: PiecedMap<Text, u32>,
    instances: PiecedMap<Text, u32>,
    /// For how many partitions there is room reserved.
    room: usize,
    /// Who has a partition, or has yet to give it back.
    owners: HashMap<TopicIdPartition, u32>,
    /// How many members stand at an epoch with nothing left to do.
    stable_at: HashMap<i32, usize>,
    /// How many members name a topic.
    names: HashMap<Text, usize>,
    patterns: BTreeMap<Text, Pattern>,
    /// How many members ask for each of the assignors.
    votes: [usize; ASSIGNORS.len()],
    /// How many members speak the classic protocol, and how many of them know a protocol by its name.
    classic_members: usize,
    support: HashMap<Text, usize>,
    /// Patterns are being resolved.
    resolving: bool,
    /// They were since the start.
    patterns_known: bool,
    resolved_at_ms: Option<u64>,
    /// The catalogue that the subscribed topics were last compared with.
    topics_seen: Option<u64>,
    /// The catalogue that patterns were last resolved against.
    topics_resolved: Option<u64>,
    /// Of the subscribed topics, their ids and their sizes, as of the group's epoch.
    topics_hash: u64,
    /// Of all members together what [`Member::digest`] is of one; and as of the group's last record.
    digest: u64,
    written_digest: u64,
    changes: Changes,
    /// How often the epoch was raised and nobody has counted it.
    bumps: u64,
    /// In this step a classic member has taken the place of a static one, and wishes for the same.
    succeeded: bool,
    /// While loading: ids of static members whose instance has another one.
    superseded: Vec<Text>,
    /// Writes that are not decided, and how many have failed.
    undecided: usize,
    failed: u64,
}

/// What has to be kept: of the step at hand, and of steps whose writes failed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    group: bool,
    members: BTreeSet<u32>,
    removed: Vec<Text>,
}

impl ConsumerGroup {
    pub fn new(this: GroupRef, id: Text) -> ConsumerGroup {
        ConsumerGroup {
            this,
            id,
            epoch: 0,
            assignment_epoch: 0,
            assigned_at_ms: None,
            assigning: None,
            members: Members::new(),
            ids: PiecedMap::new(),
            instances: PiecedMap::new(),
            room: 0,
            owners: HashMap::new(),
            stable_at: HashMap::new(),
            names: HashMap::new(),
            patterns: BTreeMap::new(),
            votes: [0; ASSIGNORS.len()],
            classic_members: 0,
            support: HashMap::new(),
            resolving: false,
            patterns_known: false,
            resolved_at_ms: None,
            topics_seen: None,
            topics_resolved: None,
            topics_hash: 0,
            digest: 0,
            written_digest: 0,
            changes: Changes::default(),
            bumps: 0,
            succeeded: false,
            superseded: Vec::new(),
            undecided: 0,
            failed: 0,
        }
    }

    pub fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// Kafka's state of the group (6.6).
    pub fn state(&self) -> State {
        if self.members.is_empty() {
            State::Empty
        } else if self.epoch > self.assignment_epoch {
            State::Assigning
        } else if self.stable_at.get(&self.assignment_epoch) == Some(&self.members.len()) {
            State::Stable
        } else {
            State::Reconciling
        }
    }

    fn member(&self, slot: u32) -> &Member {
        &self.members[slot as usize]
    }

    /// The member in a slot, if it is still that one.
    fn member_of(&self, slot: u32, uid: u64) -> Option<&Member> {
        self.members.get(slot as usize).filter(|member| member.uid == uid)
    }

    /// Changes a member, and with it everything that is counted of members.
    fn change<R>(&mut self, ctx: &mut Ctx, slot: u32, change: impl FnOnce(&mut Member) -> R) -> R {
        self.discount(slot);
        let member = &mut self.members[slot as usize];
        ctx.totals.remove_bytes(member.bytes());
        let result = change(member);
        ctx.totals.add_bytes(member.bytes());
        self.count(slot);
        self.changes.members.insert(slot);
        result
    }

    /// The place among all assignors of the one that a member asks for.
    fn vote_of(&self, slot: u32) -> Option<usize> {
        let asked = self.member(slot).server_assignor?;
        ASSIGNORS.iter().position(|assignor| *assignor == asked)
    }

    fn count(&mut self, slot: u32) {
        let member = &mut self.members[slot as usize];
        member.counted_digest = member.digest();
        self.digest = self.digest.wrapping_add(member.counted_digest);
        if let Some(place) = self.vote_of(slot) {
            self.votes[place] += 1;
        }
        if let Some(classic) = &self.members[slot as usize].classic {
            self.classic_members += 1;
            for name in classic.names() {
                *self.support.entry(name.clone()).or_default() += 1;
            }
        }
        let holding = &self.members[slot as usize].holding;
        if holding.state == MemberState::Stable {
            *self.stable_at.entry(holding.epoch).or_default() += 1;
        }
        for partition in holding.assigned.iter().chain(holding.revoking.iter()) {
            self.owners.insert(partition, slot);
        }
    }

    fn discount(&mut self, slot: u32) {
        self.digest = self.digest.wrapping_sub(self.member(slot).counted_digest);
        if let Some(place) = self.vote_of(slot) {
            self.votes[place] -= 1;
        }
        if let Some(classic) = &self.members[slot as usize].classic {
            self.classic_members -= 1;
            for name in classic.names() {
                if let Some(count) = self.support.get_mut(name) {
                    *count -= 1;
                    if *count == 0 {
                        self.support.remove(name);
                    }
                }
            }
        }
        let holding = &self.members[slot as usize].holding;
        if holding.state == MemberState::Stable
            && let Some(count) = self.stable_at.get_mut(&holding.epoch)
        {
            *count -= 1;
            if *count == 0 {
                self.stable_at.remove(&holding.epoch);
            }
        }
        for partition in holding.assigned.iter().chain(holding.revoking.iter()) {
            if self.owners.get(&partition) == Some(&slot) {
                self.owners.remove(&partition);
            }
        }
    }

    /// Adds a member whose place is reserved; its bytes are counted here.
    fn insert(&mut self, ctx: &mut Ctx, member: Member) -> u32 {
        ctx.totals.add_bytes(member.bytes());
        ctx.members += 1;
        let (member_id, instance_id) = (member.member_id.clone(), member.instance_id.clone());
        let (names, regex) = (member.names.clone(), member.regex.clone());
        let slot = self.members.insert(member);
        self.ids.insert(member_id, slot);
        if let Some(instance_id) = instance_id {
            self.instances.insert(instance_id, slot);
        }
        self.subscribe(ctx, &names, regex.as_ref());
        self.count(slot);
        self.changes.members.insert(slot);
        slot
    }

    /// Takes a member out; what it had is free. Returns it.
    fn remove(&mut self, ctx: &mut Ctx, slot: u32) -> Box<Member> {
        self.discount(slot);
        let member = self.members.remove(slot as usize);
        self.ids.remove(&member.member_id);
        if let Some(instance_id) = &member.instance_id {
            self.instances.remove(instance_id);
        }
        self.unsubscribe(ctx, &member.names, member.regex.as_ref());
        self.cancel_timers(ctx, slot, &member);
        ctx.members -= 1;
        ctx.totals.remove_member();
        ctx.totals.remove_bytes(member.bytes());
        self.changes.members.remove(&slot);
        self.changes.removed.push(member.member_id.clone());
        if self.members.is_empty() {
            self.give_back_room(ctx, 0);
        }
        member
    }

    /// Takes all members out, as when the group goes as a whole. Nothing is left to be kept of them.
    pub fn clear(&mut self, ctx: &mut Ctx) {
        for slot in self.members.iter().map(|(slot, _)| slot as u32).collect::<Vec<_>>() {
            self.remove(ctx, slot);
        }
        self.changes = Changes::default();
    }

    /// The group goes on from a classic group's generation.
    pub fn begin_at(&mut self, generation: i32) {
        (self.epoch, self.assignment_epoch) = (generation, generation);
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Takes in a member that is counted already: of a classic group, or one that was kept. Its partitions are not.
    pub fn take_in(&mut self, ctx: &mut Ctx, mut member: Member) {
        member.names = self.shared(&member.names);
        self.insert(ctx, member);
    }

    /// Whether no member has any of these partitions.
    pub fn is_free(&self, partitions: &PartitionSet) -> bool {
        partitions.iter().all(|partition| !self.owners.contains_key(&partition))
    }

    /// Whether there are members, and none speaks the consumer protocol.
    pub fn is_classic_only(&self) -> bool {
        self.classic_members > 0 && self.classic_members == self.members.len()
    }

    /// Whether in this step a classic member came for a static one with the same wishes, and everybody has what is meant for
    /// it: nobody has to find out that the group is a classic one again.
    pub fn take_succeeded(&mut self) -> bool {
        std::mem::take(&mut self.succeeded) && self.state() == State::Stable
    }

    /// A protocol that all classic members know, the first member's choice among them.
    pub fn common_protocol(&self) -> Option<Text> {
        let first = self.members.iter().find_map(|(_, member)| member.classic.as_ref())?;
        first.names().find(|name| self.support.get(*name) == Some(&self.classic_members)).cloned()
    }

    /// Takes the next member out, by its place in the list, and what ends its record. `at` moves on.
    pub fn take_member(&mut self, ctx: &mut Ctx, at: &mut usize) -> Option<(Box<Member>, Record)> {
        while *at < self.members.capacity() {
            *at += 1;
            if self.members.contains(*at - 1) {
                let member = self.remove(ctx, *at as u32 - 1);
                self.changes.removed.pop();
                let tombstone = self.tombstone(&member.member_id);
                return Some((member, tombstone));
            }
        }
        None
    }

    /// What ends the records of members that are gone already.
    pub fn removed_tombstones(&self) -> Vec<Record> {
        self.changes.removed.iter().map(|member_id| self.tombstone(member_id)).collect()
    }

    fn tombstone(&self, member_id: &Text) -> Record {
        Record::ConsumerMemberTombstone { group_id: self.id.clone(), member_id: member_id.clone() }
    }

    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Partitions that members have, or have yet to give back.
    pub fn assigned_partitions(&self) -> usize {
        self.owners.len()
    }

    /// How often the epoch was raised since this was last asked.
    pub fn take_bumps(&mut self) -> u64 {
        std::mem::take(&mut self.bumps)
    }

    fn bump(&mut self) {
        self.bumps += 1;
        self.epoch = self.epoch.saturating_add(1);
        self.changes.group = true;
    }

    /// Whether everything that was ever answered is kept.
    pub fn is_kept(&self) -> bool {
        self.undecided == 0 && !self.has_changes()
    }

    /// Whether there is something that no write holds.
    pub fn has_changes(&self) -> bool {
        self.changes.group || !self.changes.members.is_empty() || !self.changes.removed.is_empty()
    }

    /// What has to be kept, which is being written from here on, and its records. Members come before the group,
    /// whose epochs say how far they are. Also says how many writes have failed so far.
    pub fn write(&mut self, state_timestamp_ms: i64) -> (Vec<Record>, Changes, u64) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.group |= self.digest != self.written_digest;
        self.written_digest = self.digest;
        let tombstone =
            |id: &Text| Record::ConsumerMemberTombstone { group_id: self.id.clone(), member_id: id.clone() };
        let mut records: Vec<Record> = changes.removed.iter().map(tombstone).collect();
        let changed = changes.members.iter().map(|slot| Record::ConsumerMember {
            group_id: self.id.clone(),
            member: Box::new(self.member(*slot).record()),
        });
        records.extend(changed);
        if changes.group {
            records.push(Record::ConsumerGroup(self.metadata(state_timestamp_ms)));
        }
        self.undecided += 1;
        (records, changes, self.failed)
    }

    /// A write is decided. What could not be kept has to be with the next; whatever was to be told meanwhile may
    /// be of it. `failed` is how many had failed when the write began. Returns whether all up to this is kept.
    pub fn written(&mut self, changes: Changes, failed: u64, result: Result<(), StoreError>) -> Result<(), StoreError> {
        self.undecided -= 1;
        if result.is_err() {
            self.failed += 1;
            let members = &self.members;
            let is_there = |slot: &u32| members.contains(*slot as usize);
            self.changes.members.extend(changes.members.into_iter().filter(is_there));
            let is_gone = |id: &Text| !self.ids.contains_key(id);
            self.changes.removed.extend(changes.removed.into_iter().filter(is_gone));
            self.changes.group |= changes.group;
        }
        if self.failed == failed { result } else { result.and(Err(StoreError::Unavailable)) }
    }

    /// What is kept of the group, without its members.
    pub fn metadata(&self, state_timestamp_ms: i64) -> ConsumerGroupMetadata {
        ConsumerGroupMetadata {
            group_id: self.id.clone(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            wishes_hash: self.topics_hash.wrapping_add(self.digest),
            state_timestamp_ms,
        }
    }

    /// Everything that must hold between two steps.
    #[cfg(debug_assertions)]
    pub fn check(&self) {
        assert_eq!(self.ids.len(), self.members.len());
        assert!(self.epoch >= self.assignment_epoch);
        let mut held = 0;
        for (slot, member) in self.members.uncounted() {
            for partition in member.holding.assigned.iter().chain(member.holding.revoking.iter()) {
                assert_eq!(self.owners.get(&partition), Some(&(slot as u32)), "{partition:?} is with two members");
                held += 1;
            }
        }
        assert_eq!(held, self.owners.len());
        assert!(held <= self.room, "{held} partitions are held, and {} counted", self.room);
        let digests = self.members.uncounted().map(|(_, member)| member.digest());
        assert_eq!(digests.fold(0, u64::wrapping_add), self.digest);
        let named = self.members.uncounted().map(|(_, member)| member.names.len());
        assert_eq!(self.names.values().sum::<usize>(), named.sum::<usize>());
    }
}
