//! What happens, and in which life of the process.

use std::sync::Arc;

use ringgate_group::pipeline::RequestId;
use ringgate_group::{DeletedTopic, PartitionSet, Request, ResolvedRegex, Response, TimerKey};

use super::client::Wake;
use super::topics::Catalogue;

/// What happens.
pub enum Event {
    Wake { client: usize, wake: Wake },
    Arrive { connection: u64, seq: u64, request: Request },
    GatewaySeesClose { connection: u64 },
    Answer { connection: u64, seq: u64, response: Response },
    ClientSeesClose { client: usize, connection: u64 },
    Timer { run: u64, shard: usize, key: TimerKey, deadline_ms: u64 },
    Pump { run: u64, shard: usize },
    Drain { run: u64, shard: usize },
    Answered { run: u64, connection: u64, request: RequestId, response: Response },
    Written { run: u64, shard: usize },
    Linger { run: u64, shard: usize },
    Computed { run: u64, shard: usize, group: (u32, u64), asked: Vec<(u32, u64)>, targets: Vec<PartitionSet> },
    Resolved { run: u64, shard: usize, group: (u32, u64), resolved: Vec<ResolvedRegex> },
    Topics { run: u64, shard: usize, catalogue: Arc<Catalogue>, deleted: Vec<DeletedTopic> },
    Expire,
    Look,
    Thaw { run: u64, stood_ms: u64 },
    Trouble,
    Start,
    Calm,
    AtRest,
    StillAtRest,
    Farewell,
    Delete,
    End,
}

impl Event {
    /// In which life of the process it happens, where it happens inside of it.
    pub fn run(&self) -> Option<u64> {
        match self {
            Event::Timer { run, .. }
            | Event::Pump { run, .. }
            | Event::Drain { run, .. }
            | Event::Answered { run, .. }
            | Event::Written { run, .. }
            | Event::Linger { run, .. }
            | Event::Computed { run, .. }
            | Event::Resolved { run, .. }
            | Event::Topics { run, .. } => Some(*run),
            _ => None,
        }
    }

    pub fn is_of_gateway(&self) -> bool {
        self.run().is_some() || matches!(self, Event::Arrive { .. } | Event::GatewaySeesClose { .. } | Event::Expire)
    }
}
