//! A server of the tests' own, whose delays, stalls and faults are known: blocking threads, nothing shared with what
//! it tests but the codec.
//!
//! Requests of a connection overlap, as a real server's do: each is answered its delay after it came, in order. A
//! stall stops everything: what comes meanwhile, on any connection, is answered after it.
#![allow(dead_code, reason = "each test program uses a part")]

mod connection;
pub mod kafka;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a server does about a request, beside answering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No answer to it, ever.
    Silence,
    /// Closes the connection.
    Close,
    /// An answer with this error code (Kafka only).
    Error(i16),
    /// Commits are acknowledged and not kept (Kafka only).
    Forget,
}

type Delays = Box<dyn Fn(u64) -> Duration + Send + Sync>;
type Faults = Box<dyn Fn(u64) -> Option<Fault> + Send + Sync>;

/// How a server behaves. Requests are numbered from 0 over all connections, in the order they came; those by which a
/// client finds its way (ApiVersions, Metadata, ...) are answered at once and have no number.
pub struct Behaviour {
    delay: Delays,
    fault: Faults,
    /// When the request of this number comes, everything stands still for so long.
    stall: Option<(u64, Duration)>,
}

impl Behaviour {
    /// Answers at once.
    pub fn prompt() -> Behaviour {
        Behaviour { delay: Box::new(|_| Duration::ZERO), fault: Box::new(|_| None), stall: None }
    }

    /// Every request is answered so long after it came.
    pub fn delay(self, delay: Duration) -> Behaviour {
        self.delay_by(move |_| delay)
    }

    /// As [`Behaviour::delay`], by the request's number.
    pub fn delay_by(mut self, delay: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Behaviour {
        self.delay = Box::new(delay);
        self
    }

    /// Everything stands still for so long when the request of this number comes.
    pub fn stall_at(mut self, number: u64, length: Duration) -> Behaviour {
        self.stall = Some((number, length));
        self
    }

    /// What goes wrong with which request.
    pub fn fault_by(mut self, fault: impl Fn(u64) -> Option<Fault> + Send + Sync + 'static) -> Behaviour {
        self.fault = Box::new(fault);
        self
    }
}

/// A running server; it lives as long as the process.
pub struct Server {
    /// `127.0.0.1:port`.
    pub address: String,
    shared: Arc<Shared>,
    speaks: Arc<dyn connection::Speaks>,
}

struct Shared {
    behaviour: Behaviour,
    came: AtomicU64,
    stalled_until: Mutex<Option<Instant>>,
}

/// What is to be done about a request.
struct Decided {
    at: Instant,
    fault: Option<Fault>,
}

impl Server {
    /// Sends frames back as they came: the other side of `floor`.
    pub fn echo(behaviour: Behaviour) -> Server {
        Server::start(behaviour, |_| Arc::new(connection::Echo))
    }

    /// Speaks Kafka: one broker, every topic that is asked for with `partitions` partitions, records in memory.
    pub fn kafka(behaviour: Behaviour, partitions: i32) -> Server {
        Server::tampering(behaviour, partitions, |_| None)
    }

    /// As [`Server::kafka`], and does not keep every batch as it came.
    pub fn tampering(
        behaviour: Behaviour,
        partitions: i32,
        tampering: impl Fn(u64) -> Option<kafka::Tamper> + Send + Sync + 'static,
    ) -> Server {
        let tampering = Box::new(tampering);
        Server::start(behaviour, move |address| Arc::new(kafka::Broker::new(address, partitions, tampering)))
    }

    /// How many requests came that have a number.
    pub fn requests(&self) -> u64 {
        self.shared.came.load(Ordering::SeqCst)
    }

    /// Appends a batch to a partition of a Kafka server.
    pub fn append(&self, topic: &str, partition: i32, batch: &[u8]) {
        self.speaks.append(topic, partition, batch);
    }

    /// How often each partition was fetched, by topic and partition.
    pub fn fetched(&self) -> BTreeMap<(String, i32), u64> {
        self.speaks.fetched()
    }

    /// OffsetCommit requests of groups whose name is one of these.
    pub fn commits_of(&self, group: impl Fn(&str) -> bool) -> u64 {
        self.speaks.commits().iter().filter(|(name, _)| group(name)).map(|(_, count)| count).sum()
    }

    fn start(behaviour: Behaviour, speaks: impl FnOnce(&str) -> Arc<dyn connection::Speaks>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let shared = Arc::new(Shared { behaviour, came: AtomicU64::new(0), stalled_until: Mutex::default() });
        let speaks = speaks(&address);
        let (spoken, all) = (speaks.clone(), shared.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (speaks, all) = (spoken.clone(), all.clone());
                std::thread::spawn(move || connection::serve(stream, speaks, all));
            }
        });
        Server { address, shared, speaks }
    }
}

impl Shared {
    /// A request that has a number came now.
    fn decide(&self) -> Decided {
        let number = self.came.fetch_add(1, Ordering::SeqCst);
        let now = Instant::now();
        let mut stalled_until = self.stalled_until.lock().expect("nobody panics with it");
        if let Some((_, length)) = self.behaviour.stall.filter(|(at, _)| *at == number) {
            *stalled_until = Some(now + length);
        }
        let from = stalled_until.map_or(now, |until| until.max(now));
        Decided { at: from + (self.behaviour.delay)(number), fault: (self.behaviour.fault)(number) }
    }

    /// A request without a number came now.
    fn at_once(&self) -> Decided {
        Decided { at: Instant::now(), fault: None }
    }
}
