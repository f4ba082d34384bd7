//! A connection with many requests out: one task that writes and reads.
//!
//! Kafka answers a connection's requests in their order, so what is awaited is a queue. Requests that are submitted
//! while others are being written go out together, in one system call. A request that has no answer in time is
//! told so and keeps its place: its answer, should it come, is thrown away.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::Request;
use ringgate_runtime::BufferPool;
use ringgate_wire::frame::Cutter;

use super::CallError;
use super::deadlines::Deadline;
use super::frames::{self, Heads, Shape};
use super::transport::{Transport, lost};
use crate::limits::ANSWERS_TURN;

/// An answer, as it came.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The body, behind the header.
    pub body: Bytes,
    /// When the request was handed to the kernel.
    pub sent: Instant,
    /// When the bytes were there that completed the answer.
    pub received: Instant,
}

/// Who is told what came of a request.
pub trait Complete: 'static {
    /// Called once. It may submit to the same link.
    fn complete(&mut self, came: Result<Answered, CallError>);
}

/// What a request is made of.
pub struct Submit {
    /// Kafka's number of the API.
    pub api: i16,
    /// Its version.
    pub version: i16,
    /// The body; segments go out as they are.
    pub body: Vec<Bytes>,
}

/// The owner's half: submits. Dropping it closes the connection.
pub struct Link<C: Complete>(Rc<Inner<C>>);

struct Inner<C> {
    transport: Transport,
    heads: Heads,
    state: RefCell<State<C>>,
    /// Closing is to reset the connection.
    reset: Cell<bool>,
}

struct State<C> {
    unsent: Vec<Bytes>,
    /// So many of the last that are awaited are in `unsent`.
    unsent_awaited: usize,
    /// Who is told when what is in `unsent`, and what is being written, is handed to the kernel.
    unsent_unanswered: Vec<C>,
    writing_unanswered: Vec<C>,
    awaiting: VecDeque<Awaited<C>>,
    next_correlation: i32,
    /// The task's, from its first poll on.
    task: Option<Waker>,
    /// The owner is gone, or the connection is; why.
    closed: Option<CallError>,
}

struct Awaited<C> {
    correlation: i32,
    shape: Shape,
    /// Submitted, then sent.
    at: Instant,
    /// Who has not been told anything yet.
    who: Option<C>,
    /// Who has been told that the time is over: dropped with the answer, so that what it holds stays held.
    told: Option<C>,
}

impl<C> State<C> {
    fn take_correlation(&mut self) -> i32 {
        let correlation = self.next_correlation;
        self.next_correlation = correlation.wrapping_add(1).max(0);
        correlation
    }

    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }
}

impl<C: Complete> Link<C> {
    /// Starts the task. `ended` is told once why the connection ended, unless the owner closed it; what was awaited
    /// has been told by then.
    pub(super) fn start(
        transport: Transport,
        pool: Rc<BufferPool>,
        deadline: Deadline,
        next_correlation: i32,
        heads: Heads,
        ended: impl FnOnce(CallError) + 'static,
    ) -> Link<C> {
        let state = State {
            unsent: Vec::new(),
            unsent_awaited: 0,
            unsent_unanswered: Vec::new(),
            writing_unanswered: Vec::new(),
            awaiting: VecDeque::new(),
            next_correlation,
            task: None,
            closed: None,
        };
        let inner = Rc::new(Inner { transport, heads, state: RefCell::new(state), reset: Cell::new(false) });
        ringgate_runtime::spawn_as("a link", drive(inner.clone(), pool, deadline, ended)).detach();
        Link(inner)
    }

    /// Sends a request; `who` is told what comes of it, perhaps before this returns when the link is closed.
    pub fn submit(&self, submit: Submit, who: C) {
        let Submit { api, version, body } = submit;
        let size = body.iter().map(Bytes::len).sum();
        self.push(Shape::of(api, version), who, |correlation, unsent| {
            unsent.push(self.0.heads.head(api, version, correlation, size, 0).freeze());
            unsent.extend(body);
            Ok(())
        });
    }

    /// Sends a request of the codec's.
    pub fn submit_request<R: Request>(&self, version: i16, request: &R, who: C) {
        self.push(frames::shape_of::<R>(version), who, |correlation, unsent| {
            unsent.push(self.0.heads.request(version, correlation, request)?);
            Ok(())
        });
    }

