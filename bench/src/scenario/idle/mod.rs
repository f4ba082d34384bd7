//! `idle`: what connections cost that are held and do nothing, stop within a frame, or leave their answers unread.
//!
//! They are made in equal steps of the measured window. At each step's end the server's memory and the kernel's are
//! read beside the number held by then; bytes per connection are the slope through those plateaus, which neither
//! what the server had before nor a buffer that it made once can move. A probe connection's round trips go on meanwhile.

mod held;
mod plan;
mod probe;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringgate_client::Target;
use ringgate_runtime::{sleep_until, spawn_as};

use held::Held;
pub use plan::{Kind, Plan};
use probe::Probe;

use crate::engine::unless_told;
use crate::host::{Memory, Plateaus, Root, SocketMemory, memory, socket_memory};
use crate::limits::PLATEAU_READ_BEFORE;
use crate::measure::Window;
use crate::result::{Parameter, Unit, Value};
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// What all executors share.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    /// Connections that are held, over all executors.
    held: Arc<AtomicU64>,
}

/// One executor's part.
pub struct Idle {
    plan: Plan,
    target: Target,
    probe: Rc<Probe>,
    held: Rc<Held>,
    shared: Shared,
    readings: Vec<Reading>,
}

/// What was read at a plateau.
struct Reading {
    held: u64,
    server: Option<Result<Memory, String>>,
    kernel: Result<SocketMemory, String>,
}

impl Scenario for Idle {
    const NAME: &'static str = "idle";
    const PRIMARY: &'static str = "probe";
    type Plan = Plan;
    type Shared = Shared;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        plan.parameters()
    }

    async fn found(_: &Plan, _: &Seat) -> Result<Shared, SetupError> {
        Ok(Shared::default())
    }

    async fn prepare(plan: &Plan, shared: &Shared, seat: &Seat) -> Result<Idle, SetupError> {
        let target = Target::reach(&seat.common.client()).await?;
        Ok(Idle {
            plan: plan.clone(),
            probe: Probe::new(&target, seat).await?,
            held: Held::new(plan, &target, shared, &seat.recorder)?,
            target,
            shared: shared.clone(),
            readings: Vec::new(),
        })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        let probing = spawn_as("probe", {
            let (seat, probe, rate) = (seat.clone(), self.probe.clone(), self.plan.probe_rate);
            async move { probe.ask(&seat, window, rate).await }
        });
        // What the server has before the first.
        if unless_told(&seat.stop, sleep_until(window.measure_from)).await.is_some() {
            self.read(seat).await;
        }
        let steps = u64::from(self.plan.plateaus);
        let length = window.end.saturating_duration_since(window.measure_from) / self.plan.plateaus;
        let rate = self.plan.connect_rate / f64::from(seat.executors);
        for step in 1..=steps {
            if seat.stop.is_told() {
                break;
            }
            let level = share(seat, seat.common.connections as u64 * step / steps);
            self.held.fill(level, rate, &seat.stop).await;
            let ends = window.measure_from + length * u32::try_from(step).unwrap_or(u32::MAX);
            let read_at = ends.checked_sub(PLATEAU_READ_BEFORE.min(length / 10)).unwrap_or(ends);
            if unless_told(&seat.stop, sleep_until(read_at)).await.is_some() {
                self.read(seat).await;
            }
        }
        probing.await;
        self.probe.none_out().await;
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        let mut findings = Findings { about: self.target.about(), ..Findings::default() };
        let (closed, example) = self.held.check().await;
        findings.checks.violations.insert("closed_by_target".into(), closed);
        findings.checks.examples.extend(example.map(|why| format!("a connection that was held: {why}")));
        if let Some(why) = self.held.refused() {
            findings.notes.push(format!("not all connections could be made: {why}"));
        }
        if seat.executor == 0 {
            tell(&self.readings, seat, &mut findings);
        }
        findings
    }
}

impl Idle {
    /// Reads the plateau, on executor 0, from a thread beside it: adding up a process's memory takes milliseconds.
    async fn read(&mut self, seat: &Seat) {
        if seat.executor != 0 {
            return;
        }
        let (held, pid) = (self.shared.held.load(Ordering::Relaxed), seat.server_pid);
        let (tell, told) = ringgate_runtime::oneshot();
        let read = move || {
            let root = Root::default();
            let text = |error: std::io::Error| error.to_string();
            let reading = Reading {
                held,
                server: pid.map(|pid| memory(&root, pid).map_err(text)),
                kernel: socket_memory(&root).map_err(text),
            };
            // The run may be over.
            let _ = tell.send(reading);
        };
        if std::thread::Builder::new().name("plateau".into()).spawn(read).is_ok()
            && let Ok(reading) = told.await
        {
            self.readings.push(reading);
        }
    }
}

/// This executor's part of a number of connections: the first executors take what does not divide.
fn share(seat: &Seat, of: u64) -> u64 {
    let (executor, executors) = (u64::from(seat.executor), u64::from(seat.executors));
    of / executors + u64::from(executor < of % executors)
}

/// What the readings come to.
fn tell(readings: &[Reading], seat: &Seat, findings: &mut Findings) {
    let mut put = |name: &str, value: f64, unit| findings.values.insert(name.into(), Value { value, unit });
    let mut notes = Vec::new();
    // The first was read before any was held: it is no plateau.
    let plateaus = readings.get(1..).unwrap_or_default();
    let (mut server, mut kernel) = (Plateaus::default(), Plateaus::default());
    for reading in plateaus {
        if let Some(Ok(memory)) = &reading.server {
            server.push(reading.held, memory.rss_bytes);
        }
        if let Ok(sockets) = &reading.kernel {
            kernel.push(reading.held, sockets.bytes);
        }
    }
    if let Some(last) = readings.last() {
        put("held_connections", last.held as f64, Unit::Count);
    }
    match (seat.server_pid, server.slope()) {
        (_, Some(slope)) => {
            put("rss_per_conn", slope.per_unit, Unit::Bytes);
            put("rss_fit", slope.r2, Unit::Ratio);
        }
        (None, None) => notes.push("rss_per_conn takes --server-pid, the target's process on this machine".into()),
        (Some(pid), None) => {
            let reason = plateaus.iter().find_map(|reading| reading.server.as_ref()?.as_ref().err());
            let reason = reason.map_or_else(too_few, Clone::clone);
            notes.push(format!("no rss_per_conn of process {pid}: {reason}"));
        }
    }
    match kernel.slope() {
        Some(slope) => {
            put("kernel_per_conn", slope.per_unit, Unit::Bytes);
            notes.push(
                "kernel_per_conn is what this host's TCP queues hold (/proc/net/sockstat): both ends' where the target \
                 runs here too, and not the sockets' own structures"
                    .into(),
            );
        }
        None => {
            let reason = plateaus.iter().find_map(|reading| reading.kernel.as_ref().err());
            notes.push(format!("no kernel_per_conn: {}", reason.map_or_else(too_few, Clone::clone)));
        }
    }
    let rows = readings.iter().map(|reading| {
        let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20));
        let server = match &reading.server {
            Some(Ok(memory)) => format!(", server {} resident", mib(memory.rss_bytes)),
            _ => String::new(),
        };
        let kernel =
            reading.kernel.as_ref().map_or_else(|_| String::new(), |kernel| format!(", kernel {}", mib(kernel.bytes)));
        format!("{} held{server}{kernel}", reading.held)
    });
    notes.push(format!("plateaus: {}", rows.collect::<Vec<_>>().join("; ")));
    findings.notes.extend(notes);
}

fn too_few() -> String {
    format!("the run ended before {} plateaus", Plateaus::LEAST)
}
