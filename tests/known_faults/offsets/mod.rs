//! Committed offsets: what is taken, what is told, what is kept, and when they go.

mod commits;
mod expiry;
mod fetches;
mod kept;

use kafka_protocol::messages::OffsetFetchRequest;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};

use crate::common::group::group_id;
use crate::common::raw::{Raw, topic_name};

const OFFSET_COMMIT: i16 = 8;
const OFFSET_FETCH: i16 = 9;
/// The first version of OffsetFetch that asks for several groups.
const GROUPS_SINCE: i16 = 8;
/// The first version of OffsetFetch that has an error for the whole, and null for all topics.
const ALL_TOPICS_SINCE: i16 = 2;

/// Topic, partition, offset, metadata and code.
type Told = (String, i32, i64, Option<String>, i16);

/// Code and offsets of a group, in whatever shape the version has; `None` asks for all topics.
fn fetch(raw: &mut Raw, version: i16, group: &str, wanted: Option<&[(&str, &[i32])]>) -> (i16, Vec<Told>) {
    if version < GROUPS_SINCE {
        let topic = |&(name, partitions): &(&str, &[i32])| {
            OffsetFetchRequestTopic::default().with_name(topic_name(name)).with_partition_indexes(partitions.to_vec())
        };
        let request = OffsetFetchRequest::default()
            .with_group_id(group_id(group))
            .with_topics(wanted.map(|topics| topics.iter().map(topic).collect()));
        let response = raw.call(version, &request);
        let told = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| {
                let metadata = p.metadata.as_ref().map(|text| text.to_string());
                (topic.name.to_string(), p.partition_index, p.committed_offset, metadata, p.error_code)
            })
        });
        return (response.error_code, told.collect());
    }
    let topic = |&(name, partitions): &(&str, &[i32])| {
        OffsetFetchRequestTopics::default().with_name(topic_name(name)).with_partition_indexes(partitions.to_vec())
    };
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(group_id(group))
        .with_topics(wanted.map(|topics| topics.iter().map(topic).collect()));
    let response = raw.call(version, &OffsetFetchRequest::default().with_groups(vec![asked]));
    assert_eq!(response.groups.len(), 1);
    let told = response.groups[0].topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|p| {
            let metadata = p.metadata.as_ref().map(|text| text.to_string());
            (topic.name.to_string(), p.partition_index, p.committed_offset, metadata, p.error_code)
        })
    });
    (response.groups[0].error_code, told.collect())
}

/// An offset that is told without metadata, which Kafka tells as empty.
fn plain(topic: &str, partition: i32, offset: i64) -> Told {
    (topic.to_owned(), partition, offset, Some(String::new()), 0)
}