    /// Sends a request that has no answer: Produce with acks=0. `who` is told when it is handed to the kernel, with an
    /// empty body, or that the connection was gone before.
    pub fn submit_unanswered(&self, submit: Submit, who: Option<C>) {
        let Submit { api, version, body } = submit;
        let size = body.iter().map(Bytes::len).sum();
        let closed = {
            let mut state = self.0.state.borrow_mut();
            match state.closed.clone() {
                None => {
                    let correlation = state.take_correlation();
                    state.unsent.push(self.0.heads.head(api, version, correlation, size, 0).freeze());
                    state.unsent.extend(body);
                    state.wake();
                    state.unsent_unanswered.extend(who);
                    return;
                }
                Some(why) => why,
            }
        };
        if let Some(mut who) = who {
            who.complete(Err(closed));
        }
    }

    fn push(&self, shape: Shape, mut who: C, write: impl FnOnce(i32, &mut Vec<Bytes>) -> Result<(), CallError>) {
        let mut state = self.0.state.borrow_mut();
        let correlation = state.next_correlation;
        let written = match &state.closed {
            Some(why) => Err(why.clone()),
            None => write(correlation, &mut state.unsent),
        };
        if let Err(why) = written {
            drop(state);
            who.complete(Err(why));
            return;
        }
        state.take_correlation();
        state.unsent_awaited += 1;
        state.awaiting.push_back(Awaited { correlation, shape, at: Instant::now(), who: Some(who), told: None });
        state.wake();
    }

    /// Requests that have no answer yet.
    pub fn outstanding(&self) -> usize {
        self.0.state.borrow().awaiting.len()
    }

    /// Why it ended, when it did.
    pub fn ended(&self) -> Option<CallError> {
        self.0.state.borrow().closed.clone()
    }

    /// Resets the connection (RST): what is not sent is thrown away, the peer gets an error instead of an end.
    pub fn reset(self) {
        self.0.reset.set(true);
    }

    /// Closes it (FIN).
    pub fn close(self) {}
}

impl<C: Complete> Drop for Link<C> {
    fn drop(&mut self) {
        self.0.end(CallError::Disconnected);
    }
}

impl<C: Complete> Inner<C> {
    /// From now on nothing is taken; the task sees to the rest.
    fn end(&self, why: CallError) {
        let mut state = self.state.borrow_mut();
        state.closed.get_or_insert(why);
        if let Some(task) = &state.task {
            task.wake_by_ref();
        }
    }
}

async fn drive<C: Complete>(
    inner: Rc<Inner<C>>,
    pool: Rc<BufferPool>,
    deadline: Deadline,
    ended: impl FnOnce(CallError) + 'static,
) {
    let why = {
        let mut reading = pin!(read(&inner, &pool));
        let mut writing = pin!(write(&inner));
        std::future::poll_fn(|cx| {
            if let Some(why) = inner.is_over(cx, &deadline) {
                return Poll::Ready(Err(why));
            }
            if let Poll::Ready(why) = writing.as_mut().poll(cx) {
                return Poll::Ready(Ok(why));
            }
            if let Poll::Ready(why) = reading.as_mut().poll(cx) {
                return Poll::Ready(Ok(why));
            }
            // What was told of an answer may have dropped the owner.
            match &inner.state.borrow().closed {
                Some(why) => Poll::Ready(Err(why.clone())),
                None => Poll::Pending,
            }
        })
        .await
    };
    if inner.reset.get() {
        inner.transport.abort_on_close();
    }
    let (why, by_peer) = match why {
        Ok(why) => (why, true),
        Err(why) => (why, false),
    };
    let (awaiting, unanswered) = {
        let mut state = inner.state.borrow_mut();
        state.closed.get_or_insert_with(|| why.clone());
        state.unsent = Vec::new();
        state.task = None;
        let unanswered = std::mem::take(&mut state.writing_unanswered).into_iter();
        (std::mem::take(&mut state.awaiting), unanswered.chain(std::mem::take(&mut state.unsent_unanswered)))
    };
    for mut who in unanswered {
        who.complete(Err(why.clone()));
    }
    for mut awaited in awaiting {
        if let Some(mut who) = awaited.who.take() {
            who.complete(Err(why.clone()));
        }
    }
    drop(inner);
    if by_peer {
        ended(why);
    }
}

