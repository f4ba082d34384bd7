//! The connection whose round trips go on while others are held.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use kafka_protocol::messages::ApiKey;
use ringgate_client::{CallError, Connection, Target};
use ringgate_runtime::spawn_as;

use super::held::hello;
use crate::engine::{Outstanding, Pacer};
use crate::measure::Window;
use crate::plan::{Arrivals, Load};
use crate::scenario::operation::{Operation, names};
use crate::scenario::{Seat, SetupError};

/// One executor's, with one request out at a time.
pub struct Probe {
    target: Target,
    version: i16,
    operation: Operation,
    one: Outstanding,
    /// Away while a request is out, and when it was lost.
    connection: RefCell<Option<Connection>>,
}

impl Probe {
    /// Connects.
    pub async fn new(target: &Target, seat: &Seat) -> Result<Rc<Probe>, SetupError> {
        let connection = target.connect(&target.bootstrap()[0]).await?;
        Ok(Rc::new(Probe {
            version: target.version(ApiKey::ApiVersions)?,
            target: target.clone(),
            operation: Operation::new(&seat.recorder, names!("probe")),
            one: Outstanding::new(1),
            connection: RefCell::new(Some(connection)),
        }))
    }

    /// Round trips by a schedule, to the window's end: this executor's part of `rate` per second.
    pub async fn ask(self: &Rc<Probe>, seat: &Seat, window: Window, rate: f64) {
        let arrivals = match seat.common.load {
            Load::Open { arrivals, .. } => arrivals,
            Load::Own | Load::Closed => Arrivals::Constant,
        };
        let mut pacer = Pacer::new(seat, window, rate / f64::from(seat.executors), arrivals, seat.seed);
        while let Some(intended) = pacer.next().await {
            let Some(permit) = pacer.admit(&self.one, intended).await else { return };
            let probe = self.clone();
            spawn_as("probe", async move {
                let began = Instant::now();
                match probe.round_trip().await {
                    Ok(code) => probe.operation.answered(intended, began, code),
                    Err(error) => probe.operation.failed(intended, began, error.code()),
                }
                drop(permit);
            })
            .detach();
        }
    }

    /// Waits for the last answer.
    pub async fn none_out(&self) {
        self.one.none_out().await;
    }

    async fn round_trip(&self) -> Result<i16, CallError> {
        let kept = self.connection.take();
        let mut connection = match kept {
            Some(connection) => connection,
            // It was lost.
            None => self.target.connect(&self.target.bootstrap()[0]).await?,
        };
        let answer = connection.call(self.version, &hello()).await?;
        self.connection.replace(Some(connection));
        Ok(answer.error_code)
    }
}
