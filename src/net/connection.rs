//! The life of a connection: one task of the shard that accepted it reads frames, starts requests in the
//! order that [`Pipeline`] allows, and sends what is ready in request order, all of it at once.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use ringgate_group::ConnectionId;
use ringgate_group::pipeline::{Pipeline, RequestId, RequestKind};
use ringgate_group::route::ShardId;
use ringgate_runtime::{Budget, BufferPool, TcpStream};
use ringgate_shards::ShardHandle;
use ringgate_shards::timers::Sleep;
use ringgate_shards::waiters::Waiter;
use ringgate_wire::frame::{FrameError, FrameReader, RequestHeader};

use super::advertise::Advertised;
use super::budget::{InFlightBytes, Unfinished};
use super::limit_hits::{Limit, LimitHits};
use super::request_stats::{Asked, RequestStats};
use crate::api::fetch_sessions::{self, FetchSessions};
use crate::api::{ApiSettings, Outcome, RequestContext, Serving, dispatch, heartbeat_seen};
use crate::limits::FAREWELL;

/// Who is on the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Nobody has said who they are.
    Anonymous,
}

/// Which door a client came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The port that all shards share: answers for the whole gateway.
    Bootstrap,
    /// A shard's own port: ListGroups and DescribeProducers answer with what this shard owns.
    Shard(ShardId),
}

/// A connection as its requests see it.
pub struct Connection {
    /// Unique in this process.
    pub id: ConnectionId,
    /// Where it lives.
    pub shard: ShardHandle,
    /// What its listener tells clients.
    pub advertised: Rc<Advertised>,
    /// Which door it came in by.
    pub door: Door,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address that it reached.
    pub local: SocketAddr,
    /// Who it is.
    pub principal: Principal,
    /// What every handler may need of the configuration.
    pub settings: Rc<ApiSettings>,
    /// The fetch sessions of this shard.
    pub fetch_sessions: Rc<RefCell<FetchSessions>>,
    /// The coordinators that this connection has parked something with, as a set of shards.
    pub parked_at: RefCell<Vec<ShardId>>,
    /// Bytes of answers of all the shard's connections that have not gone out.
    pub unsent: Rc<Cell<usize>>,
    /// Limits that the shard's connections have met.
    pub limit_hits: Rc<LimitHits>,
    /// What becomes of their requests.
    pub requests: Rc<RequestStats>,
    /// The partition that the last Fetch without a session had no bytes left for: the next begins with it.
    pub passed_over: RefCell<Option<fetch_sessions::Key>>,
}

impl Connection {
    /// Remembers that the connection may have something parked with this owner.
    pub fn parks_at(&self, owner: ShardId) {
        let mut parked_at = self.parked_at.borrow_mut();
        if !parked_at.contains(&owner) {
            parked_at.push(owner);
        }
    }
}

/// Bounds on a connection.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// The largest frame that is read.
    pub max_frame_size: usize,
    /// Requests read ahead.
    pub max_requests_in_flight: usize,
    /// A connection without a request for this long is closed.
    pub idle_timeout: Duration,
    /// A frame must be complete this long after its first byte.
    pub frame_timeout: Duration,
    /// A send must make do within this.
    pub send_timeout: Duration,
    /// The same while the gateway stops: short enough that a client which does not read leaves time for
    /// what a stop has to put on disk.
    pub send_timeout_at_stop: Duration,
}

/// A request that has started.
struct Running {
    id: RequestId,
    asked: Asked,
    serving: Serving,
}

impl Future for Running {
    type Output = (RequestId, Asked, Outcome);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.serving.as_mut().poll(cx).map(|outcome| (self.id, self.asked, outcome))
    }
}

/// What goes out at a request's turn.
struct Answer {
    segments: Vec<Bytes>,
    asked: Asked,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The client closed it.
    Closed,
    /// The gateway stops.
    Stopping,
    /// The client broke a rule, or the gateway cannot go on; for the log.
    Refused(String),
    /// The client met the limit of this name; for the log and the metric.
    Limit(Limit, String),
}

