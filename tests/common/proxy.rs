//! A proxy that loses answers: it stands at an address of its own on the gateway's ports, and cuts a
//! connection with the responses that are under way, after the requests were delivered.
//!
//! The gateway has to advertise the proxy's address, so that all clients stay behind it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A running proxy; it ends when it is dropped.
pub struct Proxy {
    address: Ipv4Addr,
    state: Arc<State>,
    ports: Vec<u16>,
    accepting: Vec<JoinHandle<()>>,
    _lease: TcpListener,
}

struct State {
    stopping: AtomicBool,
    /// Answers that are let through before one is lost; 0: none is lost.
    lose_every: AtomicU64,
    /// Answers seen while some are to be lost.
    answers: AtomicU64,
    lost: AtomicU64,
}

impl Proxy {
    /// Takes an address that no gateway has. Nothing is accepted yet.
    pub fn reserve() -> Proxy {
        let (address, lease) = super::gateway::lease_address();
        let state = State {
            stopping: AtomicBool::new(false),
            lose_every: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        };
        Proxy { address, state: Arc::new(state), ports: Vec::new(), accepting: Vec::new(), _lease: lease }
    }

    /// What the gateway is told to advertise.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Passes on to `gateway`, at each of these ports.
    pub fn serve(&mut self, gateway: std::net::IpAddr, ports: &[u16]) {
        for &port in ports {
            let listener = TcpListener::bind((self.address, port)).expect("the proxy's port");
            let (state, upstream) = (self.state.clone(), SocketAddr::new(gateway, port));
            self.accepting.push(std::thread::spawn(move || accept(&listener, upstream, &state)));
        }
        self.ports.extend(ports);
    }

    /// From now on one Produce answer in `every` is lost, its connection with it.
    pub fn lose_one_answer_in(&self, every: u64) {
        self.state.lose_every.store(every, Ordering::Relaxed);
    }

    /// How many answers were lost.
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Relaxed);
        for port in &self.ports {
            // Wakes the thread that accepts.
            let _ = TcpStream::connect((self.address, *port));
        }
        for thread in self.accepting.drain(..) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, upstream: SocketAddr, state: &Arc<State>) {
    let mut connections = Vec::new();
    while let Ok((client, _)) = listener.accept() {
        if state.stopping.load(Ordering::Relaxed) {
            break;
        }
        let Ok(server) = TcpStream::connect(upstream) else { continue };
        let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { continue };
        // Only a connection that produces loses answers: it has been seen to send a Produce.
        let produces = Arc::new(AtomicBool::new(false));
        let (state, seen) = (state.clone(), produces.clone());
        connections.push((client.try_clone(), server.try_clone()));
        std::thread::spawn(move || {
            pass(from_client, to_server, |frame| {
                seen.fetch_or(frame.starts_with(&[0, 0]), Ordering::Relaxed);
                true
            })
        });
        std::thread::spawn(move || {
            pass(server, client, |_| {
                let every = state.lose_every.load(Ordering::Relaxed);
                if every == 0 || !produces.load(Ordering::Relaxed) {
                    return true;
                }
                let loses = state.answers.fetch_add(1, Ordering::Relaxed) % every == every - 1;
                state.lost.fetch_add(u64::from(loses), Ordering::Relaxed);
                !loses
            })
        });
    }
    for (client, server) in connections {
        for stream in [client, server].into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Passes whole frames on until one side closes or `lets_through` says no; then both sides are closed.
fn pass(mut from: TcpStream, mut to: TcpStream, mut lets_through: impl FnMut(&[u8]) -> bool) {
    let mut length = [0; 4];
    let mut frame = Vec::new();
    while from.read_exact(&mut length).is_ok() {
        frame.resize(u32::from_be_bytes(length) as usize, 0);
        if from.read_exact(&mut frame).is_err() || !lets_through(&frame) {
            break;
        }
        if to.write_all(&length).and_then(|()| to.write_all(&frame)).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
