//! Enough of a Kafka broker to be loaded: topics, records in memory, offsets, heartbeats, groups of one member each.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use super::Fault;
use super::connection::Speaks;

const NODE: BrokerId = BrokerId(1);
/// Kafka's codes of idempotence.
const OUT_OF_ORDER_SEQUENCE: i16 = 45;
const DUPLICATE_SEQUENCE: i16 = 46;
/// Of `ListOffsets`: the log's end.
const LATEST: i64 = -1;

/// APIs, the highest version that names topics by their names, and whether delays and faults concern it.
const APIS: [(ApiKey, i16, bool); 18] = [
    (ApiKey::ApiVersions, 3, false),
    (ApiKey::Metadata, 9, false),
    (ApiKey::CreateTopics, 5, false),
    (ApiKey::DeleteTopics, 5, false),
    (ApiKey::FindCoordinator, 3, false),
    (ApiKey::InitProducerId, 4, false),
    (ApiKey::ListOffsets, 6, false),
    (ApiKey::Produce, 9, true),
    (ApiKey::Fetch, 12, true),
    (ApiKey::Heartbeat, 4, true),
    (ApiKey::OffsetCommit, 8, true),
    (ApiKey::OffsetFetch, 7, true),
    (ApiKey::LeaveGroup, 3, false),
    (ApiKey::JoinGroup, 5, false),
    (ApiKey::SyncGroup, 3, false),
    (ApiKey::ListGroups, 4, false),
    (ApiKey::DeleteGroups, 2, true),
    (ApiKey::SaslHandshake, 1, false),
];

/// A partition's batches, each with its first offset and the one behind its last.
#[derive(Default)]
struct Log {
    batches: Vec<(i64, i64, Bytes)>,
    end: i64,
    /// Comes behind the next one.
    held: Option<BytesMut>,
    /// The next sequence of each idempotent producer.
    sequences: BTreeMap<i64, i32>,
}

/// What becomes of a batch that was acknowledged, other than that it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tamper {
    /// It is not kept.
    Lose,
    /// It is kept twice.
    Double,
    /// It is kept behind the next one of its partition.
    Swap,
    /// Its last value's last byte is another one, and its CRC is right.
    Alter,
}

/// By the number of the batch, from 0 over all partitions.
pub type Tampering = Box<dyn Fn(u64) -> Option<Tamper> + Send + Sync>;

/// See the [module](self).
pub struct Broker {
    host: StrBytes,
    port: i32,
    partitions: i32,
    logs: Mutex<BTreeMap<(String, i32), Log>>,
    tampering: Tampering,
    batches: AtomicU64,
    producers: AtomicU64,
    offsets: Mutex<BTreeMap<(String, String, i32), i64>>,
    /// Requests by group.
    commits: Mutex<BTreeMap<String, u64>>,
    /// The generation of each group.
    generations: Mutex<BTreeMap<String, i32>>,
    /// How often each partition was fetched.
    fetched: Mutex<BTreeMap<(String, i32), u64>>,
}

impl Broker {
    pub fn new(address: &str, partitions: i32, tampering: Tampering) -> Broker {
        let (host, port) = address.rsplit_once(':').expect("an address");
        Broker {
            host: StrBytes::from_string(host.into()),
            port: port.parse().expect("a port"),
            partitions,
            logs: Mutex::default(),
            tampering,
            batches: AtomicU64::new(0),
            producers: AtomicU64::new(0),
            offsets: Mutex::default(),
            commits: Mutex::default(),
            generations: Mutex::default(),
            fetched: Mutex::default(),
        }
    }
}

impl Speaks for Broker {
    fn commits(&self) -> BTreeMap<String, u64> {
        self.commits.lock().expect("nobody panics with it").clone()
    }

    fn append(&self, topic: &str, partition: i32, batch: &[u8]) {
        let mut logs = self.logs.lock().expect("nobody panics with it");
        logs.entry((topic.into(), partition)).or_default().append(Bytes::copy_from_slice(batch), || None);
    }

    fn fetched(&self) -> BTreeMap<(String, i32), u64> {
        self.fetched.lock().expect("nobody panics with it").clone()
    }

    fn is_counted(&self, mut frame: &[u8]) -> bool {
        let key = frame.get_i16();
        APIS.iter().any(|(api, _, counted)| *api as i16 == key && *counted)
    }

