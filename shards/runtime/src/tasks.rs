//! Tasks of this shard, their turns, and time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::executors::loud;
use crate::limits::{TURN, TURN_BYTES};

/// A task of this shard. Awaiting it gives what it came to.
#[must_use = "a task that is dropped is cancelled"]
pub struct Task<T>(glommio::Task<T>);

impl<T> Task<T> {
    /// Lets it run to its end on its own.
    pub fn detach(self) {
        self.0.detach();
    }

    /// Stops it and waits until its future is dropped; what it came to, if it was done.
    pub async fn cancel(self) -> Option<T> {
        self.0.cancel().await
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Starts a task on this shard. It runs when the current one next waits. A panic in it ends the process,
/// unless the future catches its own.
///
/// # Panics
/// On a thread that is no shard.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    spawn_as("a task", future)
}

/// As [`spawn`], with a name for this kind of task: for the counts of slices, and for who has panicked.
///
/// # Panics
/// On a thread that is no shard.
pub fn spawn_as<T: 'static>(kind: &'static str, future: impl Future<Output = T> + 'static) -> Task<T> {
    Task(glommio::spawn_local(loud(kind, future)))
}

/// Lets everything else that is ready on this shard run first.
pub async fn yield_now() {
    glommio::executor().yield_now().await;
}

/// Now; the clock of [`sleep_until`].
pub fn now() -> Instant {
    Instant::now()
}

/// Waits.
pub async fn sleep(duration: Duration) {
    glommio::timer::sleep(duration).await;
}

/// Waits until then.
pub async fn sleep_until(deadline: Instant) {
    glommio::timer::sleep(deadline.saturating_duration_since(Instant::now())).await;
}

/// It took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("timed out")
    }
}

impl std::error::Error for TimedOut {}

/// Waits for a future, but not longer than this; then it is dropped. A future that is ready at once costs
/// no timer.
///
/// # Errors
/// The time was over first.
pub async fn timeout<F: Future>(most: Duration, future: F) -> Result<F::Output, TimedOut> {
    let mut future = std::pin::pin!(future);
    // Makes its timer when it is first polled.
    let mut over = std::pin::pin!(sleep(most));
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => over.as_mut().poll(cx).map(|()| Err(TimedOut)),
    })
    .await
}

/// What a task may do before others get their turn: sockets and calls that are ready at once never give
/// way by themselves, so a hot connection would keep its shard.
#[derive(Debug)]
pub struct Budget {
    began: Instant,
    bytes: usize,
}

impl Budget {
    /// A turn that begins now.
    pub fn new() -> Budget {
        Budget { began: Instant::now(), bytes: 0 }
    }

    /// So many bytes were moved.
    pub fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Whether the turn is over: after 100 us or 512 KiB.
    pub fn is_spent(&self) -> bool {
        self.bytes >= TURN_BYTES || self.began.elapsed() >= TURN
    }

    /// Lets others run if the turn is over, and begins the next.
    pub async fn turn(&mut self) {
        if self.is_spent() {
            yield_now().await;
            self.renew();
        }
    }

    /// A turn begins now; for after a wait.
    pub fn renew(&mut self) {
        *self = Budget::new();
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_by_bytes_or_by_time() {
        let mut budget = Budget { began: Instant::now() + Duration::from_secs(60), bytes: 0 };
        assert!(!budget.is_spent());
        budget.spend(TURN_BYTES - 1);
        assert!(!budget.is_spent());
        budget.spend(1);
        assert!(budget.is_spent());
        let budget = Budget { began: Instant::now() - TURN, bytes: 0 };
        assert!(budget.is_spent());
    }
}
