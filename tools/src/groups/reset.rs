//! `groups reset`: shows where offsets would be, commits them with `--execute`, and reads them back.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::{ApiKey, GroupId, OffsetCommitRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{CallError, errors};
use serde_json::{Map, Value, json};

use super::reset_plan::{Aim, Known, Step, place, read_offsets};
use crate::cli::{Reset, ResetTo, TopicSelection};
use crate::cluster::{Cluster, passes, refused};
use crate::group::{self, is_missing};
use crate::limits::OFFSETS_FILE_BYTES_MAX;
use crate::offsets::{ByPartition, Committed, Partitions, Which, committed, offsets};
use crate::output::{Failure, Output, Table, counted, or_dash, without_subject};

/// The newest version of OffsetCommit that names topics; later ones have ids instead.
const OFFSET_COMMIT_NAMES: i16 = 9;

/// Plans, shows, and carries out.
pub async fn reset<W: Write>(args: &Reset, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
    let group = &args.group;
    let blocked = blocked(cluster, group).await?;
    if let (Some(why), true) = (&blocked, args.execute) {
        return Err(Failure::Why(format!("group {group}: its offsets cannot be set: {why}; nothing was committed")));
    }
    let current = committed_of(cluster, group, None).await?;
    let of_file = args.to.from_file.as_deref().map(read_file).transpose()?;
    let wanted = wanted(args, cluster, &current, of_file.as_ref()).await?;
    let (steps, failed) = plan(&args.to, cluster, &wanted, &current, of_file.as_ref()).await?;
    for (subject, why) in &failed {
        out.error(subject, why)?;
    }
    let execute = args.execute && failed.is_empty();
    if args.export {
        for step in &steps {
            out.text(&format!("{},{},{}\n", step.topic, step.partition, step.new))?;
        }
        return Ok(());
    }
    let refusals = if execute { commit(cluster, group, &steps).await? } else { Vec::new() };
    show(args, &steps, execute, blocked.as_deref(), out)?;
    for (subject, why) in &refusals {
        out.error(subject, why)?;
    }
    if execute {
        read_back(cluster, group, &steps, &refusals, out).await?;
    } else if args.execute {
        out.note("nothing was committed: see the errors")?;
    }
    Ok(())
}

/// Why the group's offsets cannot be set now. A group that is not there yet may have offsets.
async fn blocked(cluster: &Cluster, group: &str) -> Result<Option<String>, Failure> {
    match group::describe(cluster, &[(group.to_string(), None)]).await.remove(group) {
        Some(Ok(described)) if described.is_empty() => Ok(None),
        Some(Ok(described)) => Ok(Some(described.why_not_empty())),
        Some(Err(error)) if is_missing(&error) => Ok(None),
        Some(Err(error)) => Err(error.into()),
        None => Ok(None),
    }
}

/// What a group has committed; nothing when it is not there.
async fn committed_of(
    cluster: &Cluster,
    group: &str,
    only: Option<&Partitions>,
) -> Result<ByPartition<Committed>, Failure> {
    match committed(cluster, &[group.to_string()], only).await.remove(group) {
        Some(Ok(committed)) => Ok(committed),
        Some(Err(error)) if is_missing(&error) => Ok(BTreeMap::new()),
        Some(Err(error)) => Err(error.into()),
        None => Ok(BTreeMap::new()),
    }
}

