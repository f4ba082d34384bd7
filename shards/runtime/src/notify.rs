//! Waking a shard from any thread, and handing it one value.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_channel::oneshot as channel;
use futures_util::task::AtomicWaker;

use crate::wake::{Bridge, Bridged};

struct Shared {
    set: AtomicBool,
    waker: AtomicWaker,
}

/// The sending half: wakes the one task that waits at [`Notified`]. Notifications that come before it
/// has looked are one: the later ones cost one atomic operation each.
#[derive(Clone)]
pub struct Notifier(Arc<Shared>);

/// The waiting half, for one task at a time. It is made anywhere and used on one shard.
pub struct Notified {
    shared: Arc<Shared>,
    bridge: std::cell::RefCell<Bridge>,
}

/// A pair of both halves.
pub fn notifier() -> (Notifier, Notified) {
    let shared = Arc::new(Shared { set: AtomicBool::new(false), waker: AtomicWaker::new() });
    (Notifier(shared.clone()), Notified { shared, bridge: Default::default() })
}

impl Notifier {
    /// Wakes the waiting task, now or when it next waits. What was done before this call is seen by the
    /// task after it.
    pub fn notify(&self) {
        // Only the first of several pays for the wake-up.
        if !self.0.set.swap(true, Ordering::AcqRel) {
            self.0.waker.wake();
        }
    }
}

impl Notified {
    /// Waits for a notification and takes it. A notification is kept when the future is dropped before
    /// it has ended.
    pub async fn notified(&self) {
        let taken = std::future::poll_fn(|cx| {
            if self.shared.set.swap(false, Ordering::AcqRel) {
                return Poll::Ready(());
            }
            self.shared.waker.register(cx.waker());
            // One may have come between the look and the registration.
            if self.shared.set.swap(false, Ordering::AcqRel) {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        // A second wait at the same time finds the bridge taken and makes its own.
        Bridged::over(Lent::of(&self.bridge), taken).await;
    }
}

/// The bridge of a [`Notified`] for the length of one wait.
struct Lent<'a> {
    home: &'a std::cell::RefCell<Bridge>,
    bridge: Bridge,
}

impl<'a> Lent<'a> {
    fn of(home: &'a std::cell::RefCell<Bridge>) -> Lent<'a> {
        Lent { home, bridge: home.take() }
    }
}

impl AsMut<Bridge> for Lent<'_> {
    fn as_mut(&mut self) -> &mut Bridge {
        &mut self.bridge
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.home.replace(std::mem::take(&mut self.bridge));
    }
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notifier")
    }
}

impl std::fmt::Debug for Notified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notified")
    }
}

/// Sends one value to a shard, from any thread.
#[derive(Debug)]
pub struct OneshotSender<T>(channel::Sender<T>);

/// Waits for the value of a [`OneshotSender`].
#[must_use = "nobody sees the value otherwise"]
pub struct OneshotReceiver<T>(Bridged<Bridge, channel::Receiver<T>>);

/// The sender was dropped without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

/// A way for one value from any thread to the task that waits for it. The receiver stays on the thread
/// that makes the pair.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let (sender, receiver) = channel::channel();
    (OneshotSender(sender), OneshotReceiver(Bridged::new(receiver)))
}

impl<T> OneshotSender<T> {
    /// Sends it, or gives it back when nobody waits any more.
    pub fn send(self, value: T) -> Result<(), T> {
        self.0.send(value)
    }

    /// Whether nobody waits any more.
    pub fn is_closed(&self) -> bool {
        self.0.is_canceled()
    }
}

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, Dropped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|channel::Canceled| Dropped)
    }
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the sender went away without an answer")
    }
}

impl std::error::Error for Dropped {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_that_nobody_took_is_kept_for_the_next_wait() {
        let (notifier, notified) = notifier();
        notifier.notify();
        notifier.notify();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        drop(notified.notified());
        let mut first = Box::pin(notified.notified());
        assert!(first.as_mut().poll(&mut cx).is_ready());
        let mut second = Box::pin(notified.notified());
        assert!(second.as_mut().poll(&mut cx).is_pending(), "two notifications before a look are one");
        notifier.notify();
        assert!(second.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn a_sender_that_is_dropped_ends_the_wait() {
        let (sender, receiver) = oneshot::<u8>();
        drop(sender);
        assert_eq!(futures_util::FutureExt::now_or_never(receiver), Some(Err(Dropped)));
    }
}
