//! Plain threads for work that blocks: files above all.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use crate::notify::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// A few threads that do blocking work for all shards. The queue is as long as what the shards have
/// outstanding: each log has at most one write and one sync out.
///
/// An idle thread sleeps at once: one that spins first takes CPU time from the shards for each piece of work. The one
/// that went to sleep last is woken first, since its caches and its CPU are the warmest.
#[derive(Clone)]
pub struct FileThreads(Arc<Handle>);

/// All handles together; the threads end when it is dropped.
struct Handle(Arc<Pool>);

struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    /// Threads that sleep, the last one on top.
    idle: Vec<Arc<Sleeper>>,
    closed: bool,
}

struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
}

/// The work panicked; the message is the panic's.
#[derive(Debug)]
pub struct Panicked(pub String);

impl FileThreads {
    /// Starts `threads` threads, which end when the last handle is dropped.
    pub fn start(threads: usize) -> io::Result<FileThreads> {
        let pool = Arc::new(Pool(Mutex::default()));
        let handle = FileThreads(Arc::new(Handle(pool.clone())));
        for nth in 0..threads.max(1) {
            let pool = pool.clone();
            std::thread::Builder::new().name(format!("files-{nth}")).spawn(move || pool.serve())?;
        }
        Ok(handle)
    }

    /// Does this on some thread. It is started at once and also done when the future is dropped.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Panicked>> + 'static {
        let (done, result) = oneshot();
        let work = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked(message(&*panic)));
            // Nobody may be waiting any more.
            let _ = done.send(result);
        });
        self.0.0.give(work);
        async move {
            match result.await {
                Ok(result) => result,
                Err(_) => Err(Panicked("the file threads are gone".into())),
            }
        }
    }

    /// Pieces of work that no thread has taken yet.
    pub fn queued(&self) -> usize {
        self.0.0.state().work.len()
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, work: Work) {
        let idle = {
            let mut state = self.state();
            state.work.push_back(work);
            state.idle.pop()
        };
        if let Some(sleeper) = idle {
            sleeper.wake();
        }
    }

    /// A thread's life.
    fn serve(&self) {
        let me = Arc::new(Sleeper { thread: std::thread::current(), woken: AtomicBool::new(false) });
        loop {
            let mut state = self.state();
            if let Some(work) = state.work.pop_front() {
                drop(state);
                work();
            } else if state.closed {
                return;
            } else {
                state.idle.push(me.clone());
                drop(state);
                me.sleep();
            }
        }
    }
}

impl Sleeper {
    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn sleep(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let idle = {
            let mut state = self.0.state();
            state.closed = true;
            std::mem::take(&mut state.idle)
        };
        idle.iter().for_each(|sleeper| sleeper.wake());
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocking work panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}