fn read_file(path: &Path) -> Result<ByPartition<i64>, Failure> {
    let failed = |why: String| Failure::Why(format!("--from-file {}: {why}", path.display()));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let read = file.take(OFFSETS_FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > OFFSETS_FILE_BYTES_MAX {
        return Err(failed(format!("it has more than {OFFSETS_FILE_BYTES_MAX} bytes")));
    }
    read_offsets(&text).map_err(failed)
}

/// Which partitions are meant.
async fn wanted(
    args: &Reset,
    cluster: &Cluster,
    current: &ByPartition<Committed>,
    of_file: Option<&ByPartition<i64>>,
) -> Result<Partitions, Failure> {
    if let Some(of_file) = of_file {
        return Ok(of_file.iter().map(|(topic, offsets)| (topic.clone(), offsets.keys().copied().collect())).collect());
    }
    if args.all_topics {
        if current.is_empty() {
            let why = "it has no committed offsets: say which topics are meant with --topic";
            return Err(Failure::Why(format!("group {}: {why}", args.group)));
        }
        return Ok(current.iter().map(|(topic, offsets)| (topic.clone(), offsets.keys().copied().collect())).collect());
    }
    selected(cluster, &args.topic).await
}

/// The partitions of what was selected, all of which must be there.
pub async fn selected(cluster: &Cluster, selections: &[TopicSelection]) -> Result<Partitions, Failure> {
    let mut names: Vec<String> = selections.iter().map(|selection| selection.topic.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let topics = cluster.topics(&names).await?;
    let mut all = Partitions::new();
    for TopicSelection { topic, partitions } in selections {
        let found = match topics.get(topic) {
            Some(Ok(found)) => found,
            Some(Err(error)) => return Err(Failure::Why(error.to_string())),
            None => return Err(refused(3, format!("topic {topic}")).into()),
        };
        let chosen = all.entry(topic.clone()).or_default();
        match partitions {
            None => chosen.extend(found.partitions.keys()),
            Some(partitions) => {
                if let Some(missing) = partitions.iter().find(|partition| !found.partitions.contains_key(partition)) {
                    let count = found.partitions.len();
                    return Err(Failure::Why(format!(
                        "topic {topic} has no partition {missing}: it has {count} partitions, from 0 on"
                    )));
                }
                chosen.extend(partitions);
            }
        }
    }
    Ok(all)
}

/// What cannot be done, and why.
type Failed = Vec<(String, String)>;

async fn plan(
    to: &ResetTo,
    cluster: &Cluster,
    wanted: &Partitions,
    current: &ByPartition<Committed>,
    of_file: Option<&ByPartition<i64>>,
) -> Result<(Vec<Step>, Failed), Failure> {
    let starts = offsets(cluster, wanted, Which::Earliest).await?;
    let ends = offsets(cluster, wanted, Which::Latest).await?;
    let time = match (to.to_datetime, to.by_duration) {
        (Some(moment), _) => Some(moment.0),
        (None, Some(ago)) => Some(ms_now().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)).max(0)),
        (None, None) => None,
    };
    let found = match time {
        Some(time) => Some(offsets(cluster, wanted, Which::At(time)).await?),
        None => None,
    };
    let (mut steps, mut failed) = (Vec::new(), Failed::new());
    for (topic, partitions) in wanted {
        for &partition in partitions {
            let of = |all: &ByPartition<Result<Option<i64>, CallError>>| {
                let offset = all.get(topic).and_then(|partitions| partitions.get(&partition));
                offset.cloned().unwrap_or_else(|| Err(refused(3, "the partition")))
            };
            let step = (|| {
                let told = |offset: Option<i64>| offset.ok_or_else(|| "its leader tells no offset".to_string());
                let text = |error: CallError| error.to_string();
                let current = current.get(topic).and_then(|partitions| partitions.get(&partition));
                let known = Known {
                    current: current.map(|committed| committed.offset),
                    start: told(of(&starts).map_err(text)?)?,
                    end: told(of(&ends).map_err(text)?)?,
                };
                let aim = match (of_file, &found) {
                    (Some(file), _) => {
                        let offset = file.get(topic).and_then(|partitions| partitions.get(&partition));
                        Aim::Offset(*offset.ok_or("the file has no offset for it")?)
                    }
                    (None, Some(found)) => Aim::Found(of(found).map_err(text)?),
                    (None, None) => aim(to),
                };
                let (new, note) = place(aim, known)?;
                Ok::<Step, String>(Step { topic: topic.clone(), partition, known, new, note })
            })();
            match step {
                Ok(step) => steps.push(step),
                Err(why) => failed.push((format!("partition {partition} of topic {topic}"), why)),
            }
        }
    }
    Ok((steps, failed))
}

/// What needs neither file nor look-up.
fn aim(to: &ResetTo) -> Aim {
    match (to.to_offset, to.shift_by) {
        (Some(offset), _) => Aim::Offset(offset),
        (None, Some(by)) => Aim::Shift(by),
        (None, None) if to.to_earliest => Aim::Earliest,
        (None, None) if to.to_latest => Aim::Latest,
        (None, None) => Aim::Current,
    }
}

