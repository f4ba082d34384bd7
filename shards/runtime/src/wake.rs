//! Wake-ups from other threads.
//!
//! Another thread never holds the waker of a task: the runtime's own wakers may be dropped by another
//! thread only while their task lives, which nobody can promise for a task that ends when it likes. So
//! each shard has an [`Ear`], a task that is there for as long as the shard is. Other threads hold a
//! [`Remote`], put it into the ear's queue and wake the ear, which wakes the task: many wake-ups of many
//! tasks cost one wake-up of the shard.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::guard::ShardStats;

thread_local! {
    /// The ear of the shard that this thread is.
    static EAR: RefCell<Option<Arc<Ear>>> = const { RefCell::new(None) };
}

/// The one task of a shard that other threads wake.
pub(crate) struct Ear {
    /// Who is to be woken.
    queue: Mutex<Vec<Arc<Remote>>>,
    /// The ear's own, from its first poll on. It is never taken, so that a wake-up that the runtime loses
    /// can be repeated, and never dropped, since another thread may be using it when the shard ends.
    waker: OnceLock<ManuallyDrop<Waker>>,
    /// The shard has ended.
    closed: AtomicBool,
    stats: Arc<ShardStats>,
}

impl Ear {
    /// Starts the listening task of this executor; its first poll is still to come.
    pub(crate) fn listen() -> Arc<Ear> {
        let ear = Arc::new(Ear {
            queue: Mutex::default(),
            waker: OnceLock::new(),
            closed: AtomicBool::new(false),
            stats: Arc::default(),
        });
        EAR.set(Some(ear.clone()));
        let listening = ear.clone();
        let mut heard = Vec::new();
        glommio::spawn_local(std::future::poll_fn::<(), _>(move |cx| {
            // A task of this runtime has one waker for life.
            let waker = listening.waker.get_or_init(|| ManuallyDrop::new(cx.waker().clone()));
            debug_assert!(waker.will_wake(cx.waker()));
            listening.stats.answer();
            std::mem::swap(&mut heard, &mut *lock(&listening.queue));
            for remote in heard.drain(..) {
                remote.wake_local();
            }
            Poll::Pending
        }))
        .detach();
        ear
    }

    /// Makes the shard look, even if it has lost an earlier wake-up.
    pub(crate) fn wake(&self) {
        if !self.closed.load(Ordering::Acquire)
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Whether the listening task has been polled, without which [`Ear::wake`] does nothing.
    pub(crate) fn can_be_woken(&self) -> bool {
        self.waker.get().is_some()
    }

    /// What is seen of the shard.
    pub(crate) fn stats(&self) -> &Arc<ShardStats> {
        &self.stats
    }

    /// The shard ends: its tasks are woken no more. Called on the shard.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.queue).clear();
        EAR.take();
    }

    fn push(&self, remote: Arc<Remote>) {
        let first = {
            let mut queue = lock(&self.queue);
            queue.push(remote);
            queue.len() == 1
        };
        // Whoever put the first one in has woken the ear, which empties the queue when it runs.
        if first {
            self.wake();
        }
    }
}

/// The shard of this thread has done something: the guard stays alert.
pub(crate) fn active() {
    EAR.with_borrow(|ear| {
        if let Some(ear) = ear {
            ear.stats.bump();
        }
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What other threads hold of a task's waiting: safe to keep, clone, wake and drop anywhere, at any time.
struct Remote {
    ear: Arc<Ear>,
    /// Whether it is in the ear's queue.
    queued: AtomicBool,
    /// The waiting task's waker. Only the shard's thread locks this, so it never waits.
    local: Mutex<Option<Waker>>,
}

impl Remote {
    fn wake_local(&self) {
        // Before the task runs: a wake-up from here on has to queue again.
        self.queued.store(false, Ordering::Release);
        if let Some(waker) = &*lock(&self.local) {
            waker.wake_by_ref();
        }
    }
}

impl Wake for Remote {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let ear = self.ear.clone();
            ear.push(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ear.push(self.clone());
        }
    }
}

/// Where a task's waker is kept for other threads, over any number of waits on one shard.
#[derive(Default)]
pub(crate) struct Bridge {
    remote: Option<(Arc<Remote>, Waker)>,
}

impl Bridge {
    /// A waker for other threads that wakes this task. On a thread that is no shard it is the task's own.
    fn waker<'a>(&'a mut self, local: &'a Waker) -> &'a Waker {
        EAR.with_borrow(|ear| {
            let here = |remote: &Remote| ear.as_ref().is_some_and(|ear| Arc::ptr_eq(ear, &remote.ear));
            if !self.remote.as_ref().is_some_and(|(remote, _)| here(remote)) {
                self.remote = ear.clone().map(|ear| {
                    let remote = Arc::new(Remote { ear, queued: AtomicBool::new(false), local: Mutex::new(None) });
                    (remote.clone(), Waker::from(remote))
                });
            }
        });
        let Some((remote, waker)) = &self.remote else { return local };
        let before = match &mut *lock(&remote.local) {
            Some(kept) if kept.will_wake(local) => None,
            kept => kept.replace(local.clone()),
        };
        // May end a task, which may look here.
        drop(before);
        waker
    }

    /// The task waits no longer. On the shard's thread, where alone its waker may be dropped safely.
    fn rest(&mut self) {
        if let Some((remote, _)) = &self.remote {
            let kept = lock(&remote.local).take();
            // May end a task, which may look here.
            drop(kept);
        }
    }
}

/// A future that other threads complete, polled with a waker that is theirs to keep.
///
/// It stays on the thread that polls it first, and takes the task's waker back when it is dropped.
pub(crate) struct Bridged<B: AsMut<Bridge>, F> {
    bridge: B,
    future: F,
    _not_send: PhantomData<*const ()>,
}

impl AsMut<Bridge> for Bridge {
    fn as_mut(&mut self) -> &mut Bridge {
        self
    }
}

impl<F> Bridged<Bridge, F> {
    /// With a bridge of its own.
    pub(crate) fn new(future: F) -> Self {
        Bridged::over(Bridge::default(), future)
    }
}

impl<B: AsMut<Bridge>, F> Bridged<B, F> {
    /// Over a bridge that serves further waits, too.
    pub(crate) fn over(bridge: B, future: F) -> Self {
        Bridged { bridge, future, _not_send: PhantomData }
    }
}

impl<B: AsMut<Bridge> + Unpin, F: Future + Unpin> Future for Bridged<B, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        let waker = this.bridge.as_mut().waker(cx.waker());
        Pin::new(&mut this.future).poll(&mut Context::from_waker(waker))
    }
}

impl<B: AsMut<Bridge>, F> Drop for Bridged<B, F> {
    fn drop(&mut self) {
        self.bridge.as_mut().rest();
    }
}
