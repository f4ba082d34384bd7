//! A connection with a bounded number of requests out, each answer a future.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use kafka_protocol::protocol::Request;

use super::link::{Answered, Complete, Link, Submit};
use super::permits::{Permit, Permits};
use super::{CallError, Connection, frames};

/// A connection with a bounded number of requests out. Closed (FIN) when dropped; what is awaited then ends as
/// [`CallError::Disconnected`].
pub struct Pipeline {
    link: Link<Waiting>,
    permits: Permits,
    ended: Rc<RefCell<Ended>>,
}

#[derive(Default)]
struct Ended {
    why: Option<CallError>,
    waiting: Vec<Waker>,
}

/// Told by the link; holds its place among those that are out until the answer is here, even when it is too late.
struct Waiting {
    slot: Rc<RefCell<Slot>>,
    _permit: Permit,
}

#[derive(Default)]
struct Slot {
    came: Option<Result<Answered, CallError>>,
    waker: Option<Waker>,
}

impl Complete for Waiting {
    fn complete(&mut self, came: Result<Answered, CallError>) {
        let waker = {
            let mut slot = self.slot.borrow_mut();
            slot.came = Some(came);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What will come of a request. Dropping it forgets the answer, not the request.
#[must_use = "nobody sees the answer otherwise"]
pub struct Answer(Rc<RefCell<Slot>>);

impl Future for Answer {
    type Output = Result<Answered, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.borrow_mut();
        match slot.came.take() {
            Some(came) => Poll::Ready(came),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Pipeline {
    pub(super) fn over(connection: Connection, in_flight: usize) -> Pipeline {
        let ended = Rc::<RefCell<Ended>>::default();
        let tell = ended.clone();
        let link = connection.linked(move |why| {
            let waiting = {
                let mut ended = tell.borrow_mut();
                ended.why = Some(why);
                std::mem::take(&mut ended.waiting)
            };
            waiting.into_iter().for_each(Waker::wake);
        });
        Pipeline { link, permits: Permits::new(in_flight), ended }
    }

    async fn place(&self) -> Result<(Waiting, Answer), CallError> {
        let permit = self.permits.take().await;
        if let Some(why) = self.link.ended() {
            return Err(why);
        }
        let slot = Rc::<RefCell<Slot>>::default();
        Ok((Waiting { slot: slot.clone(), _permit: permit }, Answer(slot)))
    }

    /// Waits for a place among those that are out, and sends a request whose body is these segments. Requests go
    /// out in the order in which they got their places.
    ///
    /// # Errors
    /// The connection is gone. What happens later is told by the answer.
    pub async fn submit(&self, api: i16, version: i16, body: Vec<Bytes>) -> Result<Answer, CallError> {
        let (waiting, answer) = self.place().await?;
        self.link.submit(Submit { api, version, body }, waiting);
        Ok(answer)
    }

    /// As [`Pipeline::submit`], for a request of the codec's.
    ///
    /// # Errors
    /// As [`Pipeline::submit`].
    pub async fn submit_request<R: Request>(&self, version: i16, request: &R) -> Result<Answer, CallError> {
        let (waiting, answer) = self.place().await?;
        self.link.submit_request(version, request, waiting);
        Ok(answer)
    }

    /// Sends a request that has no answer (Produce with acks=0), so it takes no place.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn submit_unanswered(&self, api: i16, version: i16, body: Vec<Bytes>) -> Result<(), CallError> {
        self.link.ended().map_or(Ok(()), Err)?;
        self.link.submit_unanswered(Submit { api, version, body }, None);
        Ok(())
    }

    /// Reads the body of an answer; bytes in it stay slices of it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn decode<R: Request>(body: Bytes, version: i16) -> Result<R::Response, CallError> {
        frames::decode::<R>(body, version)
    }

    /// Whether all places are taken: the next submit waits.
    pub fn is_full(&self) -> bool {
        self.permits.is_exhausted()
    }

    /// Requests that have no answer yet.
    pub fn outstanding(&self) -> usize {
        self.link.outstanding()
    }

    /// Why the connection ended, when it did.
    pub fn ended(&self) -> Option<CallError> {
        self.link.ended()
    }

    /// Waits until the connection is lost.
    pub async fn lost(&self) -> CallError {
        std::future::poll_fn(|cx| {
            let mut ended = self.ended.borrow_mut();
            match &ended.why {
                Some(why) => Poll::Ready(why.clone()),
                None => {
                    ended.waiting.retain(|waiting| !waiting.will_wake(cx.waker()));
                    ended.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Resets the connection (RST).
    pub fn reset(self) {
        self.link.reset();
    }

    /// Closes it (FIN).
    pub fn close(self) {
        self.link.close();
    }
}