fn ms_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Commits as nobody's member, which a coordinator takes only while nobody is in the group; what was refused.
async fn commit(cluster: &Cluster, group: &str, steps: &[Step]) -> Result<Failed, Failure> {
    let version = cluster.version(ApiKey::OffsetCommit, OFFSET_COMMIT_NAMES)?;
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for step in steps {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(step.partition)
            .with_committed_offset(step.new)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(StrBytes::default()));
        topics.entry(&step.topic).or_default().push(partition);
    }
    let topic = |(name, partitions): (&str, Vec<_>)| {
        OffsetCommitRequestTopic::default()
            .with_name(TopicName(StrBytes::from_string(name.into())))
            .with_partitions(partitions)
    };
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(StrBytes::from_string(group.into())))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.into_iter().map(topic).collect());
    let mut came = cluster
        .per_group(&[group.to_string()], 1, async |broker, _| {
            let answer = cluster.call(broker, version, &request).await?;
            let mut refusals = Failed::new();
            for topic in answer.topics {
                let name = topic.name.to_string();
                for partition in topic.partitions {
                    let error = refused(partition.error_code, format!("group {group}"));
                    match partition.error_code {
                        0 => {}
                        _ if passes(&error) => return Ok(vec![(group.to_string(), Err(error))]),
                        code => {
                            let subject = format!("partition {} of topic {name}", partition.partition_index);
                            refusals.push((subject, format!("the commit was refused: {}", why_refused(code))));
                        }
                    }
                }
            }
            Ok(vec![(group.to_string(), Ok(refusals))])
        })
        .await;
    match came.remove(group) {
        Some(Ok(refusals)) => Ok(refusals),
        Some(Err(error)) => {
            let (subject, why) = (format!("group {group}"), error.to_string());
            let why = without_subject(&why, &subject);
            Err(Failure::Why(format!("{subject}: the offsets were not committed: {why}")))
        }
        None => Ok(Failed::new()),
    }
}

/// Kafka's name, and what it means here.
fn why_refused(code: i16) -> String {
    let name = errors::name(code);
    match name.as_str() {
        "UNKNOWN_MEMBER_ID" | "ILLEGAL_GENERATION" | "REBALANCE_IN_PROGRESS" | "STALE_MEMBER_EPOCH" => {
            format!("{name}: somebody has joined the group meanwhile")
        }
        _ => name,
    }
}

fn show<W: Write>(
    args: &Reset,
    steps: &[Step],
    executed: bool,
    blocked: Option<&str>,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let beside = Map::from_iter([
        ("group".to_string(), Value::from(args.group.as_str())),
        ("executed".to_string(), executed.into()),
        ("blocked".to_string(), blocked.into()),
    ]);
    out.begin(beside, "partitions")?;
    let mut table = Table::new(&["TOPIC", ">PARTITION", ">CURRENT-OFFSET", ">NEW-OFFSET", ">DELTA", "NOTE"]);
    for step in steps {
        if out.is_json() {
            out.element(&json!({
                "topic": step.topic, "partition": step.partition, "current": step.known.current, "new": step.new,
                "delta": step.delta(), "start": step.known.start, "end": step.known.end, "note": step.note,
            }))?;
            continue;
        }
        table.row(vec![
            step.topic.clone(),
            step.partition.to_string(),
            or_dash(step.known.current),
            step.new.to_string(),
            step.delta().map_or_else(|| "-".into(), |delta| format!("{delta:+}")),
            or_dash(step.note),
        ]);
    }
    out.text(&table.take())?;
    match blocked {
        _ if args.execute => Ok(()),
        None => out.note("dry run: nothing was committed; --execute commits it"),
        Some(why) => {
            out.note("dry run: nothing was committed")?;
            out.error(&format!("group {}", args.group), &format!("its offsets cannot be set: {why}"))
        }
    }
}

/// Whether what was committed is there.
async fn read_back<W: Write>(
    cluster: &Cluster,
    group: &str,
    steps: &[Step],
    refusals: &Failed,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut only = Partitions::new();
    for step in steps {
        only.entry(step.topic.clone()).or_default().insert(step.partition);
    }
    let now = committed_of(cluster, group, Some(&only)).await?;
    let mut good = 0;
    for step in steps {
        let subject = format!("partition {} of topic {}", step.partition, step.topic);
        if refusals.iter().any(|(refused, _)| *refused == subject) {
            continue;
        }
        let found = now.get(&step.topic).and_then(|partitions| partitions.get(&step.partition));
        match found.map(|committed| committed.offset) {
            Some(offset) if offset == step.new => good += 1,
            found => {
                let why = format!("{} was committed, and {} is read back", step.new, or_dash(found));
                out.error(&subject, &why)?;
            }
        }
    }
    out.note(&format!("committed and read back: {good} of {}", counted(steps.len(), "offset")))
}
