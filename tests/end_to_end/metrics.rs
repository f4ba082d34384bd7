//! What `/metrics` says of what clients did, line by line as Prometheus reads it.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::{DescribeGroupsRequest, HeartbeatRequest};

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{Member, commit, commit_request, consumer_joins, group_id};
use crate::common::partition::{create, unknown};
use crate::common::raw::{Raw, Writer, batch, string};
use crate::common::scrape::Scrape;

fn watched(shards: u16) -> Options {
    Options::new(shards.into()).set("admin-listen", "127.0.0.1:0")
}

fn heartbeat(group: &str) -> HeartbeatRequest {
    HeartbeatRequest::default().with_group_id(group_id(group)).with_member_id(string("nobody")).with_generation_id(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_timed_and_their_errors_counted_by_api() {
    let gateway = Gateway::start(watched(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "log", 1, &[]);
    for _ in 0..3 {
        assert_eq!(raw.call(4, &heartbeat("none")).error_code, 25);
    }
    assert_eq!(unknown("gone").partition(0).produce(&mut raw, 9, Some(batch(Writer::NOBODY, 1, &["a"]))).error_code, 3);
    let partition = topic.partition(0);
    partition.append(&mut raw, batch(Writer::NOBODY, 1, &["a"]));
    // Without an answer; what follows it is answered after it.
    raw.send(9, &partition.produce_request(9, 0, Some(batch(Writer::NOBODY, 1, &["b"]))));
    let wait = Duration::from_millis(300);
    let fetch = partition.fetch_request(11, 2).with_min_bytes(1).with_max_wait_ms(wait.as_millis() as i32);
    raw.call(11, &fetch);
    let partitions: Vec<(i32, i64)> = (0..5).map(|partition| (partition, 1)).collect();
    raw.call(8, &commit_request("g", "gone", &partitions));

    let mut refused = Raw::connect(gateway.bootstrap());
    let mut frame = BytesMut::new();
    for value in [10, 7777 << 16, 1] {
        frame.put_i32(value);
    }
    frame.put_i16(-1);
    refused.send_bytes(&frame);
    refused.assert_closed();

    let scrape = Scrape::of(&gateway);
    let count = |family, api| scrape.sum(family, &[("api", api)]);
    assert_eq!(count("ringgate_requests_total", "Heartbeat"), 3.0);
    assert_eq!(count("ringgate_requests_total", "Produce"), 3.0);
    assert_eq!(count("ringgate_requests_total", "unknown"), 1.0);
    assert_eq!(count("ringgate_requests_closed_total", "unknown"), 1.0);
    assert_eq!(count("ringgate_requests_closed_total", "Heartbeat"), 0.0);
    let errors = |api, error| scrape.sum("ringgate_errors_total", &[("api", api), ("error", error)]);
    assert_eq!(errors("Heartbeat", "UNKNOWN_MEMBER_ID"), 3.0);
    assert_eq!(errors("Produce", "UNKNOWN_TOPIC_OR_PARTITION"), 1.0);
    assert_eq!(errors("OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION"), 5.0, "one for each partition");
    assert_eq!(count("ringgate_errors_total", "Fetch"), 0.0);
    let took = |api| scrape.histogram("ringgate_request_seconds", &[("api", api)]);
    assert_eq!((took("Heartbeat").0, took("Produce").0), (3, 3));
    let (fetches, seconds) = took("Fetch");
    assert_eq!(fetches, 1);
    assert!((0.9 * wait.as_secs_f64()..60.0).contains(&seconds), "{seconds}: it waited for records");
    assert!(took("Heartbeat").1 > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shards_ask_of_each_other_is_timed_where_it_is_taken_up() {
    let gateway = Gateway::start(watched(2));
    let asked = || -> Vec<(u64, f64)> {
        let scrape = Scrape::of(&gateway);
        ["0", "1"].map(|shard| scrape.histogram("ringgate_hop_seconds", &[("shard", shard)])).into()
    };
    let before = asked();
    // One connection lives on one shard, so that the groups of the other are a hop away.
    let mut raw = Raw::connect(gateway.bootstrap());
    for nth in 0..40 {
        assert_eq!(raw.call(4, &heartbeat(&format!("group-{nth}"))).error_code, 25);
    }
    let hops: Vec<u64> = asked().iter().zip(&before).map(|(now, before)| now.0 - before.0).collect();
    assert!(hops.iter().any(|hops| (1..=40).contains(hops)), "{hops:?}");
    assert!(hops.contains(&0), "no more than one shard was asked: {hops:?}");
    let scrape = Scrape::of(&gateway);
    assert_eq!(scrape.0["ringgate_mailbox_full_total"].values.len(), 2);
    assert_eq!(scrape.sum("ringgate_mailbox_full_total", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_mailbox_is_counted_at_its_owner() {
    let gateway = Gateway::start(watched(2).set("mailbox-capacity", 16));
    let mut raw = Raw::connect(gateway.bootstrap());
    // Half of the groups belong to the other shard, which is asked for each at once.
    let groups = (0..3_000).map(|n| group_id(&format!("group-{n}"))).collect();
    let describe = DescribeGroupsRequest::default().with_groups(groups);
    let full = |shard| Scrape::of(&gateway).sum("ringgate_mailbox_full_total", &[("shard", shard)]);
    eventually("a mailbox is full at some moment", || {
        raw.call(5, &describe);
        full("0") + full("1") > 0.0
    })
    .await;
    assert_eq!(full("0").min(full("1")), 0.0, "nobody asked this shard for anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_count_what_their_members_do() {
    let gateway = Gateway::start(watched(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "log", 3, &[]);
    let states = |state| Scrape::of(&gateway).sum("ringgate_groups", &[("state", state)]);
    let member = Member::consumer(&mut raw, "g", &["log"]);
    assert_eq!((states("Stable"), states("Empty")), (1.0, 0.0));
    for _ in 0..4 {
        assert_eq!(member.heartbeat(&mut raw), 0);
    }
    assert_eq!(member.commit(&mut raw, "log", &[(0, 5), (1, 5), (2, 5)]), [0; 3]);
    assert_eq!(member.commit(&mut raw, "log", &[(0, 6)]), [0]);
    let scrape = Scrape::of(&gateway);
    let sum = |family| scrape.sum(family, &[]);
    assert_eq!((sum("ringgate_group_members"), sum("ringgate_group_members_joined_total")), (1.0, 1.0));
    assert_eq!(sum("ringgate_group_heartbeats_total"), 4.0);
    assert_eq!((sum("ringgate_offsets_committed_total"), sum("ringgate_group_offsets")), (4.0, 3.0));
    assert_eq!((sum("ringgate_rebalances_total"), sum("ringgate_rebalances_failed_total")), (1.0, 0.0));
    assert_eq!(scrape.histogram("ringgate_rebalance_seconds", &[]).0, 1);
    let (commits, seconds) = scrape.histogram("ringgate_commit_seconds", &[]);
    assert_eq!(commits, 2);
    assert!(seconds > 0.0, "each was kept before it was answered");
    member.leave(&mut raw);
    assert_eq!((states("Stable"), states("Empty")), (0.0, 1.0));
    let left = Scrape::of(&gateway).sum("ringgate_group_members_departed_total", &[("reason", "left")]);
    assert_eq!(left, 1.0);

    assert_eq!(raw.call(1, &consumer_joins("k", "member", &["log"])).error_code, 0);
    let scrape = Scrape::of(&gateway);
    assert_eq!(scrape.sum("ringgate_group_assigned_partitions", &[]), 3.0);
    assert_eq!(scrape.sum("ringgate_group_epochs_total", &[]), 1.0);
    assert!(scrape.sum("ringgate_group_reconciliations_total", &[]) >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_timed_by_their_log_and_reads_counted_by_where_they_found_their_records() {
    let gateway = Gateway::start(watched(1).embedded("Iggy has the files").set("tail-cache-bytes", "1MiB"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "log", 1, &[]).partition(0);
    let value = "x".repeat(500_000);
    for _ in 0..6 {
        partition.append(&mut raw, batch(Writer::NOBODY, 1, &[&value]));
    }
    commit(&mut raw, "g", "log", &[(0, 1)]);
    let sent = [5, 0].map(|offset| {
        let fetched = partition.fetch(&mut raw, 11, offset);
        assert_eq!(fetched.error_code, 0);
        fetched.records.map_or(0, |records| records.len())
    });
    let scrape = Scrape::of(&gateway);
    let timed = |family, log| scrape.histogram(family, &[("log", log)]);
    for log in ["partition", "group", "catalogue"] {
        let ((appends, _), (syncs, seconds)) =
            (timed("ringgate_append_seconds", log), timed("ringgate_sync_seconds", log));
        assert!(appends > 0 && syncs > 0 && seconds > 0.0, "{log}: {appends} appends, {syncs} syncs");
    }
    assert_eq!(timed("ringgate_append_batches", "partition").1, 6.0, "each batch once, however many went together");
    assert!(scrape.histogram("ringgate_file_wait_seconds", &[]).0 >= 8);
    let sent: usize = sent.iter().sum();
    assert_eq!(scrape.sum("ringgate_bytes_out_total", &[]), sent as f64, "from memory and from disk");
    assert!(scrape.sum("ringgate_cached_reads_total", &[]) >= 1.0);
    assert!(scrape.sum("ringgate_disk_reads_total", &[]) >= 1.0, "the first batches are only on disk");
    let cached = scrape.sum("ringgate_cached_bytes", &[]);
    assert!((1.0..=f64::from(1 << 20)).contains(&cached), "{cached}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_and_its_threads_are_reported() {
    let gateway = Gateway::start(watched(2));
    let value = |family| Scrape::of(&gateway).sum(family, &[]);
    let before = (value("process_cpu_seconds_total"), value("ringgate_shard_cpu_seconds_total"));
    let mut raw = Raw::connect(gateway.bootstrap());
    for _ in 0..200 {
        raw.call(4, &heartbeat("none"));
    }
    let after = (value("process_cpu_seconds_total"), value("ringgate_shard_cpu_seconds_total"));
    assert!(after.0 > before.0 && after.1 > before.1, "{before:?} {after:?}");
    assert!(after.1 <= after.0, "the shards are part of the process");
    assert!((1e6..1e11).contains(&value("process_resident_memory_bytes")));
    assert!((10.0..=value("process_max_fds")).contains(&value("process_open_fds")));
    let age = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs_f64()
        - value("process_start_time_seconds");
    assert!((-2.0..3600.0).contains(&age), "it started {age} s ago");
    assert_eq!(value("ringgate_build_info"), 1.0);
    let scrape = Scrape::of(&gateway);
    let of_shard = |family: &str| scrape.0[family].values.iter().map(|(_, value)| *value).collect::<Vec<_>>();
    let lags = of_shard("ringgate_loop_lag_seconds").into_iter().zip(of_shard("ringgate_loop_lag_seconds_max"));
    lags.for_each(|(lag, longest)| assert!(0.0 <= lag && lag <= longest, "{lag} {longest}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manual_has_every_metric_and_every_limit_that_a_scrape_has() {
    let gateway = Gateway::start(watched(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    raw.call(4, &heartbeat("none"));
    let manual = include_str!("../../docs/metrics.md");
    let scrape = Scrape::of(&gateway);
    for (name, family) in &scrape.0 {
        let row = manual.lines().find(|line| line.starts_with(&format!("| `{name}` | {} |", family.kind)));
        let row = row.unwrap_or_else(|| panic!("{name}, a {}, is not in the manual", family.kind));
        assert!(row.ends_with(&format!("| {} |", family.help)), "{row}: {}", family.help);
    }
    let limits = &scrape.0["ringgate_limit_hit_total"].values;
    assert!(limits.len() > 60, "those of both shards are there before they are met");
    let (_, named) = manual.split_once("## Limits").expect("a list of limits");
    for (labels, _) in limits {
        assert!(named.contains(&format!("`{}`", labels["limit"])), "{} is not in the manual", labels["limit"]);
    }
}
