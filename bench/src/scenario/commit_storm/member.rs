//! One member: a connection, a queue of what it is to send, and what its offsets may be.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use kafka_protocol::messages::ApiKey;
use ringgate_client::{CallError, Connection, Target};

use super::ledger::{Ledger, Wrong};
use super::membership::leave;
use super::requests::{Identity, commit, committed, fetch, fetched};
use crate::engine::{OTHER_UNSENT, Permit, UNSENT};
use crate::limits::CHECK_EXAMPLES_MAX;
use crate::measure::Recorder;
use crate::result::errors::TIMED_OUT;
use crate::scenario::SetupError;
use crate::scenario::operation::{Operation, names};

/// Kafka's codes of a group that is not where it was asked for.
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;

/// What a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// OffsetCommit.
    Commit,
    /// OffsetFetch.
    Fetch,
}

/// A slot of the schedule that is a member's.
pub struct Slot {
    pub act: Act,
    pub intended: Instant,
    pub permit: Option<Permit>,
}

/// What all members of an executor share.
pub struct Desk {
    pub target: Target,
    pub commit_version: i16,
    pub fetch_version: i16,
    pub commit: Operation,
    pub fetch: Operation,
    pub recorder: Recorder,
    pub wrong: RefCell<WrongOffsets>,
}

/// Offsets that cannot be.
#[derive(Debug, Default)]
pub struct WrongOffsets {
    pub stale: u64,
    pub never_sent: u64,
    /// Keys whose offset could not be read at the end.
    pub unread: u64,
    pub examples: Vec<String>,
}

/// From the version after it on, OffsetCommit and OffsetFetch name topics by id.
const BY_NAME_VERSION_MAX: i16 = 9;

impl Desk {
    /// # Errors
    /// The target lacks one of the APIs.
    pub fn new(target: &Target, recorder: &Recorder) -> Result<Rc<Desk>, SetupError> {
        Ok(Rc::new(Desk {
            commit_version: target.version_up_to(ApiKey::OffsetCommit, BY_NAME_VERSION_MAX)?,
            fetch_version: target.version_up_to(ApiKey::OffsetFetch, BY_NAME_VERSION_MAX)?,
            target: target.clone(),
            commit: Operation::new(recorder, names!("commit")),
            fetch: Operation::new(recorder, names!("offset_fetch")),
            recorder: recorder.clone(),
            wrong: RefCell::default(),
        }))
    }
}

/// See the module.
pub struct Member {
    desk: Rc<Desk>,
    who: Identity,
    ledger: RefCell<Ledger>,
    /// Away while a request is out, and when it was lost.
    connection: RefCell<Option<Connection>>,
    queue: RefCell<VecDeque<Slot>>,
    waker: RefCell<Option<Waker>>,
    /// The request that is out: what, when it was meant, and since when.
    under_way: Cell<Option<(Act, Instant, Instant)>>,
}

impl Member {
    /// With nothing to do.
    pub fn new(desk: &Rc<Desk>, who: Identity, connection: Connection) -> Rc<Member> {
        Rc::new(Member {
            desk: desk.clone(),
            who,
            ledger: RefCell::new(Ledger::new()),
            connection: RefCell::new(Some(connection)),
            queue: RefCell::default(),
            waker: RefCell::default(),
            under_way: Cell::new(None),
        })
    }