/// What all connections of a shard share.
pub struct Shared {
    /// Their bounds.
    pub limits: ConnectionLimits,
    /// Where reads come from.
    pub pool: BufferPool,
    /// Bytes of requests that are not answered or have not come whole, of all connections of the shard.
    pub in_flight: Rc<InFlightBytes>,
    /// Connections that a panic ended.
    pub panics: Cell<u64>,
    /// What becomes of their requests.
    pub requests: Rc<RequestStats>,
}

/// What is known of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// It may send more.
    Open,
    /// It has closed behind bytes that are still to be read.
    Closing,
    /// Everything that it sent has been read.
    Closed,
}

struct Driver<'a> {
    connection: &'a Rc<Connection>,
    stream: &'a TcpStream,
    shared: &'a Shared,
    frames: FrameReader,
    pipeline: Pipeline<Answer>,
    /// Requests that were read and have not started, by id.
    waiting: Vec<(RequestId, Asked, RequestContext, Bytes)>,
    running: FuturesUnordered<Running>,
    held: Vec<(RequestId, usize, Rc<Cell<bool>>)>,
    /// Bytes of answers that have not gone out.
    unsent: usize,
    /// Those of them that wait for something that may take long.
    parked: Vec<RequestId>,
    peer: Peer,
    /// No complete frame is left in `frames`.
    all_read: bool,
    last_request: Instant,
    frame_began: Option<Instant>,
    /// The same frame, among those of the shard.
    unfinished: Unfinished,
    /// Why the connection closes at some request's turn.
    closing: Option<End>,
    /// The limit for which nothing is read at present.
    paused_at: Option<Limit>,
    /// The gateway stops; another shard's mailbox has room; the shard's bytes in flight have.
    wakers: [Waiter; 3],
}

/// Serves a connection to its end. An async function keeps what it is given by value twice, so nothing is.
pub async fn serve(connection: &Rc<Connection>, stream: &TcpStream, shared: &Shared) -> End {
    let end = {
        let mut driver = Driver {
            connection,
            stream,
            shared,
            frames: FrameReader::new(shared.limits.max_frame_size),
            pipeline: Pipeline::new(shared.limits.max_requests_in_flight),
            waiting: Vec::new(),
            running: FuturesUnordered::new(),
            held: Vec::new(),
            unsent: 0,
            parked: Vec::new(),
            peer: Peer::Open,
            all_read: true,
            last_request: Instant::now(),
            frame_began: None,
            unfinished: Unfinished::default(),
            closing: None,
            paused_at: None,
            wakers: [
                connection.shard.stop().waiter(),
                connection.shard.room().waiter(),
                shared.in_flight.waiting().waiter(),
            ],
        };
        panics_end_it(pin!(driver.run()), shared).await
    };
    let parked_at = connection.parked_at.take();
    connection.shard.connection_closed(connection.id, parked_at.into_iter());
    if matches!(end, End::Stopping) {
        farewell(&connection.shard, stream, &shared.pool).await;
    }
    end
}

/// What a client sent must not take down the others: a panic ends its own connection. State that others share is
/// changed on the owner's side, where a panic ends the process.
pub(crate) async fn panics_end_it(mut run: Pin<&mut impl Future<Output = End>>, shared: &Shared) -> End {
    std::future::poll_fn(|cx| match std::panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(_) => {
            shared.panics.set(shared.panics.get() + 1);
            Poll::Ready(End::Refused("a panic in connection code".into()))
        }
    })
    .await
}

/// Ends a connection so that the answers that were sent arrive: to close over requests that were not read
/// would reset it and take them away. The client is given a moment to read them and close.
pub(crate) async fn farewell(shard: &ShardHandle, stream: &TcpStream, pool: &BufferPool) {
    if stream.shutdown(std::net::Shutdown::Write).is_err() {
        return;
    }
    let mut drained = pin!(async { while let Ok(Some(_)) = stream.recv(pool).await {} });
    let mut moment = Sleep::new(shard, FAREWELL);
    std::future::poll_fn(|cx| {
        if drained.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        Pin::new(&mut moment).poll(cx)
    })
    .await;
}

