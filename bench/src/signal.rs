//! Waking one task of this executor.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// One task waits, any other one of the executor signals. Signals before it has looked are one.
#[derive(Debug, Default)]
pub struct Signal {
    given: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Signal {
    /// Wakes who waits, now or when it next does.
    pub fn give(&self) {
        if !self.given.replace(true)
            && let Some(waker) = self.waiting.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Waits for a signal and takes it.
    pub async fn given(&self) {
        poll_fn(|cx| {
            if self.given.replace(false) {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn a_signal_is_kept_until_it_is_taken_and_several_are_one() {
        let signal = Signal::default();
        signal.give();
        signal.give();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(signal.given()).poll(&mut cx).is_ready());
        let mut waiting = pin!(signal.given());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        signal.give();
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
    }
}
