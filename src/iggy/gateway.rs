//! What all links share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use iggy_binary_protocol::lookup_command;
use ringgate_shards::ShardHandle;
use ringgate_shards::call::SessionEndedCall;
use ringgate_shards::timers::Sleep;

use super::limits::{SESSION_LEASE, SESSION_SWEEP, SESSIONS_MAX};
use super::password::RootPassword;
use super::sessions::Sessions;
use super::sign_ins::SignIns;

/// What the links of all shards share.
pub struct Gateway {
    /// Checks passwords.
    pub sign_ins: SignIns,
    sessions: Mutex<Sessions>,
}

/// What the links of one shard share.
pub struct Front {
    /// With those of the others.
    pub gateway: Arc<Gateway>,
    /// Requests read, by the command's code.
    pub requests: RefCell<BTreeMap<u32, u64>>,
    /// Requests that wait for messages.
    pub waiting: Cell<usize>,
    /// Bytes that are set aside for answers that are being made.
    pub promised: Cell<usize>,
}

impl Gateway {
    /// Without a session.
    ///
    /// # Errors
    /// There is no thread for passwords.
    pub fn start(password: RootPassword) -> io::Result<Gateway> {
        Ok(Gateway {
            sign_ins: SignIns::start(password)?,
            sessions: Mutex::new(Sessions::new(SESSIONS_MAX, SESSION_LEASE)),
        })
    }

    /// The sessions, for a moment.
    pub fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the sessions whose lease is over, for as long as the shard lives.
    pub async fn end_sessions(self: Arc<Gateway>, shard: ShardHandle) {
        loop {
            Sleep::new(&shard, SESSION_SWEEP).await;
            let now = Instant::now();
            loop {
                let Some(session) = self.sessions().poll_expired(now) else { break };
                session_ended(&shard, session);
                ringgate_runtime::yield_now().await;
            }
        }
    }
}

/// Tells all shards that requests of the session do not come again.
pub fn session_ended(shard: &ShardHandle, session: u64) {
    for owner in shard.route().all() {
        drop(shard.submit_to(owner, SessionEndedCall { session }));
    }
}

impl Front {
    /// Of a shard.
    pub fn new(gateway: Arc<Gateway>) -> Front {
        Front { gateway, requests: RefCell::default(), waiting: Cell::new(0), promised: Cell::new(0) }
    }

    /// Requests read, by the command's name.
    pub fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        let name = |code: u32| lookup_command(code).map_or("unknown", |command| command.name);
        self.requests.borrow().iter().map(|(code, count)| (name(*code), *count)).collect()
    }

    /// Counts a request.
    pub fn count(&self, code: u32) {
        *self.requests.borrow_mut().entry(code).or_insert(0) += 1;
    }
}
