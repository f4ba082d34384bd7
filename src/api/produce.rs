//! Produce (API 0): appends record batches. What this submits before its first wait enters each partition
//! in request order.

use std::collections::HashSet;

use kafka_protocol::messages::produce_request::TopicProduceData;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::call::{Asking, PartitionProduce, PartitionProduced, ProduceCall, TopicPartition};
use uuid::Uuid;

use super::by_owner::{Answers, ByOwner, Place};
use super::{Operation, Outcome, RequestContext, Resource, View};

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
    let Plan { slots, by_owner } = plan(&ctx.view(), &request);
    let zstd = ctx.api_version >= ZSTD_SINCE;
    let asking = Asking::default();
    let calls: Vec<_> = by_owner
        .into_questions()
        .map(|(owner, partitions)| {
            let call = ProduceCall { acks: request.acks, zstd, asker: asking.asker(), partitions };
            ctx.shard().submit_to(owner, call)
        })
        .collect();
    let mut answers = Answers::new();
    for call in calls {
        answers.push(call.await.0);
    }
    drop(asking);
    let response = response(ctx.api_version, &request, slots, answers);
    if request.acks == 0 { silent(&response) } else { ctx.respond(&response) }
}

/// What becomes of each partition of the request, in order.
enum Slot {
    Refused(ErrorCode, String),
    Asked(Place),
}

struct Plan {
    slots: Vec<Slot>,
    by_owner: ByOwner<PartitionProduce>,
}

fn plan(view: &View<'_>, request: &ProduceRequest) -> Plan {
    let all_refused = refusal(request);
    let mut plan = Plan { slots: Vec::new(), by_owner: ByOwner::new() };
    let mut seen: HashSet<TopicPartition> = HashSet::new();
    for topic in &request.topic_data {
        for partition in &topic.partition_data {
            let planned = match &all_refused {
                Some(refused) => Err(refused.clone()),
                None => resolve(view, topic, partition.index),
            };
            plan.slots.push(match (planned, &partition.records) {
                (Err((error, message)), _) => Slot::Refused(error, message),
                (Ok(_), None) => Slot::Refused(ErrorCode::INVALID_RECORD, "records is null".into()),
                (Ok((_, at)), _) if !seen.insert(at) => {
                    Slot::Refused(ErrorCode::INVALID_REQUEST, "the partition is named twice".into())
                }
                (Ok((owner, at)), Some(records)) => {
                    Slot::Asked(plan.by_owner.push(owner, PartitionProduce { at, records: records.clone() }))
                }
            });
        }
    }
    plan
}

/// Why nothing of the request can be appended, if so.
fn refusal(request: &ProduceRequest) -> Option<(ErrorCode, String)> {
    if !(-1..=1).contains(&request.acks) {
        let why = format!("acks = {}; allowed are 0, 1 and -1", request.acks);
        return Some((ErrorCode::INVALID_REQUIRED_ACKS, why));
    }
    let unsupported = || (ErrorCode::INVALID_REQUEST, "transactions are not supported".to_string());
    request.transactional_id.as_ref().map(|_| unsupported())
}

fn resolve(
    view: &View<'_>,
    topic: &TopicProduceData,
    partition: i32,
) -> Result<(ShardId, TopicPartition), (ErrorCode, String)> {
    let denied = |name: &str| (ErrorCode::TOPIC_AUTHORIZATION_FAILED, format!("not allowed to write to {name}"));
    let may_write = |name: &str| view.allowed(Operation::Write, Resource::Topic(name));
    let found = if view.version >= TOPIC_IDS_SINCE {
        let id = topic.topic_id;
        let unknown = || (ErrorCode::UNKNOWN_TOPIC_ID, format!("topic id {id} is not known"));
        view.catalogue.topic_by_id(id).ok_or_else(unknown)?
    } else {
        let name = topic.name.as_str();
        if !may_write(name) {
            return Err(denied(name));
        }
        let unknown = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("topic {name} is not known"));
        view.catalogue.topic(name).ok_or_else(unknown)?
    };
    if !may_write(&found.name) {
        return Err(denied(&found.name));
    }
    let Some(at) = found.partition(partition) else {
        let message = format!("topic {} has no partition {partition}", found.name);
        return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message));
    };
    Ok((found.owner(view.route, partition), at))
}

