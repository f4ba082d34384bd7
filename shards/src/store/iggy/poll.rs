//! Reads batches of a partition.

use std::time::{Duration, Instant};

use bytes::Bytes;
use iggy_binary_protocol::WireIdentifier;
use iggy_binary_protocol::codec::{WireDecode, WireEncode};
use iggy_binary_protocol::codes::POLL_MESSAGES_DEFERRED_CODE;
use iggy_binary_protocol::primitives::consumer::WireConsumer;
use iggy_binary_protocol::primitives::polling_strategy::WirePollingStrategy;
use iggy_binary_protocol::requests::messages::{DeferredPollMessagesRequest, PollMessagesRequest};
use iggy_binary_protocol::responses::messages::poll_messages::{POLL_RESPONSE_HEADER_SIZE, PollMessagesResponseHeader};

use super::clients::request;
use super::limits::{POLL_BYTES_MAX, POLL_BYTES_MIN, POLL_MESSAGES_MAX};
use super::{Clients, Failure, IggyTopic, Use};

/// The consumer that polls name. Nothing is kept of it: every poll says where it starts and commits nothing.
const CONSUMER: u32 = 1;

/// Time that the SDK and the server need beyond a wait.
const BEYOND_WAIT: Duration = Duration::from_secs(5);

/// Where a read starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// At this offset, or the first that is still there.
    Offset(u64),
    /// At the first message that was appended at this time (microseconds) or later.
    AppendTime(u64),
    /// At the first message that is still there.
    First,
    /// At the last message.
    Last,
}

/// A read of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Poll {
    /// Where from.
    pub topic: IggyTopic,
    /// The partition's number.
    pub partition: u32,
    /// Its first message.
    pub from: From,
    /// The most messages.
    pub messages_max: u32,
    /// The most bytes of batches; the first message comes whatever its size is.
    pub bytes_max: usize,
    /// How long the server may wait for a message when there is none.
    pub wait: Duration,
    /// When it is to be answered, without the wait.
    pub timeout: Duration,
}

/// What was read.
#[derive(Debug, Clone)]
pub(crate) struct Polled {
    /// The offset of the partition's last message; 0 also when there never was one.
    pub current_offset: u64,
    /// How many messages there are in the batches.
    pub messages: u32,
    /// Whole batches, one behind the other.
    pub batches: Bytes,
}

/// Reads. A read that waits has a client of those that wait, so that it holds up no other.
pub(crate) async fn poll(clients: &Clients, poll: Poll) -> Result<Polled, Failure> {
    let body = body(&poll)?;
    let deadline = Instant::now() + poll.timeout + if poll.wait.is_zero() { Duration::ZERO } else { poll.wait };
    let reply = if poll.wait.is_zero() {
        let client = clients.get(Use::Read, deadline).await?;
        request(&client, POLL_MESSAGES_DEFERRED_CODE, body, deadline).await
    } else {
        let (client, _permit) = clients.get_waiting(deadline).await?;
        request(&client, POLL_MESSAGES_DEFERRED_CODE, body, deadline).await
    };
    let reply = reply.map_err(|failure| clients.failed(failure))?;
    let (header, _) = PollMessagesResponseHeader::decode(&reply).map_err(|_| clients.failed(Failure::MALFORMED))?;
    let batches = reply.slice(POLL_RESPONSE_HEADER_SIZE..);
    Ok(Polled { current_offset: header.current_offset, messages: header.messages_count, batches })
}

fn body(poll: &Poll) -> Result<Bytes, Failure> {
    let (stream_id, topic_id) = poll.topic.identifiers()?;
    let request = DeferredPollMessagesRequest {
        poll: PollMessagesRequest {
            consumer: WireConsumer::consumer(WireIdentifier::Numeric(CONSUMER)),
            stream_id,
            topic_id,
            partition_id: Some(poll.partition),
            strategy: match poll.from {
                From::Offset(offset) => WirePollingStrategy::offset(offset),
                From::AppendTime(us) => WirePollingStrategy::timestamp(us),
                From::First => WirePollingStrategy::first(),
                From::Last => WirePollingStrategy::last(),
            },
            count: poll.messages_max.clamp(1, POLL_MESSAGES_MAX),
            auto_commit: false,
        },
        wait_us: micros(poll.wait),
        min_count: 1,
        max_bytes: poll.bytes_max.clamp(POLL_BYTES_MIN, POLL_BYTES_MAX) as u32,
        request_timeout_us: micros(poll.wait + BEYOND_WAIT),
    };
    Ok(request.to_bytes())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
