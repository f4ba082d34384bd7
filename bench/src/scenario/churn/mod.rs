//! `churn`: connections that come and go, each step of a client's beginning timed apart.
//!
//! A slot of the schedule is a connection (or a burst of them): TCP, TLS and SASL where asked for, ApiVersions,
//! Metadata of the brokers, and the end. Ports are this host's scarce good: a connection that it closes in order keeps its
//! port for a minute, so a run that has none left is aborted and says what helps.

mod plan;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, MetadataRequest};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Address, CallError, Target};
use ringgate_runtime::{Task, spawn_as};

pub use plan::{Close, Plan};

use crate::engine::{Outstanding, Pacer, Permit};
use crate::host::{Ports, Root, connections_max};
use crate::measure::{Recorder, SeriesId, Window};
use crate::plan::Load;
use crate::result::{Parameter, Unit, Value};
use crate::scenario::operation::{Operation, names};
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// One executor's part.
pub struct Churn {
    clients: Rc<Clients>,
    outstanding: Outstanding,
    before: Option<Ports>,
}

/// What every connection of this executor needs.
struct Clients {
    plan: Plan,
    target: Target,
    broker: Address,
    versions: Versions,
    operation: Operation,
    steps: Steps,
    recorder: Recorder,
    /// Why no connection can be made any more.
    out_of_ports: RefCell<Option<String>>,
}

#[derive(Clone, Copy)]
struct Versions {
    api_versions: i16,
    metadata: i16,
}

/// Series of the steps.
struct Steps {
    tcp: SeriesId,
    tls: SeriesId,
    sasl: SeriesId,
    api_versions: SeriesId,
    metadata: SeriesId,
}

impl Scenario for Churn {
    const NAME: &'static str = "churn";
    const PRIMARY: &'static str = "churn";
    type Plan = Plan;
    type Shared = ();

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        plan.parameters()
    }

    async fn found(_: &Plan, _: &Seat) -> Result<(), SetupError> {
        Ok(())
    }

    async fn prepare(plan: &Plan, (): &(), seat: &Seat) -> Result<Churn, SetupError> {
        let target = Target::reach(&seat.common.client()).await?;
        let versions = Versions {
            api_versions: target.version(ApiKey::ApiVersions)?,
            metadata: target.version(ApiKey::Metadata)?,
        };
        let series = |name| seat.recorder.series(name);
        let clients = Clients {
            plan: plan.clone(),
            // Executors take the bootstrap servers in turn.
            broker: target.bootstrap()[usize::from(seat.executor) % target.bootstrap().len()].clone(),
            target,
            versions,
            operation: Operation::new(&seat.recorder, names!("churn")),
            steps: Steps {
                tcp: series("tcp.rt"),
                tls: series("tls.rt"),
                sasl: series("sasl.rt"),
                api_versions: series("api_versions.rt"),
                metadata: series("metadata.rt"),
            },
            recorder: seat.recorder.clone(),
            out_of_ports: RefCell::default(),
        };
        let fits = connections_max() / u64::from(seat.executors);
        let most = seat.common.max_outstanding.min(usize::try_from(fits).unwrap_or(usize::MAX)).max(1);
        if plan.burst as usize > most {
            return Err(SetupError(format!(
                "--burst {}: this process may hold {most} connections per executor open; raise its limit of open files \
                 (ulimit -n, LimitNOFILE=) or make bursts smaller",
                plan.burst
            )));
        }
        Ok(Churn {
            clients: Rc::new(clients),
            outstanding: Outstanding::new(most),
            before: Ports::now(&Root::default()).ok(),
        })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        match seat.common.load {
            Load::Open { rate, arrivals } => {
                let burst = self.clients.plan.burst;
                let rate = rate / f64::from(burst) / f64::from(seat.executors);
                let mut pacer = Pacer::new(seat, window, rate, arrivals, seat.seed).of_bursts(burst.into());
                while let Some(intended) = pacer.next().await {
                    for _ in 0..burst {
                        let Some(permit) = pacer.admit(&self.outstanding, intended).await else { break };
                        pacer.begins();
                        let clients = self.clients.clone();
                        spawn_as("churn", async move { clients.come_and_go(intended, Some(permit)).await }).detach();
                    }
                    self.still_possible()?;
                }
            }
            Load::Closed | Load::Own => {
                let mine = (0..seat.common.connections)
                    .filter(|nth| nth % usize::from(seat.executors) == usize::from(seat.executor));
                let tasks: Vec<Task<()>> = mine.map(|_| self.keep_coming(seat, window)).collect();
                for task in tasks {
                    task.await;
                }
                self.still_possible()?;
            }
        }
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        // Each of the steps of a connection that was begun is bounded by the request timeout.
        self.outstanding.none_out().await;
        let mut findings = Findings { about: self.clients.target.about(), ..Findings::default() };
        let Some((before, after)) = self.before.zip(Ports::now(&Root::default()).ok()).filter(|_| seat.executor == 0)
        else {
            return findings;
        };
        let count = |count: u64| Value { value: count as f64, unit: Unit::Count };
        let kept = after.sockets.time_wait.saturating_sub(before.sockets.time_wait);
        findings.values.insert("time_wait_added".into(), count(kept));
        findings.values.insert("local_ports".into(), count(ports(seat, after.per_address_pair)));
        findings
    }
}

