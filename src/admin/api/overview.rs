//! `GET /api/overview`: the whole gateway at a glance.

use serde_json::{Value, json};

use super::{Answer, Refused, number};
use crate::limits::WATCH_STEP;
use crate::watch::history::{History, Point, STEP_MS};
use crate::watch::sample::{Sample, ShardStep, Step, Took};
use crate::watch::{About, Seen, Watch, now_ms};

/// Groups among the lagging ones.
const LAGGING_MAX: usize = 20;

/// The answer. It is made of what was seen already, so it costs no shard anything.
pub(super) fn overview(watch: &Watch) -> Answer {
    let about = watch.about().ok_or(Refused::Unavailable)?;
    let seen = watch.seen();
    let census = seen.census.as_deref();
    let reports = || seen.sample.shards.iter().map(|shard| &shard.report);
    let is_sampled = !seen.sample.shards.is_empty();
    let sum = |of: &dyn Fn(&ringgate_shards::metrics::ShardReport) -> usize| {
        is_sampled.then(|| reports().map(of).sum::<usize>())
    };
    let step = &seen.step;
    // Without two samples there are no rates.
    let rate = |rate: f64| number(Some(rate).filter(|_| !step.shards.is_empty()));
    Ok(json!({
        "version": 1,
        "at": now_ms(),
        "gateway": gateway(watch, about),
        "health": health(&seen),
        "totals": {
            "connections": is_sampled.then_some(seen.sample.connections),
            "groups": sum(&|report| report.groups.iter().map(|(_, count)| count).sum()),
            "members": sum(&|report| report.members),
            "topics": census.map(|census| census.topics.len()),
            "partitions": census.map(|census| census.topics.iter().map(|seen| i64::from(seen.topic.partitions)).sum::<i64>()),
            "lag": census.and_then(|census| census.lag),
        },
        "rates": {
            "requests": rate(step.requests),
            "records_in": rate(step.records_in),
            "bytes_in": rate(step.bytes_in),
            "bytes_out": rate(step.bytes_out),
            "commits": rate(step.commits),
            "rebalances": rate(step.rebalances),
        },
        "shards": shards(&seen.sample, step, &seen),
        "lagging": lagging(&seen),
        "apis": step.apis.iter().map(|api| {
            let mut row = took(&api.took);
            row["api"] = json!(api.api);
            row["requests"] = number(api.requests);
            row["errors"] = number(api.errors);
            row["max"] = number(api.took.max);
            row
        }).collect::<Vec<Value>>(),
        "store": watch.about().filter(|about| about.store == "embedded").map(|_| store(step)),
        "lane": lane(&seen.sample, step),
        "limits": limits(&seen),
        "history": history(&seen.history),
    }))
}

fn gateway(watch: &Watch, about: &About) -> Value {
    let node = |(id, shard, addr): &(i32, u16, String)| json!({"id": id, "shard": shard, "addr": addr});
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cluster_id": about.cluster_id,
        "advertise": about.advertise,
        "store": about.store,
        "where": about.location,
        "fsync": about.fsync,
        "started": watch.started_ms(),
        "pid": std::process::id(),
        "nodes": about.nodes.iter().map(node).collect::<Vec<Value>>(),
    })
}

fn health(seen: &Seen) -> Value {
    let (status, since) = seen.findings.status();
    let findings = seen.findings.worst_first().into_iter().map(|finding| {
        json!({
            "severity": finding.severity.name(),
            "kind": finding.kind,
            "subject": finding.subject,
            "text": finding.text,
            "since": finding.since_ms,
        })
    });
    json!({
        "status": status.map_or("ok", |severity| severity.name()),
        "since": since,
        "findings": findings.collect::<Vec<Value>>(),
        "findings_left_out": seen.findings.left_out(),
    })
}

fn took(took: &Took) -> Value {
    json!({"p50": number(took.p50), "p99": number(took.p99), "p999": number(took.p999)})
}

