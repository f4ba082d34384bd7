//! The process's memory.
//!
//! glibc's allocator sorts what many small requests left behind when somebody asks for a large block: after a
//! rebalance of 9,500 members the next frame of a megabyte, or the next answer that names them all, took its shard
//! 2 to 3 ms. jemalloc keeps sizes apart and has no such moment.

/// The allocator of a process that serves, for its `#[global_allocator]`.
pub use tikv_jemallocator::Jemalloc as Allocator;

use crate::limits::{MMAP_THRESHOLD_BYTES, TRIM_THRESHOLD_BYTES};

/// Has freed memory go back to the system, also while nothing else happens, on a thread made for it: a burst of large
/// answers would otherwise stay until the shards are busy again. Called when the executors exist, which come before
/// every other thread.
///
/// Where the thread cannot be made the shards give memory back themselves while they work.
pub fn give_memory_back() {
    let mut on = true;
    // SAFETY: the name ends with a zero, and a `bool` is what `background_thread` is written from; it is read for the
    // length of the call.
    let done = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"background_thread".as_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            (&raw mut on).cast(),
            size_of::<bool>(),
        )
    };
    debug_assert_eq!(done, 0, "the allocator has such a thread on Linux");
    // Compression allocates by itself, from glibc, which left alone takes ever larger blocks from a heap that never
    // shrinks.
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` sets two numbers of the allocator and has no memory arguments.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES);
    }
}
