//! A shard's one timer wheel and the task that turns it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use ringgate_group::pieced::PiecedSlab;

use crate::Shard;
use crate::limits::{LOOK_EVERY_MS, STALL_MS, TIMERS_SLICE};
use crate::timer_wheel::TimerWheel;

/// What a timer is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TimerKey {
    /// The coordinator's.
    Group(ringgate_group::TimerKey),
    /// Some task of the shard sleeps.
    Sleep(usize),
}

struct Sleeper {
    due: bool,
    waker: Option<Waker>,
}

/// The timers of one shard.
#[derive(Default)]
pub(crate) struct Timers {
    wheel: RefCell<TimerWheel<TimerKey>>,
    sleepers: RefCell<PiecedSlab<Sleeper>>,
    /// When the turning task will look next; `u64::MAX` while it waits for something to be armed.
    next_look_ms: Cell<u64>,
    turner: RefCell<Option<Waker>>,
}

impl Timers {
    pub(crate) fn arm(&self, key: TimerKey, deadline_ms: u64) {
        self.wheel.borrow_mut().arm(key, deadline_ms);
        if deadline_ms < self.next_look_ms.get()
            && let Some(waker) = self.turner.borrow_mut().take()
        {
            waker.wake();
        }
    }

    pub(crate) fn cancel(&self, key: &TimerKey) {
        self.wheel.borrow_mut().cancel(key);
    }

    /// Turns the wheel for as long as the shard lives.
    pub(crate) async fn turn(shard: Rc<Shard>) {
        let timers = &shard.timers;
        loop {
            let mut fired = 0;
            loop {
                let key = timers.wheel.borrow_mut().poll_expired(shard.clock.mono_ms());
                match key {
                    Some(TimerKey::Group(key)) => shard.groups.timer(&shard, key),
                    Some(TimerKey::Sleep(key)) => timers.sleeper_due(key),
                    None => break,
                }
                fired += 1;
                if fired % TIMERS_SLICE == 0 {
                    ringgate_runtime::yield_now().await;
                }
            }
            let next = timers.wheel.borrow().next_deadline();
            timers.next_look_ms.set(next.unwrap_or(u64::MAX));
            let armed_earlier = std::future::poll_fn(|cx| {
                let earliest = timers.wheel.borrow().next_deadline();
                if earliest.unwrap_or(u64::MAX) < timers.next_look_ms.get() {
                    return Poll::Ready(());
                }
                *timers.turner.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            });
            match next {
                Some(deadline_ms) => {
                    let now = shard.clock.mono_ms();
                    let planned = deadline_ms.clamp(now, now + LOOK_EVERY_MS);
                    first(armed_earlier, ringgate_runtime::sleep_until(shard.clock.instant(planned))).await;
                    let late = shard.clock.mono_ms().saturating_sub(planned);
                    if late >= STALL_MS {
                        tracing::warn!(
                            shard = shard.id().0,
                            late_ms = late,
                            "the shard was stalled; sessions are extended"
                        );
                        // Nothing was read since the last look, which was up to LOOK_EVERY_MS earlier.
                        shard.groups.stalled(&shard, late + LOOK_EVERY_MS);
                    }
                }
                None => armed_earlier.await,
            }
        }
    }

    fn sleeper_due(&self, key: usize) {
        if let Some(sleeper) = self.sleepers.borrow_mut().get_mut(key) {
            sleeper.due = true;
            if let Some(waker) = sleeper.waker.take() {
                waker.wake();
            }
        }
    }
}

async fn first(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        if a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

/// A wait of one task of the shard, kept by the shard's wheel: precise to its tick, and cheap to arm and
/// to drop.
pub struct Sleep {
    shard: Rc<Shard>,
    key: usize,
}

impl Sleep {
    /// Ends after `duration`.
    pub fn new(shard: &Rc<Shard>, duration: Duration) -> Sleep {
        let key = shard.timers.sleepers.borrow_mut().insert(Sleeper { due: false, waker: None });
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        shard.timers.arm(TimerKey::Sleep(key), shard.clock.mono_ms().saturating_add(duration_ms));
        Sleep { shard: shard.clone(), key }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        let mut sleepers = self.shard.timers.sleepers.borrow_mut();
        let sleeper = &mut sleepers[self.key];
        if sleeper.due {
            return Poll::Ready(());
        }
        match &mut sleeper.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => sleeper.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.shard.timers.cancel(&TimerKey::Sleep(self.key));
        self.shard.timers.sleepers.borrow_mut().remove(self.key);
    }
}
