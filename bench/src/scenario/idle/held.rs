//! The connections that are held.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Address, CallError, Connection, Target};
use ringgate_runtime::{Task, sleep_until, spawn_as};

use super::{Kind, Plan, Shared};
use crate::limits::{HOLD_CHECKING, HOLD_CONNECTING};
use crate::measure::Recorder;
use crate::stop::Stop;

/// Those of one executor.
pub struct Held {
    kind: Kind,
    unread: u32,
    version: i16,
    target: Target,
    brokers: Vec<Address>,
    shared: Shared,
    recorder: Recorder,
    connections: RefCell<Vec<Connection>>,
    /// Begun, made or not.
    begun: Cell<u64>,
    /// What the first that could not be made came to.
    refused: RefCell<Option<String>>,
}

/// The request that every connection begins with.
pub fn hello() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("ringgate-bench"))
        .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")))
}

impl Held {
    /// None yet.
    pub fn new(plan: &Plan, target: &Target, shared: &Shared, recorder: &Recorder) -> Result<Rc<Held>, CallError> {
        Ok(Rc::new(Held {
            kind: plan.kind,
            unread: plan.unread,
            version: target.version(ApiKey::ApiVersions)?,
            brokers: target.bootstrap().to_vec(),
            target: target.clone(),
            shared: shared.clone(),
            recorder: recorder.clone(),
            connections: RefCell::default(),
            begun: Cell::new(0),
            refused: RefCell::default(),
        }))
    }

    /// What the first that could not be made came to.
    pub fn refused(&self) -> Option<String> {
        self.refused.borrow().clone()
    }

    /// Makes connections until `level` of them were begun, no more than `rate` per second, and waits for the last.
    pub async fn fill(self: &Rc<Held>, level: u64, rate: f64, stop: &Stop) {
        let from = Instant::now();
        let first = self.begun.get();
        let gap = Duration::from_secs_f64(1.0 / rate);
        // Several at a time, so that a distant target does not slow it down.
        let makers: Vec<Task<()>> = (0..HOLD_CONNECTING)
            .map(|_| {
                let (held, stop) = (self.clone(), stop.clone());
                spawn_as("hold", async move {
                    loop {
                        let nth = held.begun.get();
                        if nth >= level || stop.is_told() {
                            return;
                        }
                        held.begun.set(nth + 1);
                        sleep_until(from + gap.mul_f64((nth - first) as f64)).await;
                        held.make(nth).await;
                    }
                })
            })
            .collect();
        for maker in makers {
            maker.await;
        }
    }

    async fn make(&self, nth: u64) {
        let intended = Instant::now();
        let broker = &self.brokers[(nth % self.brokers.len() as u64) as usize];
        match self.connect(broker).await {
            Ok(connection) => {
                self.connections.borrow_mut().push(connection);
                self.shared.held.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            Err(error) => {
                self.recorder.error("hold", error.code(), intended);
                self.refused.borrow_mut().get_or_insert_with(|| format!("{broker}: {error}"));
            }
        }
    }

    async fn connect(&self, broker: &Address) -> Result<Connection, CallError> {
        let mut connection = self.target.connect(broker).await?;
        let answer = connection.call(self.version, &hello()).await?;
        if answer.error_code != 0 {
            return Err(CallError::Kafka { code: answer.error_code, what: "ApiVersions".into() });
        }
        match self.kind {
            Kind::Idle => {}
            Kind::HalfOpen => {
                let request = connection.frame(self.version, &hello())?;
                connection.send_bytes(request.slice(..request.len() - 1)).await?;
            }
            Kind::SlowReader => {
                let request = connection.frame(self.version, &hello())?;
                connection.send_bytes(request.repeat(self.unread as usize).into()).await?;
            }
        }
        Ok(connection)
    }

    /// Has every connection show that it still stands, and closes it; how many do not, and what the first came to.
    pub async fn check(self: &Rc<Held>) -> (u64, Option<String>) {
        let dropped = Rc::new(Cell::new(0));
        let example = Rc::new(RefCell::new(None));
        let checkers: Vec<Task<()>> = (0..HOLD_CHECKING)
            .map(|_| {
                let (held, dropped, example) = (self.clone(), dropped.clone(), example.clone());
                spawn_as("check", async move {
                    loop {
                        let Some(connection) = held.connections.borrow_mut().pop() else { return };
                        if let Err(error) = held.still_stands(connection).await {
                            dropped.set(dropped.get() + 1);
                            example.borrow_mut().get_or_insert_with(|| error.to_string());
                        }
                    }
                })
            })
            .collect();
        for checker in checkers {
            checker.await;
        }
        let example = example.take();
        (dropped.get(), example)
    }

    async fn still_stands(&self, mut connection: Connection) -> Result<(), CallError> {
        match self.kind {
            Kind::Idle => connection.call(self.version, &hello()).await.map(|_| ()),
            Kind::HalfOpen => {
                let request: Bytes = connection.frame(self.version, &hello())?;
                connection.send_bytes(request.slice(request.len() - 1..)).await?;
                connection.take_answers(1).await
            }
            Kind::SlowReader => connection.take_answers(self.unread as usize).await,
        }
    }
}
