//! The SDK clients of a lane, each connected when it is first used and from then on kept connected by the SDK.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use iggy::prelude::{AutoLogin, Client, Credentials as SdkCredentials, IggyClient, MessageClient, NonZeroIggyDuration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::failure::{INCOMPATIBLE_PROTOCOL, INVALID_CREDENTIALS, INVALID_TOKEN, PRODUCER_IDS_EXHAUSTED};
use super::lane::LaneMetrics;
use super::limits::{CONNECT_TIMEOUT, RECONNECT_FIRST, RETRY_FIRST, WAITING_POLLS_PER_CLIENT};
use super::reaction::Backoff;
use super::{Failure, IggySettings};

/// What a client is for. One key always has the same client, so that what is written of it stays in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Records of a partition, by the partition's hash.
    Send(u64),
    /// Offsets, by the hash of group, topic and partition.
    #[allow(dead_code, reason = "for offsets, which are in memory only so far")]
    Offset(u64),
    /// Reads that are answered at once.
    Read,
    /// Producer ids.
    ProducerIds,
    /// Changes of metadata, which make a client look all its routes up again.
    Admin,
}

/// A lane's clients.
pub(crate) struct Clients {
    settings: Arc<IggySettings>,
    metrics: Arc<LaneMetrics>,
    send: Vec<Arc<Slot>>,
    offset: Vec<Arc<Slot>>,
    read: Arc<Slot>,
    admin: Arc<Slot>,
    /// One that sends, and one of its own when the session of that one has no producer ids left.
    producer_ids: Mutex<Arc<Slot>>,
    /// One more whenever those that there are have as many waiting polls as they may.
    waiting: Mutex<Vec<Arc<Slot>>>,
}

/// A client, when it is connected.
struct Slot {
    state: watch::Sender<State>,
    waits: Arc<Semaphore>,
}

#[derive(Clone)]
enum State {
    Unused,
    Connecting,
    /// The server does not take us: who asks is told, and it is tried again.
    Refused(Failure),
    Connected(Arc<IggyClient>),
}

impl Clients {
    pub(crate) fn new(settings: Arc<IggySettings>, metrics: Arc<LaneMetrics>) -> Clients {
        let some = |n: usize| (0..n.max(1)).map(|_| Slot::new()).collect();
        let send: Vec<Arc<Slot>> = some(settings.send_clients);
        Clients {
            producer_ids: Mutex::new(send[0].clone()),
            send,
            offset: some(settings.offset_clients),
            read: Slot::new(),
            admin: Slot::new(),
            waiting: Mutex::default(),
            settings,
            metrics,
        }
    }

    pub(crate) fn settings(&self) -> &Arc<IggySettings> {
        &self.settings
    }

    /// Counts a failure, that a retry may yet mend.
    pub(crate) fn failed(&self, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into();
        self.metrics.failed(failure);
        failure
    }

    /// The client for this, when it is connected.
    ///
    /// # Errors
    /// The server refuses us, or no connection came about by the deadline.
    pub(crate) async fn get(&self, usage: Use, deadline: Instant) -> Result<Arc<IggyClient>, Failure> {
        let one = |clients: &[Arc<Slot>], hash: u64| clients[(hash % clients.len() as u64) as usize].clone();
        let slot = match usage {
            Use::Send(hash) => one(&self.send, hash),
            Use::Offset(hash) => one(&self.offset, hash),
            Use::Read => self.read.clone(),
            Use::ProducerIds => self.producer_ids.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Use::Admin => self.admin.clone(),
        };
        self.connected(&slot, deadline).await
    }

    /// A producer id that no other client of the cluster has. A session has so many of them; when they are used up it is
    /// another session's turn.
    ///
    /// # Errors
    /// As [`Clients::get`].
    pub(crate) async fn next_producer_id(&self, deadline: Instant) -> Result<u64, Failure> {
        let client = self.get(Use::ProducerIds, deadline).await?;
        let next = client.next_producer_id().await.map_err(|error| self.failed(error));
        match next {
            Err(failure) if failure.code == PRODUCER_IDS_EXHAUSTED => {
                self.leave_producer_ids_of(&client);
                let client = self.get(Use::ProducerIds, deadline).await?;
                client.next_producer_id().await.map_err(|error| self.failed(error))
            }
            next => next,
        }
    }

    /// Has another client give producer ids than this one.
    fn leave_producer_ids_of(&self, used_up: &Arc<IggyClient>) {
        let mut slot = self.producer_ids.lock().unwrap_or_else(PoisonError::into_inner);
        // Another call may have been first.
        if !slot.is_connected_by(used_up) {
            return;
        }
        tracing::info!("a session has given all the producer ids that it has; the next ones are another session's");
        let left = std::mem::replace(&mut *slot, Slot::new());
        if !self.send.iter().any(|send| Arc::ptr_eq(send, &left)) {
            let client = used_up.clone();
            tokio::spawn(async move {
                // It was for nothing else, and its links would stay otherwise.
                if let Err(error) = client.shutdown().await {
                    tracing::debug!(%error, "a client that is used no more cannot be shut down");
                }
            });
        }
    }