/// The answer: the request's topics and partitions in its order.
fn response(
    version: i16,
    request: &ProduceRequest,
    slots: Vec<Slot>,
    mut answers: Answers<PartitionProduced>,
) -> ProduceResponse {
    let refused = |error, message| PartitionProduced::refused(NOWHERE, error, Some(message));
    let mut produced = slots.into_iter().map(|slot| match slot {
        Slot::Refused(error, message) => refused(error, message),
        Slot::Asked(place) => answers
            .take(place)
            .unwrap_or_else(|| refused(ErrorCode::UNKNOWN_SERVER_ERROR, "the partition's owner did not answer".into())),
    });
    let topics = request.topic_data.iter().map(|topic| {
        let partitions = topic.partition_data.iter().zip(&mut produced);
        let responses = partitions.map(|(p, produced)| partition_response(version, p.index, produced)).collect();
        let response = TopicProduceResponse::default().with_partition_responses(responses);
        if version >= TOPIC_IDS_SINCE {
            response.with_topic_id(topic.topic_id)
        } else {
            response.with_name(topic.name.clone())
        }
    });
    ProduceResponse::default().with_responses(topics.collect())
}

/// Stands for a partition that does not exist.
const NOWHERE: TopicPartition = TopicPartition { topic: Uuid::nil(), partition: -1 };

