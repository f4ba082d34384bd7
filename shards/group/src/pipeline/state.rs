//! The pipeline's state.

use std::collections::VecDeque;

use super::rules::{Blocks, RequestKind};

/// A request of one connection, counted from 0 in the order in which they were read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(u64);

#[derive(Debug)]
enum State<R> {
    /// Read, not started.
    Read,
    /// Started.
    Running,
    /// Started, and waiting for records or for other members.
    Waiting,
    /// Answered; the response has not gone out. `None`: there is none.
    Answered(Option<R>),
}

#[derive(Debug)]
struct Request<R> {
    kind: RequestKind,
    bytes: usize,
    state: State<R>,
}

impl<R> Request<R> {
    /// In whose way it stands; nobody's before it starts (who may pass it then is the cursors' business)
    /// and after its answer.
    fn blocks(&self) -> Option<Blocks> {
        match self.state {
            State::Read | State::Answered(_) => None,
            State::Running => Some(self.kind.stands_in_the_way_of(false)),
            State::Waiting => Some(self.kind.stands_in_the_way_of(true)),
        }
    }
}

/// How many started requests stand in the way of those behind them.
#[derive(Default, Debug, PartialEq, Eq)]
struct Blockers {
    of_everything: usize,
    of_all_but_produce: usize,
    of_same_session: usize,
}

impl Blockers {
    fn of(&mut self, blocks: Blocks) -> &mut usize {
        match blocks {
            Blocks::Everything => &mut self.of_everything,
            Blocks::AllButProduce => &mut self.of_all_but_produce,
            Blocks::SameSession => &mut self.of_same_session,
        }
    }
}

/// The requests of one connection, from reading to sending. `R` is the response as it goes out.
///
/// Methods come in four kinds: [`read`](Pipeline::read) for what the client sent, `handle_*` for what
/// happened to a request, `poll_*` for what to do next, and getters. The loop of a connection goes:
///
/// 1. while [`may_read`](Pipeline::may_read): take the next frame, [`read`](Pipeline::read);
/// 2. [`poll_start`](Pipeline::poll_start) until `None`: start each one, in that order, and say at once
///    [`handle_answered`](Pipeline::handle_answered) or [`handle_waiting`](Pipeline::handle_waiting) when
///    that is how it went;
/// 3. [`poll_heartbeat_seen`](Pipeline::poll_heartbeat_seen) until `None`;
/// 4. [`poll_ready`](Pipeline::poll_ready) until `None`, and send all of it at once;
/// 5. when [`should_close`](Pipeline::should_close), close; otherwise wait for bytes or for a request.
///
/// Nothing is allocated once the ring has grown to the number of requests in flight; an idle connection's ring holds no
/// memory before it is first used and after [`shrink_to_fit`](Pipeline::shrink_to_fit). Each request costs O(1) amortised; a Fetch behind
/// waiting Fetches is compared with each of them.
#[derive(Debug)]
pub struct Pipeline<R> {
    /// Requests whose response has not gone out, oldest first.
    requests: VecDeque<Request<R>>,
    /// The id of the oldest.
    first: u64,
    /// The first request that has not started, or the end.
    next: u64,
    /// Produces from `next` up to this id have started ahead of a Fetch; nothing but Produce and Fetch
    /// lies between.
    passed: u64,
    /// Heartbeats before this id were reported, or will not be.
    seen: u64,
    /// What the requests before `next` stand in the way of.
    blockers: Blockers,
    /// Requests that wait. All lie before `next`.
    waiting: usize,
    /// SASL requests that are not answered.
    sasl: usize,
    bytes: usize,
    max_requests: usize,
    max_bytes: usize,
    /// The connection ends at this request's turn.
    closing_at: Option<u64>,
    closed: bool,
}

impl<R> Pipeline<R> {
    /// An empty pipeline that reads up to `max_requests` requests ahead; at least one.
    pub fn new(max_requests: usize) -> Pipeline<R> {
        assert!(max_requests > 0, "a connection has at least one request in flight");
        Pipeline {
            requests: VecDeque::new(),
            first: 0,
            next: 0,
            passed: 0,
            seen: 0,
            blockers: Blockers::default(),
            waiting: 0,
            sasl: 0,
            bytes: 0,
            max_requests,
            max_bytes: usize::MAX,
            closing_at: None,
            closed: false,
        }
    }

