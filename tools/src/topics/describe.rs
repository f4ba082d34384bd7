//! `topics describe`: partitions, where they begin and end, settings that are not the default, and who reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{ApiKey, DescribeConfigsRequest};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{CallError, errors};
use serde_json::{Map, Value, json};

use super::list::replicas;
use super::readers::{Reader, commits, readers};
use crate::cli::DescribeTopics;
use crate::cluster::{Cluster, Place, Topic, is_not_there, refused};
use crate::offsets::{ByPartition, Partitions, Which, offsets};
use crate::output::{Failure, Output, Table, counted, or_dash, printable};

/// Kafka's number of topics among resources.
const TOPIC: i8 = 2;
/// Kafka's number of the source of a setting that was made for one topic.
const OF_THE_TOPIC: i8 = 1;

/// Offsets of partitions, or why there are none.
type Looked = ByPartition<Result<Option<i64>, CallError>>;

/// A partition's row.
struct Row<'a> {
    partition: i32,
    place: &'a Place,
    start: Option<i64>,
    end: Option<i64>,
}

impl Row<'_> {
    fn records(&self) -> Option<i64> {
        Some(self.end? - self.start?)
    }
}

/// What is told of a topic.
struct Described<'a> {
    name: &'a str,
    topic: &'a Topic,
    rows: Vec<Row<'a>>,
    /// Settings that were made for it.
    settings: BTreeMap<String, String>,
    /// Who reads it, when that was asked for.
    readers: Option<Vec<Reader>>,
}

/// Describes them.
pub async fn describe<W: Write>(args: &DescribeTopics, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
    out.begin(Map::new(), "topics")?;
    let topics = found(args, cluster, out).await?;
    if topics.is_empty() {
        return Ok(());
    }
    let wanted: Partitions =
        topics.iter().map(|(name, topic)| (name.clone(), topic.partitions.keys().copied().collect())).collect();
    let mut settings = settings(cluster, &topics, out).await?;
    let starts = offsets(cluster, &wanted, Which::Earliest).await?;
    let commits = if args.groups { Some(commits(cluster, &wanted, out).await?) } else { None };
    // Readers commit while they are asked for: ends are asked for last.
    let ends = offsets(cluster, &wanted, Which::Latest).await?;
    unknown(&starts, &ends, out)?;
    for (at, (name, topic)) in topics.iter().enumerate() {
        let of = |all: &Looked, partition: i32| all.get(name)?.get(&partition)?.as_ref().ok().copied().flatten();
        let row = |(&partition, place)| {
            let (start, end) = (of(&starts, partition), of(&ends, partition));
            Row { partition, place, start, end }
        };
        let rows: Vec<Row> = topic.partitions.iter().map(row).collect();
        let ends_of: BTreeMap<i32, i64> = rows.iter().filter_map(|row| Some((row.partition, row.end?))).collect();
        let readers = commits.as_ref().map(|commits| readers(commits, name, &ends_of));
        let settings = settings.remove(name).unwrap_or_default();
        let described = Described { name, topic, rows, settings, readers };
        if out.is_json() {
            out.element(&described.to_json())?;
            continue;
        }
        if at > 0 {
            out.text("\n")?;
        }
        described.show(cluster, out)?;
    }
    Ok(())
}

/// Those that are there, in their order, each once.
async fn found<W: Write>(
    args: &DescribeTopics,
    cluster: &Cluster,
    out: &mut Output<W>,
) -> Result<Vec<(String, Topic)>, Failure> {
    let mut names = args.topics.clone();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let mut told = cluster.topics(&names).await?;
    let mut topics = Vec::new();
    for name in names {
        match told.remove(&name).unwrap_or_else(|| Err(refused(3, format!("topic {name}")))) {
            Ok(topic) => topics.push((name, topic)),
            Err(error) if is_not_there(&error) => out.error(&format!("topic {name}"), "there is no such topic")?,
            Err(error) => out.error(&format!("topic {name}"), &error.to_string())?,
        }
    }
    Ok(topics)
}

fn unknown<W: Write>(starts: &Looked, ends: &Looked, out: &mut Output<W>) -> Result<(), Failure> {
    for (topic, partitions) in ends {
        for (partition, end) in partitions {
            let start = starts.get(topic).and_then(|partitions| partitions.get(partition));
            if let Some(error) = end.as_ref().err().or_else(|| start.and_then(|start| start.as_ref().err())) {
                out.error(&format!("partition {partition} of topic {topic}"), &error.to_string())?;
            }
        }
    }
    Ok(())
}

