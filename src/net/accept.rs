//! Accepting connections on one shard, within the gateway's bounds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringgate_group::ConnectionId;
use ringgate_runtime::{Budget, TcpListener, TcpStream};
use ringgate_shards::ShardHandle;
use ringgate_shards::open_files::OpenFiles;
use ringgate_shards::timers::Sleep;
use ringgate_shards::waiters::Waiters;

use super::advertise::Advertised;
use super::connection::{self, Connection, Door, End, Principal, Shared};
use super::limit_hits::{Limit, LimitHits};
use super::log_budget::{Line, LogBudget};
use crate::api::ApiSettings;
use crate::api::fetch_sessions::FetchSessions;
use crate::iggy;

/// How long a shard does not accept after the system refused a connection (no descriptors, no memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connections of the whole gateway; touched only when one comes or goes.
pub struct ConnectionCount {
    open_files: Arc<OpenFiles>,
    most: usize,
    /// `None` when there is no bound for an address.
    by_ip: Option<Mutex<HashMap<IpAddr, usize>>>,
    most_per_ip: usize,
}

impl ConnectionCount {
    /// No connections; 0 for `most_per_ip` means no bound.
    pub fn new(open_files: Arc<OpenFiles>, most: usize, most_per_ip: usize) -> ConnectionCount {
        ConnectionCount { open_files, most, by_ip: (most_per_ip > 0).then(Mutex::default), most_per_ip }
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.open_files.connections()
    }

    /// Counts one more, or says which limit that would pass.
    fn enter(self: &Arc<Self>, ip: IpAddr) -> Result<Counted, Limit> {
        let with_it = self.open_files.connect();
        let passed = match () {
            () if with_it > self.most => Some(Limit::MaxConnections),
            () if !self.open_files.carries(with_it) => Some(Limit::OpenFiles),
            () => None,
        };
        if let Some(limit) = passed {
            self.open_files.disconnect();
            return Err(limit);
        }
        if let Some(by_ip) = &self.by_ip {
            let mut by_ip = by_ip.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let count = by_ip.entry(ip).or_insert(0);
            if *count >= self.most_per_ip {
                self.open_files.disconnect();
                return Err(Limit::MaxConnectionsPerIp);
            }
            *count += 1;
        }
        Ok(Counted { counts: self.clone(), ip })
    }
}

struct Counted {
    counts: Arc<ConnectionCount>,
    ip: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.open_files.disconnect();
        if let Some(by_ip) = &self.counts.by_ip {
            let mut by_ip = by_ip.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(count) = by_ip.get_mut(&self.ip) {
                *count -= 1;
                if *count == 0 {
                    by_ip.remove(&self.ip);
                }
            }
        }
    }
}

/// What every connection of a shard is made with.
pub struct Front {
    /// The shard.
    pub shard: ShardHandle,
    /// For the handlers.
    pub settings: Rc<ApiSettings>,
    /// The shard's fetch sessions.
    pub fetch_sessions: Rc<RefCell<FetchSessions>>,
    /// Buffers and bounds.
    pub shared: Rc<Shared>,
    /// Bytes of answers that have not gone out.
    pub unsent: Rc<Cell<usize>>,
    /// All connections of the gateway.
    pub counts: Arc<ConnectionCount>,
    /// The number of the shard's next connection.
    pub next_connection: Cell<u64>,
    /// Connections that this shard has now.
    pub open_here: Cell<usize>,
    /// Limits that connections have met.
    pub limit_hits: Rc<LimitHits>,
    /// Bounds what is logged of connections that are turned away.
    pub turned_away: LogBudget,
    /// Bounds what is logged of connections that are closed.
    pub closed: LogBudget,
    /// Tasks that wait for the last connection to end.
    pub all_closed: Waiters,
}

/// What is spoken on a listener.
#[derive(Clone)]
pub enum Speaks {
    /// Kafka's protocol: what clients are told of addresses, and which door they came in by.
    Kafka(Rc<Advertised>, Door),
    /// Iggy's protocol.
    Iggy(Rc<iggy::Front>),
}

/// Accepts until the gateway stops.
pub async fn accept(front: Rc<Front>, listener: TcpListener, speaks: Speaks) {
    let mut budget = Budget::new();
    loop {
        budget.turn().await;
        let accepted = {
            let mut accepting = std::pin::pin!(listener.accept());
            let mut stopping = std::pin::pin!(front.shard.stopping());
            std::future::poll_fn(|cx| {
                use std::future::Future;
                use std::task::Poll;
                if stopping.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                accepting.as_mut().poll(cx).map(Some)
            })
            .await
        };
        match accepted {
            None => return,
            Some(Ok((stream, peer))) => match front.counts.enter(peer.ip().to_canonical()) {
                Ok(counted) => welcome(&front, stream, peer, counted, speaks.clone()),
                Err(limit) => {
                    front.limit_hits.count(limit);
                    if let Line::Written { left_out } = front.turned_away.line(Instant::now()) {
                        tracing::warn!(%peer, limit = limit.name(), left_out, "a connection was turned away");
                    }
                }
            },
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot accept a connection");
                Sleep::new(&front.shard, ACCEPT_PAUSE).await;
            }
        }
    }
}

