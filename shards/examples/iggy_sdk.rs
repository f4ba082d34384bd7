//! Sends messages with Iggy's SDK and nothing else, by a schedule: what a gateway's Iggy store is held against.
//!
//! `iggy_sdk --server HOST:PORT --password WORD [--rate MESSAGES/S] [--seconds N] [--warmup SECONDS]
//! [--batch MESSAGES] [--bytes N] [--partitions N]`; it prints a line of JSON: CPU time per MB of payload, and what
//! an acknowledgement of a batch took from when the batch was meant to be sent, in ns. One connection and one thread;
//! each partition has one batch in flight, as the SDK allows.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use iggy::prelude::*;

const STREAM: &str = "sdk";

struct Plan {
    server: String,
    password: String,
    rate: f64,
    window: Duration,
    warmup: Duration,
    batch: usize,
    bytes: usize,
    partitions: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut flags = BTreeMap::new();
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
        flags.insert(flag, value);
    }
    let plan = plan(&mut flags)?;
    if let Some(flag) = flags.keys().next() {
        return Err(format!("unknown flag {flag}").into());
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(plan))
}

fn plan(flags: &mut BTreeMap<String, String>) -> Result<Plan, Box<dyn Error>> {
    let mut number = |flag: &str, default: f64| -> Result<f64, Box<dyn Error>> {
        let value = flags.remove(flag).map_or(Ok(default), |value| value.parse())?;
        if value > 0.0 { Ok(value) } else { Err(format!("{flag} {value}: more than 0").into()) }
    };
    let rate = number("--rate", 1_000.0)?;
    let window = Duration::from_secs_f64(number("--seconds", 10.0)?);
    let warmup = Duration::from_secs_f64(number("--warmup", 2.0)?);
    let batch = number("--batch", 16.0)? as usize;
    let bytes = number("--bytes", 1_024.0)? as usize;
    let partitions = number("--partitions", 4.0)? as u32;
    let server = flags.remove("--server").ok_or("--server HOST:PORT is needed")?;
    let password = flags.remove("--password").ok_or("--password WORD is needed")?;
    Ok(Plan { server, password, rate, window, warmup, batch, bytes, partitions })
}

async fn run(plan: Plan) -> Result<(), Box<dyn Error>> {
    let client = IggyClient::builder()
        .with_tcp()
        .with_server_address(plan.server.clone())
        .with_auto_sign_in(AutoLogin::Enabled(Credentials::UsernamePassword(
            "iggy".into(),
            plan.password.clone().into(),
        )))
        .with_no_delay()
        .build()?;
    client.connect().await?;
    let client = Arc::new(client);
    // A run of its own: what an earlier one left is not looked at.
    let topic = format!("run-{}", std::process::id());
    if let Err(error) = client.create_stream(STREAM, &StreamCreateOptions::default()).await
        && !matches!(error, IggyError::StreamNameAlreadyExists(_))
    {
        return Err(error.into());
    }
    let stream = Identifier::named(STREAM)?;
    let options = TopicCreateOptions { partitions_count: Some(plan.partitions), ..Default::default() };
    client.create_topic(&stream, &topic, &options).await?;

    let began = Instant::now();
    let counted_from = began + plan.warmup;
    let end = counted_from + plan.window;
    let senders: Vec<_> = (0..plan.partitions)
        .map(|partition| {
            let interval = Duration::from_secs_f64(plan.batch as f64 * f64::from(plan.partitions) / plan.rate);
            // Partitions take turns.
            let first = began + interval * partition / plan.partitions;
            let sender = Sender {
                client: client.clone(),
                topic: topic.clone(),
                partition,
                payload: Bytes::from(vec![b'v'; plan.bytes]),
                batch: plan.batch,
            };
            tokio::spawn(async move { sender.send(first, interval, counted_from, end).await })
        })
        .collect();
    tokio::time::sleep_until(counted_from.into()).await;
    let cpu_before = cpu_ns()?;
    let mut taken: Vec<u64> = Vec::new();
    for sender in senders {
        taken.extend(sender.await??);
    }
    let cpu_ns = cpu_ns()? - cpu_before;

    taken.sort_unstable();
    let last = taken.len().checked_sub(1).ok_or("no batch was acknowledged in the window")?;
    let megabytes = (taken.len() * plan.batch * plan.bytes) as f64 / 1e6;
    println!(
        r#"{{"batches":{},"late_s":{:.3},"cpu_ms_per_mb":{:.4},"p50_ns":{},"p99_ns":{}}}"#,
        taken.len(),
        end.elapsed().as_secs_f64(),
        cpu_ns as f64 / 1e6 / megabytes,
        taken[last / 2],
        taken[last * 99 / 100]
    );
    client.delete_topic(&stream, &Identifier::named(&topic)?).await?;
    Ok(())
}

/// What goes to one partition.
struct Sender {
    client: Arc<IggyClient>,
    topic: String,
    partition: u32,
    payload: Bytes,
    batch: usize,
}

impl Sender {
    /// A batch each interval; a late one at once, from its own moment on. What each took that was meant to be sent in
    /// the window, in ns.
    async fn send(
        &self,
        first: Instant,
        interval: Duration,
        counted_from: Instant,
        end: Instant,
    ) -> Result<Vec<u64>, IggyError> {
        let (stream, topic) = (Identifier::named(STREAM)?, Identifier::named(&self.topic)?);
        let to = Partitioning::partition_id(self.partition);
        let mut taken = Vec::new();
        let mut meant = first;
        while meant < end {
            tokio::time::sleep_until(meant.into()).await;
            let mut messages = Vec::with_capacity(self.batch);
            for _ in 0..self.batch {
                messages.push(IggyMessage::builder().payload(self.payload.clone()).build()?);
            }
            self.client.send_messages(&stream, &topic, &to, &mut messages).await?;
            if meant >= counted_from {
                taken.push(u64::try_from(meant.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            meant += interval;
        }
        Ok(taken)
    }
}

/// What this thread, which does everything here, has had of a CPU.
fn cpu_ns() -> Result<u64, Box<dyn Error>> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(told.split(' ').next().ok_or("no CPU time in schedstat")?.parse()?)
}
