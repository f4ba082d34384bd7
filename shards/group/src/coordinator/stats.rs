//! What a shard's groups have done, counted as it happens: each event is an addition or two, so that nobody has to go
//! through the groups to know.
//!
//! A rebalance begins when a group with members leaves `Stable` or `Empty`, and ends when it is `Stable`: what lies
//! between is how long its members wait for their partitions, `initial_rebalance_delay` included. It has failed where
//! it had to begin again after everybody had joined (the leader's or another member's sync did not come in time, its
//! assignments could not be kept, or somebody joined or left meanwhile), and where nobody was left at its end; one that
//! begins again counts as one that failed and, at its end, as one that completed.

use super::Coordinator;
use super::ctx::Ctx;
use super::group::{Group, State};
use crate::Histogram;

/// Why somebody is no member any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// It left, or was removed by an administrator.
    Left,
    /// It was not heard of for its session timeout.
    SessionTimeout,
    /// It did not join, sync or give back partitions within its rebalance timeout.
    RebalanceTimeout,
    /// Its connection closed before its first join was answered.
    Disconnected,
    /// A static member came back with another id and took its place; it is not counted as joined.
    Replaced,
}

impl Departure {
    /// All of them.
    pub const ALL: [Departure; 5] = [
        Departure::Left,
        Departure::SessionTimeout,
        Departure::RebalanceTimeout,
        Departure::Disconnected,
        Departure::Replaced,
    ];

    /// As a metric names it.
    pub fn name(self) -> &'static str {
        match self {
            Departure::Left => "left",
            Departure::SessionTimeout => "session_timeout",
            Departure::RebalanceTimeout => "rebalance_timeout",
            Departure::Disconnected => "disconnected",
            Departure::Replaced => "replaced",
        }
    }
}

/// What the groups of one shard have done since its start, and what they have.
#[derive(Debug, Clone, Default)]
pub struct GroupStats {
    /// Partitions that members have as of their groups' last assignments. Of classic groups those of type `consumer`
    /// count: nobody else's assignments can be read.
    pub assigned_partitions: usize,
    /// Rebalances that ended in a stable group.
    pub rebalances_completed: u64,
    /// Rebalances that had to begin again or ended without members.
    pub rebalances_failed: u64,
    /// From the beginning of a rebalance to the stable group, whatever failed between included.
    pub rebalance_took: Histogram,
    /// Epochs of consumer groups (KIP-848) that began.
    pub epochs: u64,
    /// Steps of members of consumer groups towards their targets.
    pub reconciliations: u64,
    /// Members that joined.
    pub joined: u64,
    departures: [u64; Departure::ALL.len()],
    /// Heartbeats that kept a member's session going.
    pub heartbeats: u64,
    /// Offsets that were committed and are kept.
    pub offsets_committed: u64,
    /// Offsets that groups have.
    pub offsets: usize,
    /// Offsets whose retention was over.
    pub offsets_expired: u64,
}

impl GroupStats {
    /// Members that went for this reason.
    pub fn departed(&self, why: Departure) -> u64 {
        self.departures[why as usize]
    }

    pub(super) fn depart(&mut self, why: Departure) {
        self.departures[why as usize] += 1;
    }
}

/// What one group's rebalances came to since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebalances {
    /// Those that ended in a stable group.
    pub completed: u32,
    /// Those that had to begin again or ended without members.
    pub failed: u32,
    /// When the last completed one ended, ms since the epoch.
    pub last_ms: Option<i64>,
    /// How long that one took, in ms.
    pub last_took_ms: u64,
    /// When the one that goes on began, in session time.
    began_ms: Option<u64>,
}

impl Coordinator {
    /// Goes through all groups, for tests: whether they are as many, with as much, as is counted.
    ///
    /// # Errors
    /// What is counted and what is there.
    pub fn check_counts(&self) -> Result<(), String> {
        let mut states = [0; State::COUNT];
        let (mut members, mut offsets, mut assigned) = (0, 0, 0);
        // On its way from one protocol to the other a group has some of its members twice, or in its hands.
        let mut are_at_rest = true;
        for group in (0..self.groups.capacity()).filter_map(|slot| self.groups.get(slot)) {
            states[group.state as usize] += 1;
            members += group.consumer.as_deref().map_or(group.members.len(), |consumer| consumer.member_count());
            offsets += group.offsets.topics.values().map(|partitions| partitions.len()).sum::<usize>();
            assigned += group.assigned_partitions;
            are_at_rest &= group.works.is_empty();
            let of_consumers = group.consumer.as_deref().map(|consumer| consumer.assigned_partitions());
            if group.works.is_empty() && of_consumers.is_some_and(|there| there != group.assigned_partitions) {
                return Err(format!("{}: {} of {of_consumers:?} assigned", group.id, group.assigned_partitions));
            }
            if group.state == State::Empty && group.works.is_empty() && group.assigned_partitions > 0 {
                return Err(format!("{} is empty with {} assigned", group.id, group.assigned_partitions));
            }
        }
        let there = (states, offsets, assigned, members);
        let counted = (self.ctx.states, self.ctx.stats.offsets, self.ctx.stats.assigned_partitions, self.ctx.members);
        let is_right =
            there == counted || !are_at_rest && (there.0, there.1, there.2) == (counted.0, counted.1, counted.2);
        if is_right { Ok(()) } else { Err(format!("there are {there:?}, counted {counted:?}")) }
    }
}

impl Group {
    /// The group has come from another state to the one that it is in.
    pub(super) fn count_transition(&mut self, ctx: &mut Ctx, from: State) {
        let rebalances = &mut self.rebalances;
        let failed = match self.state {
            State::Empty => rebalances.began_ms.take().is_some(),
            State::Stable => {
                if let Some(began_ms) = rebalances.began_ms.take() {
                    let took_ms = self.at.ms.saturating_sub(began_ms);
                    rebalances.completed = rebalances.completed.saturating_add(1);
                    (rebalances.last_ms, rebalances.last_took_ms) = (Some(self.at.wall_ms), took_ms);
                    ctx.stats.rebalances_completed += 1;
                    ctx.stats.rebalance_took.record(took_ms.saturating_mul(1_000_000));
                }
                false
            }
            State::PreparingRebalance if from == State::CompletingRebalance => true,
            State::PreparingRebalance | State::Assigning | State::Reconciling => {
                if self.consumer.is_some() || !self.members.is_empty() {
                    rebalances.began_ms.get_or_insert(self.at.ms);
                }
                false
            }
            State::CompletingRebalance => false,
        };
        if failed {
            self.rebalances.failed = self.rebalances.failed.saturating_add(1);
            ctx.stats.rebalances_failed += 1;
        }
        if self.state == State::Empty {
            self.set_assigned(ctx, 0);
        }
    }

    /// Its members have so many partitions.
    pub(super) fn set_assigned(&mut self, ctx: &mut Ctx, partitions: usize) {
        ctx.stats.assigned_partitions -= self.assigned_partitions;
        ctx.stats.assigned_partitions += partitions;
        self.assigned_partitions = partitions;
    }

    /// A member of a classic group is assigned this.
    pub(super) fn count_assignment(&mut self, ctx: &mut Ctx, assignment: &[u8]) {
        if self.protocol_type == "consumer" {
            let partitions = super::protocol::count_assigned(assignment);
            self.set_assigned(ctx, self.assigned_partitions + partitions);
        }
    }
}
