//! Writes a batch to a partition: until it is there, refused, or its time is over.

use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use iggy::prelude::{Client, IggyClient};
use iggy_binary_protocol::WireIdentifier;
use iggy_binary_protocol::codec::WireDecode;
use iggy_binary_protocol::codec::WireEncode;
use iggy_binary_protocol::codes::SEND_MESSAGES_CODE;
use iggy_binary_protocol::primitives::partitioning::WirePartitioning;
use iggy_binary_protocol::responses::messages::SendMessagesResponse;
use ringgate_group::ErrorCode;

use super::clients::request;
use super::limits::RETRY_FIRST;
use super::reaction::{Backoff, OnProduce, on_produce};
use super::{Clients, Failure, IggyTopic, Use};

/// A batch to be written.
#[derive(Debug, Clone)]
pub(crate) struct Send {
    /// Where to.
    pub topic: IggyTopic,
    /// The partition's number.
    pub partition: u32,
    /// Its hash, which chooses the client.
    pub hash: u64,
    /// Header and frames, as [`ringgate_wire`] builds them.
    pub batch: Bytes,
    /// How many messages are in it.
    pub messages: u32,
    /// Whether an idempotent producer wrote it, so that it can be sent again without being written twice.
    pub idempotent: bool,
    /// When it is to be decided.
    pub deadline: Instant,
}

/// Where a batch came to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The offset of its first message; `None`: it is written, and Iggy does not say where.
    pub base_offset: Option<u64>,
}

/// Why a batch was not written, or not for sure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotSent {
    /// Kafka's code.
    pub error: ErrorCode,
    /// What happened.
    pub failure: Failure,
}

/// Writes the batch. Callers send the batches of a partition one after the other.
///
/// What a lost connection leaves open is settled here. A batch of an idempotent producer is sent again, as a new
/// operation, until Iggy says what has become of it: Iggy knows the sequence, so it is written once. Any other is
/// left with the SDK, which asks for that very operation; if that does not come to an end in time, the client
/// is told so, and what it sends again may then be there twice.
pub(crate) async fn send(clients: &Clients, send: Send) -> Result<Sent, NotSent> {
    let body = body(&send).map_err(|failure| NotSent { error: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, failure })?;
    let mut attempts = Attempts { clients, send: &send, backoff: Backoff::from(RETRY_FIRST), maybe: false };
    let mut made_anew = false;
    loop {
        let failure = match attempts.once(&body).await {
            Ok(sent) => return Ok(sent),
            Err(failure) => clients.failed(failure),
        };
        let not_sent = |error| Err(NotSent { error, failure });
        match on_produce(failure) {
            OnProduce::Written => return Ok(Sent { base_offset: None }),
            OnProduce::Again => {}
            OnProduce::Blocked(operation) => attempts.abandon(operation).await,
            OnProduce::Recreated if !made_anew => made_anew = true,
            OnProduce::Recreated => return not_sent(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            OnProduce::Unknown(operation) => {
                attempts.maybe = true;
                if send.idempotent {
                    if let Some(operation) = operation {
                        attempts.abandon(operation).await;
                    }
                } else {
                    return attempts
                        .settle(operation)
                        .await
                        .map_err(|failure| NotSent { error: ErrorCode::REQUEST_TIMED_OUT, failure });
                }
            }
            OnProduce::Refuse(error) => return not_sent(error),
        }
        if !attempts.wait().await {
            return not_sent(match attempts.maybe {
                true => ErrorCode::REQUEST_TIMED_OUT,
                false => ErrorCode::NOT_LEADER_OR_FOLLOWER,
            });
        }
    }
}

struct Attempts<'a> {
    clients: &'a Clients,
    send: &'a Send,
    backoff: Backoff,
    /// An attempt may have written it.
    maybe: bool,
}

impl Attempts<'_> {
    async fn client(&self) -> Result<std::sync::Arc<IggyClient>, Failure> {
        self.clients.get(Use::Send(self.send.hash), self.send.deadline).await
    }

    async fn once(&self, body: &Bytes) -> Result<Sent, Failure> {
        let client = self.client().await?;
        let reply = request(&client, SEND_MESSAGES_CODE, body.clone(), self.attempt_deadline()).await?;
        let confirmed = SendMessagesResponse::decode_from(&reply).ok();
        let base_offset = confirmed.and_then(|reply| reply.confirmations.first().map(|first| first.base_offset));
        Ok(Sent { base_offset })
    }

    /// An idempotent batch leaves time for another attempt, since the SDK asks for an operation whose outcome it
    /// does not know until its deadline.
    fn attempt_deadline(&self) -> Instant {
        let now = Instant::now();
        match self.send.idempotent {
            true => now + self.send.deadline.saturating_duration_since(now) / 2,
            false => self.send.deadline,
        }
    }

    /// Frees the lane of an operation that nobody waits for any more.
    async fn abandon(&self, operation: u64) {
        if let Ok(client) = self.client().await
            && let Err(error) = client.abandon_operation(operation).await
        {
            self.clients.failed(error);
        }
    }

    /// Asks what has become of an operation, and lets go of it.
    async fn settle(&self, operation: Option<u64>) -> Result<Sent, Failure> {
        let unknown = Failure { code: super::failure::OPERATION_UNCERTAIN, operation };
        let Some(operation) = operation else { return Err(unknown) };
        let client = self.client().await?;
        match client.resolve_operation(operation, self.send.deadline).await {
            Ok(()) => Ok(Sent { base_offset: None }),
            Err(error) => {
                self.clients.failed(error);
                self.abandon(operation).await;
                Err(unknown)
            }
        }
    }

    /// Waits before the next attempt; `false` when its time would be over.
    async fn wait(&mut self) -> bool {
        let next = Instant::now() + self.backoff.next();
        if next >= self.send.deadline {
            return false;
        }
        tokio::time::sleep_until(next.into()).await;
        true
    }
}

/// The request's body: where to, and the batch as it is.
fn body(send: &Send) -> Result<Bytes, Failure> {
    let (stream, topic) = send.topic.identifiers()?;
    let partitioning = WirePartitioning::PartitionId(send.partition);
    let metadata = stream.encoded_size() + topic.encoded_size() + partitioning.encoded_size() + 4;
    let mut body = BytesMut::with_capacity(4 + metadata + send.batch.len());
    body.put_u32_le(metadata as u32);
    stream.encode(&mut body);
    topic.encode(&mut body);
    partitioning.encode(&mut body);
    body.put_u32_le(send.messages);
    body.put_slice(&send.batch);
    Ok(body.freeze())
}

impl IggyTopic {
    /// As they stand in requests.
    pub(super) fn identifiers(&self) -> Result<(WireIdentifier, WireIdentifier), Failure> {
        let named = |name: &str| WireIdentifier::named(name).map_err(|_| Failure::MALFORMED);
        Ok((named(&self.stream)?, named(&self.topic)?))
    }
}
