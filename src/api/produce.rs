//! Produce (API 0): appends record batches. What this submits before its first wait enters each partition
//! in request order.

use std::collections::HashMap;

use bytes::Bytes;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::call::{PartitionProduce, PartitionProduced, ProduceCall, TopicPartition};
use uuid::Uuid;

use super::{Operation, Outcome, RequestContext, Resource};

/// The first version whose answer has the log start offset.
const LOG_START_SINCE: i16 = 5;
/// The first version that may use zstd (KIP-110).
const ZSTD_SINCE: i16 = 7;
/// The first version that says why (KIP-467).
const MESSAGE_SINCE: i16 = 8;
/// The first version that names topics by id (KIP-516).
const TOPIC_IDS_SINCE: i16 = 13;

/// Serves a Produce.
pub async fn handle(ctx: &RequestContext, request: ProduceRequest) -> Outcome {
    let acks = request.acks;
    let all_refused = if !(-1..=1).contains(&acks) {
        Some((ErrorCode::INVALID_REQUIRED_ACKS, format!("acks = {acks}; allowed are 0, 1 and -1")))
    } else if request.transactional_id.is_some() {
        Some((ErrorCode::INVALID_REQUEST, "transactions are not supported".to_string()))
    } else {
        None
    };

    let mut plan = Plan::default();
    for topic in &request.topic_data {
        for partition in &topic.partition_data {
            let planned = match &all_refused {
                Some(refused) => Err(refused.clone()),
                None => resolve(ctx, &topic.name, topic.topic_id, partition.index),
            };
            plan.add(planned, partition.records.clone());
        }
    }
    let calls: Vec<_> = plan
        .by_owner
        .into_iter()
        .map(|(owner, partitions)| {
            ctx.shard().submit_to(owner, ProduceCall { acks, zstd: ctx.api_version >= ZSTD_SINCE, partitions })
        })
        .collect();
    let mut answers: Vec<Vec<PartitionProduced>> = Vec::with_capacity(calls.len());
    for call in calls {
        answers.push(call.await.0);
    }

    let mut slots = plan.slots.into_iter().map(|slot| match slot {
        Slot::Refused(error, message) => PartitionProduced::refused(NOWHERE, error, Some(message)),
        Slot::Asked { owner, index } => answers[owner][index].clone(),
    });
    let topics: Vec<TopicProduceResponse> = request
        .topic_data
        .iter()
        .map(|topic| {
            let partitions = topic.partition_data.iter().zip(&mut slots);
            let responses = partitions.map(|(p, produced)| response(ctx.api_version, p.index, produced)).collect();
            let topic_response = TopicProduceResponse::default().with_partition_responses(responses);
            if ctx.api_version >= TOPIC_IDS_SINCE {
                topic_response.with_topic_id(topic.topic_id)
            } else {
                topic_response.with_name(topic.name.clone())
            }
        })
        .collect();
    if acks == 0 {
        return silent(&topics);
    }
    ctx.respond(&ProduceResponse::default().with_responses(topics))
}

/// Stands for a partition that does not exist.
const NOWHERE: TopicPartition = TopicPartition { topic: Uuid::nil(), partition: -1 };

/// What becomes of each partition of the request, in order.
enum Slot {
    Refused(ErrorCode, String),
    Asked { owner: usize, index: usize },
}

#[derive(Default)]
struct Plan {
    slots: Vec<Slot>,
    by_owner: Vec<(ShardId, Vec<PartitionProduce>)>,
    owner_at: HashMap<ShardId, usize>,
    seen: std::collections::HashSet<TopicPartition>,
}

impl Plan {
    fn add(&mut self, planned: Result<(ShardId, TopicPartition), (ErrorCode, String)>, records: Option<Bytes>) {
        let slot = match (planned, records) {
            (Err((error, message)), _) => Slot::Refused(error, message),
            (Ok(_), None) => Slot::Refused(ErrorCode::INVALID_RECORD, "records is null".into()),
            (Ok((_, at)), _) if !self.seen.insert(at) => {
                Slot::Refused(ErrorCode::INVALID_REQUEST, "the partition is named twice".into())
            }
            (Ok((owner, at)), Some(records)) => {
                let nth = *self.owner_at.entry(owner).or_insert_with(|| {
                    self.by_owner.push((owner, Vec::new()));
                    self.by_owner.len() - 1
                });
                let partitions = &mut self.by_owner[nth].1;
                partitions.push(PartitionProduce { at, records });
                Slot::Asked { owner: nth, index: partitions.len() - 1 }
            }
        };
        self.slots.push(slot);
    }
}