impl<C: Complete> Inner<C> {
    /// Whether the owner has closed it. Tells requests whose time is over, and when to look for the next.
    fn is_over(&self, cx: &mut Context<'_>, deadline: &Deadline) -> Option<CallError> {
        let mut late = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            if let Some(why) = &state.closed {
                return Some(why.clone());
            }
            if state.task.is_none() {
                state.task = Some(cx.waker().clone());
            }
            let now = Instant::now();
            let mut due = None;
            for awaited in &mut state.awaiting {
                if awaited.who.is_none() {
                    continue;
                }
                if awaited.at + deadline.timeout() > now {
                    due = Some(awaited.at + deadline.timeout());
                    break;
                }
                late.extend(awaited.who.take().map(|who| (awaited.correlation, who)));
            }
            match due {
                Some(due) => deadline.set(due, cx.waker()),
                None => deadline.clear(),
            }
        }
        for (correlation, mut who) in late {
            who.complete(Err(CallError::TimedOut));
            let mut state = self.state.borrow_mut();
            if let Some(awaited) = state.awaiting.iter_mut().find(|awaited| awaited.correlation == correlation) {
                awaited.told = Some(who);
            }
        }
        None
    }

    /// Where the answer that begins like this ends, if it is the next.
    fn end_of_answer(&self, head: &[u8]) -> Result<usize, CallError> {
        let state = self.state.borrow();
        match state.awaiting.front() {
            Some(next) if state.awaiting.len() > state.unsent_awaited => {
                frames::end_of_answer(head, Some(next.correlation))
            }
            _ => Err(CallError::BadResponse("an answer that nothing was asked for".into())),
        }
    }

    /// Takes in one answer, the next.
    fn answered(&self, frame: BytesMut, received: Instant) -> Result<(), CallError> {
        let awaited = self.state.borrow_mut().awaiting.pop_front();
        let Some(mut awaited) = awaited else { return Ok(()) };
        let body = frames::body_of_answer(frame, awaited.correlation, awaited.shape);
        let wrong = body.as_ref().err().cloned();
        if let Some(mut who) = awaited.who.take() {
            who.complete(body.map(|body| Answered { body, sent: awaited.at, received }));
        }
        wrong.map_or(Ok(()), Err)
    }
}

/// Reads until the connection ends.
async fn read<C: Complete>(inner: &Inner<C>, pool: &BufferPool) -> CallError {
    let mut cutter = Cutter::default();
    loop {
        match inner.transport.recv(pool).await {
            Ok(Some(bytes)) => cutter.push(bytes),
            Ok(None) => return CallError::Disconnected,
            Err(error) => return lost(error),
        }
        let received = Instant::now();
        let mut turn = 0;
        loop {
            match cutter.next(frames::ANSWER_HEAD_BYTES, |head| inner.end_of_answer(head)) {
                Ok(Some(frame)) => {
                    if let Err(error) = inner.answered(frame, received) {
                        return error;
                    }
                }
                Ok(None) => break,
                Err(error) => return error,
            }
            turn += 1;
            if turn == ANSWERS_TURN {
                turn = 0;
                ringgate_runtime::yield_now().await;
            }
        }
    }
}

/// Writes what is submitted until the connection ends.
async fn write<C: Complete>(inner: &Inner<C>) -> CallError {
    loop {
        let (sent, segments) = std::future::poll_fn(|_| {
            let mut state = inner.state.borrow_mut();
            if state.unsent.is_empty() {
                // The task is woken by whoever submits.
                return Poll::Pending;
            }
            let now = Instant::now();
            let unsent = std::mem::take(&mut state.unsent_awaited);
            for awaited in state.awaiting.iter_mut().rev().take(unsent) {
                awaited.at = now;
            }
            state.writing_unanswered = std::mem::take(&mut state.unsent_unanswered);
            Poll::Ready((now, std::mem::take(&mut state.unsent)))
        })
        .await;
        if let Err(error) = inner.transport.send(segments).await {
            return lost(error);
        }
        let unanswered = std::mem::take(&mut inner.state.borrow_mut().writing_unanswered);
        if unanswered.is_empty() {
            continue;
        }
        let received = Instant::now();
        for mut who in unanswered {
            who.complete(Ok(Answered { body: Bytes::new(), sent, received }));
        }
    }
}
