//! `GET /api/topics/{topic}`: one topic with its partitions and the groups that read it, now.

use serde_json::{Value, json};

use super::{Answer, Refused};
use crate::limits::API_ROWS_MAX;
use crate::watch::Watch;

pub(super) async fn topic(watch: &Watch, name: &str) -> Answer {
    let missing = || Refused::Missing(format!("there is no topic {name:?}"));
    watch.about().ok_or(Refused::Unavailable)?;
    let detail = watch.topic(name).await?.ok_or_else(missing)?;
    let partitions = detail.partitions.iter().zip(&detail.shards).enumerate().take(API_ROWS_MAX);
    let partitions = partitions.map(|(partition, (seen, shard))| {
        json!({
            "partition": partition,
            "shard": shard,
            "start": seen.and_then(|seen| seen.log_start_offset),
            "end": seen.map(|seen| seen.high_watermark),
            "bytes": seen.and_then(|seen| seen.bytes),
            "leader_epoch": detail.leader_epoch,
            "closed": seen.is_some_and(|seen| seen.is_closed),
        })
    });
    let groups = detail.groups.iter().take(API_ROWS_MAX);
    let groups =
        groups.map(|group| json!({"group": group.group.as_str(), "lag": group.lag, "state": group.state.name()}));
    Ok(json!({
        "topic": &*detail.topic.name,
        "id": detail.topic.id.to_string(),
        "configs": detail.topic.config,
        "created": detail.topic.created_at_ms,
        "partitions_total": detail.partitions.len(),
        "partitions": partitions.collect::<Vec<Value>>(),
        "groups_total": detail.groups.len(),
        "groups": groups.collect::<Vec<Value>>(),
    }))
}