/// Sends, but does not wait for ever for a client that does not read; at a stop even less. While it waits nothing is
/// read, so nobody waits for the frame that has begun.
pub(crate) async fn send(
    stream: &TcpStream,
    shard: &ShardHandle,
    shared: &Shared,
    stop: &Waiter,
    unfinished: &mut Unfinished,
    out: Vec<Bytes>,
) -> Result<(), End> {
    let limits = &shared.limits;
    let mut sending = pin!(stream.send(out));
    let first = std::future::poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
    let sent = match first {
        Poll::Ready(sent) => sent,
        Poll::Pending => {
            shared.in_flight.step_aside(unfinished);
            let mut deadline = Sleep::new(shard, limits.send_timeout);
            let mut deadline_at_stop = None;
            let sent = std::future::poll_fn(|cx| {
                if let Poll::Ready(sent) = sending.as_mut().poll(cx) {
                    return Poll::Ready(sent);
                }
                let late = || Err(std::io::ErrorKind::TimedOut.into());
                if shard.is_stopping() {
                    let sleep = deadline_at_stop.get_or_insert_with(|| Sleep::new(shard, limits.send_timeout_at_stop));
                    if Pin::new(sleep).poll(cx).is_ready() {
                        return Poll::Ready(late());
                    }
                } else {
                    stop.register(cx);
                }
                Pin::new(&mut deadline).poll(cx).map(|()| late())
            })
            .await;
            shared.in_flight.stand_in_line(unfinished);
            sent
        }
    };
    sent.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => End::Limit(Limit::SendTimeout, "the client does not read its responses".into()),
        _ => End::Closed,
    })
}

/// What woke the loop.
enum Woken {
    Read(std::io::Result<Option<bytes::BytesMut>>),
    Finished(RequestId, Asked, Outcome),
    Parked,
    Room,
    Gone,
    Watchdog,
    Stopping,
}

