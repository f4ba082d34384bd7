//! What the groups of one shard share.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use slab::Slab;

use super::commit::{CommitWrite, OpenCommit};
use super::consumer_group::ConsumerWrite;
use super::group::State;
use super::offsets::DeleteWrite;
use super::static_member::Replacement;
use super::stats::GroupStats;
use crate::limits::{GroupConfig, Limit, LimitsHit, Totals};
use crate::topics::{NoTopics, Topics};
use crate::{ConnectionId, Effect, ErrorCode, Now, PersistId, Record, ReplyToken, Response, TimerKey};

/// A moment as groups reckon: session time is monotonic time less all stalls, so that a stall extends
/// every deadline without anything being walked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct At {
    pub ms: u64,
    pub wall_ms: i64,
}

/// A group, and not another one that took its slot later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupRef {
    pub slot: u32,
    pub uid: u64,
}

/// What a connection has at a group, to be withdrawn when it closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// A request behind the group's effects.
    Queued(ReplyToken),
    /// The parked join of the member in this slot.
    Join(u32),
    /// The parked sync of the member in this slot.
    Sync(u32),
    /// An id that was given out.
    Pending(u64),
}

impl Wait {
    /// Before all others.
    pub const FIRST: Wait = Wait::Queued(ReplyToken(0));
}

/// What a write decides.
#[derive(Debug)]
pub(super) enum Write {
    /// Nothing: the group goes on either way.
    Unwatched,
    /// The leader's assignments.
    Sync { group: GroupRef, epoch: u64 },
    /// A static member's new id.
    Replacement { group: GroupRef, replacement: Box<Replacement> },
    /// Commits.
    Commit(CommitWrite),
    /// Offsets to forget.
    DeleteOffsets(DeleteWrite),
    /// What a step of a consumer group changed, and the answer that tells of it.
    Consumer(Box<ConsumerWrite>),
    /// The whole group. Nobody waits where it expired.
    DeleteGroup { group: GroupRef, token: Option<ReplyToken> },
}

/// Whether requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Loading,
    Active,
    /// For one request: see [`Coordinator::refuse`](super::Coordinator::refuse).
    Refusing(ErrorCode),
    Stopped,
}

pub(super) struct Ctx {
    pub config: GroupConfig,
    pub totals: Arc<Totals>,
    pub limits_hit: LimitsHit,
    pub phase: Phase,
    /// Groups that the store tells of may have offsets that it has not told of.
    pub loads_offsets_later: bool,
    pub effects: VecDeque<Effect>,
    pub writes: HashMap<PersistId, Write>,
    pub commits: Slab<OpenCommit>,
    pub waits: BTreeSet<(ConnectionId, u32, Wait)>,
    pub stall_ms: u64,
    /// What topics there are.
    pub topics: Arc<dyn Topics>,
    /// Groups of this shard by state.
    pub states: [usize; State::COUNT],
    /// Members of this shard.
    pub members: usize,
    pub stats: GroupStats,
    next_write: u64,
    next_uid: u64,
    random: Box<dyn FnMut() -> u128>,
    #[cfg(debug_assertions)]
    unanswered: std::collections::HashSet<ReplyToken>,
}

impl Ctx {
    pub fn new(config: GroupConfig, totals: Arc<Totals>, random: Box<dyn FnMut() -> u128>) -> Ctx {
        Ctx {
            config,
            totals,
            limits_hit: LimitsHit::default(),
            phase: Phase::Loading,
            loads_offsets_later: false,
            effects: VecDeque::new(),
            writes: HashMap::new(),
            commits: Slab::new(),
            waits: BTreeSet::new(),
            stall_ms: 0,
            topics: Arc::new(NoTopics),
            states: [0; State::COUNT],
            members: 0,
            stats: GroupStats::default(),
            next_write: 0,
            next_uid: 0,
            random,
            #[cfg(debug_assertions)]
            unanswered: std::collections::HashSet::new(),
        }
    }

    pub fn at(&self, now: Now) -> At {
        At { ms: now.mono_ms.saturating_sub(self.stall_ms), wall_ms: now.wall_ms }
    }

    pub fn uid(&mut self) -> u64 {
        self.next_uid += 1;
        self.next_uid
    }

    /// A random (version 4) uuid.
    pub fn uuid(&mut self) -> String {
        let random = (self.random)();
        let version_4 = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{version_4:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    pub fn asked(&mut self, token: ReplyToken) {
        #[cfg(debug_assertions)]
        assert!(self.unanswered.insert(token), "{token:?} was used for another request that is not answered yet");
        let _ = token;
    }

    pub fn reply(&mut self, token: ReplyToken, response: Response) {
        #[cfg(debug_assertions)]
        assert!(self.unanswered.remove(&token), "{token:?} is answered twice");
        self.effects.push_back(Effect::Reply { token, response });
    }

    /// Arms a timer at a moment of session time.
    pub fn arm(&mut self, key: TimerKey, at_ms: u64) {
        self.effects.push_back(Effect::ArmTimer { key, deadline_ms: at_ms.saturating_add(self.stall_ms) });
    }

    pub fn cancel(&mut self, key: TimerKey) {
        self.effects.push_back(Effect::CancelTimer { key });
    }

    pub fn persist(&mut self, records: Vec<Record>, write: Write) -> PersistId {
        self.next_write += 1;
        let id = PersistId(self.next_write);
        self.writes.insert(id, write);
        self.effects.push_back(Effect::Persist { id, records });
        id
    }

    /// Takes bytes from the gateway's budget, if they are left.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        let fits = self.totals.try_add_bytes(bytes, self.config.max_group_memory);
        if !fits {
            self.limits_hit.count(Limit::GroupMemory);
        }
        fits
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("phase", &self.phase).field("effects", &self.effects.len()).finish_non_exhaustive()
    }
}
