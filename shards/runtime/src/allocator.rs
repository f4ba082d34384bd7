//! The process's memory.
//!
//! glibc's allocator sorts what many small requests left behind when somebody asks for a large block: after a
//! rebalance of 9,500 members the next frame of a megabyte, or the next answer that names them all, took its shard
//! 2 to 3 ms. mimalloc keeps sizes apart and has no such moment. It gives freed memory back to the system by itself, and
//! needs nothing but a C compiler to be built. Huge pages are off: with them a run had some 90 slices over 1 ms, without
//! them one.

/// The allocator of a process that serves, for its `#[global_allocator]`.
pub use mimalloc::MiMalloc as Allocator;

use crate::limits::{MMAP_THRESHOLD_BYTES, TRIM_THRESHOLD_BYTES};

/// Has what C libraries free go back to the system, too: compression allocates by itself, from glibc, which left alone
/// takes ever larger blocks from a heap that never shrinks. Called before other threads exist.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` sets two numbers of the allocator and has no memory arguments.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES);
    }
}