fn welcome(front: &Rc<Front>, stream: TcpStream, peer: SocketAddr, counted: Counted, speaks: Speaks) {
    let Ok(local) = stream.local_addr() else { return };
    front.open_here.set(front.open_here.get() + 1);
    let front = front.clone();
    match speaks {
        Speaks::Kafka(advertised, door) => {
            let connection = Rc::new(front.connection(peer, local, advertised, door));
            ringgate_runtime::spawn_as("connection", kafka(front, connection, stream, counted)).detach();
        }
        Speaks::Iggy(iggy) => {
            ringgate_runtime::spawn_as("iggy_link", iggy_link(front, iggy, stream, (peer, local), counted)).detach();
        }
    }
}

/// The whole task of a connection.
#[expect(clippy::manual_async_fn, reason = "an async function keeps its arguments beside what it makes of them")]
fn kafka(
    front: Rc<Front>,
    connection: Rc<Connection>,
    stream: TcpStream,
    counted: Counted,
) -> impl Future<Output = ()> + 'static {
    async move {
        let end = connection::serve(&connection, &stream, &front.shared).await;
        // Before it counts no more.
        drop(stream);
        front.fetch_sessions.borrow_mut().connection_closed(connection.id);
        front.over(connection.peer, &end, counted);
    }
}

/// The whole task of a link; its peer's address, and the one that it reached.
#[expect(clippy::manual_async_fn, reason = "an async function keeps its arguments beside what it makes of them")]
fn iggy_link(
    front: Rc<Front>,
    iggy: Rc<iggy::Front>,
    stream: TcpStream,
    (peer, local): (SocketAddr, SocketAddr),
    counted: Counted,
) -> impl Future<Output = ()> + 'static {
    async move {
        let end = iggy::link::serve(&iggy, &front, &stream, peer, local).await;
        drop(stream);
        front.over(peer, &end, counted);
    }
}

impl Front {
    fn connection(&self, peer: SocketAddr, local: SocketAddr, advertised: Rc<Advertised>, door: Door) -> Connection {
        let number = self.next_connection.get();
        self.next_connection.set(number + 1);
        Connection {
            id: ConnectionId(u64::from(self.shard.id().0) << 48 | number),
            shard: self.shard.clone(),
            advertised,
            door,
            peer,
            local,
            principal: Principal::Anonymous,
            settings: self.settings.clone(),
            fetch_sessions: self.fetch_sessions.clone(),
            parked_at: RefCell::default(),
            unsent: self.unsent.clone(),
            limit_hits: self.limit_hits.clone(),
            requests: self.shared.requests.clone(),
            passed_over: RefCell::default(),
        }
    }

    /// A connection is over: it counts no more.
    fn over(&self, peer: SocketAddr, end: &End, counted: Counted) {
        self.ended(peer, end);
        drop(counted);
        self.open_here.set(self.open_here.get() - 1);
        if self.open_here.get() == 0 {
            self.all_closed.wake_all();
        }
    }

    /// Counts and logs why a connection ended.
    fn ended(&self, peer: SocketAddr, end: &End) {
        let (limit, reason) = match end {
            End::Refused(reason) => (None, reason),
            End::Limit(limit, reason) => (Some(*limit), reason),
            End::Closed | End::Stopping => return,
        };
        if let Some(limit) = limit {
            self.limit_hits.count(limit);
        }
        if let Line::Written { left_out } = self.closed.line(Instant::now()) {
            tracing::info!(%peer, limit = limit.map(Limit::name), reason, left_out, "connection closed");
        }
    }

    /// Waits until the shard has no connection left.
    pub async fn all_closed(&self) {
        self.all_closed.until(|| self.open_here.get() == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest part of what a connection holds that does nothing; 8 KiB of memory are all that it may take.
    const CONNECTION_TASK_BYTES: usize = 1_536;

    /// Bytes of the future that a function gives.
    fn of_four<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// As [`of_four`].
    fn of_five<A, B, C, D, E, F: Future>(_: impl FnOnce(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_connection_takes_no_more_than_is_written_down() {
        let (kafka, iggy_link) = (of_four(kafka), of_five(iggy_link));
        assert!(kafka <= CONNECTION_TASK_BYTES, "{kafka} bytes");
        assert!(iggy_link <= CONNECTION_TASK_BYTES, "{iggy_link} bytes");
    }
}
