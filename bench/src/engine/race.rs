//! Waiting for something, unless the run is to end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::stop::Stop;

/// What a future comes to; `None`, and the future dropped, when the run is told to stop first.
pub async fn unless_told<F: Future>(stop: &Stop, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut told = pin!(stop.told());
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => told.as_mut().poll(cx).map(|()| None),
    })
    .await
}
