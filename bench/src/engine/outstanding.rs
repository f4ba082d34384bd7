//! How many requests may be out at a time.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Room for so many requests on this executor.
#[derive(Clone, Debug)]
pub struct Outstanding(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    out: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// One request's room; given back when it is dropped.
#[derive(Debug)]
pub struct Permit(Rc<Inner>);

impl Outstanding {
    /// Room for `most`, at least one.
    pub fn new(most: usize) -> Outstanding {
        Outstanding(Rc::new(Inner { most: most.max(1), out: Cell::new(0), waiting: RefCell::default() }))
    }

    /// How many are out.
    pub fn out(&self) -> usize {
        self.0.out.get()
    }

    /// Room, if there is any now.
    pub fn try_enter(&self) -> Option<Permit> {
        (self.0.out.get() < self.0.most).then(|| {
            self.0.out.set(self.0.out.get() + 1);
            Permit(self.0.clone())
        })
    }

    /// Waits for room.
    pub async fn enter(&self) -> Permit {
        poll_fn(|cx| {
            if let Some(permit) = self.try_enter() {
                return Poll::Ready(permit);
            }
            let mut waiting = self.0.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until none is out.
    pub async fn none_out(&self) {
        poll_fn(|cx| {
            if self.0.out.get() == 0 {
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

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.out.set(self.0.out.get() - 1);
        for waker in self.0.waiting.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_comes_back_with_the_permit() {
        let outstanding = Outstanding::new(2);
        let first = outstanding.try_enter().unwrap();
        let _second = outstanding.try_enter().unwrap();
        assert!(outstanding.try_enter().is_none());
        drop(first);
        assert_eq!(outstanding.out(), 1);
        assert!(outstanding.try_enter().is_some());
    }
}