/// Settings that were made for each topic.
async fn settings<W: Write>(
    cluster: &Cluster,
    topics: &[(String, Topic)],
    out: &mut Output<W>,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Failure> {
    let resource = |(name, _): &(String, Topic)| {
        DescribeConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(StrBytes::from_string(name.clone()))
            .with_configuration_keys(None)
    };
    let request = DescribeConfigsRequest::default().with_resources(topics.iter().map(resource).collect());
    let asked = async {
        let version = cluster.version(ApiKey::DescribeConfigs, i16::MAX)?;
        cluster.ask(version, &request).await
    };
    let answer = match asked.await {
        Ok(answer) => answer,
        Err(error) => {
            out.error("settings", &error.to_string())?;
            return Ok(BTreeMap::new());
        }
    };
    let mut all = BTreeMap::new();
    for result in answer.results {
        let name = result.resource_name.to_string();
        if result.error_code != 0 {
            out.error(&format!("settings of topic {name}"), &errors::name(result.error_code))?;
            continue;
        }
        let own = result.configs.into_iter().filter(|setting| setting.config_source == OF_THE_TOPIC);
        let text = |value: Option<StrBytes>| value.map_or_else(|| "(hidden)".into(), |value| value.to_string());
        all.insert(name, own.map(|setting| (setting.name.to_string(), text(setting.value))).collect());
    }
    Ok(all)
}

impl Described<'_> {
    fn to_json(&self) -> Value {
        let row = |row: &Row<'_>| {
            json!({
                "partition": row.partition, "leader": row.place.leader, "replicas": row.place.replicas,
                "isr": row.place.isr, "start": row.start, "end": row.end, "records": row.records(),
            })
        };
        let reader = |reader: &Reader| json!({"group": reader.group, "state": reader.state, "lag": reader.lag});
        json!({
            "topic": self.name, "id": self.topic.id.map(|id| id.to_string()), "internal": self.topic.internal,
            "configs": self.settings, "partitions": self.rows.iter().map(row).collect::<Vec<_>>(),
            "groups": self.readers.as_ref().map(|readers| readers.iter().map(reader).collect::<Vec<_>>()),
        })
    }

    fn show<W: Write>(&self, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
        let id = self.topic.id.map_or_else(String::new, |id| format!(", id {id}"));
        let records: Option<i64> = self.rows.iter().map(Row::records).sum();
        let title = format!(
            "topic {}: {}, {}, {} records{id}",
            self.name,
            counted(self.rows.len(), "partition"),
            counted(replicas(self.topic), "replica"),
            or_dash(records)
        );
        out.text(&format!("{}\n", printable(&title)))?;
        let settings: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !settings.is_empty() {
            out.text(&format!("{}\n", printable(&format!("settings: {}", settings.join(" ")))))?;
        }
        out.text(&self.table(cluster).take())?;
        let Some(readers) = &self.readers else { return Ok(()) };
        if readers.is_empty() {
            return out.text("no group has committed offsets of it\n");
        }
        let mut table = Table::new(&["GROUP", "STATE", ">LAG"]);
        for reader in readers {
            table.row(vec![reader.group.clone(), reader.state.clone(), or_dash(reader.lag)]);
        }
        out.text(&table.take())
    }

    fn table(&self, cluster: &Cluster) -> Table {
        let brokers = cluster.brokers();
        let ids = |ids: &[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
        let head = &[">PARTITION", "LEADER", "REPLICAS", "ISR", ">LOG-START-OFFSET", ">LOG-END-OFFSET", ">RECORDS"];
        let mut table = Table::new(head);
        for row in &self.rows {
            let leader = row.place.leader.map(|id| match brokers.get(&id) {
                Some(address) => format!("{address} ({id})"),
                None => id.to_string(),
            });
            table.row(vec![
                row.partition.to_string(),
                or_dash(leader),
                ids(&row.place.replicas),
                ids(&row.place.isr),
                or_dash(row.start),
                or_dash(row.end),
                or_dash(row.records()),
            ]);
        }
        table
    }
}