fn shards(sample: &Sample, step: &Step, seen: &Seen) -> Vec<Value> {
    let hot: Vec<&str> = seen
        .findings
        .worst_first()
        .into_iter()
        .filter(|finding| finding.kind == "hot_shard")
        .map(|finding| finding.subject.as_str())
        .collect();
    let row = |(at, shard): (usize, &crate::scrape::ShardScrape)| {
        let report = &shard.report;
        let steps = step.shards.get(at);
        let rate = |of: &dyn Fn(&ShardStep) -> f64| number(steps.map(of));
        let mut row = steps.map_or_else(|| took(&Took::default()), |step| took(&step.took));
        row["shard"] = json!(report.shard);
        row["cpu"] = number(steps.and_then(|step| step.cpu));
        row["connections"] = json!(shard.connections);
        row["groups"] = json!(report.groups.iter().map(|(_, count)| count).sum::<usize>());
        row["members"] = json!(report.members);
        row["partitions"] = json!(report.partitions);
        row["requests"] = rate(&|step| step.requests);
        row["records_in"] = rate(&|step| step.records_in);
        row["mailbox_depth"] = json!(report.mailbox_depth);
        row["hops"] = rate(&|step| step.hops);
        row["hop_p99"] = number(steps.and_then(|step| step.hop_took.p99));
        row["loop_lag"] = number(sample.loop_lags.get(at).map(|lag| lag.as_secs_f64() * 1000.0));
        row["stalls"] = json!(sample.stalls.get(at));
        row["hot"] = json!(hot.contains(&format!("shard {}", report.shard).as_str()));
        row
    };
    sample.shards.iter().enumerate().map(row).collect()
}

fn lagging(seen: &Seen) -> Vec<Value> {
    let Some(census) = seen.census.as_deref() else { return Vec::new() };
    let row = |group: &crate::watch::census::GroupSeen| {
        json!({
            "group": group.group.as_str(),
            "state": group.state.name(),
            "members": group.members,
            "lag": group.lag,
            "since": group.trend.lagging_since_ms,
            "per_second": number(group.trend.per_second),
        })
    };
    census.by_lag().take(LAGGING_MAX).map(row).collect()
}

fn store(step: &Step) -> Value {
    json!({
        "sync_p50": number(step.synced.p50),
        "sync_p99": number(step.synced.p99),
        "write_p99": number(step.written.p99),
        "batch": number(step.batch),
    })
}

fn lane(sample: &Sample, step: &Step) -> Value {
    let lanes: Vec<_> = sample.shards.iter().filter_map(|shard| shard.report.lane.as_ref()).collect();
    let Some(first) = lanes.first() else { return Value::Null };
    let failures = step.lane_failures as f64 / WATCH_STEP.as_secs_f64();
    json!({
        "calls": number(step.lane_calls),
        "p50": number(step.lane_took.p50),
        "p99": number(step.lane_took.p99),
        "in_flight": lanes.iter().map(|lane| lane.in_flight).sum::<usize>(),
        "failures": number(failures),
        "lease_ms": u64::try_from(first.lease.as_millis()).ok(),
    })
}

fn limits(seen: &Seen) -> Vec<Value> {
    let row = |(limit, hits): (&'static str, u64)| json!({"limit": limit, "hits": hits, "last": seen.limits_met_ms.get(limit)});
    seen.sample.limits().into_iter().map(row).collect()
}

fn history(history: &History) -> Value {
    let all = |of: &dyn Fn(&Point) -> Value| history.points().map(of).collect::<Vec<Value>>();
    let shards = history.points().map(|point| point.shard_cpu.len()).max().unwrap_or(0);
    let cpu = |shard: usize| all(&|point| number(point.shard_cpu.get(shard).copied().flatten()));
    json!({
        "step": STEP_MS,
        "from": history.from_ms(),
        "requests": all(&|point| number(point.requests)),
        "p99": all(&|point| number(point.p99)),
        "lag": all(&|point| json!(point.lag)),
        "connections": all(&|point| json!(point.connections)),
        "loop_lag": all(&|point| number(point.loop_lag)),
        "records_in": all(&|point| number(point.records_in)),
        "shard_cpu": (0..shards).map(cpu).collect::<Vec<_>>(),
    })
}
