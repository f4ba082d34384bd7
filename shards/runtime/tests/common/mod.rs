//! What the tests share: executors with one body for each shard, and plain clients on loopback.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use ringgate_runtime::{BoundListener, Config, Executors, ListenOptions, Placement};

/// Longer than anything here takes on a slow machine; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn unpinned(shards: u16) -> Config {
    Config { shards, placement: Placement::Unpinned, spin: Duration::ZERO }
}

/// Runs `main` on each shard to its end.
pub fn on_shards<F, M>(shards: u16, main: impl FnMut(u16) -> M)
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let mut executors = Executors::start(&unpinned(shards)).expect("executors");
    executors.run(main);
    executors.join();
}

/// Runs one body on one shard.
pub fn on_a_shard<F: Future<Output = ()> + 'static>(main: impl FnOnce() -> F + Send + 'static) {
    let mut main = Some(main);
    on_shards(1, |_| main.take().expect("one shard"));
}

pub fn bind() -> BoundListener {
    BoundListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), ListenOptions::default()).expect("a port")
}

/// A blocking client that fails rather than waits for ever.
pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("a connection");
    stream.set_nodelay(true).expect("an open socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("an open socket");
    stream
}

/// Bytes that tell where they are.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