impl Driver<'_> {
    async fn run(&mut self) -> End {
        let shard = self.connection.shard.clone();
        let mut watchdog = Sleep::new(&shard, self.watchdog_period());
        let mut out: Vec<Bytes> = Vec::new();
        let mut budget = Budget::new();
        loop {
            let more = match self.advance(&mut out, &mut budget) {
                Ok(more) => more,
                Err(end) => return end,
            };
            if !out.is_empty() {
                let bytes: usize = out.iter().map(Bytes::len).sum();
                let [stop, ..] = &self.wakers;
                self.shared.requests.left();
                let out = std::mem::take(&mut out);
                let sent = send(self.stream, &shard, self.shared, stop, &mut self.unfinished, out).await;
                if let Err(end) = sent {
                    return end;
                }
                self.uncount_unsent(bytes);
            }
            if self.pipeline.should_close() {
                return self.closing.take().unwrap_or(End::Closed);
            }
            if shard.is_stopping() && self.running.is_empty() {
                return End::Stopping;
            }
            if self.is_over(more) {
                return End::Closed;
            }
            budget.turn().await;
            if more {
                continue;
            }
            let (woken, slept) = self.wait(&mut watchdog).await;
            if slept {
                budget.renew();
            }
            match woken {
                Woken::Read(Ok(Some(bytes))) => {
                    budget.spend(bytes.len());
                    self.frames.push(bytes);
                }
                Woken::Read(Ok(None)) => self.peer = Peer::Closed,
                Woken::Gone => self.peer = Peer::Closing,
                Woken::Read(Err(error)) => {
                    return match error.kind() {
                        std::io::ErrorKind::ConnectionReset => End::Closed,
                        _ => End::Refused(format!("cannot read: {error}")),
                    };
                }
                Woken::Finished(id, asked, outcome) => self.finish(id, asked, outcome),
                Woken::Watchdog => {
                    if let Some(end) = self.overdue() {
                        return end;
                    }
                    self.give_back();
                    watchdog = Sleep::new(&shard, self.watchdog_period());
                }
                // The loop looks for itself.
                Woken::Parked | Woken::Room | Woken::Stopping => {}
            }
        }
    }

    /// Whether the peer has gone and nothing is left to start for it. What it sent before it went is carried
    /// out, so that a Produce with acks=0 is not lost with its sender; but nothing is waited for that may
    /// take long, and what waits is withdrawn.
    fn is_over(&self, more: bool) -> bool {
        match self.peer {
            Peer::Open => false,
            Peer::Closing => !self.parked.is_empty(),
            Peer::Closed => !self.parked.is_empty() || !more && self.all_read && self.waiting.is_empty(),
        }
    }

    /// Reads and starts what may be, and gathers what is ready to go out. `true` when complete frames
    /// are left that may be read now.
    fn advance(&mut self, out: &mut Vec<Bytes>, budget: &mut Budget) -> Result<bool, End> {
        self.shared.requests.none_leaving();
        loop {
            let more = self.read_frames()?;
            self.all_read = !more;
            self.shared.in_flight.set_unfinished(&mut self.unfinished, self.frames.held());
            self.start_what_may()?;
            while let Some(id) = self.pipeline.poll_heartbeat_seen() {
                if let Some((.., context, body)) = self.waiting.iter().find(|(waiting, ..)| *waiting == id) {
                    heartbeat_seen(context, body);
                }
            }
            while let Some(response) = self.pipeline.poll_ready() {
                budget.spend(response.segments.iter().map(Bytes::len).sum());
                self.shared.requests.leaving(response.asked);
                out.extend(response.segments);
            }
            let stopping = self.connection.shard.is_stopping();
            let more = more && !stopping && self.pipeline.may_read() && self.shared.in_flight.has_room();
            if !more || budget.is_spent() {
                return Ok(more);
            }
        }
    }

    /// Waits for the next thing to do; the flag says whether that took any waiting.
    async fn wait(&mut self, watchdog: &mut Sleep) -> (Woken, bool) {
        self.note_pause();
        if !self.pipeline.may_read() {
            self.shared.in_flight.step_aside(&mut self.unfinished);
        }
        let shard = &self.connection.shard;
        let stopping_already = shard.is_stopping();
        let reading = self.peer != Peer::Closed
            && !stopping_already
            && self.pipeline.may_read()
            && !shard.is_backlogged()
            && self.shared.in_flight.may_read(&self.unfinished);
        let mut read = pin!(self.stream.recv(&self.shared.pool));
        let mut gone = pin!(self.stream.closed_by_peer());
        let (in_flight, unfinished, all_read) = (&self.shared.in_flight, &self.unfinished, self.all_read);
        // What is here may be taken up, or more may be read.
        let has_room = || {
            let has_room = in_flight.may_read(unfinished) || !all_read && in_flight.has_room();
            has_room && !shard.is_backlogged()
        };
        let (running, held, peer) = (&mut self.running, &self.held, self.peer);
        let wants_room = !stopping_already && self.pipeline.may_read() && !(peer == Peer::Closed && self.all_read);
        let mut slept = false;
        let woken = std::future::poll_fn(|cx: &mut Context<'_>| {
            if let Poll::Ready(Some((id, asked, outcome))) = running.poll_next_unpin(cx) {
                return Poll::Ready(Woken::Finished(id, asked, outcome));
            }
            // A Fetch began to wait: what was read behind it may start now.
            if held.iter().any(|(.., parked)| parked.get()) {
                return Poll::Ready(Woken::Parked);
            }
            if reading {
                // Others may have used the room meanwhile: then this one waits for room as they do.
                if !in_flight.may_read(unfinished) {
                    return Poll::Ready(Woken::Room);
                }
                if let Poll::Ready(read) = read.as_mut().poll(cx) {
                    return Poll::Ready(Woken::Read(read));
                }
            } else {
                if peer == Peer::Open && gone.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Woken::Gone);
                }
                if wants_room && has_room() {
                    return Poll::Ready(Woken::Room);
                }
            }
            if Pin::new(&mut *watchdog).poll(cx).is_ready() {
                return Poll::Ready(Woken::Watchdog);
            }
            // Also when the stop came between the loop's own look and this one, and nothing is left that would wake it.
            if shard.is_stopping() && (!stopping_already || running.is_empty()) {
                return Poll::Ready(Woken::Stopping);
            }
            let [stop, room, in_flight] = &self.wakers;
            stop.register(cx);
            if !reading {
                room.register(cx);
                in_flight.register(cx);
            }
            slept = true;
            Poll::Pending
        })
        .await;
        (woken, slept)
    }

    /// Counts a limit for which nothing is read from now on.
    fn note_pause(&mut self) {
        let shard = &self.connection.shard;
        let paused_at = match () {
            () if self.peer == Peer::Closed || shard.is_stopping() => None,
            () if self.pipeline.in_flight() >= self.shared.limits.max_requests_in_flight => {
                Some(Limit::MaxRequestsInFlight)
            }
            () if !self.shared.in_flight.may_read(&self.unfinished) => Some(Limit::MaxInFlightBytes),
            () if shard.is_backlogged() => Some(Limit::MailboxCapacity),
            () => None,
        };
        if let Some(limit) = paused_at
            && self.paused_at != paused_at
        {
            self.connection.limit_hits.count(limit);
        }
        self.paused_at = paused_at;
    }

    /// Reads frames until none is complete or no more may be read; `true` in the latter case.
    fn read_frames(&mut self) -> Result<bool, End> {
        while self.pipeline.may_read() && self.shared.in_flight.has_room() && !self.connection.shard.is_stopping() {
            match self.frames.next() {
                Ok(Some(frame)) => {
                    self.frame_began = None;
                    self.shared.in_flight.set_unfinished(&mut self.unfinished, 0);
                    self.last_request = Instant::now();
                    self.read_request(frame)?;
                }
                Ok(None) => {
                    if self.frames.is_partial() {
                        self.frame_began.get_or_insert_with(Instant::now);
                    }
                    return Ok(false);
                }
                Err(error @ FrameError::TooLarge { .. }) => {
                    return Err(End::Limit(Limit::MaxFrameSize, error.to_string()));
                }
                Err(error) => return Err(End::Refused(error.to_string())),
            }
        }
        Ok(true)
    }

    fn read_request(&mut self, frame: Bytes) -> Result<(), End> {
        let size = frame.len();
        let header = RequestHeader::decode(frame).map_err(|error| End::Refused(error.to_string()))?;
        let asked = self.shared.requests.read(header.api_key, self.last_request);
        let kind = kind(header.api_key);
        let id = self.pipeline.read(kind, size);
        self.shared.in_flight.add(size);
        let parked = Rc::new(Cell::new(false));
        self.held.push((id, size, parked.clone()));
        let context = RequestContext {
            connection: self.connection.clone(),
            api_key: header.api_key,
            api_version: header.api_version,
            correlation_id: header.correlation_id,
            client_id: header.client_id,
            parked,
        };
        self.waiting.push((id, asked, context, header.body));
        Ok(())
    }

    /// Starts requests and polls each once, in order: what a handler submits before its first wait enters
    /// the owners in request order.
    fn start_what_may(&mut self) -> Result<(), End> {
        loop {
            self.note_parked();
            let Some(id) = self.pipeline.poll_start() else { return Ok(()) };
            let Some(at) = self.waiting.iter().position(|(waiting, ..)| *waiting == id) else {
                return Err(End::Refused("a request started twice".into()));
            };
            let (_, asked, context, body) = self.waiting.remove(at);
            let parks = matches!(kind(context.api_key), RequestKind::JoinOrSync);
            let mut serving = dispatch(context, body);
            match serving.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
                Poll::Ready(outcome) => self.finish(id, asked, outcome),
                Poll::Pending => {
                    if parks {
                        self.pipeline.handle_waiting(id);
                        self.release(id);
                        self.parked.push(id);
                    }
                    self.running.push(Running { id, asked, serving });
                }
            }
        }
    }

    /// Tells the pipeline of Fetches that began to wait.
    fn note_parked(&mut self) {
        let mut at = 0;
        while at < self.held.len() {
            if self.held[at].2.get() {
                let (id, size, _) = self.held.swap_remove(at);
                self.shared.in_flight.remove(size);
                self.pipeline.handle_waiting(id);
                self.parked.push(id);
            } else {
                at += 1;
            }
        }
    }

    fn finish(&mut self, id: RequestId, asked: Asked, outcome: Outcome) {
        self.release(id);
        self.parked.retain(|parked| *parked != id);
        match outcome {
            Outcome::Respond(segments) => {
                self.count_unsent(segments.iter().map(Bytes::len).sum());
                self.pipeline.handle_answered(id, Some(Answer { segments, asked }));
            }
            Outcome::Silent => {
                self.shared.requests.done(asked);
                self.pipeline.handle_answered(id, None);
            }
            // What was read before is still answered.
            Outcome::Close(reason) => {
                self.shared.requests.closed(asked);
                self.pipeline.handle_closing(id);
                self.closing.get_or_insert(End::Refused(reason));
            }
            Outcome::CloseAtLimit(limit, reason) => {
                self.shared.requests.closed(asked);
                self.pipeline.handle_closing(id);
                self.closing.get_or_insert(End::Limit(limit, reason));
            }
        }
    }

    /// An answer waits to be sent.
    fn count_unsent(&mut self, bytes: usize) {
        self.unsent += bytes;
        self.connection.unsent.set(self.connection.unsent.get() + bytes);
    }

    /// An answer was sent, or never will be.
    fn uncount_unsent(&mut self, bytes: usize) {
        self.unsent -= bytes;
        self.connection.unsent.set(self.connection.unsent.get() - bytes);
    }

    /// The request's bytes no longer count: it is answered, or it waits and holds only what its owner
    /// keeps of it.
    fn release(&mut self, id: RequestId) {
        if let Some(at) = self.held.iter().position(|(held, ..)| *held == id) {
            let (_, size, _) = self.held.swap_remove(at);
            self.shared.in_flight.remove(size);
        }
    }

    fn watchdog_period(&self) -> Duration {
        self.shared.limits.frame_timeout.min(self.shared.limits.idle_timeout)
    }

    /// Gives back what a burst of requests has left behind: with every look of the watchdog, which costs a connection
    /// that is busy as good as nothing and leaves one that is not with what it needs.
    fn give_back(&mut self) {
        self.pipeline.shrink_to_fit();
        self.waiting.shrink_to_fit();
        self.held.shrink_to_fit();
        self.parked.shrink_to_fit();
        self.connection.parked_at.borrow_mut().shrink_to_fit();
    }

    /// What the client has been waited for too long, if anything. Looked at every
    /// [`Driver::watchdog_period`], so a deadline is met within one period.
    fn overdue(&self) -> Option<End> {
        let limits = &self.shared.limits;
        if self.frame_began.is_some_and(|began| began.elapsed() >= limits.frame_timeout) {
            let reason = format!("a frame was not complete after {:?}", limits.frame_timeout);
            return Some(End::Limit(Limit::FrameTimeout, reason));
        }
        let busy = !self.running.is_empty() || !self.waiting.is_empty();
        if !busy && self.frame_began.is_none() && self.last_request.elapsed() >= limits.idle_timeout {
            return Some(End::Limit(Limit::IdleTimeout, format!("no request for {:?}", limits.idle_timeout)));
        }
        None
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        for (_, size, _) in self.held.drain(..) {
            self.shared.in_flight.remove(size);
        }
        self.shared.in_flight.set_unfinished(&mut self.unfinished, 0);
        self.uncount_unsent(self.unsent);
    }
}

fn kind(api_key: i16) -> RequestKind {
    match api_key {
        0 => RequestKind::Produce,
        // Clients keep to one session on a connection, so all its Fetches wait for each other.
        1 => RequestKind::Fetch { session: Some(0) },
        11 | 14 => RequestKind::JoinOrSync,
        12 => RequestKind::Heartbeat,
        17 | 36 => RequestKind::Sasl,
        _ => RequestKind::Other,
    }
}
