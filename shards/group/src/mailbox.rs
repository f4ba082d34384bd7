//! Flow control between shards, without the queues themselves: what a sender keeps back and for how long its
//! connections pause, who is told when there is room, and in which order an owner goes through its mailbox.
//!
//! A sender puts a request into its [`Backlogs`] and sends from there, so that none overtakes another. Where a mailbox
//! is full it says so in the owner's [`Starving`] and tries once more: either that finds the room, or the owner, which
//! makes room first and looks who starves after, tells it. While anything is kept back the sender's connections read
//! nothing: nothing is dropped, and a backlog is no longer than what was read already. A [`Turn`] takes notices
//! (answers, above all) first and in any number there is a bound on, so that a full mailbox holds up no answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::{MAILBOX_NOTICES_MAX, MAILBOX_REQUESTS_MAX};
use crate::route::ShardId;

/// What one shard has for others and could not send yet, for each of them in order.
#[derive(Debug)]
pub struct Backlogs<T> {
    of: Vec<VecDeque<T>>,
    len: usize,
    is_blocked: bool,
}

impl<T> Backlogs<T> {
    /// For this many owners.
    pub fn new(shards: usize) -> Backlogs<T> {
        Backlogs { of: (0..shards).map(|_| VecDeque::new()).collect(), len: 0, is_blocked: false }
    }

    /// Puts a request behind all that are for the same owner. [`Backlogs::send`] has to follow.
    pub fn push(&mut self, to: ShardId, request: T) {
        self.of[usize::from(to.0)].push_back(request);
        self.len += 1;
    }

    /// Sends what fits, oldest first. `offer` gives a request back when the owner's mailbox is full; `announce` is
    /// called once then, and has to be seen by the owner before it is offered again. Returns whether nothing blocks
    /// any more that did before: connections go on reading.
    pub fn send(&mut self, to: ShardId, mut offer: impl FnMut(T) -> Option<T>, announce: impl FnOnce()) -> bool {
        let backlog = &mut self.of[usize::from(to.0)];
        let mut announce = Some(announce);
        while let Some(request) = backlog.pop_front() {
            match offer(request) {
                None => self.len -= 1,
                Some(request) => {
                    backlog.push_front(request);
                    match announce.take() {
                        Some(announce) => announce(),
                        None => break,
                    }
                }
            }
        }
        let was_blocked = std::mem::replace(&mut self.is_blocked, self.len > 0);
        was_blocked && !self.is_blocked
    }

    /// Whether something waits for room. Connections of the shard do not read while it does.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Whether something waits for room with this owner.
    pub fn is_blocked_by(&self, owner: ShardId) -> bool {
        !self.of[usize::from(owner.0)].is_empty()
    }

    /// Requests that wait, for all owners.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The senders that met a full mailbox and have to be told of room. Shared by the threads of all of them.
#[derive(Debug)]
pub struct Starving(Vec<AtomicBool>);

impl Starving {
    /// Nobody, of so many shards.
    pub fn new(shards: usize) -> Starving {
        Starving((0..shards).map(|_| AtomicBool::new(false)).collect())
    }

    /// A sender starves from now on.
    pub fn announce(&self, from: ShardId) {
        self.0[usize::from(from.0)].store(true, Ordering::SeqCst);
    }

    /// Those that starve, each once: whoever is still not through says so again. To be called when there is room.
    pub fn take(&self) -> impl Iterator<Item = ShardId> + '_ {
        let starves = |(_, starving): &(usize, &AtomicBool)| starving.swap(false, Ordering::SeqCst);
        self.0.iter().enumerate().filter(starves).map(|(shard, _)| ShardId(shard as u16))
    }
}

/// What a shard does next with its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take notices, at most so many, and act on each. [`Turn::handle_taken`] says how many there were.
    Notices(usize),
    /// Take requests out of the mailbox, at most so many. [`Turn::handle_taken`] says how many there were.
    Requests(usize),
    /// Tell those that starve that there is room. Before what was taken is served, which takes longer.
    TellStarving,
    /// Serve what was taken.
    Serve,
    /// Send what is kept back for others, as far as there is room.
    Flush,
    /// Let the shard's other tasks run, and go on.
    Yield,
    /// Wait to be woken, and go on.
    Wait,
}

/// The course of a shard's turns at its mailbox, one step after the other, for ever.
#[derive(Debug, Default)]
pub struct Turn {
    /// What the last step was of; `None` before the first.
    last: Option<Step>,
    taken: usize,
    worked: bool,
}

impl Turn {
    /// What to do next.
    pub fn poll_step(&mut self) -> Step {
        let next = match self.last {
            None | Some(Step::Yield | Step::Wait) => Step::Notices(MAILBOX_NOTICES_MAX),
            Some(Step::Notices(_)) => Step::Requests(MAILBOX_REQUESTS_MAX),
            Some(Step::Requests(_)) if self.taken > 0 => Step::TellStarving,
            Some(Step::TellStarving) => Step::Serve,
            Some(Step::Requests(_) | Step::Serve) => Step::Flush,
            Some(Step::Flush) if std::mem::take(&mut self.worked) => Step::Yield,
            Some(Step::Flush) => Step::Wait,
        };
        self.taken = 0;
        self.last = Some(next);
        next
    }

    /// So many were there to take.
    pub fn handle_taken(&mut self, count: usize) {
        self.taken = count;
        self.worked |= count > 0;
    }
}