fn partition_response(version: i16, index: i32, produced: PartitionProduced) -> PartitionProduceResponse {
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
fn silent(response: &ProduceResponse) -> Outcome {
    let failed = response.responses.iter().find_map(|topic| {
        let failed = topic.partition_responses.iter().find(|p| p.error_code != 0)?;
        let topic = if topic.topic_id.is_nil() { topic.name.to_string() } else { topic.topic_id.to_string() };
        Some(format!("Produce with acks=0 to {topic}-{} failed: {}", failed.index, ErrorCode(failed.error_code)))
    });
    match failed {
        Some(reason) => Outcome::Close(reason),
        None => Outcome::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, id_of, versions};
    use super::super::topics::topic_name;
    use super::*;
    use kafka_protocol::messages::TransactionalId;
    use kafka_protocol::messages::produce_request::PartitionProduceData;

    /// A partition and its records.
    type Records = (i32, Option<&'static str>);

    /// Topics (name, id) with what each partition gets.
    fn request(topics: &[(&str, Uuid, &[Records])]) -> ProduceRequest {
        let partition = |&(index, records): &Records| {
            PartitionProduceData::default().with_index(index).with_records(records.map(bytes::Bytes::from))
        };
        let topics = topics.iter().map(|(name, id, partitions)| {
            TopicProduceData::default()
                .with_name(topic_name(name))
                .with_topic_id(*id)
                .with_partition_data(partitions.iter().map(partition).collect())
        });
        ProduceRequest::default().with_acks(-1).with_topic_data(topics.collect())
    }

    /// Every owner appends whatever it is asked to; the base offset tells the topic's id and partition.
    fn answers(by_owner: ByOwner<PartitionProduce>) -> Answers<PartitionProduced> {
        let mut answers = Answers::new();
        for (_, asked) in by_owner.into_questions() {
            let appended = |p: PartitionProduce| PartitionProduced {
                at: p.at,
                error: ErrorCode::NONE,
                message: None,
                base_offset: base_offset(p.at.topic, p.at.partition),
                log_append_time_ms: 7,
                log_start_offset: 2,
            };
            answers.push(asked.into_iter().map(appended).collect());
        }
        answers
    }

    fn base_offset(id: Uuid, partition: i32) -> i64 {
        id.as_u128() as i64 * 100 + i64::from(partition)
    }

    fn served(world: &World, version: i16, request: &ProduceRequest) -> ProduceResponse {
        let Plan { slots, by_owner } = plan(&world.view(version), request);
        as_read(version, &response(version, request, slots, answers(by_owner)))
    }

    fn codes(response: &ProduceResponse) -> Vec<Vec<i16>> {
        let partitions = response.responses.iter().map(|t| t.partition_responses.iter());
        partitions.map(|partitions| partitions.map(|p| p.error_code).collect()).collect()
    }

    #[test]
    fn partitions_of_all_owners_are_answered_in_request_order_in_every_version() {
        let world = World::with(&[("a", 8), ("b", 8)]);
        let partitions: Vec<Records> = (0..8).rev().map(|p| (p, Some("r"))).collect();
        let request = request(&[("b", id_of(1), &partitions), ("a", id_of(0), &partitions)]);
        for version in versions(0) {
            let planned = plan(&world.view(version), &request);
            let owners: Vec<_> = planned.by_owner.into_questions().map(|(owner, asked)| (owner, asked.len())).collect();
            assert_eq!(owners.len(), 2, "both shards own some: {owners:?}");
            let response = served(&world, version, &request);
            for (topic, id) in response.responses.iter().zip([id_of(1), id_of(0)]) {
                let by_id = version >= TOPIC_IDS_SINCE;
                assert_eq!(topic.topic_id, if by_id { id } else { Uuid::nil() }, "version {version}");
                assert_eq!(topic.name.is_empty(), by_id, "version {version}");
                for (part, partition) in topic.partition_responses.iter().zip((0..8).rev()) {
                    assert_eq!((part.index, part.error_code), (partition, 0));
                    assert_eq!(part.base_offset, base_offset(id, partition));
                    assert_eq!(part.log_append_time_ms, 7);
                    assert_eq!(part.log_start_offset, if version >= 5 { 2 } else { -1 });
                }
            }
        }
    }

    #[test]
    fn what_does_not_exist_is_refused_with_its_code_and_message_and_the_rest_is_appended() {
        let world = World::with(&[("a", 2)]);
        let some = Some("r");
        let partitions = [(0, some), (2, some), (-1, some), (1, None), (0, some)];
        let request = request(&[("a", id_of(0), &partitions), ("no", id_of(9), &[(0, some)])]);
        for version in versions(0) {
            let response = served(&world, version, &request);
            let unknown = if version >= TOPIC_IDS_SINCE { 100 } else { 3 };
            assert_eq!(codes(&response), [vec![0, 3, 3, 87, 42], vec![unknown]], "version {version}");
            for part in response.responses.iter().flat_map(|t| &t.partition_responses).filter(|p| p.error_code != 0) {
                assert_eq!(part.base_offset, -1);
                assert_eq!(part.error_message.is_some(), version >= MESSAGE_SINCE, "version {version}");
            }
        }
    }

    #[test]
    fn wrong_acks_and_a_transactional_id_are_refused_on_every_partition_and_nothing_is_asked() {
        let world = World::with(&[("a", 2)]);
        let sound = request(&[("a", Uuid::nil(), &[(0, Some("r")), (1, Some("r"))])]);
        let wrong_acks = sound.clone().with_acks(2);
        let transactional = sound.with_transactional_id(Some(TransactionalId("t".to_string().into())));
        for (request, code) in [(wrong_acks, 21), (transactional, 42)] {
            assert_eq!(plan(&world.view(9), &request).by_owner.into_questions().count(), 0);
            assert_eq!(codes(&served(&world, 9, &request)), [vec![code, code]]);
        }
    }

    #[test]
    fn who_may_not_write_learns_not_whether_the_topic_exists() {
        let mut world = World::with(&[("a", 1)]);
        for name in ["a", "no"] {
            world.authorizer.denied_topic = Some((Operation::Write, name));
            let request = request(&[(name, id_of(0), &[(0, Some("r"))])]);
            assert_eq!(codes(&served(&world, 9, &request)), [vec![29]]);
        }
        world.authorizer.denied_topic = Some((Operation::Write, "a"));
        let request = request(&[("", id_of(0), &[(0, Some("r"))])]);
        assert_eq!(codes(&served(&world, 13, &request)), [vec![29]]);
    }

    #[test]
    fn an_error_under_acks_0_closes_the_connection_and_says_where() {
        let world = World::with(&[("a", 1)]);
        let fine = request(&[("a", id_of(0), &[(0, Some("r"))])]);
        assert!(matches!(silent(&served(&world, 9, &fine)), Outcome::Silent));
        let missing = request(&[("a", id_of(0), &[(0, Some("r")), (3, Some("r"))])]);
        for (version, name) in [(9, "a-3".to_string()), (13, format!("{}-3", id_of(0)))] {
            let Outcome::Close(reason) = silent(&served(&world, version, &missing)) else { panic!("not closed") };
            assert!(reason.contains(&name) && reason.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{reason}");
        }
    }
}