    /// Gives it something to do, behind what it has.
    pub fn give(&self, slot: Slot) {
        self.queue.borrow_mut().push_back(slot);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// What it has not begun is never sent: it counts with the time that it waited until then.
    pub fn give_up_queued(&self, until: Instant) {
        for Slot { act, intended, .. } in self.queue.take() {
            let counter = match act {
                Act::Commit => UNSENT,
                Act::Fetch => OTHER_UNSENT,
            };
            let waited = until.saturating_duration_since(intended);
            self.desk.recorder.count(counter, intended, 1);
            self.desk.recorder.record_unanswered(self.operation(act).rt(), intended, waited);
        }
    }

    /// When [`Member::work`] was cancelled: a request that was out then has no answer.
    pub fn give_up_under_way(&self) {
        if let Some((act, intended, began)) = self.under_way.take() {
            self.operation(act).failed(intended, began, TIMED_OUT);
        }
    }

    fn operation(&self, act: Act) -> &Operation {
        match act {
            Act::Commit => &self.desk.commit,
            Act::Fetch => &self.desk.fetch,
        }
    }

    /// Does what it is given, one after the other, until it is cancelled.
    pub async fn work(self: Rc<Member>) {
        loop {
            let next = poll_fn(|cx| match self.queue.borrow_mut().pop_front() {
                Some(slot) => Poll::Ready(slot),
                None => {
                    self.waker.replace(Some(cx.waker().clone()));
                    Poll::Pending
                }
            });
            let slot = next.await;
            self.act(slot.act, slot.intended).await;
            drop(slot.permit);
        }
    }

    /// One request and its answer.
    pub async fn act(&self, act: Act, intended: Instant) {
        let began = Instant::now();
        self.under_way.set(Some((act, intended, began)));
        self.ask(act, intended, began).await;
        self.under_way.set(None);
    }

    async fn ask(&self, act: Act, intended: Instant, began: Instant) {
        let operation = self.operation(act);
        let kept = self.connection.take();
        let mut connection = match kept {
            Some(connection) => connection,
            None => match self.reconnect().await {
                Ok(connection) => connection,
                Err(error) => return operation.failed(intended, began, error.code()),
            },
        };
        let came = match act {
            Act::Commit => self.commit(&mut connection, intended).await,
            Act::Fetch => self.fetch(&mut connection).await,
        };
        match &came {
            Ok(code) => operation.answered(intended, began, *code),
            Err(error) => operation.failed(intended, began, error.code()),
        }
        // When another broker coordinates now, or the connection is of no more use, the next request looks for it anew.
        if came.is_ok_and(|code| code != COORDINATOR_NOT_AVAILABLE && code != NOT_COORDINATOR) {
            self.connection.replace(Some(connection));
        }
    }

    async fn reconnect(&self) -> Result<Connection, CallError> {
        let coordinator = self.desk.target.coordinator(&self.who.group.0).await?;
        self.desk.target.connect(&coordinator).await
    }

    async fn commit(&self, connection: &mut Connection, intended: Instant) -> Result<i16, CallError> {
        let offset = self.ledger.borrow_mut().next();
        let answer = connection.call(self.desk.commit_version, &commit(&self.who, offset)).await;
        let came = answer.and_then(|answer| {
            let silent = || CallError::BadResponse("OffsetCommit leaves partitions out".into());
            committed(&self.who, &answer).ok_or_else(silent)
        });
        let mut ledger = self.ledger.borrow_mut();
        if came == Ok(0) {
            ledger.acknowledge(offset);
            self.desk.recorder.count("offsets", intended, self.who.partitions.len() as u64);
        } else {
            ledger.unsure(offset);
        }
        came
    }

    async fn fetch(&self, connection: &mut Connection) -> Result<i16, CallError> {
        let version = self.desk.fetch_version;
        let answer = connection.call(version, &fetch(&self.who, version)).await?;
        match fetched(&answer, version) {
            Err(code) => Ok(code),
            Ok(found) if found.len() != self.who.partitions.len() => {
                Err(CallError::BadResponse("OffsetFetch leaves partitions out".into()))
            }
            Ok(found) => {
                self.judge(&found);
                Ok(0)
            }
        }
    }

    fn judge(&self, found: &[(i32, i64)]) {
        let ledger = self.ledger.borrow();
        let mut wrong = self.desk.wrong.borrow_mut();
        for (partition, offset) in found {
            let Err(why) = ledger.judge(*offset) else { continue };
            match why {
                Wrong::Stale { .. } => wrong.stale += 1,
                Wrong::NeverSent => wrong.never_sent += 1,
            }
            if wrong.examples.len() < CHECK_EXAMPLES_MAX {
                wrong.examples.push(format!(
                    "group {}, {}-{partition}: offset {offset}, but {why}",
                    self.who.group.0.as_str(),
                    self.who.topic.0.as_str()
                ));
            }
        }
    }

    /// At the end: reads every offset once more and judges it, and leaves the group; for as long as this at most.
    pub async fn settle(self: Rc<Member>, most: Duration) {
        let read = async {
            let kept = self.connection.take();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.reconnect().await?,
            };
            let code = self.fetch(&mut connection).await?;
            if !self.who.member.is_empty() {
                // Its session ends by itself otherwise.
                let _ = leave(&self.desk.target, &mut connection, &self.who).await;
            }
            Ok::<i16, CallError>(code)
        };
        let read = ringgate_runtime::timeout(most, read).await;
        let code = read.map_or(TIMED_OUT, |read| read.unwrap_or_else(|error| error.code()));
        if code != 0 {
            let mut wrong = self.desk.wrong.borrow_mut();
            wrong.unread += self.who.partitions.len() as u64;
            if wrong.examples.len() < CHECK_EXAMPLES_MAX {
                let group = self.who.group.0.as_str();
                wrong
                    .examples
                    .push(format!("group {group}: {} to OffsetFetch at the end", crate::result::errors::name(code)));
            }
        }
    }
}
