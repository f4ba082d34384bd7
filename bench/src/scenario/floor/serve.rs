//! `floor --serve`: the other side, an echo on the same runtime.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ringgate_runtime::{
    BoundListener, BufferPool, Config, Executors, ListenOptions, Placement, TcpListener, TcpStream, sleep, spawn,
};

use super::frame::{FRAME_MAX, head, peek};
use crate::engine::Interrupt;

/// After a connection could not be accepted, for lack of descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Answers frames at an address until it is told to end. `ready` is given the address, with the port that the kernel
/// chose.
///
/// # Errors
/// The address cannot be listened on, or this machine cannot run executors.
pub fn serve(
    listen: SocketAddr,
    executors: u16,
    cpus: Option<Vec<usize>>,
    interrupt: &Interrupt,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let first = BoundListener::bind(listen, options)?;
    let address = first.local_addr();
    let mut listeners = vec![first];
    for _ in 1..executors {
        listeners.push(BoundListener::bind(address, options)?);
    }
    let placement = cpus.map_or(Placement::Unpinned, Placement::Cpus);
    let mut running = Executors::start(&Config { shards: executors, placement, spin: Duration::ZERO })?;
    let mut listeners = listeners.into_iter();
    let mut ends = Vec::new();
    running.run(|_| {
        let listener = listeners.next();
        let (notifier, end) = ringgate_runtime::notifier();
        ends.push(notifier);
        move || async move {
            if let Some(listener) = listener {
                let accepting = spawn(accept(listener.into_listener()));
                end.notified().await;
                accepting.cancel().await;
            }
        }
    });
    interrupt.listen(move || ends.iter().for_each(ringgate_runtime::Notifier::notify));
    ready(address);
    running.join();
    Ok(())
}

async fn accept(listener: TcpListener) {
    let pool = Rc::new(BufferPool::new());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let pool = pool.clone();
                spawn(async move {
                    // A connection that breaks is over, like one that ends.
                    let _ = answer(&stream, &pool).await;
                })
                .detach();
            }
            Err(error) => {
                eprintln!("ringgate-bench: cannot accept: {error}");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Answers every frame with one of the size that it wants, all that are complete at once.
async fn answer(stream: &TcpStream, pool: &BufferPool) -> io::Result<()> {
    let mut held = BytesMut::new();
    let mut filler = Bytes::new();
    let mut budget = ringgate_runtime::Budget::new();
    while let Some(bytes) = stream.recv(pool).await? {
        budget.spend(bytes.len());
        held.extend_from_slice(&bytes);
        let mut answers = Vec::new();
        while let Some(frame) = peek(&held).map_err(io::Error::other)? {
            let request = held.split_to(frame.bytes).freeze();
            if frame.wanted == frame.bytes {
                answers.push(request);
                continue;
            }
            let size = frame.wanted.clamp(super::frame::FRAME_MIN, FRAME_MAX);
            let rest = size - super::frame::FRAME_MIN;
            if filler.len() < rest {
                filler = vec![0; rest].into();
            }
            answers.extend([head(size, size, frame.number), filler.slice(..rest)]);
        }
        if held.is_empty() {
            // So that an idle connection holds no memory.
            held = BytesMut::new();
        }
        if !answers.is_empty() {
            stream.send(answers).await?;
        }
        budget.turn().await;
    }
    Ok(())
}
