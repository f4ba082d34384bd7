//! One partition of an Iggy server, over TCP: enough of the protocol for the SDK to sign in, send and poll, and
//! what goes wrong is the test's to say.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use iggy_binary_protocol::WireName;
use iggy_binary_protocol::batch::{BatchHeader, decode_batch_slice};
use iggy_binary_protocol::codec::{WireDecode, WireEncode};
use iggy_binary_protocol::codes::*;
use iggy_binary_protocol::requests::messages::DeferredPollMessagesRequest;
use iggy_binary_protocol::requests::users::LoginRegisterRequest;
use iggy_binary_protocol::responses::messages::{SendMessagesConfirmationResponse, SendMessagesResponse};
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::version::{IGGY_PROTOCOL_VERSION, pack_protocol_version};
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The password of everybody.
pub const PASSWORD: &str = "secret of the tests";

const HEADER: usize = 256;
const REPLY: u8 = 8;
const EVICTION: u8 = 13;
const REGISTER: u8 = 1;
const NON_REPLICATED: u8 = 2;
const SEND: u8 = 160;
const INVALID_CREDENTIALS: u8 = 9;
const INCOMPATIBLE_PROTOCOL: u8 = 14;

/// What happens to a send.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Refused with this code.
    Status(u32),
    /// The link ends and nothing was written.
    Close,
    /// It is written, and the link ends.
    WriteAndClose,
    /// It is written, and nobody says so.
    WriteAndSaySilent,
}

#[derive(Default)]
struct State {
    faults: VecDeque<Fault>,
    /// Header and frames of what was written.
    batches: Vec<(BatchHeader, Vec<u8>)>,
    messages: u64,
    /// Producer id, first sequence and where it lies.
    sequences: HashMap<(u64, u32), u64>,
    /// The answer to each request that was carried out, by client and request.
    answered: HashMap<(u128, u64), Vec<u8>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    written: Notify,
    cut: Notify,
    sends: AtomicUsize,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
    sessions: AtomicU64,
    links: AtomicUsize,
    old: AtomicBool,
    password: Mutex<Option<String>>,
}

/// The server; it ends with this.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub fn start() -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shared = Arc::new(Shared::default());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = shared.clone();
        runtime.spawn(async move {
            while let Ok((link, _)) = listener.accept().await {
                serving.links.fetch_add(1, Ordering::Relaxed);
                let shared = serving.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = serve(link, address, shared.clone()) => {}
                        () = shared.cut.notified() => {}
                    }
                });
            }
        });
        Server { address, shared, _runtime: runtime }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happens to the next sends, in this order; those after them go well.
    pub fn fail_sends(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().faults.extend(faults);
    }

    /// From now on it speaks an older protocol.
    pub fn becomes_old(&self) {
        self.shared.old.store(true, Ordering::Relaxed);
    }

    /// From now on it takes this password.
    pub fn takes_password(&self, password: &str) {
        *self.shared.password.lock().unwrap() = Some(password.into());
    }

    /// Ends every link.
    pub fn cut(&self) {
        self.shared.cut.notify_waiters();
    }

    /// Sends that came, those that failed included.
    pub fn sends(&self) -> usize {
        self.shared.sends.load(Ordering::Relaxed)
    }

    /// Links that were made.
    pub fn links(&self) -> usize {
        self.shared.links.load(Ordering::Relaxed)
    }

    /// The most polls that waited at a time.
    pub fn most_waiting(&self) -> usize {
        self.shared.most_waiting.load(Ordering::Relaxed)
    }

    /// Polls that wait now.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// The messages that are there.
    pub fn messages(&self) -> u64 {
        self.state().messages
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }
}

/// What a request says.
#[derive(Clone)]
struct Asked {
    client: u128,
    checksum: u128,
    request: u64,
    operation: u8,
    session: u64,
    code: u32,
    incarnation: u64,
    body: Vec<u8>,
}

enum Answer {
    /// Of a read.
    Read(Vec<u8>),
    /// Of something that was carried out.
    Done(u64, Vec<u8>),
    Status(u32),
    Evicted(u8),
    Close,
    Silent,
}

async fn serve(link: TcpStream, address: SocketAddr, shared: Arc<Shared>) {
    link.set_nodelay(true).unwrap();
    let (mut from, to) = link.into_split();
    let to = Arc::new(tokio::sync::Mutex::new(to));
    let closed = Arc::new(Notify::new());
    loop {
        let asked = tokio::select! {
            asked = read(&mut from) => asked,
            () = closed.notified() => return,
        };
        let Some(asked) = asked else { return };
        let (to, shared, closed) = (to.clone(), shared.clone(), closed.clone());
        tokio::spawn(async move {
            match answer(&shared, address, &asked).await {
                Answer::Close => closed.notify_one(),
                answer => write(&to, &asked, answer).await,
            }
        });
    }
}

