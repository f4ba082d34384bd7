//! One connection: requests in flight, in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ringgate_runtime::{Budget, BufferPool, TcpStream, timeout};

use super::frame::{head, peek};
use super::{Operation, Plan};
use crate::engine::Permit;
use crate::result::errors::{BAD_RESPONSE, DISCONNECTED};

/// A request that was not answered yet.
struct InFlight {
    number: u64,
    intended: Instant,
    /// When it was given to the kernel; `None` while it waits for that.
    sent: Option<Instant>,
    /// Given up on: the answer, should it still come, is passed over.
    timed_out: bool,
    permit: Option<Permit>,
}

/// A connection; its tasks are [`Link::write`] and [`Link::read`].
pub struct Link {
    stream: TcpStream,
    plan: Plan,
    operation: Operation,
    in_flight: RefCell<VecDeque<InFlight>>,
    /// How many at the front of `in_flight` were given to the kernel.
    written: Cell<usize>,
    next_number: Cell<u64>,
    payload: Bytes,
    writer: RefCell<Option<Waker>>,
    /// Answers arrived since the last look.
    closed: Cell<bool>,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// The kernel's, or no answer in time.
    pub async fn connect(address: SocketAddr, plan: &Plan, operation: &Operation, most: Duration) -> io::Result<Link> {
        let stream = timeout(most, TcpStream::connect(address))
            .await
            .map_err(|over| io::Error::new(io::ErrorKind::TimedOut, over.to_string()))??;
        Ok(Link {
            stream,
            plan: plan.clone(),
            operation: operation.clone(),
            in_flight: RefCell::default(),
            written: Cell::new(0),
            next_number: Cell::new(0),
            payload: vec![0; plan.request_bytes - super::frame::FRAME_MIN].into(),
            writer: RefCell::default(),
            closed: Cell::new(false),
        })
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.borrow().len()
    }

    /// Whether it can be used no more.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Puts a request into the row of those to send.
    pub fn submit(&self, intended: Instant, permit: Option<Permit>) {
        let number = self.next_number.replace(self.next_number.get() + 1);
        self.in_flight.borrow_mut().push_back(InFlight { number, intended, sent: None, timed_out: false, permit });
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// Sends what is submitted, all that there is in one go; ends when the connection does.
    pub async fn write(&self) {
        loop {
            let segments = poll_fn(|cx| {
                if self.closed.get() {
                    return Poll::Ready(None);
                }
                let segments = self.take_unwritten();
                if segments.is_empty() {
                    *self.writer.borrow_mut() = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(Some(segments))
            });
            let Some(segments) = segments.await else { return };
            if self.stream.send(segments).await.is_err() {
                return self.close();
            }
        }
    }

    fn take_unwritten(&self) -> Vec<Bytes> {
        let mut in_flight = self.in_flight.borrow_mut();
        let from = self.written.replace(in_flight.len());
        let now = Instant::now();
        let mut segments = Vec::new();
        for request in in_flight.range_mut(from..) {
            request.sent = Some(now);
            segments.push(head(self.plan.request_bytes, self.plan.response_bytes, request.number));
            segments.push(self.payload.clone());
        }
        segments
    }

    /// Receives answers; `answered` is called for each with the moment. Ends when the connection does.
    pub async fn read(&self, pool: &BufferPool, answered: impl Fn(Instant)) {
        let mut held = BytesMut::new();
        let mut budget = Budget::new();
        while let Ok(Some(bytes)) = self.stream.recv(pool).await {
            let now = Instant::now();
            budget.spend(bytes.len());
            if held.is_empty() {
                held = bytes;
            } else {
                held.extend_from_slice(&bytes);
            }
            loop {
                let frame = match peek(&held) {
                    Ok(Some(frame)) => frame,
                    Ok(None) => break,
                    Err(_) => {
                        self.operation.error(BAD_RESPONSE, now);
                        return self.close();
                    }
                };
                // Only the head is looked at: the rest is what the server made of it.
                let _ = held.split_to(frame.bytes);
                if !self.take_answer(frame.number, frame.bytes, now) {
                    return self.close();
                }
                answered(now);
            }
            if held.is_empty() {
                held = BytesMut::new();
            }
            budget.turn().await;
        }
        self.close();
    }

    /// Whether it was an answer to the request at the front.
    fn take_answer(&self, number: u64, bytes: usize, now: Instant) -> bool {
        let Some(request) = self.in_flight.borrow_mut().pop_front() else {
            self.operation.error(BAD_RESPONSE, now);
            return false;
        };
        self.written.set(self.written.get().saturating_sub(1));
        if request.number != number || bytes != self.plan.response_bytes {
            self.operation.error(BAD_RESPONSE, request.intended);
            return false;
        }
        if !request.timed_out {
            self.operation.answered(request.intended, request.sent.unwrap_or(request.intended), now);
            self.operation.bytes(request.intended, now, self.plan.request_bytes + self.plan.response_bytes);
        }
        true
    }

    /// Gives up on requests that were sent longer ago than this.
    pub fn time_out(&self, most: Duration) {
        let now = Instant::now();
        for request in self.in_flight.borrow_mut().iter_mut() {
            let Some(sent) = request.sent else { break };
            if now.saturating_duration_since(sent) < most {
                break;
            }
            if !std::mem::replace(&mut request.timed_out, true) {
                self.operation.timed_out(request.intended, sent, now);
                request.permit = None;
            }
        }
    }

    /// Ends it; what is in flight is lost.
    pub fn close(&self) {
        if self.closed.replace(true) {
            return;
        }
        for request in self.in_flight.borrow_mut().drain(..) {
            if !request.timed_out {
                self.operation.error(DISCONNECTED, request.intended);
            }
        }
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
        // The reader sees the end; the peer may have gone already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
