//! `GET /api/groups/{group}` and `/api/group?id=`: one group with its members and what it has committed, now.

use serde_json::{Value, json};

use super::groups::group_type;
use super::{Answer, Refused};
use crate::limits::API_ROWS_MAX;
use crate::watch::detail::{GroupDetail, MemberSeen};
use crate::watch::history::GROUP_STEP_MS;
use crate::watch::{Watch, now_ms};

pub(super) async fn group(watch: &Watch, name: &str) -> Answer {
    let missing = || Refused::Missing(format!("there is no group {name:?}"));
    watch.about().ok_or(Refused::Unavailable)?;
    let detail = watch.group(name).await?.ok_or_else(missing)?;
    let group = &detail.group;
    let mut seen = watch.seen();
    let history = seen.group_histories.asked(&group.group_id, now_ms());
    let since = seen.census.as_ref().and_then(|census| census.group(name)?.trend.lagging_since_ms);
    drop(seen);
    let lags = detail.partitions.values().filter_map(|partition| partition.lag());
    let lag = lags.fold(None, |sum, lag| Some(sum.unwrap_or(0u64).saturating_add(lag)));
    Ok(json!({
        "group": group.group_id.as_str(),
        "shard": detail.shard,
        "state": group.state.name(),
        "state_since": group.state_since_ms,
        "type": group_type(group.is_consumer),
        "protocol_type": group.protocol_type.as_str(),
        "protocol": group.protocol.as_ref().map(|protocol| protocol.as_str()),
        "generation": group.generation,
        "leader": group.leader.as_ref().map(|leader| leader.as_str()),
        "members_total": detail.members.len(),
        "members": detail.members.iter().take(API_ROWS_MAX).map(member).collect::<Vec<Value>>(),
        "partitions_total": detail.partitions.len(),
        "partitions": partitions(&detail),
        "lag": lag.filter(|_| group.knows_offsets),
        "since": since.filter(|_| lag > Some(0)),
        "rebalances": {
            "completed": group.rebalances.completed,
            "failed": group.rebalances.failed,
            "last": group.rebalances.last_ms,
            "last_took": group.rebalances.last_ms.map(|_| group.rebalances.last_took_ms),
        },
        "history": history.map(|(from, lag)| json!({"step": GROUP_STEP_MS, "from": from, "lag": lag})),
    }))
}

fn member(member: &MemberSeen) -> Value {
    // Of one member of a group that has all partitions there are.
    let mut room = API_ROWS_MAX;
    let assigned = member.assigned.iter().map_while(|(topic, partitions)| {
        let shown = &partitions[..partitions.len().min(room)];
        room -= shown.len();
        (!shown.is_empty()).then(|| json!({"topic": topic.as_str(), "partitions": shown}))
    });
    json!({
        "member": member.member.as_str(),
        "instance": member.instance.as_ref().map(|instance| instance.as_str()),
        "client": member.client.as_str(),
        "host": member.host.as_str(),
        "assigned": assigned.collect::<Vec<Value>>(),
        "assigned_total": member.assigned.iter().map(|(_, partitions)| partitions.len()).sum::<usize>(),
    })
}

fn partitions(detail: &GroupDetail) -> Vec<Value> {
    let row = |((topic, partition), of): (&(ringgate_group::Text, i32), &crate::watch::detail::PartitionOfGroup)| {
        let committed = of.committed.as_ref();
        json!({
            "topic": topic.as_str(),
            "partition": partition,
            "committed": committed.map(|committed| committed.offset),
            "end": of.end,
            "lag": of.lag(),
            "committed_at": committed.map(|committed| committed.committed_at_ms),
            "member": of.member.map(|at| detail.members[at].member.as_str()),
            "metadata": committed.map(|committed| committed.metadata.as_str()),
        })
    };
    detail.partitions.iter().take(API_ROWS_MAX).map(row).collect()
}