async fn read(from: &mut (impl AsyncReadExt + Unpin)) -> Option<Asked> {
    let mut head = [0; HEADER];
    from.read_exact(&mut head).await.ok()?;
    let mut body = vec![0; u32_at(&head, 48) as usize - HEADER];
    from.read_exact(&mut body).await.ok()?;
    Some(Asked {
        client: u128_at(&head, 128),
        checksum: u128_at(&head, 144),
        request: u64_at(&head, 168),
        operation: head[176],
        session: u64_at(&head, 184),
        code: u32_at(&head, 196),
        incarnation: u64_at(&head, 200),
        body,
    })
}

async fn write(to: &tokio::sync::Mutex<OwnedWriteHalf>, asked: &Asked, answer: Answer) {
    let mut head = [0; HEADER];
    let (mut op, mut status, mut body) = (0, 0, Vec::new());
    match answer {
        Answer::Read(it) => body = it,
        Answer::Done(at, it) => (op, body) = (at, it),
        Answer::Status(code) => status = code,
        Answer::Evicted(reason) => {
            head[48..52].copy_from_slice(&(HEADER as u32).to_le_bytes());
            head[60] = EVICTION;
            head[128..144].copy_from_slice(&asked.client.to_le_bytes());
            head[255] = reason;
            if reason == INCOMPATIBLE_PROTOCOL {
                let only = pack_protocol_version(0, 11, 0).to_le_bytes();
                head[144..148].copy_from_slice(&only);
                head[148..152].copy_from_slice(&only);
            }
            let _ = to.lock().await.write_all(&head).await;
            return;
        }
        Answer::Close | Answer::Silent => return,
    }
    head[48..52].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
    head[60] = REPLY;
    head[128..144].copy_from_slice(&asked.checksum.to_le_bytes());
    head[160..176].copy_from_slice(&asked.client.to_le_bytes());
    head[176..184].copy_from_slice(&u64::to_le_bytes(op));
    head[184..192].copy_from_slice(&u64::to_le_bytes(op));
    head[200..208].copy_from_slice(&asked.request.to_le_bytes());
    head[208] = asked.operation;
    head[216..220].copy_from_slice(&u32::to_le_bytes(status));
    head[220] = u8::from(op > 0);
    head[224..232].copy_from_slice(&asked.incarnation.to_le_bytes());
    let mut frame = head.to_vec();
    frame.extend_from_slice(&body);
    let _ = to.lock().await.write_all(&frame).await;
}

async fn answer(shared: &Shared, address: SocketAddr, asked: &Asked) -> Answer {
    match (asked.operation, asked.code) {
        (REGISTER, _) => register(shared, asked),
        (NON_REPLICATED, PING_CODE) => Answer::Read(Vec::new()),
        (NON_REPLICATED, BIND_SESSION_CODE) => Answer::Read(signed_in(asked.session)),
        (NON_REPLICATED, GET_CLUSTER_METADATA_CODE) => Answer::Read(cluster(address)),
        (NON_REPLICATED, GET_PARTITION_ROUTE_CODE) => {
            // Incarnation, metadata op, view, partitions, replica.
            let mut route = [1_u64, u64::MAX >> 1].map(u64::to_le_bytes).concat();
            route.extend([0_u32, 1].map(u32::to_le_bytes).concat());
            route.push(0);
            Answer::Read(route)
        }
        (NON_REPLICATED, POLL_MESSAGES_DEFERRED_CODE) => poll(shared, asked).await,
        (SEND, _) => send(shared, asked),
        other => panic!("the tests' server has no answer to {other:?}"),
    }
}

fn register(shared: &Shared, asked: &Asked) -> Answer {
    if shared.old.load(Ordering::Relaxed) {
        return Answer::Evicted(INCOMPATIBLE_PROTOCOL);
    }
    let request = LoginRegisterRequest::decode_from(&asked.body).expect("a sign-in");
    let password = shared.password.lock().unwrap().clone().unwrap_or_else(|| PASSWORD.into());
    if request.password.expose_secret() != password {
        return Answer::Evicted(INVALID_CREDENTIALS);
    }
    let session = shared.sessions.fetch_add(1, Ordering::Relaxed) + 1;
    let mut body = vec![0; 4];
    body.extend(signed_in(session));
    Answer::Done(session, body)
}

