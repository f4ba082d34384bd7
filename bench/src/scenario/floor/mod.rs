//! `floor`: a raw TCP echo of frames of equal sizes, which is what the machine, its kernel and this generator take by
//! themselves. What a target takes over it is the target's.

mod frame;
mod link;
mod pool;
mod serve;

use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Instant;

use ringgate_runtime::BufferPool;

pub use frame::{FRAME_MAX, FRAME_MIN};
use link::Link;
use pool::Pool;
pub use serve::serve;

use crate::engine::{Outstanding, Pacer};
use crate::measure::{Recorder, SeriesId, Window};
use crate::plan::{Load, UsageError};
use crate::result::Parameter;
use crate::result::errors::TIMED_OUT;
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// Sizes of both frames, their length fields counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In bytes.
    pub request_bytes: usize,
    /// In bytes; other than `request_bytes` only against `floor --serve`.
    pub response_bytes: usize,
}

impl Plan {
    /// Sizes of this by default: a Kafka heartbeat's, about.
    pub const BYTES_DEFAULT: usize = 64;

    /// Checks both.
    ///
    /// # Errors
    /// One is out of bounds.
    pub fn new(request_bytes: usize, response_bytes: usize) -> Result<Plan, UsageError> {
        for (flag, bytes) in [("request-bytes", request_bytes), ("response-bytes", response_bytes)] {
            if !(FRAME_MIN..=FRAME_MAX).contains(&bytes) {
                let allowed = format!("a frame has from {FRAME_MIN} to {FRAME_MAX} bytes");
                return Err(UsageError { flag, value: bytes.to_string(), allowed });
            }
        }
        Ok(Plan { request_bytes, response_bytes })
    }
}

/// Records an echo.
#[derive(Clone)]
struct Operation {
    recorder: Recorder,
    rt: SeriesId,
    st: SeriesId,
    wt: SeriesId,
}

impl Operation {
    fn new(seat: &Seat) -> Operation {
        let recorder = seat.recorder.clone();
        Operation { rt: seat.primary_rt, st: recorder.series("floor.st"), wt: recorder.series("floor.wt"), recorder }
    }

    fn answered(&self, intended: Instant, sent: Instant, now: Instant) {
        self.recorder.record(self.rt, intended, now.saturating_duration_since(intended));
        self.sent(intended, sent, now);
    }

    /// Its time is over: an error, and a latency.
    fn timed_out(&self, intended: Instant, sent: Instant, now: Instant) {
        self.recorder.record_unanswered(self.rt, intended, now.saturating_duration_since(intended));
        self.sent(intended, sent, now);
        self.error(TIMED_OUT, intended);
    }

    fn sent(&self, intended: Instant, sent: Instant, now: Instant) {
        self.recorder.record(self.st, intended, now.saturating_duration_since(sent));
        self.recorder.record(self.wt, intended, sent.saturating_duration_since(intended));
        self.recorder.count("floor.requests", intended, 1);
    }

    fn bytes(&self, intended: Instant, now: Instant, bytes: usize) {
        self.recorder.count_moved("bytes", intended, now, bytes as u64);
    }

    fn error(&self, code: i16, intended: Instant) {
        self.recorder.error(Floor::PRIMARY, code, intended);
    }
}

/// One executor's connections.
pub struct Floor {
    pool: Rc<Pool>,
    outstanding: Outstanding,
}

