//! A proxy in front of a server whose links break as a test says: cut, stalled, half closed, answers lost.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A running proxy; its links end when it is dropped.
pub struct FaultyLinks {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    upstream: SocketAddr,
    links: Vec<Link>,
    /// Nothing is passed on meanwhile; links stay.
    stalled: bool,
    /// What the server sends is not passed on meanwhile.
    holding_answers: bool,
    /// New links are closed at once.
    refusing: bool,
    /// So many pieces from the server are still to be lost, each with its link.
    answers_to_lose: usize,
    lost: usize,
    stopping: bool,
}

struct Link {
    client: TcpStream,
    server: TcpStream,
}

impl FaultyLinks {
    /// Passes on to `upstream`, from a port that the kernel chooses.
    pub fn to(upstream: SocketAddr) -> FaultyLinks {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let state = State {
            upstream,
            links: Vec::new(),
            stalled: false,
            holding_answers: false,
            refusing: false,
            answers_to_lose: 0,
            lost: 0,
            stopping: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = std::thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        FaultyLinks { address, shared, accepting: Some(accepting) }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// New links go here: a server that was started anew may have another port.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.shared.state().upstream = upstream;
    }

    /// Cuts all links, in both directions.
    pub fn cut(&self) {
        self.shared.cut_all();
    }

    /// While it is on, new links are closed at once. Those that there are stay.
    pub fn refuse(&self, on: bool) {
        self.shared.state().refusing = on;
    }

    /// While it is on, nothing is passed on in either direction, and links stay.
    pub fn stall(&self, on: bool) {
        self.shared.state().stalled = on;
        self.shared.changed.notify_all();
    }

    /// While it is on, requests get through and answers do not, and links stay.
    pub fn hold_answers(&self, on: bool) {
        self.shared.state().holding_answers = on;
        self.shared.changed.notify_all();
    }

    /// The server sees the end of all links' requests; what it answers still gets through.
    pub fn half_close(&self) {
        for link in &self.shared.state().links {
            let _ = link.server.shutdown(Shutdown::Write);
        }
    }

    /// The next `pieces` of bytes that a server sends are lost, each with its link: what was asked has happened, and
    /// nobody hears of it.
    pub fn lose_answers(&self, pieces: usize) {
        self.shared.state().answers_to_lose = pieces;
    }

    /// How many pieces were lost so.
    pub fn lost(&self) -> usize {
        self.shared.state().lost
    }

    /// Links that are open.
    pub fn links(&self) -> usize {
        self.shared.state().links.len()
    }
}

impl Drop for FaultyLinks {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.cut_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut_all(&self) {
        for link in self.state().links.drain(..) {
            let _ = link.client.shutdown(Shutdown::Both);
            let _ = link.server.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// Waits while links are stalled.
    fn pass(&self) -> MutexGuard<'_, State> {
        let waiting = self.changed.wait_while(self.state(), |state| state.stalled && !state.stopping);
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this piece from the server is to be lost.
    fn loses(&self) -> bool {
        let holds = |state: &mut State| (state.stalled || state.holding_answers) && !state.stopping;
        let waiting = self.changed.wait_while(self.state(), holds);
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        if state.answers_to_lose == 0 {
            return false;
        }
        state.answers_to_lose -= 1;
        state.lost += 1;
        true
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        let (upstream, refusing) = {
            let state = shared.state();
            if state.stopping {
                return;
            }
            (state.upstream, state.refusing)
        };
        if refusing {
            continue;
        }
        let Ok(server) = TcpStream::connect(upstream) else { continue };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let copy = |stream: &TcpStream| stream.try_clone().expect("a second handle of a socket");
        let (from_client, to_server) = (copy(&client), copy(&server));
        let (from_server, to_client) = (copy(&server), copy(&client));
        shared.state().links.push(Link { client, server });
        std::thread::spawn({
            let shared = shared.clone();
            move || pump(from_client, to_server, || drop(shared.pass()))
        });
        std::thread::spawn({
            let shared = shared.clone();
            move || answers(from_server, to_client, &shared)
        });
    }
}

/// Passes bytes on until either side ends; then the other's half is closed, too.
fn pump(mut from: TcpStream, mut to: TcpStream, before: impl Fn()) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        before();
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn answers(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if shared.loses() || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    let closed = from.local_addr().ok();
    shared.state().links.retain(|link| link.server.local_addr().ok() != closed);
}
