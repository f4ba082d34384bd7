//! Tasks of one shard that wait for one thing.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ringgate_group::pieced::PiecedSlab;

/// Those who wait. Each has a slot of its own, so that coming, waiting and going are O(1) however many
/// there are.
#[derive(Clone, Default)]
pub struct Waiters(Rc<RefCell<PiecedSlab<Option<Waker>>>>);

/// One who may wait, again and again.
pub struct Waiter {
    waiters: Waiters,
    slot: usize,
}

impl Waiters {
    /// A slot for one task.
    pub fn waiter(&self) -> Waiter {
        Waiter { slot: self.0.borrow_mut().insert(None), waiters: self.clone() }
    }

    /// Wakes all that wait now; each looks for itself whether its time has come.
    pub fn wake_all(&self) {
        let wakers: Vec<Waker> = self.0.borrow_mut().iter_mut().filter_map(Option::take).collect();
        for waker in wakers {
            waker.wake();
        }
    }

    /// Waits until `is_so`; whoever makes it so calls [`Waiters::wake_all`].
    pub async fn until(&self, mut is_so: impl FnMut() -> bool) {
        let waiter = self.waiter();
        std::future::poll_fn(|cx| {
            if is_so() {
                return Poll::Ready(());
            }
            waiter.register(cx);
            Poll::Pending
        })
        .await;
    }
}

impl Waiter {
    /// The task that polls with `cx` is woken next time.
    pub fn register(&self, cx: &Context<'_>) {
        let mut slots = self.waiters.0.borrow_mut();
        match &mut slots[self.slot] {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.0.borrow_mut().remove(self.slot);
    }
}
