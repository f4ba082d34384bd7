//! A bound on how many do something at a time, within one executor.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// So many permits; a handle. Who waits gets one in turn.
#[derive(Clone)]
pub struct Permits(Rc<RefCell<Inner>>);

struct Inner {
    free: usize,
    /// In the order in which they came.
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// Given back when dropped.
pub struct Permit(Permits);

impl Permits {
    /// So many, at least one.
    pub fn new(most: usize) -> Permits {
        Permits(Rc::new(RefCell::new(Inner { free: most.max(1), waiting: BTreeMap::new(), next: 0 })))
    }

    /// One, when there is one now.
    pub fn try_take(&self) -> Option<Permit> {
        let mut inner = self.0.borrow_mut();
        inner.free = inner.free.checked_sub(1)?;
        Some(Permit(self.clone()))
    }

    /// Whether there is none now.
    pub fn is_exhausted(&self) -> bool {
        self.0.borrow().free == 0
    }

    /// Waits for one.
    pub async fn take(&self) -> Permit {
        let mut waiting = Waiting { permits: self, number: None };
        std::future::poll_fn(|cx| waiting.poll(cx)).await
    }

    fn wake_next(&self) {
        let next = {
            let mut inner = self.0.borrow_mut();
            if inner.free == 0 { None } else { inner.waiting.pop_first() }
        };
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }
}

struct Waiting<'a> {
    permits: &'a Permits,
    number: Option<u64>,
}

impl Waiting<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Permit> {
        if let Some(permit) = self.permits.try_take() {
            self.leave();
            return Poll::Ready(permit);
        }
        let mut inner = self.permits.0.borrow_mut();
        let number = *self.number.get_or_insert_with(|| {
            inner.next += 1;
            inner.next
        });
        inner.waiting.insert(number, cx.waker().clone());
        Poll::Pending
    }

    /// Waits no longer; false when it was woken for a permit.
    fn leave(&mut self) -> bool {
        let Some(number) = self.number.take() else { return true };
        self.permits.0.borrow_mut().waiting.remove(&number).is_some()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // It was woken for a permit that it does not take: that is the next one's.
        if !self.leave() {
            self.permits.wake_next();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.borrow_mut().free += 1;
        self.0.wake_next();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_permit_goes_to_who_waits_longest_and_is_not_lost_with_who_gives_up() {
        let permits = Permits::new(1);
        let held = permits.try_take().expect("one is free");
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(permits.take());
        let mut second = pin!(permits.take());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        drop(held);
        assert_eq!(permits.0.borrow().waiting.len(), 1, "the first was woken");
        drop(first);
        assert!(permits.0.borrow().waiting.is_empty(), "then the second, in its place");
        let Poll::Ready(permit) = second.as_mut().poll(&mut cx) else { panic!("it is free") };
        assert!(permits.try_take().is_none());
        drop(permit);
        assert!(permits.try_take().is_some());
    }
}
