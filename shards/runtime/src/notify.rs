//! Waking a shard from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::task::AtomicWaker;

struct Shared {
    set: AtomicBool,
    waker: AtomicWaker,
}

/// The sending half: wakes the one task that waits at [`Notified`]. Notifications that come before it
/// has looked are one.
#[derive(Clone)]
pub struct Notifier(Arc<Shared>);

/// The waiting half.
pub struct Notified(Arc<Shared>);

/// A pair of both halves.
pub fn notifier() -> (Notifier, Notified) {
    let shared = Arc::new(Shared { set: AtomicBool::new(false), waker: AtomicWaker::new() });
    (Notifier(shared.clone()), Notified(shared))
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
    /// Waits for a notification and takes it.
    pub async fn notified(&self) {
        std::future::poll_fn(|cx| {
            if self.0.set.swap(false, Ordering::AcqRel) {
                return Poll::Ready(());
            }
            self.0.waker.register(cx.waker());
            // One may have come between the look and the registration.
            if self.0.set.swap(false, Ordering::AcqRel) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notifier")
    }
}
