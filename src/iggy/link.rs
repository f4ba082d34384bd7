//! The life of a link: one task of the shard that accepted it reads requests, carries them out side by side, and
//! sends each answer when it is there, whatever came before.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use ringgate_runtime::{Budget, TcpStream};
use ringgate_shards::ShardHandle;
use ringgate_shards::timers::Sleep;
use ringgate_shards::waiters::{Waiter, Waiters};

use super::Front;
use super::commands;
use super::frames::{Answer, Eviction, FrameError, Request, RequestReader};
use super::limits::{REQUESTS_PER_LINK_MAX, WAITING_PER_LINK_MAX, WAITING_PER_SHARD_MAX};
use super::sessions::{Ended, Identity};
use crate::api::ApiSettings;
use crate::net::accept;
use crate::net::budget::Unfinished;
use crate::net::connection::{End, Shared, farewell, panics_end_it, send};
use crate::net::limit_hits::{Limit, LimitHits};

/// A link as its requests see it.
pub struct Link {
    /// Where it lives.
    pub shard: ShardHandle,
    /// What all links of the shard share.
    pub front: Rc<Front>,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address that it reached.
    pub local: SocketAddr,
    /// Limits that the shard's connections have met.
    pub limit_hits: Rc<LimitHits>,
    /// What every handler may need of the configuration.
    pub settings: Rc<ApiSettings>,
    /// Bytes of answers of all the shard's connections that have not gone out.
    pub unsent: Rc<Cell<usize>>,
    bound: RefCell<Option<(Identity, Ended)>>,
    /// Requests that wait for messages.
    waiting: RefCell<HashSet<u64>>,
    cancelled: Waiters,
}

/// A request that waits for messages, until it is dropped or cancelled.
pub struct Waiting<'a> {
    link: &'a Link,
    request: u64,
}

impl Waiting<'_> {
    /// Whether the client has cancelled it.
    pub fn is_cancelled(&self) -> bool {
        !self.link.waiting.borrow().contains(&self.request)
    }

    /// Waits until the client cancels it.
    pub async fn cancelled(&self) {
        self.link.cancelled.until(|| self.is_cancelled()).await;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.waiting.borrow_mut().remove(&self.request);
        self.link.front.waiting.set(self.link.front.waiting.get() - 1);
    }
}

impl Link {
    /// The session that it belongs to, while there is that session: another link may have ended it.
    pub fn bound(&self) -> Option<Identity> {
        self.bound.borrow().as_ref().filter(|(_, ended)| !ended.is_so()).map(|(identity, _)| *identity)
    }

    /// It belongs to this session from now on, and no more to the one before; the table counts it already.
    pub fn bind(&self, identity: Option<Identity>) {
        let mut sessions = self.front.gateway.sessions();
        let bound = identity.and_then(|identity| Some((identity, sessions.ended(identity.session)?)));
        if let Some((before, _)) = self.bound.replace(bound) {
            sessions.link_closed(before.session, Instant::now());
        }
    }
}

impl Link {
    /// A request begins to wait for messages; `None` when there are as many as there may be.
    pub fn waits(&self, request: u64) -> Option<Waiting<'_>> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= WAITING_PER_LINK_MAX || self.front.waiting.get() >= WAITING_PER_SHARD_MAX {
            self.limit_hits.count(Limit::IggyWaiting);
            return None;
        }
        if !waiting.insert(request) {
            return None;
        }
        self.front.waiting.set(self.front.waiting.get() + 1);
        Some(Waiting { link: self, request })
    }

    /// The client does not wait for this request any more.
    pub fn cancel(&self, request: u64) {
        if self.waiting.borrow_mut().remove(&request) {
            self.cancelled.wake_all();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.bind(None);
    }
}

struct Done {
    bytes: usize,
    frame: Vec<Bytes>,
    evicted: Option<Eviction>,
}

type Running = Pin<Box<dyn Future<Output = Done>>>;

struct Driver<'a> {
    link: &'a Rc<Link>,
    stream: &'a TcpStream,
    shared: &'a Shared,
    unsent_here: &'a Cell<usize>,
    requests: RequestReader,
    running: FuturesUnordered<Running>,
    /// Bytes of requests that are not answered.
    held: usize,
    /// Answers that are ready to go out.
    ready: Vec<Bytes>,
    /// Bytes of answers that have not gone out.
    unsent: usize,
    evicted: Option<Eviction>,
    peer_closed: bool,
    last_request: Instant,
    frame_began: Option<Instant>,
    /// The same frame, among those of the shard.
    unfinished: Unfinished,
    /// No request is here that is complete and not taken up.
    all_read: bool,
    /// The limit for which nothing is read at present.
    paused_at: Option<Limit>,
    /// The gateway stops; another shard's mailbox has room; the shard's bytes in flight have.
    wakers: [Waiter; 3],
}

