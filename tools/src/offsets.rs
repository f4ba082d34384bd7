//! What is committed, and where logs begin and end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::future::join_all;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{ApiKey, GroupId, ListOffsetsRequest, OffsetFetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Address, CallError};

use crate::cluster::{Cluster, LEADER_NOT_AVAILABLE, Topic, passes, refused};
use crate::limits::{GROUPS_ASKED, PARTITIONS_ASKED};

/// The newest version of OffsetFetch that names topics; later ones have ids instead.
const OFFSET_FETCH_NAMES: i16 = 9;
/// From this version on one request asks for many groups.
const OFFSET_FETCH_GROUPS: i16 = 8;

/// Partitions, by topic.
pub type Partitions = BTreeMap<String, BTreeSet<i32>>;

/// A value for each of some partitions, by topic.
pub type ByPartition<T> = BTreeMap<String, BTreeMap<i32, T>>;

/// What a group has committed of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The next record to read.
    pub offset: i64,
    /// What the committer wrote beside it.
    pub metadata: String,
}

/// Which offset of a partition is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first that can be read.
    Earliest,
    /// The next that will be written.
    Latest,
    /// The first record of this time, in ms since the epoch, or later.
    At(i64),
}

impl Which {
    /// As ListOffsets has it.
    fn timestamp(self) -> i64 {
        match self {
            Which::Latest => -1,
            Which::Earliest => -2,
            Which::At(time) => time,
        }
    }
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.into()))
}

/// What groups have committed: of `only`, or of everything. Partitions without a committed offset are left out.
pub async fn committed(
    cluster: &Cluster,
    groups: &[String],
    only: Option<&Partitions>,
) -> HashMap<String, Result<ByPartition<Committed>, CallError>> {
    let version = match cluster.version(ApiKey::OffsetFetch, OFFSET_FETCH_NAMES) {
        Ok(version) => version,
        Err(error) => return groups.iter().map(|group| (group.clone(), Err(error.clone()))).collect(),
    };
    let most = if version >= OFFSET_FETCH_GROUPS { GROUPS_ASKED } else { 1 };
    cluster
        .per_group(groups, most, async |broker, part| {
            let answer = cluster.call(broker, version, &offset_fetch(version, part, only)).await?;
            if version >= OFFSET_FETCH_GROUPS {
                return Ok(answer.groups.into_iter().map(group_offsets).collect());
            }
            let Some(group) = part.first() else { return Ok(Vec::new()) };
            let rows = answer.topics.into_iter().flat_map(|topic| {
                let name = topic.name.to_string();
                topic.partitions.into_iter().map(move |part| {
                    let metadata = part.metadata.map(|text| text.to_string());
                    (name.clone(), part.partition_index, part.error_code, part.committed_offset, metadata)
                })
            });
            Ok(vec![(group.clone(), gathered(group, answer.error_code, rows))])
        })
        .await
}

fn offset_fetch(version: i16, groups: &[String], only: Option<&Partitions>) -> OffsetFetchRequest {
    let group_id = |group: &String| GroupId(StrBytes::from_string(group.clone()));
    if version >= OFFSET_FETCH_GROUPS {
        let topics = only.map(|only| {
            let topic = |(name, partitions): (&String, &BTreeSet<i32>)| {
                OffsetFetchRequestTopics::default()
                    .with_name(topic_name(name))
                    .with_partition_indexes(partitions.iter().copied().collect())
            };
            only.iter().map(topic).collect::<Vec<_>>()
        });
        let group = |group| {
            OffsetFetchRequestGroup::default()
                .with_group_id(group_id(group))
                .with_member_epoch(-1)
                .with_topics(topics.clone())
        };
        return OffsetFetchRequest::default().with_groups(groups.iter().map(group).collect());
    }
    let topics = only.map(|only| {
        let topic = |(name, partitions): (&String, &BTreeSet<i32>)| {
            OffsetFetchRequestTopic::default()
                .with_name(topic_name(name))
                .with_partition_indexes(partitions.iter().copied().collect())
        };
        only.iter().map(topic).collect()
    });
    let group = groups.first().map(group_id).unwrap_or_default();
    OffsetFetchRequest::default().with_group_id(group).with_topics(topics)
}

type Outcome = (String, Result<ByPartition<Committed>, CallError>);

fn group_offsets(group: kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup) -> Outcome {
    let name = group.group_id.to_string();
    let rows = group.topics.into_iter().flat_map(|topic| {
        let name = topic.name.to_string();
        topic.partitions.into_iter().map(move |part| {
            let metadata = part.metadata.map(|text| text.to_string());
            (name.clone(), part.partition_index, part.error_code, part.committed_offset, metadata)
        })
    });
    let came = gathered(&name, group.error_code, rows);
    (name, came)
}

fn gathered(
    group: &str,
    code: i16,
    rows: impl Iterator<Item = (String, i32, i16, i64, Option<String>)>,
) -> Result<ByPartition<Committed>, CallError> {
    let failed = |code| Err(refused(code, format!("the offsets of group {group}")));
    if code != 0 {
        return failed(code);
    }
    let mut all = ByPartition::new();
    for (topic, partition, code, offset, metadata) in rows {
        match code {
            0 if offset >= 0 => {
                let committed = Committed { offset, metadata: metadata.unwrap_or_default() };
                all.entry(topic).or_default().insert(partition, committed);
            }
            0 => {}
            code => return failed(code),
        }
    }
    Ok(all)
}