    /// A client that may have one more poll wait on the server, for as long as the permit is held.
    ///
    /// # Errors
    /// As [`Clients::get`].
    pub(crate) async fn get_waiting(
        &self,
        deadline: Instant,
    ) -> Result<(Arc<IggyClient>, OwnedSemaphorePermit), Failure> {
        let (slot, permit) = self.with_room();
        Ok((self.connected(&slot, deadline).await?, permit))
    }

    fn with_room(&self) -> (Arc<Slot>, OwnedSemaphorePermit) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            for slot in waiting.iter() {
                if let Ok(permit) = slot.waits.clone().try_acquire_owned() {
                    return (slot.clone(), permit);
                }
            }
            waiting.push(Slot::new());
        }
    }

    async fn connected(&self, slot: &Arc<Slot>, deadline: Instant) -> Result<Arc<IggyClient>, Failure> {
        slot.start(&self.settings);
        let mut state = slot.state.subscribe();
        let decided = state.wait_for(|state| matches!(state, State::Refused(_) | State::Connected(_)));
        match tokio::time::timeout_at(deadline.into(), decided).await {
            Ok(Ok(state)) => match &*state {
                State::Connected(client) => Ok(client.clone()),
                State::Refused(failure) => Err(self.failed(*failure)),
                State::Unused | State::Connecting => Err(self.failed(Failure::NOT_CONNECTED)),
            },
            _ => Err(self.failed(Failure::NOT_CONNECTED)),
        }
    }
}

impl Slot {
    fn new() -> Arc<Slot> {
        let state = watch::channel(State::Unused).0;
        Arc::new(Slot { state, waits: Arc::new(Semaphore::new(WAITING_POLLS_PER_CLIENT)) })
    }

    fn is_connected_by(&self, client: &Arc<IggyClient>) -> bool {
        matches!(&*self.state.borrow(), State::Connected(connected) if Arc::ptr_eq(connected, client))
    }

    fn start(self: &Arc<Self>, settings: &Arc<IggySettings>) {
        let unused = self.state.send_if_modified(|state| {
            let unused = matches!(state, State::Unused);
            if unused {
                *state = State::Connecting;
            }
            unused
        });
        if unused {
            tokio::spawn(connect(self.clone(), settings.clone()));
        }
    }
}

/// Tries every server, again and again, until one takes us.
async fn connect(slot: Arc<Slot>, settings: Arc<IggySettings>) {
    let mut backoff = Backoff::from(RETRY_FIRST);
    for nth in 0.. {
        let server = &settings.servers[nth % settings.servers.len()];
        match connect_to(server, &settings).await {
            Ok(client) => {
                slot.state.send_replace(State::Connected(Arc::new(client)));
                return;
            }
            Err(failure) if is_refusal(failure) => {
                tracing::error!(server, %failure, why = refusal(failure), "Iggy refuses the gateway");
                slot.state.send_replace(State::Refused(failure));
            }
            // The first time, and less often the longer it lasts.
            Err(failure) if (nth + 1).is_power_of_two() => {
                tracing::warn!(server, %failure, "Iggy cannot be reached; trying again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

async fn connect_to(server: &str, settings: &IggySettings) -> Result<IggyClient, Failure> {
    let credentials = &settings.credentials;
    let sign_in = SdkCredentials::UsernamePassword(credentials.username.clone(), credentials.password.clone().into());
    let interval = NonZeroIggyDuration::new(RECONNECT_FIRST).map_err(|_| Failure::MALFORMED)?;
    let client = IggyClient::builder()
        .with_tcp()
        .with_server_address(server.to_string())
        .with_auto_sign_in(AutoLogin::Enabled(sign_in))
        .with_reconnection_max_retries(None)
        .with_reconnection_interval(interval)
        .with_no_delay()
        .build()
        .map_err(Failure::from)?;
    match tokio::time::timeout(CONNECT_TIMEOUT, client.connect()).await {
        Ok(Ok(())) => Ok(client),
        failed => {
            // Its links would go on dialling otherwise.
            let _ = client.shutdown().await;
            Err(failed.map_or(Failure::NOT_CONNECTED, |error| error.err().map_or(Failure::NOT_CONNECTED, Into::into)))
        }
    }
}

/// Whether trying again with the same name, password and server version is of no use.
pub(crate) fn is_refusal(failure: Failure) -> bool {
    matches!(failure.code, INVALID_CREDENTIALS | INVALID_TOKEN | INCOMPATIBLE_PROTOCOL)
}

/// What the operator should know of a refusal.
pub(crate) fn refusal(failure: Failure) -> &'static str {
    match failure.code {
        INCOMPATIBLE_PROTOCOL => "the server does not speak protocol 0.12.2; older servers cannot keep Kafka's offsets",
        _ => "the user name or password is wrong",
    }
}

/// A request by its code, in the protocol's own encoding.
pub(crate) async fn request(client: &IggyClient, code: u32, body: Bytes, deadline: Instant) -> Result<Bytes, Failure> {
    client.send_binary_request_with_deadline(code, body, deadline).await.map_err(Failure::from)
}
