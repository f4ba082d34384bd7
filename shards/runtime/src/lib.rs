//! The io_uring runtime behind a facade: thread-per-core executors, sockets, file threads, and the guard
//! that bounds every stall.
//!
//! Only this crate names the runtime underneath, and none of its types is public. Operations own their
//! buffers and give them back, so that readiness and completion runtimes both fit. What must stay true:
//! every executor of a process is under the [`Guard`] (the runtime can otherwise sleep for ever with work
//! to do), and nothing blocks an executor: blocking work goes to [`FileThreads`].

mod allocator;
mod buffers;
mod checks;
mod executors;
mod file_threads;
mod guard;
mod interrupt;
pub mod limits;
mod memory;
mod notify;
mod peer_close;
mod slices;
mod tasks;
mod tcp;
mod wake;
mod wake_pair;

pub use allocator::{Allocator, give_memory_back};
pub use buffers::BufferPool;
pub use checks::{allowed_cpus, check_host, check_io_uring, survive_file_size_limit};
pub use executors::{Config, Executors, Placement};
pub use file_threads::{FileThreads, Panicked};
pub use guard::{Guard, ShardStats};
pub use notify::{Dropped, Notified, Notifier, OneshotReceiver, OneshotSender, notifier, oneshot};
pub use slices::{SliceClock, SliceReport, process_cpu_time, slices, thread_cpu_time, time_slices_by};
pub use tasks::{Budget, Task, TimedOut, now, sleep, sleep_until, spawn, spawn_as, timeout, yield_now};
pub use tcp::{BoundListener, ListenOptions, TcpListener, TcpStream};
pub use wake_pair::time_wake_pairs;
