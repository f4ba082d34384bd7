//! `groups delete-offsets`: shows what would go, deletes it with `--execute`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::{ApiKey, GroupId, OffsetDeleteRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::errors;
use serde_json::{Map, Value, json};

use super::delete::{dry_run, outcome};
use crate::cli::DeleteOffsets;
use crate::cluster::{Cluster, passes, refused};
use crate::group::{self, is_missing};
use crate::offsets::{ByPartition, committed};
use crate::output::{Failure, Output, Table};

/// Shows them, and deletes them.
pub async fn delete_offsets<W: Write>(
    args: &DeleteOffsets,
    cluster: &Cluster,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let group = &args.group;
    let found = match committed(cluster, std::slice::from_ref(group), None).await.remove(group) {
        Some(found) => found.map_err(|error| Failure::Why(format!("group {group}: {error}")))?,
        None => BTreeMap::new(),
    };
    // Of a topic that was deleted, offsets can be, too.
    let mut going: ByPartition<i64> = BTreeMap::new();
    for selection in &args.topic {
        let of_topic = found.get(&selection.topic).into_iter().flatten();
        let meant = |partition: &i32| selection.partitions.as_ref().is_none_or(|chosen| chosen.contains(partition));
        let offsets: Vec<(i32, i64)> = of_topic
            .filter(|(partition, _)| meant(partition))
            .map(|(partition, committed)| (*partition, committed.offset))
            .collect();
        if offsets.is_empty() {
            let subject = format!("topic {}", selection.topic);
            out.error(&subject, &format!("group {group} has no committed offset of it, or of these partitions"))?;
            continue;
        }
        going.entry(selection.topic.clone()).or_default().extend(offsets);
    }
    let refusals = match args.execute {
        _ if going.is_empty() => BTreeMap::new(),
        true => carry_out(cluster, group, &going).await?,
        false => would_be_refused(cluster, group, &going).await?,
    };
    let beside = Map::from_iter([
        ("group".to_string(), Value::from(group.as_str())),
        ("executed".to_string(), args.execute.into()),
    ]);
    out.begin(beside, "partitions")?;
    let mut table = Table::new(&["TOPIC", ">PARTITION", ">CURRENT-OFFSET", "RESULT"]);
    let (mut failed, mut deletable) = (Vec::new(), 0);
    for (topic, partitions) in &going {
        for (partition, offset) in partitions {
            let why = refusals.get(topic).and_then(|refusals| refusals.get(partition));
            let result = outcome(why.is_some(), args.execute);
            if out.is_json() {
                out.element(&json!({
                    "topic": topic, "partition": partition, "current": offset,
                    "deleted": args.execute && why.is_none(), "error": why,
                }))?;
            } else {
                table.row(vec![topic.clone(), partition.to_string(), offset.to_string(), result.into()]);
            }
            deletable += usize::from(why.is_none());
            failed.extend(why.map(|why| (format!("partition {partition} of topic {topic}"), why)));
        }
    }
    out.text(&table.take())?;
    if !args.execute {
        out.note(dry_run(deletable))?;
    }
    for (subject, why) in failed {
        out.error(&subject, why)?;
    }
    Ok(())
}

/// What the coordinator would refuse, as far as can be seen: what members have been assigned they subscribe to.
async fn would_be_refused(
    cluster: &Cluster,
    group: &str,
    going: &ByPartition<i64>,
) -> Result<ByPartition<String>, Failure> {
    let described = match group::describe(cluster, &[(group.to_string(), None)]).await.remove(group) {
        Some(Ok(described)) => described,
        Some(Err(error)) if !is_missing(&error) => return Err(error.into()),
        Some(Err(_)) | None => return Ok(BTreeMap::new()),
    };
    let consumed: BTreeSet<&String> = described.members.iter().flat_map(|member| member.assigned.keys()).collect();
    let why = || why_refused(ResponseError::GroupSubscribedToTopic.code());
    let refused = going.iter().filter(|(topic, _)| consumed.contains(topic));
    Ok(refused.map(|(topic, offsets)| (topic.clone(), offsets.keys().map(|at| (*at, why())).collect())).collect())
}

/// Deletes them; why some were not.
async fn carry_out(cluster: &Cluster, group: &str, going: &ByPartition<i64>) -> Result<ByPartition<String>, Failure> {
    let version = cluster.version(ApiKey::OffsetDelete, i16::MAX)?;
    let topic = |(name, partitions): (&String, &BTreeMap<i32, i64>)| {
        let partition = |partition: &i32| OffsetDeleteRequestPartition::default().with_partition_index(*partition);
        OffsetDeleteRequestTopic::default()
            .with_name(TopicName(StrBytes::from_string(name.clone())))
            .with_partitions(partitions.keys().map(partition).collect())
    };
    let request = OffsetDeleteRequest::default()
        .with_group_id(GroupId(StrBytes::from_string(group.into())))
        .with_topics(going.iter().map(topic).collect());
    let mut came = cluster
        .per_group(&[group.to_string()], 1, async |broker, _| {
            let answer = cluster.call(broker, version, &request).await?;
            let outcome = |outcome| Ok(vec![(group.to_string(), outcome)]);
            if answer.error_code != 0 {
                return outcome(Err(refused(answer.error_code, format!("group {group}"))));
            }
            let mut refusals: ByPartition<String> = BTreeMap::new();
            for topic in answer.topics {
                for partition in topic.partitions {
                    let error = refused(partition.error_code, format!("group {group}"));
                    match partition.error_code {
                        0 => {}
                        _ if passes(&error) => return outcome(Err(error)),
                        code => {
                            let refusals = refusals.entry(topic.name.to_string()).or_default();
                            refusals.insert(partition.partition_index, why_refused(code));
                        }
                    }
                }
            }
            outcome(Ok(refusals))
        })
        .await;
    match came.remove(group) {
        Some(Ok(refusals)) => Ok(refusals),
        Some(Err(error)) => Err(Failure::Why(format!("the offsets were not deleted: {error}"))),
        None => Ok(BTreeMap::new()),
    }
}

fn why_refused(code: i16) -> String {
    let name = errors::name(code);
    match name.as_str() {
        "GROUP_SUBSCRIBED_TO_TOPIC" => format!("{name}: members of the group consume the topic, stop them first"),
        _ => name,
    }
}
