//! Watches that this shard's waiting Fetches have left with owners.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

use ringgate_group::pieced::PiecedSlab;

use crate::Shard;
use crate::call::{UnwatchCall, WatchId};
use ringgate_group::route::ShardId;

struct Slot {
    serial: u32,
    woken: bool,
    waker: Option<Waker>,
}

/// The watches of one shard.
#[derive(Default)]
pub(crate) struct Watches {
    slots: RefCell<PiecedSlab<Slot>>,
    serial: std::cell::Cell<u32>,
}

impl Watches {
    /// A wake-up arrived. One for a watch that is gone is ignored.
    pub(crate) fn wake(&self, id: WatchId) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(key(id))
            && slot.serial == serial(id)
        {
            slot.woken = true;
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
    }
}

fn key(id: WatchId) -> usize {
    (id.0 & u64::from(u32::MAX)) as usize
}

fn serial(id: WatchId) -> u32 {
    (id.0 >> 32) as u32
}

/// A watch that can be waited for. Dropping it withdraws it from the owners it was left with.
pub struct WatchHandle {
    shard: Rc<Shard>,
    id: WatchId,
    owners: Vec<ShardId>,
}

impl WatchHandle {
    /// A watch of this shard, to be left with these owners in a
    /// [`FetchCall`](crate::call::FetchCall) each.
    pub fn new(shard: &Rc<Shard>, owners: Vec<ShardId>) -> WatchHandle {
        let watches = &shard.watches;
        let serial = watches.serial.get().wrapping_add(1);
        watches.serial.set(serial);
        let key = watches.slots.borrow_mut().insert(Slot { serial, woken: false, waker: None });
        WatchHandle { shard: shard.clone(), id: WatchId(u64::from(serial) << 32 | key as u64), owners }
    }

    /// Its name in the calls.
    pub fn id(&self) -> WatchId {
        self.id
    }

    /// Waits until some owner has seen enough arrive.
    pub async fn woken(&self) {
        std::future::poll_fn(|cx| {
            let mut slots = self.shard.watches.slots.borrow_mut();
            let slot = &mut slots[key(self.id)];
            if slot.woken {
                return Poll::Ready(());
            }
            slot.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        self.shard.watches.slots.borrow_mut().remove(key(self.id));
        for &owner in &self.owners {
            drop(self.shard.submit_to(owner, UnwatchCall { id: self.id }));
        }
    }
}