impl Scenario for Floor {
    const NAME: &'static str = "floor";
    const PRIMARY: &'static str = "floor";
    type Plan = Plan;
    type Shared = Vec<SocketAddr>;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        let parameter = |name: &str, bytes: usize| Parameter {
            name: name.into(),
            value: bytes.to_string(),
            default: bytes == Plan::BYTES_DEFAULT,
        };
        vec![parameter("request-bytes", plan.request_bytes), parameter("response-bytes", plan.response_bytes)]
    }

    async fn found(plan: &Plan, seat: &Seat) -> Result<Vec<SocketAddr>, SetupError> {
        let mut addresses = Vec::new();
        for bootstrap in &seat.common.bootstrap {
            let resolved = bootstrap
                .to_socket_addrs()
                .map_err(|error| SetupError(format!("cannot resolve {bootstrap}: {error}")))?;
            addresses.extend(resolved.take(1));
        }
        for (address, bootstrap) in addresses.iter().zip(&seat.common.bootstrap) {
            probe(*address, plan, seat).await.map_err(|why| SetupError(format!("{bootstrap}: {why}")))?;
        }
        Ok(addresses)
    }

    async fn prepare(plan: &Plan, addresses: &Vec<SocketAddr>, seat: &Seat) -> Result<Floor, SetupError> {
        let common = &seat.common;
        let mine = (0..common.connections).filter(|n| n % usize::from(seat.executors) == usize::from(seat.executor));
        let mine: Vec<SocketAddr> = mine.map(|n| addresses[n % addresses.len()]).collect();
        let most = common.max_outstanding.min(mine.len() * common.in_flight);
        let closed = matches!(common.load, Load::Closed);
        let pool = Pool::new(plan.clone(), Operation::new(seat), common.clone(), closed);
        Pool::connect(&pool, &mine).await?;
        Ok(Floor { pool, outstanding: Outstanding::new(most) })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        match seat.common.load {
            Load::Closed | Load::Own => self.pool.closed_loop(window, &seat.stop, &self.outstanding).await,
            Load::Open { rate, arrivals } => {
                let mut pacer = Pacer::new(seat, window, rate / f64::from(seat.executors), arrivals, seat.seed);
                while let Some(intended) = pacer.next().await {
                    let Some(permit) = pacer.admit(&self.outstanding, intended).await else { break };
                    let Some(link) = pacer.wait_for(intended, self.pool.with_room()).await else { break };
                    link.submit(intended, Some(permit));
                }
            }
        }
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        self.pool.stop_sending();
        let _ = ringgate_runtime::timeout(seat.common.request_timeout * 2, self.outstanding.none_out()).await;
        self.pool.close().await;
        Findings::default()
    }
}

/// One round trip, to see what is there.
async fn probe(address: SocketAddr, plan: &Plan, seat: &Seat) -> Result<(), String> {
    let most = seat.common.request_timeout;
    let stream = ringgate_runtime::timeout(most, ringgate_runtime::TcpStream::connect(address))
        .await
        .map_err(|_| format!("cannot connect to {address} within {most:?}"))?
        .map_err(|error| format!("cannot connect to {address}: {error}"))?;
    let request =
        vec![frame::head(plan.request_bytes, plan.response_bytes, 0), vec![0; plan.request_bytes - FRAME_MIN].into()];
    let answer = async {
        stream.send(request).await.map_err(|error| error.to_string())?;
        let (pool, mut held) = (BufferPool::new(), bytes::BytesMut::new());
        loop {
            if let Some(frame) = frame::peek(&held).map_err(|error| error.to_string())? {
                return Ok(frame.bytes);
            }
            match stream.recv(&pool).await {
                Ok(Some(bytes)) => held.extend_from_slice(&bytes),
                Ok(None) => return Err("the connection was closed".to_string()),
                Err(error) => return Err(error.to_string()),
            }
        }
    };
    let bytes = ringgate_runtime::timeout(most, answer)
        .await
        .map_err(|_| format!("{address} did not answer a frame within {most:?}: is it an echo?"))?
        .map_err(|why| format!("{address} is no echo of frames: {why}"))?;
    if bytes != plan.response_bytes {
        return Err(format!(
            "{address} answered {bytes} bytes, not --response-bytes {}: a plain echo answers what it gets, \
             `ringgate-bench floor --serve` what is asked for",
            plan.response_bytes
        ));
    }
    Ok(())
}
