//! Ending a run early.

use std::cell::Cell;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Told to one executor's tasks: the run is to end now, and what there is is to be kept.
#[derive(Clone, Default)]
pub struct Stop(Rc<Inner>);

#[derive(Default)]
struct Inner {
    told: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Stop {
    /// Not told yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Tells everybody.
    pub fn tell(&self) {
        self.0.told.set(true);
        for waker in self.0.waiting.take() {
            waker.wake();
        }
    }

    /// Whether it was told.
    pub fn is_told(&self) -> bool {
        self.0.told.get()
    }

    /// Waits until it is told. Meant for few tasks: members look at [`Stop::is_told`] when they wake.
    pub async fn told(&self) {
        poll_fn(|cx| {
            if self.is_told() {
                return Poll::Ready(());
            }
            let mut waiting = self.0.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