    fn answer(&self, frame: &[u8], fault: Option<Fault>) -> Option<Vec<u8>> {
        let mut body = Bytes::copy_from_slice(frame);
        let (key, version) = ((&frame[..2]).get_i16(), (&frame[2..4]).get_i16());
        let api = ApiKey::try_from(key).expect("a known API");
        let header = RequestHeader::decode(&mut body, api.request_header_version(version)).expect("a header");
        let error = match fault {
            Some(Fault::Error(code)) => code,
            _ => 0,
        };
        let asked = Asked { api, version, body, error, forget: fault == Some(Fault::Forget) };
        let answer = self.answer_to(&asked)?;
        let mut out = BytesMut::new();
        out.put_i32(header.correlation_id);
        if api.response_header_version(version) >= 1 {
            out.put_u8(0);
        }
        out.put(answer);
        Some(out.to_vec())
    }
}

/// A request.
struct Asked {
    api: ApiKey,
    version: i16,
    body: Bytes,
    error: i16,
    forget: bool,
}

impl Asked {
    fn read<R: Decodable>(&self) -> R {
        R::decode(&mut self.body.clone(), self.version).expect("a request")
    }

    fn with(&self, answer: &impl Encodable) -> Option<Bytes> {
        let mut out = BytesMut::new();
        answer.encode(&mut out, self.version).expect("an answer");
        Some(out.freeze())
    }
}

impl Broker {
    fn answer_to(&self, asked: &Asked) -> Option<Bytes> {
        match asked.api {
            ApiKey::ApiVersions => asked.with(&ApiVersionsResponse::default().with_api_keys(versions())),
            ApiKey::Metadata => asked.with(&self.metadata(&asked.read())),
            ApiKey::CreateTopics => {
                let request: CreateTopicsRequest = asked.read();
                let topics = request.topics.into_iter().map(|topic| {
                    CreatableTopicResult::default()
                        .with_name(topic.name)
                        .with_num_partitions(self.partitions)
                        .with_replication_factor(1)
                });
                asked.with(&CreateTopicsResponse::default().with_topics(topics.collect()))
            }
            ApiKey::DeleteTopics => {
                let request: DeleteTopicsRequest = asked.read();
                let topics = request.topic_names.into_iter();
                let topics = topics.map(|name| DeletableTopicResult::default().with_name(Some(name)));
                asked.with(&DeleteTopicsResponse::default().with_responses(topics.collect()))
            }
            ApiKey::FindCoordinator => asked.with(
                &FindCoordinatorResponse::default()
                    .with_node_id(NODE)
                    .with_host(self.host.clone())
                    .with_port(self.port),
            ),
            ApiKey::InitProducerId => asked.with(
                &InitProducerIdResponse::default()
                    .with_producer_id(ProducerId(self.producers.fetch_add(1, SeqCst) as i64))
                    .with_producer_epoch(0),
            ),
            ApiKey::ListOffsets => asked.with(&self.list_offsets(&asked.read())),
            ApiKey::Produce => self.produce(asked),
            ApiKey::Fetch => asked.with(&self.fetch(&asked.read(), asked.error)),
            ApiKey::Heartbeat => asked.with(&HeartbeatResponse::default().with_error_code(asked.error)),
            ApiKey::LeaveGroup => asked.with(&LeaveGroupResponse::default()),
            ApiKey::JoinGroup => asked.with(&self.join(&asked.read())),
            ApiKey::SyncGroup => {
                let request: SyncGroupRequest = asked.read();
                let own = request.assignments.into_iter().next().expect("its member leads it");
                asked.with(&SyncGroupResponse::default().with_assignment(own.assignment))
            }
            ApiKey::ListGroups => asked.with(&self.list_groups()),
            ApiKey::DeleteGroups => asked.with(&self.delete_groups(&asked.read(), asked.error)),
            ApiKey::OffsetCommit => asked.with(&self.commit(&asked.read(), asked.error, asked.forget)),
            ApiKey::OffsetFetch => asked.with(&self.committed(&asked.read(), asked.error)),
            api => panic!("the tests' server does not know {api:?}"),
        }
    }

    fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let partition = |index| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(NODE)
                .with_replica_nodes(vec![NODE])
                .with_isr_nodes(vec![NODE])
        };
        let topics = request.topics.iter().flatten().map(|topic| {
            MetadataResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions((0..self.partitions).map(partition).collect())
        });
        let broker =
            MetadataResponseBroker::default().with_node_id(NODE).with_host(self.host.clone()).with_port(self.port);
        MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_cluster_id(Some(StrBytes::from_static_str("tests")))
            .with_controller_id(NODE)
            .with_topics(topics.collect())
    }

    fn produce(&self, asked: &Asked) -> Option<Bytes> {
        let request: ProduceRequest = asked.read();
        let mut logs = self.logs.lock().expect("nobody panics with it");
        let mut responses = Vec::new();
        for topic in request.topic_data {
            let mut partitions = Vec::new();
            for data in topic.partition_data {
                let log = logs.entry((topic.name.to_string(), data.index)).or_default();
                let base = log.end;
                let mut error = asked.error;
                if error == 0 {
                    let tampered = || (self.tampering)(self.batches.fetch_add(1, SeqCst));
                    error = log.append(data.records.unwrap_or_default(), tampered);
                }
                partitions.push(
                    PartitionProduceResponse::default()
                        .with_index(data.index)
                        .with_error_code(error)
                        .with_base_offset(base),
                );
            }
            let response = TopicProduceResponse::default().with_name(topic.name).with_partition_responses(partitions);
            responses.push(response);
        }
        // acks=0 wants no answer.
        (request.acks != 0).then(|| asked.with(&ProduceResponse::default().with_responses(responses)))?
    }

    /// Whoever joins a group is its only member, and leads it.
    fn join(&self, request: &JoinGroupRequest) -> JoinGroupResponse {
        let mut generations = self.generations.lock().expect("nobody panics with it");
        let generation = generations.entry(request.group_id.to_string()).or_default();
        *generation += 1;
        let id = StrBytes::from_static_str("the member");
        let protocol = request.protocols.first().expect("a protocol");
        let member = JoinGroupResponseMember::default().with_member_id(id.clone());
        JoinGroupResponse::default()
            .with_generation_id(*generation)
            .with_protocol_name(Some(protocol.name.clone()))
            .with_leader(id.clone())
            .with_member_id(id)
            .with_members(vec![member.with_metadata(protocol.metadata.clone())])
    }

    /// Those that have members or offsets.
    fn list_groups(&self) -> ListGroupsResponse {
        let generations = self.generations.lock().expect("nobody panics with it");
        let offsets = self.offsets.lock().expect("nobody panics with it");
        let names: BTreeSet<&String> = generations.keys().chain(offsets.keys().map(|(group, ..)| group)).collect();
        let groups = names
            .into_iter()
            .map(|name| ListedGroup::default().with_group_id(GroupId(StrBytes::from_string(name.clone()))));
        ListGroupsResponse::default().with_groups(groups.collect())
    }

    fn delete_groups(&self, request: &DeleteGroupsRequest, error: i16) -> DeleteGroupsResponse {
        let mut generations = self.generations.lock().expect("nobody panics with it");
        let mut offsets = self.offsets.lock().expect("nobody panics with it");
        let results = request.groups_names.iter().map(|group| {
            if error == 0 {
                generations.remove(group.as_str());
                offsets.retain(|(of, ..), _| of != group.as_str());
            }
            DeletableGroupResult::default().with_group_id(group.clone()).with_error_code(error)
        });
        DeleteGroupsResponse::default().with_results(results.collect())
    }

    fn fetch(&self, request: &FetchRequest, error: i16) -> FetchResponse {
        let asked = request
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic.to_string(), partition.partition)));
        for partition in asked {
            *self.fetched.lock().expect("nobody panics with it").entry(partition).or_default() += 1;
        }
        let logs = self.logs.lock().expect("nobody panics with it");
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let log = logs.get(&(topic.topic.to_string(), wanted.partition));
                let end = log.map_or(0, |log| log.end);
                let records = log.map(|log| log.read(wanted.fetch_offset, wanted.partition_max_bytes as usize));
                PartitionData::default()
                    .with_partition_index(wanted.partition)
                    .with_error_code(error)
                    .with_high_watermark(end)
                    .with_last_stable_offset(end)
                    .with_records(records.filter(|_| error == 0))
            });
            FetchableTopicResponse::default().with_topic(topic.topic.clone()).with_partitions(partitions.collect())
        });
        FetchResponse::default().with_responses(topics.collect())
    }

    fn list_offsets(&self, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let logs = self.logs.lock().expect("nobody panics with it");
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let end = logs.get(&(topic.name.to_string(), wanted.partition_index)).map_or(0, |log| log.end);
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(wanted.partition_index)
                    .with_offset(if wanted.timestamp == LATEST { end } else { 0 })
            });
            ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }

    fn commit(&self, request: &OffsetCommitRequest, error: i16, forget: bool) -> OffsetCommitResponse {
        *self.commits.lock().expect("nobody panics with it").entry(request.group_id.to_string()).or_default() += 1;
        let mut offsets = self.offsets.lock().expect("nobody panics with it");
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                if error == 0 && !forget {
                    let key = (request.group_id.to_string(), topic.name.to_string(), partition.partition_index);
                    offsets.insert(key, partition.committed_offset);
                }
                partitions.push(
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(error),
                );
            }
            topics.push(OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions));
        }
        OffsetCommitResponse::default().with_topics(topics)
    }

    /// Of one group, as versions up to 7 ask.
    fn committed(&self, request: &OffsetFetchRequest, error: i16) -> OffsetFetchResponse {
        use kafka_protocol::messages::offset_fetch_response::{OffsetFetchResponsePartition, OffsetFetchResponseTopic};
        let offsets = self.offsets.lock().expect("nobody panics with it");
        let topics = request.topics.iter().flatten().map(|topic| {
            let partitions = topic.partition_indexes.iter().map(|index| {
                let key = (request.group_id.to_string(), topic.name.to_string(), *index);
                OffsetFetchResponsePartition::default()
                    .with_partition_index(*index)
                    .with_committed_offset(offsets.get(&key).copied().unwrap_or(-1))
                    .with_error_code(error)
            });
            OffsetFetchResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        OffsetFetchResponse::default().with_topics(topics.collect()).with_error_code(error)
    }
}

impl Log {
    /// Takes batches of format 2; answers Kafka's code. What an idempotent producer sends again is there once.
    fn append(&mut self, mut records: Bytes, tampered: impl Fn() -> Option<Tamper>) -> i16 {
        // baseOffset i64, batchLength i32 (of what is behind it), ..., lastOffsetDelta i32 at 23.
        while records.len() >= 61 {
            let length = 12 + (&records[8..12]).get_i32() as usize;
            let mut batch = BytesMut::from(&records.split_to(length)[..]);
            let (producer, sequence) = ((&batch[43..51]).get_i64(), (&batch[53..57]).get_i32());
            if producer >= 0 {
                let count = (&batch[57..61]).get_i32();
                let next = self.sequences.entry(producer).or_default();
                match sequence.cmp(next) {
                    Ordering::Less => return DUPLICATE_SEQUENCE,
                    Ordering::Greater => return OUT_OF_ORDER_SEQUENCE,
                    Ordering::Equal => *next += count,
                }
            }
            match tampered() {
                None => self.keep(batch),
                Some(Tamper::Lose) => {}
                Some(Tamper::Double) => {
                    self.keep(batch.clone());
                    self.keep(batch);
                }
                Some(Tamper::Swap) => {
                    self.held = Some(batch);
                    continue;
                }
                Some(Tamper::Alter) => {
                    // The last byte is the last record's count of headers.
                    let at = batch.len() - 2;
                    batch[at] ^= 0xff;
                    let crc = crc32c::crc32c(&batch[21..]);
                    batch[17..21].copy_from_slice(&crc.to_be_bytes());
                    self.keep(batch);
                }
            }
            if let Some(held) = self.held.take() {
                self.keep(held);
            }
        }
        0
    }

    /// Appends a batch with the log's own offsets.
    fn keep(&mut self, mut batch: BytesMut) {
        let count = i64::from((&batch[23..27]).get_i32()) + 1;
        batch[..8].copy_from_slice(&self.end.to_be_bytes());
        self.batches.push((self.end, self.end + count, batch.freeze()));
        self.end += count;
    }

    /// Whole batches from the one with this offset on, one at least.
    fn read(&self, from: i64, most: usize) -> Bytes {
        let first = self.batches.partition_point(|(_, behind, _)| *behind <= from);
        let mut out = BytesMut::new();
        for (_, _, batch) in &self.batches[first..] {
            if !out.is_empty() && out.len() + batch.len() > most {
                break;
            }
            out.extend_from_slice(batch);
        }
        out.freeze()
    }
}

fn versions() -> Vec<ApiVersion> {
    let known = APIS.iter().map(|(api, most, _)| {
        let valid = api.valid_versions();
        ApiVersion::default()
            .with_api_key(*api as i16)
            .with_min_version(valid.min)
            .with_max_version((*most).min(valid.max))
    });
    known.collect()
}
