//! Noticing that a peer has closed while nobody reads from it.
//!
//! The runtime polls for readable bytes only, so an end of stream behind unread bytes is invisible to it.
//! One epoll instance, waited for by the guard's thread, watches the sockets whose reading is paused.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::wake::Bridged;

#[derive(Default)]
struct Watched {
    closed: AtomicBool,
    waker: AtomicWaker,
}

/// The sockets that are watched.
pub(crate) struct Closings {
    epoll: OwnedFd,
    next_key: AtomicU64,
    watched: Mutex<HashMap<u64, Arc<Watched>>>,
}

static CLOSINGS: OnceLock<Closings> = OnceLock::new();

impl Closings {
    /// The process's one.
    pub(crate) fn get() -> io::Result<&'static Closings> {
        if let Some(closings) = CLOSINGS.get() {
            return Ok(closings);
        }
        // SAFETY: the call has no memory arguments.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor has just been made by the kernel and nobody else knows it.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        Ok(CLOSINGS.get_or_init(|| Closings { epoll, next_key: AtomicU64::new(0), watched: Mutex::default() }))
    }

    /// Waits for a peer to close, for at most this long, and tells those who wait for it.
    pub(crate) fn wait(&self, most: Duration) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let timeout_ms = most.as_micros().div_ceil(1000).min(1000) as i32;
        // SAFETY: `events` is writable memory for as many events as the call is told.
        let n =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, timeout_ms) };
        for event in &events[..usize::try_from(n).unwrap_or(0)] {
            let key = event.u64;
            let watched = self.lock().get(&key).cloned();
            if let Some(watched) = watched {
                watched.closed.store(true, Ordering::Release);
                watched.waker.wake();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket that is watched until this is dropped, which must be before the socket is closed.
pub(crate) struct Watch {
    closings: &'static Closings,
    key: u64,
    socket: RawFd,
    watched: Arc<Watched>,
}

impl Watch {
    /// Watches it from now on, and for what has happened already.
    pub(crate) fn begin(socket: RawFd) -> io::Result<Watch> {
        let closings = Closings::get()?;
        // A key is never used twice, so an event for an earlier socket of the same number finds nobody.
        let key = closings.next_key.fetch_add(1, Ordering::Relaxed);
        let watched = Arc::new(Watched::default());
        closings.lock().insert(key, watched.clone());
        let watch = Watch { closings, key, socket, watched };
        // Closing is for good, so one report is enough.
        let flags = libc::EPOLLRDHUP | libc::EPOLLET | libc::EPOLLONESHOT;
        let mut event = libc::epoll_event { events: flags as u32, u64: key };
        // SAFETY: `event` is valid for the length of the call.
        let added = unsafe { libc::epoll_ctl(closings.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, socket, &mut event) };
        if added != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(watch)
    }

    /// Waits until the peer has closed its side. One wait at a time.
    pub(crate) async fn closed(&self) {
        let closed = std::future::poll_fn(|cx| {
            self.watched.waker.register(cx.waker());
            if self.watched.closed.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        });
        Bridged::new(closed).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.closings.lock().remove(&self.key);
        // SAFETY: a null event is allowed for a deletion; the socket is still open, as the type demands.
        unsafe {
            libc::epoll_ctl(self.closings.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, self.socket, std::ptr::null_mut())
        };
    }
}
