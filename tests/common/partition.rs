//! Produce, Fetch and ListOffsets of one partition, in any version that is served.

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteRecordsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest,
    ProduceRequest, TopicName,
};
use ringgate_wire::records::{BatchHeader, next_batch};
use ringgate_wire::versions::served;
use uuid::Uuid;

use super::raw::{Raw, string, topic_name};

/// A topic under both its names.
#[derive(Clone, Debug)]
pub struct Topic {
    pub name: TopicName,
    pub id: Uuid,
}

/// One partition of it.
#[derive(Clone, Debug)]
pub struct Partition {
    pub topic: Topic,
    pub index: i32,
}

/// Every version in which this API is served.
pub fn versions(api_key: i16) -> std::ops::RangeInclusive<i16> {
    served(api_key).expect("the API is served").versions.clone()
}

/// Makes a topic with these settings.
pub fn create(raw: &mut Raw, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Topic {
    let config = |(name, value): &(&str, &str)| {
        CreatableTopicConfig::default().with_name(string(name)).with_value(Some(string(value)))
    };
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(1)
        .with_configs(settings.iter().map(config).collect());
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
    let created = raw.call(7, &request);
    assert_eq!(created.topics[0].error_code, 0, "{:?}", created.topics[0].error_message);
    Topic { name: topic_name(name), id: created.topics[0].topic_id }
}

/// A topic that does not exist.
pub fn unknown(name: &str) -> Topic {
    Topic { name: topic_name(name), id: Uuid::from_u128(7) }
}

/// Asks for a topic's metadata, which makes it when the gateway may: code and id.
pub fn metadata(raw: &mut Raw, name: &str) -> (i16, Uuid) {
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let request = MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true);
    let response = raw.call(12, &request);
    (response.topics[0].error_code, response.topics[0].topic_id)
}

impl Topic {
    pub fn partition(&self, index: i32) -> Partition {
        Partition { topic: self.clone(), index }
    }
}

impl Partition {
    /// A Produce of `records`, which may be anything or null.
    pub fn produce_request(&self, version: i16, acks: i16, records: Option<Bytes>) -> ProduceRequest {
        let data = PartitionProduceData::default().with_index(self.index).with_records(records);
        let topic = TopicProduceData::default().with_partition_data(vec![data]);
        let topic = match version {
            ..13 => topic.with_name(self.topic.name.clone()),
            _ => topic.with_topic_id(self.topic.id),
        };
        ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![topic])
    }

    /// Produces with acks=all.
    pub fn produce(&self, raw: &mut Raw, version: i16, records: Option<Bytes>) -> PartitionProduceResponse {
        let mut response = raw.call(version, &self.produce_request(version, -1, records));
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Produces a batch that must be taken, and returns its offset.
    pub fn append(&self, raw: &mut Raw, records: Bytes) -> i64 {
        let produced = self.produce(raw, 9, Some(records));
        assert_eq!(produced.error_code, 0, "{:?}", produced.error_message);
        produced.base_offset
    }

    /// A Fetch that does not wait and is no part of a session.
    pub fn fetch_request(&self, version: i16, offset: i64) -> FetchRequest {
        let partition = FetchPartition::default()
            .with_partition(self.index)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(offset)
            .with_last_fetched_epoch(-1)
            .with_partition_max_bytes(16 << 20);
        let topic = FetchTopic::default().with_partitions(vec![partition]);
        let topic = match version {
            ..13 => topic.with_topic(self.topic.name.clone()),
            _ => topic.with_topic_id(self.topic.id),
        };
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_bytes(16 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![topic])
    }

    pub fn fetch(&self, raw: &mut Raw, version: i16, offset: i64) -> PartitionData {
        let mut response = raw.call(version, &self.fetch_request(version, offset));
        response.responses.remove(0).partitions.remove(0)
    }

    /// All batches from `offset` on, whose CRCs must be right.
    pub fn batches(&self, raw: &mut Raw, offset: i64) -> Vec<(BatchHeader, Bytes)> {
        let fetched = self.fetch(raw, 12, offset);
        assert_eq!(fetched.error_code, 0);
        let mut records = fetched.records.unwrap_or_default();
        let mut batches = Vec::new();
        while let Some(batch) = next_batch(&mut records) {
            let header = BatchHeader::parse(&batch).expect("a batch");
            assert!(header.crc_is_right(&batch), "the CRC of {header:?}");
            batches.push((header, batch));
        }
        assert!(records.is_empty(), "whole batches only");
        batches
    }

    pub fn list_offsets_request(&self, timestamps: &[i64]) -> ListOffsetsRequest {
        let partition = |timestamp: &i64| {
            ListOffsetsPartition::default()
                .with_partition_index(self.index)
                .with_current_leader_epoch(-1)
                .with_timestamp(*timestamp)
        };
        let partitions = timestamps.iter().map(partition).collect();
        let topic = ListOffsetsTopic::default().with_name(self.topic.name.clone()).with_partitions(partitions);
        ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
    }

    pub fn list_offsets(&self, raw: &mut Raw, version: i16, timestamp: i64) -> ListOffsetsPartitionResponse {
        let mut response = raw.call(version, &self.list_offsets_request(&[timestamp]));
        response.topics.remove(0).partitions.remove(0)
    }

    /// Code, offset and timestamp of a look-up.
    pub fn lookup(&self, raw: &mut Raw, version: i16, timestamp: i64) -> (i16, i64, i64) {
        let found = self.list_offsets(raw, version, timestamp);
        (found.error_code, found.offset, found.timestamp)
    }

    /// Log start offset and high watermark, as ListOffsets says.
    pub fn ends(&self, raw: &mut Raw) -> (i64, i64) {
        let (earliest, latest) = (self.lookup(raw, 9, -2), self.lookup(raw, 9, -1));
        assert_eq!((earliest.0, latest.0), (0, 0));
        (earliest.1, latest.1)
    }

    /// Deletes what is before `offset`.
    pub fn delete_records(&self, raw: &mut Raw, offset: i64) {
        let partition = DeleteRecordsPartition::default().with_partition_index(self.index).with_offset(offset);
        let topic = DeleteRecordsTopic::default().with_name(self.topic.name.clone()).with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        assert_eq!(raw.call(2, &request).topics[0].partitions[0].error_code, 0);
    }
}