fn resolve(
    ctx: &RequestContext,
    name: &str,
    id: Uuid,
    partition: i32,
) -> Result<(ShardId, TopicPartition), (ErrorCode, String)> {
    let catalogue = ctx.shard().catalogue();
    let topic = if ctx.api_version >= TOPIC_IDS_SINCE {
        let unknown = || (ErrorCode::UNKNOWN_TOPIC_ID, format!("topic id {id} is not known"));
        catalogue.topic_by_id(id).ok_or_else(unknown)?
    } else {
        let unknown = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("topic {name} is not known"));
        catalogue.topic(name).ok_or_else(unknown)?
    };
    if !ctx.allowed(Operation::Write, Resource::Topic(&topic.name)) {
        return Err((ErrorCode::TOPIC_AUTHORIZATION_FAILED, format!("not allowed to write to {}", topic.name)));
    }
    let Some(at) = topic.partition(partition) else {
        let message = format!("topic {} has no partition {partition}", topic.name);
        return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message));
    };
    Ok((topic.owner(ctx.shard().route(), partition), at))
}

fn response(version: i16, index: i32, produced: PartitionProduced) -> PartitionProduceResponse {
    let mut response = PartitionProduceResponse::default()
        .with_index(index)
        .with_error_code(produced.error.0)
        .with_base_offset(produced.base_offset)
        .with_log_append_time_ms(produced.log_append_time_ms);
    if version >= LOG_START_SINCE {
        response = response.with_log_start_offset(produced.log_start_offset);
    }
    if version >= MESSAGE_SINCE {
        response = response.with_error_message(produced.message.map(StrBytes::from_string));
    }
    response
}

/// With acks=0 nothing goes back; an error closes the connection, so that the client looks again where
/// its partitions are.
fn silent(topics: &[TopicProduceResponse]) -> Outcome {
    let failed = topics.iter().find_map(|topic| {
        let failed = topic.partition_responses.iter().find(|p| p.error_code != 0)?;
        let (name, error) = (topic.name.as_str(), ErrorCode(failed.error_code));
        Some(format!("Produce with acks=0 to {name}-{} failed: {error}", failed.index))
    });
    match failed {
        Some(reason) => Outcome::Close(reason),
        None => Outcome::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::protocol::{Decodable, Encodable};

    #[test]
    fn an_answer_can_be_written_in_every_version() {
        for version in 3..=13 {
            let produced = PartitionProduced {
                at: NOWHERE,
                error: ErrorCode::MESSAGE_TOO_LARGE,
                message: Some("too large".into()),
                base_offset: 5,
                log_append_time_ms: 7,
                log_start_offset: 2,
            };
            let topic = TopicProduceResponse::default().with_partition_responses(vec![response(version, 1, produced)]);
            let body = ProduceResponse::default().with_responses(vec![topic]);
            let mut bytes = BytesMut::new();
            body.encode(&mut bytes, version).unwrap();
            let read = ProduceResponse::decode(&mut bytes.freeze(), version).unwrap();
            let read = &read.responses[0].partition_responses[0];
            assert_eq!((read.index, read.error_code, read.base_offset), (1, 10, 5));
            assert_eq!(read.error_message.is_some(), version >= 8);
        }
    }

    #[test]
    fn partitions_are_grouped_by_owner_and_a_repeated_one_is_refused() {
        let topic = Uuid::from_u128(1);
        let mut plan = Plan::default();
        for (owner, partition) in [(0, 0), (1, 1), (0, 2), (1, 1)] {
            plan.add(Ok((ShardId(owner), TopicPartition { topic, partition })), Some(Bytes::new()));
        }
        assert_eq!(plan.by_owner.iter().map(|(_, p)| p.len()).collect::<Vec<_>>(), [2, 1]);
        assert!(matches!(plan.slots[2], Slot::Asked { owner: 0, index: 1 }));
        assert!(matches!(plan.slots[3], Slot::Refused(ErrorCode::INVALID_REQUEST, _)));
    }

    #[test]
    fn an_error_under_acks_0_closes_the_connection() {
        let of = |error_code| {
            let partition = PartitionProduceResponse::default().with_error_code(error_code);
            vec![TopicProduceResponse::default().with_partition_responses(vec![partition])]
        };
        assert!(matches!(silent(&of(0)), Outcome::Silent));
        assert!(matches!(silent(&of(3)), Outcome::Close(reason) if reason.contains("UNKNOWN_TOPIC_OR_PARTITION")));
    }
}
