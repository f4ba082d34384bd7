//! Plain threads for work that blocks: files above all.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::notify::oneshot;
use crossbeam_channel::{Sender, unbounded};

type Work = Box<dyn FnOnce() + Send>;

/// A few threads that do blocking work for all shards. The queue is as long as what the shards have
/// outstanding: each log has at most one write and one sync out.
#[derive(Clone)]
pub struct FileThreads {
    queue: Sender<Work>,
}

/// The work panicked; the message is the panic's.
#[derive(Debug)]
pub struct Panicked(pub String);

impl FileThreads {
    /// Starts `threads` threads, which end when the last handle is dropped.
    pub fn start(threads: usize) -> io::Result<FileThreads> {
        let (queue, work) = unbounded::<Work>();
        for nth in 0..threads.max(1) {
            let work = work.clone();
            std::thread::Builder::new().name(format!("files-{nth}")).spawn(move || {
                for work in work {
                    work();
                }
            })?;
        }
        Ok(FileThreads { queue })
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
        let sent = self.queue.send(work).is_ok();
        async move {
            match result.await {
                Ok(result) => result,
                Err(_) => Err(Panicked(format!("the file threads are gone (queued: {sent})"))),
            }
        }
    }

    /// Pieces of work that no thread has taken yet.
    pub fn queued(&self) -> usize {
        self.queue.len()
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
