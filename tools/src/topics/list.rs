//! `topics list`: one question.

use std::io::Write;

use serde_json::{Map, json};

use crate::cli::ListTopics;
use crate::cluster::{Cluster, Topic};
use crate::output::{Failure, Output, Table};

/// Lists them.
pub async fn list<W: Write>(args: &ListTopics, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
    let topics = cluster.all_topics().await?;
    out.begin(Map::new(), "topics")?;
    let mut shown = 0;
    let mut table = Table::new(&["TOPIC", ">PARTITIONS", ">REPLICAS", "INTERNAL", "ID"]);
    for (name, topic) in topics {
        if args.search.as_ref().is_some_and(|text| !name.contains(text.as_str())) {
            continue;
        }
        let topic = match topic {
            Ok(topic) => topic,
            Err(error) => {
                out.error(&format!("topic {name}"), &error.to_string())?;
                continue;
            }
        };
        if topic.internal && !args.internal {
            continue;
        }
        shown += 1;
        let (partitions, replicas) = (topic.partitions.len(), replicas(&topic));
        let id = topic.id.map(|id| id.to_string());
        if out.is_json() {
            out.element(&json!({
                "topic": name, "id": id, "partitions": partitions, "replicas": replicas, "internal": topic.internal,
            }))?;
        } else {
            let internal = if topic.internal { "yes" } else { "no" };
            let id = id.unwrap_or_default();
            table.row(vec![name, partitions.to_string(), replicas.to_string(), internal.into(), id]);
        }
    }
    out.text(&table.take())?;
    if shown == 0 && !out.has_errors() {
        out.nothing(if args.search.is_some() { "no topic is like that" } else { "there is no topic" });
    }
    Ok(())
}

/// Copies of each partition, the most of any.
pub fn replicas(topic: &Topic) -> usize {
    topic.partitions.values().map(|place| place.replicas.len()).max().unwrap_or(0)
}