fn signed_in(session: u64) -> Vec<u8> {
    let server_version = WireName::new("tests").unwrap();
    LoginRegisterResponse { user_id: 1, session, server_protocol_version: IGGY_PROTOCOL_VERSION, server_version }
        .to_bytes()
        .to_vec()
}

fn cluster(address: SocketAddr) -> Vec<u8> {
    use iggy_binary_protocol::responses::system::{ClusterMetadataResponse, ClusterNodeResponse};
    let node = ClusterNodeResponse {
        replica_id: 0,
        name: "node".into(),
        ip: "127.0.0.1".into(),
        tcp_port: address.port(),
        quic_port: 0,
        http_port: 0,
        websocket_port: 0,
        role: 0,
        status: 0,
    };
    ClusterMetadataResponse { name: "tests".into(), nodes: vec![node] }.to_bytes().to_vec()
}

fn send(shared: &Shared, asked: &Asked) -> Answer {
    shared.sends.fetch_add(1, Ordering::Relaxed);
    let mut state = shared.state.lock().unwrap();
    let fault = state.faults.pop_front();
    match fault {
        Some(Fault::Status(code)) => return Answer::Status(code),
        Some(Fault::Close) => return Answer::Close,
        _ => {}
    }
    let metadata = u32_at(&asked.body, 0) as usize;
    let written = written(&mut state, asked, &asked.body[4 + metadata..]);
    shared.written.notify_waiters();
    match fault {
        Some(Fault::WriteAndClose) => Answer::Close,
        Some(Fault::WriteAndSaySilent) => Answer::Silent,
        _ => written,
    }
}

fn written(state: &mut State, asked: &Asked, bytes: &[u8]) -> Answer {
    if let Some(body) = state.answered.get(&(asked.client, asked.request)) {
        return Answer::Done(asked.request, body.clone());
    }
    let batch = decode_batch_slice(bytes).expect("a batch");
    let key = batch.header.producer.map(|producer| (producer.producer_id(), producer.base_sequence()));
    let before = key.and_then(|key| state.sequences.get(&key).copied());
    let base_offset = before.unwrap_or(state.messages);
    if before.is_none() {
        let mut header = batch.header;
        header.base_offset = base_offset;
        header.base_timestamp = 1_000_000 * (base_offset + 1);
        state.messages += u64::from(header.message_count);
        state.batches.push((header, batch.blob().to_vec()));
        state.sequences.extend(key.map(|key| (key, base_offset)));
    }
    let confirmation = SendMessagesConfirmationResponse { stream_id: 1, topic_id: 1, partition_id: 0, base_offset };
    let body = SendMessagesResponse { confirmations: vec![confirmation] }.to_bytes().to_vec();
    state.answered.insert((asked.client, asked.request), body.clone());
    Answer::Done(asked.request, body)
}

async fn poll(shared: &Shared, asked: &Asked) -> Answer {
    let request = DeferredPollMessagesRequest::decode_from(&asked.body).expect("a poll");
    assert_eq!(request.poll.strategy.kind, 1, "by offset");
    let from = request.poll.strategy.value;
    let deadline = tokio::time::Instant::now() + Duration::from_micros(request.wait_us);
    let mut waits = false;
    loop {
        let written = shared.written.notified();
        let (there, reply) = read_from(&shared.state.lock().unwrap(), from);
        if there > 0 || tokio::time::Instant::now() >= deadline {
            if waits {
                shared.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            return Answer::Read(reply);
        }
        if !waits {
            waits = true;
            let now = shared.waiting.fetch_add(1, Ordering::Relaxed) + 1;
            shared.most_waiting.fetch_max(now, Ordering::Relaxed);
        }
        let _ = tokio::time::timeout_at(deadline, written).await;
    }
}

/// Whole batches from an offset on.
fn read_from(state: &State, from: u64) -> (u32, Vec<u8>) {
    let mut count = 0;
    let mut batches = Vec::new();
    for (header, frames) in &state.batches {
        if header.base_offset >= from {
            count += header.message_count;
            let at = batches.len();
            batches.resize(at + HEADER, 0);
            header.encode_into(&mut batches[at..]);
            batches.extend_from_slice(frames);
        }
    }
    let mut reply = 0_u32.to_le_bytes().to_vec();
    reply.extend(state.messages.saturating_sub(1).to_le_bytes());
    reply.extend(u32::to_le_bytes(count));
    reply.extend([1_u64, 0, 1].map(u64::to_le_bytes).concat());
    reply.extend(batches);
    (count, reply)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes[at..at + 16].try_into().unwrap())
}
