//! A lane with the real SDK against a server that does what a test tells it to.

mod lanes;
mod polls;
mod sends;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use iggy_binary_protocol::WireIdentifier;
use iggy_binary_protocol::batch::BatchProducer;
use iggy_binary_protocol::primitives::partitioning::WirePartitioning;
use iggy_binary_protocol::requests::messages::{RawMessage, SendMessagesEncoder};

use super::send::{NotSent, Send, Sent, send};
use crate::store::mapping::OnUnknown;

use super::{Credentials, IggySettings, IggyTopic, Lane};
use server::Server;

/// How long a test waits for what must come.
const SOON: Duration = Duration::from_secs(20);

fn settings(servers: &[&Server]) -> IggySettings {
    IggySettings {
        servers: servers.iter().map(|server| server.address().to_string()).collect(),
        credentials: Credentials { username: "iggy".into(), password: server::PASSWORD.into() },
        send_clients: 2,
        offset_clients: 2,
        timeout: SOON,
        timeout_at_stop: SOON,
        metadata_refresh: Duration::from_secs(1),
        unknown_messages: OnUnknown::Stop,
        topics: Vec::new(),
    }
}

fn lane(server: &Server) -> Lane {
    lane_with(settings(&[server]))
}

fn lane_with(settings: IggySettings) -> Lane {
    Lane::start("test-lane", Arc::new(settings)).expect("a lane")
}

fn topic() -> IggyTopic {
    IggyTopic { stream: "kafka".into(), topic: "t".into() }
}

/// A batch of these payloads, without the part of a request that says where it goes.
fn batch(payloads: &[&str], producer: Option<BatchProducer>) -> Bytes {
    let messages: Vec<RawMessage<'_>> = payloads
        .iter()
        .map(|payload| RawMessage { id: 0, origin_timestamp: 1, headers: None, payload: payload.as_bytes() })
        .collect();
    let (id, partitioning) = (WireIdentifier::Numeric(1), WirePartitioning::PartitionId(0));
    let mut body = BytesMut::new();
    SendMessagesEncoder::encode_with_producer(&mut body, &id, &id, &partitioning, producer, &messages)
        .expect("a batch");
    let metadata = u32::from_le_bytes(body[..4].try_into().expect("4 bytes")) as usize;
    body.freeze().slice(4 + metadata..)
}

fn to_send(payloads: &[&str], producer: Option<BatchProducer>, within: Duration) -> Send {
    Send {
        topic: topic(),
        partition: 0,
        hash: 0,
        batch: batch(payloads, producer),
        messages: payloads.len() as u32,
        idempotent: producer.is_some(),
        deadline: Instant::now() + within,
    }
}

/// Sends, and waits for what becomes of it.
fn sent(lane: &Lane, what: Send) -> Result<Sent, NotSent> {
    let answer = lane.call_from_thread(move |clients| async move { Ok(send(&clients, what).await) });
    answer.recv_timeout(SOON * 2).expect("an answer").expect("the lane is there")
}
