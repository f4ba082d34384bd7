//! SendMessages, and where a partition is.

use bytes::Bytes;
use iggy_binary_protocol::requests::messages::{GetPartitionRouteRequest, SendMessagesHeader};
use iggy_binary_protocol::responses::messages::{
    PartitionRouteResponse, SendMessagesConfirmationResponse, SendMessagesResponse,
};
use iggy_binary_protocol::{WireDecode, WireEncode, WirePartitioning};
use ringgate_shards::call::{Attempt, SendCall};
use ringgate_shards::catalogue::Topic;
use ringgate_shards::iggy_code::IggyCode;
use ringgate_wire::iggy::IggyBatchHeader;
use twox_hash::XxHash32;

use super::super::frames::{Answer, Request};
use super::super::link::Link;
use super::cluster::REPLICA;
use super::resolve;

/// Bytes of the length in front of what says where a batch goes.
const LENGTH_BYTES: usize = 4;

/// Where a partition is, and which one of its name it is.
pub fn route(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = GetPartitionRouteRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let topic = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id)?;
    resolve::partition(topic, asked.partition_id)?;
    let response = PartitionRouteResponse {
        incarnation: topic.incarnation(),
        metadata_op: link.shard.ops().current(),
        view: 0,
        partitions_count: topic.partitions.unsigned_abs(),
        primary_replica: REPLICA,
    };
    Ok(Answer::read(response.to_bytes()))
}

/// Appends a batch; answered when it is as safe as the gateway's `fsync` setting says. Its number is that of the
/// request, so that it stays the same when the request comes again.
pub async fn send(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let (asked, batch) = parts(&request.body).ok_or(IggyCode::INVALID_COMMAND)?;
    let header = IggyBatchHeader::parse(&batch).map_err(|error| IggyCode(error.code()))?;
    if header.messages != asked.messages_count {
        return Err(IggyCode::INVALID_COMMAND);
    }
    let catalogue = link.shard.catalogue();
    let topic = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id)?;
    let incarnation = request.header.partition_incarnation;
    let id = match &asked.partitioning {
        WirePartitioning::PartitionId(id) => *id,
        _ if header.producer.is_some() => return Err(IggyCode::PRODUCER_PARTITION_REQUIRED),
        other => chosen(topic, other, request.header.request),
    };
    let at = match &asked.partitioning {
        WirePartitioning::PartitionId(_) => resolve::routed(topic, id, incarnation)?,
        // Whoever leaves the choice to the gateway has no route.
        _ => resolve::partition(topic, id)?,
    };
    let Some(identity) = link.bound() else { return Err(IggyCode::UNAUTHENTICATED) };
    let attempt = Attempt { session: identity.session, request: request.header.request };
    let call = SendCall { at, batch, attempt };
    let sent = link.shard.submit_to(topic.owner(link.shard.route(), at.partition), call).await.0;
    let sent = sent.map_err(|refusal| {
        tracing::debug!(code = refusal.code.0, why = refusal.message, "a batch of an Iggy client is refused");
        refusal.code
    })?;
    let confirmation = SendMessagesConfirmationResponse {
        stream_id: topic.stream,
        topic_id: topic.number,
        partition_id: id,
        base_offset: sent.base_offset,
    };
    let response = SendMessagesResponse { confirmations: vec![confirmation] };
    Ok(Answer::Committed(request.header.request, response.to_bytes()))
}

/// What says where the batch goes, and the batch.
fn parts(body: &Bytes) -> Option<(SendMessagesHeader, Bytes)> {
    let length = usize::try_from(u32::from_le_bytes(*body.first_chunk::<LENGTH_BYTES>()?)).ok()?;
    let end = LENGTH_BYTES.checked_add(length).filter(|end| *end <= body.len())?;
    let (asked, read) = SendMessagesHeader::decode(&body[LENGTH_BYTES..end]).ok()?;
    (read == length).then(|| (asked, body.slice(end..)))
}

/// The partition where the sender leaves the choice: by the key, as the SDK does it, or in turn by the number of the
/// request, so that one that comes again goes where it went before.
fn chosen(topic: &Topic, partitioning: &WirePartitioning, request: u64) -> u32 {
    let partitions = topic.partitions.unsigned_abs().max(1);
    match partitioning {
        WirePartitioning::MessagesKey(key) => XxHash32::oneshot(0, key) % partitions,
        WirePartitioning::PartitionId(id) => *id,
        WirePartitioning::Balanced => (request % u64::from(partitions)) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn batches_go_round_and_one_that_comes_again_goes_where_it_went_before() {
        let topic = Topic { partitions: 3, ..Topic::new(Uuid::nil(), 1, (1, "s"), "t".into()) };
        let to = |request| chosen(&topic, &WirePartitioning::Balanced, request);
        assert_eq!([5, 6, 7, 8].map(to), [2, 0, 1, 2]);
        assert_eq!([5, 5, u64::MAX].map(to), [2, 2, 0]);
    }
}
