//! A proxy of Iggy's protocol that loses what it is told to: links, or one reply together with its link, after the
//! server has carried the request out.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use iggy_binary_protocol::{HEADER_SIZE, Operation, SIZE_FIELD_OFFSET};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

/// Where a request's operation lies in its header, and a reply's in its own.
const REQUEST_OPERATION: usize = 176;
const REPLY_OPERATION: usize = 208;

/// A running proxy; it ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    cut: broadcast::Sender<()>,
    /// The operation whose next reply is lost.
    loses: Mutex<Option<u8>>,
    /// Operations of the requests that were passed on.
    passed: Mutex<Vec<u8>>,
}

impl Proxy {
    pub async fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (cut, _) = broadcast::channel(1);
        let state = Arc::new(State { cut, loses: Mutex::default(), passed: Mutex::default() });
        let accepting = tokio::spawn(accept(listener, server, state.clone()));
        Proxy { address, state, accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all links.
    pub fn cut(&self) {
        let _ = self.state.cut.send(());
    }

    /// The next reply to this operation is lost, and its link with it.
    pub fn lose_the_next_reply_to(&self, operation: Operation) {
        *self.state.loses.lock().expect("state") = Some(operation as u8);
    }

    /// How many requests of this operation were passed on.
    pub fn passed(&self, operation: Operation) -> usize {
        self.state.passed.lock().expect("state").iter().filter(|passed| **passed == operation as u8).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, state: Arc<State>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(server).await else { continue };
        let mut cut = state.cut.subscribe();
        let state = state.clone();
        tokio::spawn(async move {
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = pass(from_client, to_server, |head| {
                    state.passed.lock().expect("state").push(head[REQUEST_OPERATION]);
                    true
                }) => {}
                () = pass(from_server, to_client, |head| {
                    let mut loses = state.loses.lock().expect("state");
                    if *loses != Some(head[REPLY_OPERATION]) {
                        return true;
                    }
                    *loses = None;
                    false
                }) => {}
                _ = cut.recv() => {}
            }
        });
    }
}

/// Passes whole frames on until one side closes or `lets_through` says no.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut lets_through: impl FnMut(&[u8]) -> bool) {
    let mut frame = vec![0; HEADER_SIZE];
    while from.read_exact(&mut frame[..HEADER_SIZE]).await.is_ok() {
        let size = frame[SIZE_FIELD_OFFSET..SIZE_FIELD_OFFSET + 4].try_into().expect("4 bytes");
        frame.resize(u32::from_le_bytes(size) as usize, 0);
        if from.read_exact(&mut frame[HEADER_SIZE..]).await.is_err() || !lets_through(&frame) {
            return;
        }
        if to.write_all(&frame).await.is_err() {
            return;
        }
        frame.resize(HEADER_SIZE, 0);
    }
}
