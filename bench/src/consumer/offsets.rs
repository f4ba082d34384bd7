//! Where partitions end.

use std::collections::BTreeMap;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{ApiKey, ListOffsetsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Address, CallError, Target};

use crate::producer::TopicRef;

/// The timestamp that stands for a partition's end.
const LATEST: i64 = -1;

/// The end offset of every partition, `per_topic` of each topic, as their leaders have it.
///
/// # Errors
/// A leader does not answer, or answers with an error.
pub async fn end_offsets(target: &Target, topics: &[TopicRef], per_topic: usize) -> Result<Vec<i64>, CallError> {
    let mut ends = vec![0; topics.len() * per_topic];
    let version = target.version(ApiKey::ListOffsets)?;
    for (at, topic) in topics.iter().enumerate() {
        let mut led: BTreeMap<Address, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (index, leader) in target.leaders(&topic.name).await?.into_iter().enumerate().take(per_topic) {
            let asked = ListOffsetsPartition::default().with_partition_index(index as i32).with_timestamp(LATEST);
            led.entry(leader).or_default().push(asked);
        }
        for (leader, partitions) in led {
            let name = TopicName(StrBytes::from_string(topic.name.clone()));
            let asked = ListOffsetsTopic::default().with_name(name).with_partitions(partitions);
            let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![asked]);
            let answer = target.connect(&leader).await?.call(version, &request).await?;
            for part in answer.topics.into_iter().flat_map(|topic| topic.partitions) {
                if part.error_code != 0 {
                    return Err(CallError::Kafka { code: part.error_code, what: "ListOffsets".into() });
                }
                if let Some(index) = usize::try_from(part.partition_index).ok().filter(|index| *index < per_topic) {
                    ends[at * per_topic + index] = part.offset;
                }
            }
        }
    }
    Ok(ends)
}
