//! Waiting for another task of the same shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// Wakes all tasks of this shard that wait for something to change. It keeps nothing: a task looks at
/// what it waits for, and waits only if that is not so.
///
/// ```text
/// while !ready() {
///     event.wait().await;
/// }
/// ```
#[derive(Debug, Default)]
pub struct LocalEvent {
    /// How often it has happened.
    count: Cell<u64>,
    waiting: RefCell<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl LocalEvent {
    /// An event that nobody waits for.
    pub fn new() -> LocalEvent {
        LocalEvent::default()
    }

    /// Wakes every task that waits now.
    pub fn notify_all(&self) {
        self.count.set(self.count.get().wrapping_add(1));
        let waiting = self.waiting.take();
        for waker in waiting.wakers.into_iter().flatten() {
            waker.wake();
        }
    }

    /// Waits for the next [`notify_all`](LocalEvent::notify_all) after this call.
    pub fn wait(&self) -> LocalWait<'_> {
        LocalWait { event: self, count: self.count.get(), slot: None }
    }
}

/// What [`LocalEvent::wait`] gives.
#[derive(Debug)]
#[must_use = "waits only when it is awaited"]
pub struct LocalWait<'a> {
    event: &'a LocalEvent,
    count: u64,
    slot: Option<usize>,
}

impl Future for LocalWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.event.count.get() != self.count {
            return Poll::Ready(());
        }
        let mut waiting = self.event.waiting.borrow_mut();
        let slot = match self.slot {
            Some(slot) => slot,
            None => waiting.free.pop().unwrap_or_else(|| {
                waiting.wakers.push(None);
                waiting.wakers.len() - 1
            }),
        };
        match &mut waiting.wakers[slot] {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
        drop(waiting);
        self.slot = Some(slot);
        Poll::Pending
    }
}

impl Drop for LocalWait<'_> {
    fn drop(&mut self) {
        // After the event the slots are others'.
        if let Some(slot) = self.slot
            && self.event.count.get() == self.count
        {
            let mut waiting = self.event.waiting.borrow_mut();
            let waker = waiting.wakers[slot].take();
            waiting.free.push(slot);
            drop(waiting);
            // May end a task, which may look here.
            drop(waker);
        }
    }
}

struct Handover<T> {
    value: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

/// Sends one value to another task of this shard.
#[derive(Debug)]
pub struct LocalSender<T>(Weak<Handover<T>>);

/// Waits for the value of a [`LocalSender`].
#[derive(Debug)]
#[must_use = "nobody sees the value otherwise"]
pub struct LocalReceiver<T>(Rc<Handover<T>>);

impl<T> std::fmt::Debug for Handover<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handover")
    }
}

/// A way for one value from one task of this shard to another.
pub fn local_oneshot<T>() -> (LocalSender<T>, LocalReceiver<T>) {
    let handover = Rc::new(Handover { value: Cell::new(None), waker: Cell::new(None) });
    (LocalSender(Rc::downgrade(&handover)), LocalReceiver(handover))
}

impl<T> LocalSender<T> {
    /// Sends it, or gives it back when nobody waits any more.
    pub fn send(self, value: T) -> Result<(), T> {
        let Some(handover) = self.0.upgrade() else { return Err(value) };
        handover.value.set(Some(value));
        // Dropping the sender wakes the receiver.
        Ok(())
    }

    /// Whether nobody waits any more.
    pub fn is_closed(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl<T> Drop for LocalSender<T> {
    fn drop(&mut self) {
        if let Some(waker) = self.0.upgrade().and_then(|handover| handover.waker.take()) {
            waker.wake();
        }
    }
}

impl<T> Future for LocalReceiver<T> {
    type Output = Result<T, crate::Dropped>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(value) = self.0.value.take() {
            return Poll::Ready(Ok(value));
        }
        // The sender holds the only weak reference. While it is dropped it still does, but wakes us after.
        if Rc::weak_count(&self.0) == 0 {
            return Poll::Ready(Err(crate::Dropped));
        }
        self.0.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;
    use crate::Dropped;

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn an_event_wakes_those_who_wait_and_not_those_who_come_later() {
        let event = LocalEvent::new();
        let mut first = pin!(event.wait());
        let mut unpolled = pin!(event.wait());
        assert!(first.as_mut().poll(&mut context()).is_pending());
        event.notify_all();
        let mut later = pin!(event.wait());
        assert!(first.as_mut().poll(&mut context()).is_ready());
        assert!(unpolled.as_mut().poll(&mut context()).is_ready());
        assert!(later.as_mut().poll(&mut context()).is_pending());
    }

    #[test]
    fn a_wait_that_is_dropped_leaves_its_slot_to_the_next() {
        let event = LocalEvent::new();
        for _ in 0..1000 {
            let mut wait = pin!(event.wait());
            assert!(wait.as_mut().poll(&mut context()).is_pending());
        }
        assert_eq!(event.waiting.borrow().wakers.len(), 1);
    }

    #[test]
    fn a_wait_dropped_after_the_event_takes_no_slot_from_a_newer_one() {
        let event = LocalEvent::new();
        let mut old = Box::pin(event.wait());
        assert!(old.as_mut().poll(&mut context()).is_pending());
        event.notify_all();
        let mut new = pin!(event.wait());
        assert!(new.as_mut().poll(&mut context()).is_pending());
        drop(old);
        assert!(event.waiting.borrow().wakers[0].is_some());
        event.notify_all();
        assert!(new.as_mut().poll(&mut context()).is_ready());
    }

    #[test]
    fn a_local_oneshot_hands_over_or_says_that_nobody_will() {
        let (sender, receiver) = local_oneshot();
        assert_eq!(sender.send(7), Ok(()));
        assert_eq!(receiver.now_or_never(), Some(Ok(7)));
        let (sender, receiver) = local_oneshot::<u8>();
        drop(sender);
        assert_eq!(receiver.now_or_never(), Some(Err(Dropped)));
        let (sender, receiver) = local_oneshot();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(7), Err(7));
    }

    #[test]
    fn the_receiver_of_a_local_oneshot_is_woken_by_either_end_of_the_sender() {
        for send in [true, false] {
            let (count, waker) = futures_test_waker();
            let (sender, mut receiver) = local_oneshot();
            assert!(receiver.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
            if send {
                assert_eq!(sender.send(()), Ok(()));
            } else {
                drop(sender);
            }
            assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 1);
            assert_eq!(receiver.now_or_never(), Some(if send { Ok(()) } else { Err(Dropped) }));
        }
    }

    fn futures_test_waker() -> (std::sync::Arc<std::sync::atomic::AtomicU32>, Waker) {
        struct Count(std::sync::Arc<std::sync::atomic::AtomicU32>);
        impl std::task::Wake for Count {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let count = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        (count.clone(), Waker::from(std::sync::Arc::new(Count(count))))
    }
}
