//! What the machine says: of the server's process, of the network, and of the host itself.
//!
//! Everything is read from `/proc` and `/sys` as text; a [`Root`] says where those lie, so that tests bring trees of
//! their own. What must stay true: a value that cannot be read is absent, never a constant, and the reason
//! stands under `unread`; nothing here runs on an executor, for reading of the server's threads takes milliseconds.

mod cgroup;
mod command;
mod cost;
mod environment;
mod kernel;
mod plateaus;
mod process;
mod root;
mod server_sampler;
mod sockets;

pub use command::masked;
pub use cost::{cpu_ms_per_mb, cpu_us_per_request};
pub use environment::{environment, environment_of};
pub use kernel::{SocketMemory, socket_memory};
pub use plateaus::{Plateaus, Slope};
pub use process::{Memory, memory};
pub use root::Root;
pub use server_sampler::ServerSampler;
pub use sockets::{Ports, connections_max};