/// Serves a link to its end.
pub async fn serve(
    iggy: &Rc<Front>,
    front: &Rc<accept::Front>,
    stream: &TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
) -> End {
    let (shard, shared) = (&front.shard, &*front.shared);
    let link = Rc::new(Link {
        shard: shard.clone(),
        front: iggy.clone(),
        peer,
        local,
        limit_hits: front.limit_hits.clone(),
        settings: front.settings.clone(),
        unsent: front.unsent.clone(),
        bound: RefCell::default(),
        waiting: RefCell::default(),
        cancelled: Waiters::default(),
    });
    let end = {
        let mut driver = Driver {
            link: &link,
            stream,
            shared,
            unsent_here: &front.unsent,
            requests: RequestReader::new(shared.limits.max_frame_size),
            running: FuturesUnordered::new(),
            held: 0,
            ready: Vec::new(),
            unsent: 0,
            evicted: None,
            peer_closed: false,
            last_request: Instant::now(),
            frame_began: None,
            unfinished: Unfinished::default(),
            all_read: true,
            paused_at: None,
            wakers: [shard.stop().waiter(), shard.room().waiter(), shared.in_flight.waiting().waiter()],
        };
        panics_end_it(pin!(driver.run()), shared).await
    };
    if matches!(end, End::Stopping) {
        farewell(shard, stream, &shared.pool).await;
    }
    end
}

/// What woke the loop.
enum Woken {
    Read(std::io::Result<Option<bytes::BytesMut>>),
    Done(Done),
    Room,
    Gone,
    Watchdog,
    Stopping,
}