/// Ports that the run has towards one address of the target.
fn ports(seat: &Seat, per_address_pair: u64) -> u64 {
    per_address_pair * seat.common.source_ips.len().max(1) as u64
}

impl Churn {
    fn still_possible(&self) -> Result<(), Aborted> {
        self.clients.out_of_ports.borrow().as_ref().map_or(Ok(()), |why| Err(Aborted(why.clone())))
    }

    /// Closed loop: one connection after the other until the window ends.
    fn keep_coming(&self, seat: &Seat, window: Window) -> Task<()> {
        let (clients, stop) = (self.clients.clone(), seat.stop.clone());
        spawn_as("churn", async move {
            loop {
                let now = Instant::now();
                if now >= window.end || stop.is_told() || clients.out_of_ports.borrow().is_some() {
                    return;
                }
                clients.come_and_go(now, None).await;
            }
        })
    }
}

impl Clients {
    /// One connection's life.
    async fn come_and_go(&self, intended: Instant, permit: Option<Permit>) {
        let began = Instant::now();
        match self.steps(intended).await {
            Ok(()) => self.operation.answered(intended, began, 0),
            Err((step, error)) => {
                if let CallError::NoLocalAddress(why) = &error {
                    self.out_of_ports.borrow_mut().get_or_insert_with(|| self.advice(why));
                }
                self.operation.failed(intended, began, error.code());
                self.recorder.count(step, intended, 1);
            }
        }
        drop(permit);
    }

    async fn steps(&self, intended: Instant) -> Result<(), (&'static str, CallError)> {
        let record = |series, took| self.recorder.record(series, intended, took);
        let connected = self.target.connect_timed(&self.broker).await;
        let (mut connection, steps) = connected.map_err(|error| ("failed.connect", error))?;
        record(self.steps.tcp, steps.tcp);
        if let Some(took) = steps.tls {
            record(self.steps.tls, took);
        }
        if let Some(took) = steps.sasl {
            record(self.steps.sasl, took);
        }

        let began = Instant::now();
        let hello = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("ringgate-bench"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let answer = connection.call(self.versions.api_versions, &hello).await;
        answered("failed.api_versions", answer.map(|answer| answer.error_code))?;
        record(self.steps.api_versions, began.elapsed());

        let began = Instant::now();
        // The brokers only, as a client asks that knows its topics later.
        let metadata = MetadataRequest::default().with_topics(Some(Vec::new())).with_allow_auto_topic_creation(false);
        answered("failed.metadata", connection.call(self.versions.metadata, &metadata).await.map(|_| 0))?;
        record(self.steps.metadata, began.elapsed());

        match self.plan.close {
            Close::Fin => connection.close(),
            Close::Rst => connection.reset(),
        }
        Ok(())
    }

    /// What to do when there is no port left.
    fn advice(&self, why: &str) -> String {
        let state = Ports::now(&Root::default()).map_or_else(
            |error| error.to_string(),
            |ports| {
                format!(
                    "{} connections are in TIME_WAIT and {} in use, and each local address has the ports {}-{} towards \
                     one address of the target",
                    ports.sockets.time_wait, ports.sockets.in_use, ports.range.0, ports.range.1
                )
            },
        );
        format!(
            "no local port is left ({why}): {state}. Close by reset (--close rst), give more local addresses \
             (--source-ips 127.0.0.2,127.0.0.3 on loopback), widen net.ipv4.ip_local_port_range, or connect more slowly \
             (--rate)"
        )
    }
}

/// An answer's code as the end of a step.
fn answered(step: &'static str, code: Result<i16, CallError>) -> Result<(), (&'static str, CallError)> {
    match code {
        Ok(0) => Ok(()),
        Ok(code) => Err((step, CallError::Kafka { code, what: step.trim_start_matches("failed.").into() })),
        Err(error) => Err((step, error)),
    }
}
