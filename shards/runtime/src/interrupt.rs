//! Making a thread's system call return.
//!
//! An executor that went to sleep before its first task was ever polled holds no waker that anybody could
//! have. A signal with a handler that does nothing ends its sleep (`EINTR`), after which it looks again.

use std::os::unix::thread::JoinHandleExt;
use std::sync::Once;
use std::thread::JoinHandle;

/// Ignored unless somebody asks for it, which nobody else in this process does.
const SIGNAL: libc::c_int = libc::SIGURG;

/// Interrupts what the thread waits for in the kernel, if anything.
pub(crate) fn interrupt<T>(thread: &JoinHandle<T>) {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install);
    // SAFETY: the handle is neither joined nor detached while it is borrowed, so the thread's id is valid
    // even if the thread has ended, which the call then reports.
    unsafe { libc::pthread_kill(thread.as_pthread_t(), SIGNAL) };
}

fn install() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all zero is a valid `sigaction`: no flags, so that calls are not restarted, and no mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the action is valid, and a handler that does nothing is safe at any point of any thread.
    unsafe { libc::sigaction(SIGNAL, &action, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_thread_that_sleeps_in_the_kernel_is_woken() {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: no descriptors are given, so none are read.
            let returned = unsafe { libc::poll(std::ptr::null_mut(), 0, -1) };
            let _ = tell.send((returned, std::io::Error::last_os_error().kind()));
        });
        // The thread may not have come to its call yet, which a signal does not wait for.
        let woken = loop {
            interrupt(&thread);
            match told.recv_timeout(Duration::from_millis(10)) {
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                woken => break woken,
            }
        };
        assert_eq!(woken, Ok((-1, std::io::ErrorKind::Interrupted)));
        thread.join().expect("a thread that ended");
    }
}