    /// Bounds the bytes of unanswered requests too: reading pauses when they reach `max_bytes`, so one
    /// frame may pass it.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Pipeline<R> {
        self.max_bytes = max_bytes;
        self
    }

    /// Whether the next frame may be read: fewer requests than the bound are in flight, their bytes are
    /// below theirs, no SASL request is unanswered, and the connection does not end.
    pub fn may_read(&self) -> bool {
        self.requests.len() < self.max_requests
            && self.bytes < self.max_bytes
            && self.sasl == 0
            && self.closing_at.is_none()
            && !self.closed
    }

    /// Requests that were read and whose response, if they have one, has not been taken.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Bytes of requests that are not answered and do not wait. (One that waits holds only what its owner
    /// keeps of it.)
    pub fn bytes_in_flight(&self) -> usize {
        self.bytes
    }

    /// A frame of `bytes` was read. To be called only when [`may_read`](Pipeline::may_read).
    pub fn read(&mut self, kind: RequestKind, bytes: usize) -> RequestId {
        debug_assert!(self.may_read(), "read past a bound");
        let id = self.end();
        self.requests.push_back(Request { kind, bytes, state: State::Read });
        self.bytes += bytes;
        self.sasl += usize::from(kind == RequestKind::Sasl);
        RequestId(id)
    }

    /// The next request that may start; it counts as started from here on. Produces come in request order,
    /// and so does everything else; a Produce may come ahead of a Fetch that was read before it.
    pub fn poll_start(&mut self) -> Option<RequestId> {
        if self.head_may_start() {
            let id = self.next;
            self.request(id)?.state = State::Running;
            self.skip_started();
            return Some(RequestId(id));
        }
        self.poll_passing_produce()
    }

    /// A Produce that passes Fetches which may not start yet.
    fn poll_passing_produce(&mut self) -> Option<RequestId> {
        if self.blockers.of_everything > 0 {
            return None;
        }
        self.passed = self.passed.max(self.next);
        while self.is_before_the_end(self.passed) {
            let id = self.passed;
            let request = self.request(id)?;
            match (request.kind, &request.state) {
                (RequestKind::Produce, State::Read) => {
                    request.state = State::Running;
                    self.passed += 1;
                    return Some(RequestId(id));
                }
                (RequestKind::Produce | RequestKind::Fetch { .. }, _) => self.passed += 1,
                _ => return None,
            }
        }
        None
    }

    /// The request has parked: a Fetch that found less than it asked for, a Join or Sync that waits for
    /// other members. Holds until its answer. Nothing happens when it is answered already, waits already,
    /// or cannot wait ([`RequestKind::may_wait`]).
    pub fn handle_waiting(&mut self, id: RequestId) {
        let Some(request) = self.request(id.0) else { return };
        if !request.kind.may_wait() || !matches!(request.state, State::Running) {
            return;
        }
        request.state = State::Waiting;
        let (kind, bytes) = (request.kind, request.bytes);
        debug_assert!(id.0 < self.next, "only Produce passes others, and it does not wait");
        *self.blockers.of(kind.stands_in_the_way_of(false)) -= 1;
        *self.blockers.of(kind.stands_in_the_way_of(true)) += 1;
        self.waiting += 1;
        self.bytes -= bytes;
    }

    /// The request is answered: with this response, or with none (`acks=0`). The first answer counts; one
    /// to a request that has not started is ignored.
    pub fn handle_answered(&mut self, id: RequestId, response: Option<R>) {
        let next = self.next;
        let Some(request) = self.request(id.0) else { return };
        let waited = match request.state {
            State::Read | State::Answered(_) => return,
            State::Running => false,
            State::Waiting => true,
        };
        let blocks = request.blocks();
        request.state = State::Answered(response);
        let (kind, bytes) = (request.kind, request.bytes);
        if let Some(blocks) = blocks
            && id.0 < next
        {
            *self.blockers.of(blocks) -= 1;
        }
        self.sasl -= usize::from(kind == RequestKind::Sasl);
        if waited {
            self.waiting -= 1;
        } else {
            self.bytes -= bytes;
        }
    }

    /// The request ends the connection instead of being answered (an `acks=0` Produce that failed, a frame
    /// that cannot be decoded). What was read before it is still carried out and answered; nothing is read
    /// any more, nothing behind it starts, and no response behind it goes out. Nothing happens when it is
    /// answered already.
    pub fn handle_closing(&mut self, id: RequestId) {
        let Some(request) = self.request(id.0) else { return };
        if !matches!(request.state, State::Answered(_)) {
            self.closing_at = Some(self.closing_at.map_or(id.0, |at| at.min(id.0)));
        }
    }

    /// Whether everything before a [closing](Pipeline::handle_closing) request has gone out, so that it is
    /// time to close the connection.
    pub fn should_close(&self) -> bool {
        self.closed || self.closing_at == Some(self.first)
    }

    /// The next response, in request order. `None` when the oldest request is not answered.
    pub fn poll_ready(&mut self) -> Option<R> {
        while let Some(Request { state: State::Answered(_), .. }) = self.requests.front() {
            if self.closing_at == Some(self.first) {
                return None;
            }
            self.first += 1;
            if let Some(Request { state: State::Answered(Some(response)), .. }) = self.requests.pop_front() {
                return Some(response);
            }
        }
        None
    }

    /// A Heartbeat that was read behind a waiting request and may not start: its member and generation
    /// are to be checked and its session refreshed now, for its turn may come after the session's end. It
    /// is reported once, and is executed at its turn like any other. Empty while
    /// [`poll_start`](Pipeline::poll_start) has something.
    pub fn poll_heartbeat_seen(&mut self) -> Option<RequestId> {
        if self.waiting == 0 || self.head_may_start() {
            return None;
        }
        self.seen = self.seen.max(self.next);
        while self.is_before_the_end(self.seen) {
            let id = self.seen;
            self.seen += 1;
            if self.request(id)?.kind == RequestKind::Heartbeat {
                return Some(RequestId(id));
            }
        }
        None
    }

    /// Gives back the room of requests that were in flight and are no more.
    pub fn shrink_to_fit(&mut self) {
        self.requests.shrink_to_fit();
    }

    /// The connection is gone: everything in flight is forgotten, nothing is read, started or sent any
    /// more, and what is still said about its requests is ignored.
    pub fn close(&mut self) {
        self.first = self.end();
        self.next = self.first;
        self.requests = VecDeque::new();
        self.blockers = Blockers::default();
        self.waiting = 0;
        self.sasl = 0;
        self.bytes = 0;
        self.closed = true;
    }

    /// One past the last id.
    fn end(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    fn request(&mut self, id: u64) -> Option<&mut Request<R>> {
        let at = usize::try_from(id.checked_sub(self.first)?).ok()?;
        self.requests.get_mut(at)
    }

    /// Whether there is a request of this id that is not behind the connection's end.
    fn is_before_the_end(&self, id: u64) -> bool {
        id < self.end() && self.closing_at.is_none_or(|at| id < at)
    }

    /// Moves `next` over what has started, and counts in whose way that stands. Called when the request at
    /// `next` starts, so `next` always names one that has not, or the end; what left lies before it.
    fn skip_started(&mut self) {
        debug_assert!(self.next >= self.first, "a request left before it started");
        while let Some(request) = self.request(self.next) {
            if matches!(request.state, State::Read) {
                return;
            }
            if let Some(blocks) = request.blocks() {
                *self.blockers.of(blocks) += 1;
            }
            self.next += 1;
        }
    }

    /// Whether the first request that has not started may start.
    fn head_may_start(&self) -> bool {
        if !self.is_before_the_end(self.next) {
            return false;
        }
        let before = (self.next - self.first) as usize;
        let Blockers { of_everything, of_all_but_produce, of_same_session } = self.blockers;
        match self.requests[before].kind {
            RequestKind::Produce => of_everything == 0,
            RequestKind::Sasl => of_everything + of_all_but_produce + of_same_session == 0,
            kind => {
                of_everything + of_all_but_produce == 0
                    && (of_same_session == 0 || !self.waits_in_session(before, kind))
            }
        }
    }

    /// Whether one of the first `before` requests is a waiting Fetch of the session of `kind`.
    fn waits_in_session(&self, before: usize, kind: RequestKind) -> bool {
        matches!(kind, RequestKind::Fetch { session: Some(_) })
            && self.requests.range(..before).any(|r| matches!(r.state, State::Waiting) && r.kind == kind)
    }
}
