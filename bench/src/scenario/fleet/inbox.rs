//! What has happened and was not looked at yet.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use ringgate_client::{Address, Answered, CallError, Complete, Connection};

use super::polls::Led;

/// What has happened.
pub enum Event {
    /// What came of a request.
    Answer {
        /// Its number among those that are out.
        number: u64,
        /// The answer, or why there is none.
        came: Result<Answered, CallError>,
        /// When that was known, where there is no answer.
        at: Instant,
    },
    /// A connection was made, or could not be.
    Connected {
        /// For which place.
        link: u32,
        /// The attempt, to tell it from an earlier one.
        attempt: u32,
        /// The connection.
        came: Result<Box<Connection>, CallError>,
    },
    /// A connection was lost.
    Lost {
        /// Its place.
        link: u32,
        /// Which of the place's connections.
        attempt: u32,
    },
    /// A group's coordinator is known, or cannot be found.
    Coordinator {
        /// The group.
        group: u32,
        /// Where.
        came: Result<Address, CallError>,
    },
    /// Topics have so many partitions each now, or cannot be given them.
    Gained(Result<u32, String>),
    /// Who leads partitions is known, or cannot be looked up.
    Led(Result<Led, CallError>),
}

/// A request that is out.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Whose.
    pub member: u32,
    /// The member's life when it asked: an answer to an earlier one is nobody's.
    pub life: u32,
    /// What.
    pub what: Ask,
    /// When it was meant to be asked.
    pub intended: Instant,
}

/// Kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// JoinGroup.
    Join,
    /// SyncGroup.
    Sync,
    /// Heartbeat, or ConsumerGroupHeartbeat.
    Heartbeat,
    /// The same, beside the schedule.
    ExtraHeartbeat,
    /// OffsetCommit.
    Commit,
    /// LeaveGroup.
    Leave,
    /// Fetch, of the fetcher that was born as this one.
    Fetch(u32),
}

/// The one who looks waits here; a handle.
#[derive(Clone, Default)]
pub struct Inbox(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    events: VecDeque<Event>,
    waker: Option<Waker>,
}

impl Inbox {
    /// Puts one in.
    pub fn put(&self, event: Event) {
        let waker = {
            let mut inner = self.0.borrow_mut();
            inner.events.push_back(event);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the first.
    pub fn take(&self) -> Option<Event> {
        self.0.borrow_mut().events.pop_front()
    }

    /// Ready when there is one; otherwise wakes when there is.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.borrow_mut();
        if !inner.events.is_empty() {
            return Poll::Ready(());
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Puts what came of a request into the inbox.
pub struct Tell {
    /// Where to.
    pub inbox: Inbox,
    /// The request's number among those that are out.
    pub number: u64,
}

impl Complete for Tell {
    fn complete(&mut self, came: Result<Answered, CallError>) {
        self.inbox.put(Event::Answer { number: self.number, came, at: Instant::now() });
    }
}