/// An offset of each of these partitions, from their leaders, of which one that moves or is away is looked up again.
/// [`Which::At`] is `None` where no record is as late as that.
///
/// # Errors
/// No broker answers who leads them.
pub async fn offsets(
    cluster: &Cluster,
    wanted: &Partitions,
    which: Which,
) -> Result<ByPartition<Result<Option<i64>, CallError>>, CallError> {
    let version = cluster.version(ApiKey::ListOffsets, i16::MAX)?;
    let mut came: ByPartition<Result<Option<i64>, CallError>> = BTreeMap::new();
    let mut left = wanted.clone();
    let patience = cluster.patience();
    loop {
        let names: Vec<String> = left.keys().cloned().collect();
        let topics = cluster.topics(&names).await?;
        let Led { by_leader, nowhere } = by_leader(cluster, &left, &topics);
        for (topic, partition, error) in nowhere {
            came.entry(topic).or_default().insert(partition, Err(error));
        }
        let parts: Vec<(Address, Vec<(String, i32)>)> = by_leader
            .into_iter()
            .flat_map(|(leader, rows)| {
                let chunks = rows.chunks(PARTITIONS_ASKED).map(<[_]>::to_vec).collect::<Vec<_>>();
                chunks.into_iter().map(move |part| (leader.clone(), part))
            })
            .collect();
        let asked = parts.iter().map(async |(leader, part)| {
            (leader, part, cluster.call(leader, version, &list_offsets(part, which)).await)
        });
        let mut again: Vec<(String, i32, &Address, CallError)> = Vec::new();
        for (leader, part, answer) in join_all(asked).await {
            let mut silent: BTreeSet<(String, i32)> = part.iter().cloned().collect();
            let rows = match answer {
                Ok(answer) => answer.topics,
                Err(error) => {
                    let lost = |(topic, partition)| (topic, partition, leader, error.clone());
                    again.extend(silent.into_iter().map(lost));
                    continue;
                }
            };
            for topic in rows {
                let name = topic.name.to_string();
                for row in topic.partitions {
                    if !silent.remove(&(name.clone(), row.partition_index)) {
                        continue;
                    }
                    match row.error_code {
                        0 => {
                            let offset = Ok(Some(row.offset).filter(|offset| *offset >= 0));
                            came.entry(name.clone()).or_default().insert(row.partition_index, offset);
                        }
                        code => {
                            let what = format!("partition {} of topic {name}", row.partition_index);
                            again.push((name.clone(), row.partition_index, leader, refused(code, what)));
                        }
                    }
                }
            }
            let nothing = || CallError::BadResponse("ListOffsets leaves a partition out".into());
            again.extend(silent.into_iter().map(|(topic, partition)| (topic, partition, leader, nothing())));
        }
        left.clear();
        let may_go_on = again.iter().any(|(.., error)| passes(error)) && patience.pause().await;
        for (topic, partition, leader, error) in again {
            if may_go_on && passes(&error) && !cluster.gave_up(leader) {
                left.entry(topic).or_default().insert(partition);
            } else {
                cluster.tried_in_vain(leader, &error);
                came.entry(topic).or_default().insert(partition, Err(error));
            }
        }
        if left.is_empty() {
            return Ok(came);
        }
    }
}

/// Who leads partitions.
#[derive(Default)]
struct Led {
    by_leader: BTreeMap<Address, Vec<(String, i32)>>,
    /// Those that nobody leads, and why.
    nowhere: Vec<(String, i32, CallError)>,
}

/// Partitions by leader, and why others have none.
fn by_leader(cluster: &Cluster, wanted: &Partitions, topics: &BTreeMap<String, Result<Topic, CallError>>) -> Led {
    let brokers = cluster.brokers();
    let mut led = Led::default();
    for (name, partitions) in wanted {
        for &partition in partitions {
            let what = || format!("partition {partition} of topic {name}");
            let leader = match topics.get(name) {
                None => Err(refused(3, format!("topic {name}"))),
                Some(Err(error)) => Err(error.clone()),
                Some(Ok(topic)) => match topic.partitions.get(&partition) {
                    None => Err(refused(3, what())),
                    Some(place) => place
                        .leader
                        .and_then(|id| brokers.get(&id).cloned())
                        .ok_or_else(|| refused(LEADER_NOT_AVAILABLE, what())),
                },
            };
            match leader {
                Ok(leader) => led.by_leader.entry(leader).or_default().push((name.clone(), partition)),
                Err(error) => led.nowhere.push((name.clone(), partition, error)),
            }
        }
    }
    led
}

fn list_offsets(part: &[(String, i32)], which: Which) -> ListOffsetsRequest {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for (topic, partition) in part {
        let asked = ListOffsetsPartition::default()
            .with_partition_index(*partition)
            .with_current_leader_epoch(-1)
            .with_timestamp(which.timestamp());
        topics.entry(topic).or_default().push(asked);
    }
    let topic =
        |(name, partitions)| ListOffsetsTopic::default().with_name(topic_name(name)).with_partitions(partitions);
    ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(topics.into_iter().map(topic).collect())
}