impl Driver<'_> {
    async fn run(&mut self) -> End {
        let shard = self.link.shard.clone();
        let mut watchdog = Sleep::new(&shard, self.watchdog_period());
        let mut budget = Budget::new();
        loop {
            let more = match self.read_requests(&mut budget) {
                Ok(more) => more,
                Err(end) => return end,
            };
            self.shared.in_flight.set_unfinished(&mut self.unfinished, self.requests.held());
            if !self.ready.is_empty() {
                let out = std::mem::take(&mut self.ready);
                let [stop, ..] = &self.wakers;
                let sent = send(self.stream, &shard, self.shared, stop, &mut self.unfinished, out).await;
                if let Err(end) = sent {
                    return end;
                }
                self.count_unsent(0);
            }
            if let Some(evicted) = self.evicted {
                return End::Refused(evicted.reason().into());
            }
            if shard.is_stopping() && self.running.is_empty() {
                return End::Stopping;
            }
            // What changes something is carried out all the same; nobody is left to be told of the rest.
            if self.peer_closed && !more {
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
                Woken::Read(Ok(Some(bytes))) => self.requests.push(bytes),
                Woken::Read(Ok(None)) => self.peer_closed = true,
                Woken::Gone => return End::Closed,
                Woken::Read(Err(error)) => {
                    return match error.kind() {
                        std::io::ErrorKind::ConnectionReset => End::Closed,
                        _ => End::Refused(format!("cannot read: {error}")),
                    };
                }
                Woken::Done(done) => self.finish(done),
                Woken::Watchdog => {
                    if let Some(end) = self.overdue() {
                        return end;
                    }
                    watchdog = Sleep::new(&shard, self.watchdog_period());
                }
                // The loop looks for itself.
                Woken::Room | Woken::Stopping => {}
            }
        }
    }

    fn may_read(&self) -> bool {
        let shard = &self.link.shard;
        self.running.len() < REQUESTS_PER_LINK_MAX
            && self.shared.in_flight.has_room()
            && !shard.is_backlogged()
            && !shard.is_stopping()
            && self.evicted.is_none()
    }

    /// Reads requests and starts them until none is complete or no more may be read. `true` when complete ones may be
    /// left that may be read now.
    fn read_requests(&mut self, budget: &mut Budget) -> Result<bool, End> {
        self.all_read = false;
        while self.may_read() {
            match self.requests.next() {
                Ok(Some(request)) => {
                    self.frame_began = None;
                    self.shared.in_flight.set_unfinished(&mut self.unfinished, 0);
                    self.last_request = Instant::now();
                    self.start(request);
                }
                Ok(None) => {
                    if self.requests.is_partial() {
                        self.frame_began.get_or_insert_with(Instant::now);
                    }
                    self.all_read = true;
                    return Ok(false);
                }
                Err(error @ FrameError::TooLarge { .. }) => {
                    return Err(End::Limit(Limit::MaxFrameSize, error.to_string()));
                }
                Err(error) => return Err(End::Refused(error.to_string())),
            }
            let waits: usize = self.ready.iter().map(Bytes::len).sum();
            budget.spend(waits);
            if budget.is_spent() {
                return Ok(self.may_read());
            }
        }
        Ok(false)
    }

    /// Starts a request and polls it once: what it submits before its first wait enters the owners in the order in
    /// which requests were read.
    fn start(&mut self, request: Request) {
        let bytes = std::mem::size_of_val(&request.header) + request.body.len();
        self.held += bytes;
        self.shared.in_flight.add(bytes);
        let link = self.link.clone();
        let mut running: Running = Box::pin(async move {
            let header = request.header;
            let answer = commands::serve(&link, request).await;
            let evicted = match answer {
                Answer::Evicted(why) => Some(why),
                _ => None,
            };
            Done { bytes, frame: answer.frame(&header), evicted }
        });
        match running.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(done) => self.finish(done),
            Poll::Pending => self.running.push(running),
        }
    }

    fn finish(&mut self, done: Done) {
        self.held -= done.bytes;
        self.shared.in_flight.remove(done.bytes);
        self.ready.extend(done.frame);
        self.evicted = self.evicted.or(done.evicted);
        self.count_unsent(self.ready.iter().map(Bytes::len).sum());
    }

    /// So many bytes of answers have not gone out.
    fn count_unsent(&mut self, bytes: usize) {
        self.unsent_here.set(self.unsent_here.get() - self.unsent + bytes);
        self.unsent = bytes;
    }

    /// Waits for the next thing to do; the flag says whether that took any waiting.
    async fn wait(&mut self, watchdog: &mut Sleep) -> (Woken, bool) {
        self.note_pause();
        let shard = &self.link.shard;
        let stopping_already = shard.is_stopping();
        let reading = self.may_read() && self.shared.in_flight.may_read(&self.unfinished);
        let full = self.running.len() >= REQUESTS_PER_LINK_MAX;
        if full {
            self.shared.in_flight.step_aside(&mut self.unfinished);
        }
        let mut read = pin!(self.stream.recv(&self.shared.pool));
        let mut gone = pin!(self.stream.closed_by_peer());
        let (in_flight, unfinished, all_read) = (&self.shared.in_flight, &self.unfinished, self.all_read);
        // What is here may be taken up, or more may be read.
        let has_room = || {
            let has_room = in_flight.may_read(unfinished) || !all_read && in_flight.has_room();
            has_room && !full && !shard.is_backlogged()
        };
        let running = &mut self.running;
        let mut slept = false;
        let woken = std::future::poll_fn(|cx: &mut Context<'_>| {
            if let Poll::Ready(Some(done)) = running.poll_next_unpin(cx) {
                return Poll::Ready(Woken::Done(done));
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
                if gone.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Woken::Gone);
                }
                if !stopping_already && has_room() {
                    return Poll::Ready(Woken::Room);
                }
            }
            if Pin::new(&mut *watchdog).poll(cx).is_ready() {
                return Poll::Ready(Woken::Watchdog);
            }
            // The stop may have come between the loop's own look and this one.
            if shard.is_stopping() && (!stopping_already || running.is_empty()) {
                return Poll::Ready(Woken::Stopping);
            }
            for waker in &self.wakers {
                waker.register(cx);
            }
            slept = true;
            Poll::Pending
        })
        .await;
        (woken, slept)
    }

    /// Counts a limit for which nothing is read from now on.
    fn note_pause(&mut self) {
        let shard = &self.link.shard;
        let paused_at = match () {
            () if shard.is_stopping() => None,
            () if self.running.len() >= REQUESTS_PER_LINK_MAX => Some(Limit::IggyRequestsPerLink),
            () if !self.shared.in_flight.may_read(&self.unfinished) => Some(Limit::MaxInFlightBytes),
            () if shard.is_backlogged() => Some(Limit::MailboxCapacity),
            () => None,
        };
        if let Some(limit) = paused_at
            && self.paused_at != paused_at
        {
            self.link.limit_hits.count(limit);
        }
        self.paused_at = paused_at;
    }

    fn watchdog_period(&self) -> Duration {
        self.shared.limits.frame_timeout.min(self.shared.limits.idle_timeout)
    }

    /// What the client has been waited for too long, if anything. Looked at every [`Driver::watchdog_period`], so a
    /// deadline is met within one period.
    fn overdue(&self) -> Option<End> {
        let limits = &self.shared.limits;
        if self.frame_began.is_some_and(|began| began.elapsed() >= limits.frame_timeout) {
            let reason = format!("a frame was not complete after {:?}", limits.frame_timeout);
            return Some(End::Limit(Limit::FrameTimeout, reason));
        }
        let idle = self.running.is_empty() && self.frame_began.is_none();
        if idle && self.last_request.elapsed() >= limits.idle_timeout {
            return Some(End::Limit(Limit::IdleTimeout, format!("no request for {:?}", limits.idle_timeout)));
        }
        None
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.shared.in_flight.remove(self.held);
        self.shared.in_flight.set_unfinished(&mut self.unfinished, 0);
        self.count_unsent(0);
    }
}
