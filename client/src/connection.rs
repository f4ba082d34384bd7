//! A connection with one request out at a time.

use std::rc::Rc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::Request;
use ringgate_runtime::BufferPool;
use ringgate_wire::frame::Cutter;

use super::deadlines::Deadline;
use super::frames::{self, Heads, Shape};
use super::link::{Complete, Link};
use super::pipeline::Pipeline;
use super::transport::{Transport, lost};
use super::{Address, CallError};

/// A connection with one request out at a time. It has no task: nobody notices that the peer closes it while
/// nothing is asked. Closed (FIN) when dropped.
pub struct Connection {
    transport: Transport,
    pool: Rc<BufferPool>,
    deadline: Deadline,
    cutter: Cutter,
    next_correlation: i32,
    /// A call was given up, or went wrong: what comes next on the stream is not the next answer.
    broken: bool,
    broker: Address,
    in_flight: usize,
    heads: Heads,
}

impl Connection {
    pub(super) fn new(
        transport: Transport,
        broker: Address,
        pool: Rc<BufferPool>,
        deadline: Deadline,
        in_flight: usize,
        heads: Heads,
    ) -> Connection {
        let cutter = Cutter::default();
        Connection { transport, pool, deadline, cutter, next_correlation: 1, broken: false, broker, in_flight, heads }
    }

    /// Whom it reaches.
    pub fn broker(&self) -> &Address {
        &self.broker
    }

    /// Whether a call failed in a way that leaves the connection of no use.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Sends a request and waits for its answer, no longer than the request timeout. When that fails, or the future
    /// is dropped, the connection is of no more use.
    ///
    /// # Errors
    /// There is no answer, or none that can be read. An error code in the answer is no error here.
    pub async fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, CallError> {
        let frame = self.heads.request(version, self.next_correlation, request)?;
        let body = self.exchange(vec![frame], frames::shape_of::<R>(version)).await?;
        frames::decode::<R>(body, version)
    }

    /// As [`Connection::call`], for a body that is put together from segments, and gives the answer's body as it is.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn call_raw(&mut self, api: i16, version: i16, body: Vec<Bytes>) -> Result<Bytes, CallError> {
        let size = body.iter().map(Bytes::len).sum();
        let mut frame = vec![self.heads.head(api, version, self.next_correlation, size, 0).freeze()];
        frame.extend(body);
        self.exchange(frame, Shape::of(api, version)).await
    }

    async fn exchange(&mut self, frame: Vec<Bytes>, shape: Shape) -> Result<Bytes, CallError> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(CallError::Disconnected);
        }
        let correlation = self.next_correlation;
        self.next_correlation = correlation.wrapping_add(1).max(0);
        let due = Instant::now() + self.deadline.timeout();
        let (transport, pool, cutter) = (&self.transport, &self.pool, &mut self.cutter);
        let answer = self.deadline.bound(due, async {
            transport.send(frame).await.map_err(lost)?;
            next_answer(transport, pool, cutter, Some(correlation)).await
        });
        let body = frames::body_of_answer(answer.await??, correlation, shape)?;
        self.broken = false;
        Ok(body)
    }

    /// From now on with up to as many requests out as the run allows per connection.
    pub fn pipelined(self) -> Pipeline {
        let in_flight = self.in_flight;
        Pipeline::over(self, in_flight)
    }

    /// As [`Connection::pipelined`], with another bound.
    pub fn pipelined_up_to(self, in_flight: usize) -> Pipeline {
        Pipeline::over(self, in_flight)
    }

    /// From now on with any number of requests out, each with somebody who is told of its answer; `ended` is told
    /// when the connection is lost.
    pub fn linked<C: Complete>(self, ended: impl FnOnce(CallError) + 'static) -> Link<C> {
        let Connection { transport, pool, deadline, next_correlation, heads, .. } = self;
        Link::start(transport, pool, deadline, next_correlation, heads, ended)
    }

    /// Waits until the peer closes or resets the connection, or sends what nobody asked for.
    pub async fn lost(&mut self) -> CallError {
        self.broken = true;
        match self.transport.recv(&self.pool).await {
            Ok(Some(_)) => CallError::BadResponse("an answer that nothing was asked for".into()),
            Ok(None) => CallError::Disconnected,
            Err(error) => lost(error),
        }
    }

    /// A request as it would be sent next, for [`Connection::send_bytes`].
    ///
    /// # Errors
    /// The version cannot say what is asked.
    pub fn frame<R: Request>(&self, version: i16, request: &R) -> Result<Bytes, CallError> {
        self.heads.request(version, self.next_correlation, request)
    }

    /// Takes `count` answers to what was sent by [`Connection::send_bytes`], whatever they say, each within the request
    /// timeout.
    ///
    /// # Errors
    /// There are fewer.
    pub async fn take_answers(&mut self, count: usize) -> Result<(), CallError> {
        for _ in 0..count {
            let due = Instant::now() + self.deadline.timeout();
            let (transport, pool, cutter) = (&self.transport, &self.pool, &mut self.cutter);
            self.deadline.bound(due, next_answer(transport, pool, cutter, None)).await??;
        }
        Ok(())
    }

    /// Sends bytes as they are, for connections that misbehave on purpose. No answer is waited for, and no call can be
    /// made any more.
    ///
    /// # Errors
    /// The connection is gone, or the peer takes nothing within the request timeout.
    pub async fn send_bytes(&mut self, bytes: Bytes) -> Result<(), CallError> {
        self.broken = true;
        let due = Instant::now() + self.deadline.timeout();
        self.deadline.bound(due, self.transport.send(vec![bytes])).await?.map_err(lost)
    }

    /// Resets the connection (RST): the peer gets an error instead of an end, and no TIME_WAIT is left.
    pub fn reset(self) {
        self.transport.abort_on_close();
    }

    /// Closes it (FIN).
    pub fn close(self) {}
}

async fn next_answer(
    transport: &Transport,
    pool: &BufferPool,
    cutter: &mut Cutter,
    request: Option<i32>,
) -> Result<BytesMut, CallError> {
    loop {
        let end_of = |head: &[u8]| frames::end_of_answer(head, request);
        if let Some(frame) = cutter.next(frames::ANSWER_HEAD_BYTES, end_of)? {
            return Ok(frame);
        }
        match transport.recv(pool).await.map_err(lost)? {
            Some(bytes) => cutter.push(bytes),
            None => return Err(CallError::Disconnected),
        }
    }
}
