//! The request timeouts of one executor.
//!
//! A timer per request would cost more than many a request does. Here a wait leaves its deadline and its waker in
//! a slot that it keeps for life, and one task looks through all slots every so often: a timeout is late by a
//! sixteenth of itself at most, and setting one costs a store.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::CallError;
use crate::limits::{TIMEOUT_LOOK_MAX, TIMEOUT_LOOK_MIN, TIMEOUT_LOOK_SLOTS};

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    due: Option<Instant>,
    waker: Option<Waker>,
}

/// All deadlines of an executor; a handle.
#[derive(Clone)]
pub(super) struct Deadlines {
    table: Rc<RefCell<Table>>,
    timeout: Duration,
}

impl Deadlines {
    /// Starts the task that looks; it ends when the last handle and slot are gone.
    pub(super) fn start(timeout: Duration) -> Deadlines {
        let table = Rc::new(RefCell::new(Table::default()));
        let period = (timeout / 16).clamp(TIMEOUT_LOOK_MIN, TIMEOUT_LOOK_MAX);
        ringgate_runtime::spawn_as("request timeouts", look(Rc::downgrade(&table), period)).detach();
        Deadlines { table, timeout }
    }

    /// A slot for one wait at a time.
    pub(super) fn slot(&self) -> Deadline {
        let mut table = self.table.borrow_mut();
        let slot = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot::default());
            // As many as there are connections.
            (table.slots.len() - 1) as u32
        });
        Deadline { table: self.table.clone(), slot, timeout: self.timeout }
    }
}

async fn look(table: Weak<RefCell<Table>>, period: Duration) {
    loop {
        ringgate_runtime::sleep(period).await;
        let mut from = 0;
        loop {
            let Some(table) = table.upgrade() else { return };
            let now = Instant::now();
            let mut due: Vec<Waker> = Vec::new();
            let more = {
                let mut table = table.borrow_mut();
                let end = (from + TIMEOUT_LOOK_SLOTS).min(table.slots.len());
                for slot in &mut table.slots[from.min(end)..end] {
                    if slot.due.is_some_and(|due| due <= now) {
                        slot.due = None;
                        due.extend(slot.waker.take());
                    }
                }
                from = end;
                end < table.slots.len()
            };
            due.into_iter().for_each(Waker::wake);
            if !more {
                break;
            }
            drop(table);
            ringgate_runtime::yield_now().await;
        }
    }
}

/// A slot of [`Deadlines`].
pub(super) struct Deadline {
    table: Rc<RefCell<Table>>,
    slot: u32,
    timeout: Duration,
}

impl Deadline {
    /// How long a request may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Wakes at or soon after `due`, in place of what was set before.
    pub(super) fn set(&self, due: Instant, waker: &Waker) {
        let mut table = self.table.borrow_mut();
        let slot = &mut table.slots[self.slot as usize];
        slot.due = Some(due);
        if !slot.waker.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            slot.waker = Some(waker.clone());
        }
    }

    /// Wakes nobody any more.
    pub(super) fn clear(&self) {
        self.table.borrow_mut().slots[self.slot as usize].due = None;
    }

    /// Waits for a future, but no longer than until `due`.
    ///
    /// # Errors
    /// [`CallError::TimedOut`].
    pub(super) async fn bound<F: Future>(&self, due: Instant, future: F) -> Result<F::Output, CallError> {
        let mut future = std::pin::pin!(future);
        let ended = std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            if Instant::now() >= due {
                return Poll::Ready(Err(CallError::TimedOut));
            }
            self.set(due, cx.waker());
            Poll::Pending
        })
        .await;
        self.clear();
        ended
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let slot = {
            let mut table = self.table.borrow_mut();
            table.free.push(self.slot);
            std::mem::take(&mut table.slots[self.slot as usize])
        };
        // May end a task, which may look here.
        drop(slot);
    }
}
