//! The admin port's API: lag, groups and topics as somebody sees them who watches.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::commit;
use crate::common::http::{ask, get, get_as};
use crate::common::librdkafka::create_topic;
use crate::common::member::Member;
use crate::common::metrics::{admin, exposition};
use crate::common::raw::Raw;
use crate::groups::produce_numbers;

fn options(shards: usize) -> Options {
    Options::new(shards).set("admin-listen", "127.0.0.1:0").set("census-interval", "1s")
}

/// The answer to a request that is right.
fn api(gateway: &Gateway, path: &str) -> Value {
    let (status, body) = get(gateway, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error} in {body}"))
}

/// A group in the list, if it is there.
fn listed(gateway: &Gateway, group: &str) -> Option<Value> {
    let found = api(gateway, &format!("/api/groups?search={group}"));
    found["groups"].as_array().expect("a list").iter().find(|row| row["group"] == group).cloned()
}

async fn until_lag(gateway: &Gateway, group: &str, lag: u64) {
    eventually(&format!("the lag of {group} is {lag}"), || {
        listed(gateway, group).is_some_and(|row| row["lag"].as_u64() == Some(lag))
    })
    .await;
}

/// An offset of each of so many partitions of `t`.
fn offsets(partitions: i32, offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset("t", partition, Offset::Offset(offset)).expect("offset");
    }
    list
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lag_of_a_consumer_is_told_and_goes_to_zero_when_it_has_read_all() {
    a_lag_comes_and_goes(options(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lag_is_told_on_iggy_too() {
    a_lag_comes_and_goes(options(2).on_iggy()).await;
}

async fn a_lag_comes_and_goes(options: Options) {
    let mut gateway = Gateway::start(options);
    create_topic(&gateway, "t", 4).await;
    produce_numbers(&gateway, "t", 4, 0..100).await;
    let member = Member::join(&gateway, "billing", &["t"], &[("client.id", "watched")]);
    member.until_seen(100).await;
    member.commit_offsets(offsets(3, 10)).await.expect("commit");
    let behind = 3 * 15;
    until_lag(&gateway, "billing", behind).await;

    let row = listed(&gateway, "billing").expect("it is there");
    assert_eq!((&row["state"], &row["members"], &row["type"]), (&"Stable".into(), &1.into(), &"classic".into()));
    assert!(row["since"].is_i64(), "{row}");
    let metrics = exposition(&gateway);
    assert!(metrics.contains(&format!("ringgate_group_lag{{group=\"billing\"}} {behind}\n")), "{metrics}");
    assert!(!metrics.contains("ringgate_partition_lag"), "only where it is asked for");

    let group = api(&gateway, "/api/groups/billing");
    assert_eq!((&group["lag"], &group["members_total"]), (&behind.into(), &1.into()), "{group}");
    let seen = &group["members"][0];
    assert_eq!((&seen["client"], &seen["assigned"][0]["topic"]), (&"watched".into(), &"t".into()), "{group}");
    assert_eq!(seen["assigned"][0]["partitions"].as_array().expect("a list").len(), 4);
    assert_eq!(group["partitions_total"], 4);
    for partition in group["partitions"].as_array().expect("a list") {
        assert_eq!((&partition["end"], &partition["member"]), (&25.into(), &seen["member"]), "{partition}");
        let lag = if partition["partition"] == 3 { Value::Null } else { 15.into() };
        assert_eq!(partition["lag"], lag, "without a commit there is none, not all: {partition}");
    }
    let topic = api(&gateway, "/api/topics/t");
    assert_eq!((&topic["partitions_total"], &topic["groups"][0]["group"]), (&4.into(), &"billing".into()), "{topic}");
    let ends: Vec<_> = topic["partitions"].as_array().expect("a list").iter().map(|p| p["end"].clone()).collect();
    assert_eq!(ends, [25, 25, 25, 25]);
    assert_eq!(api(&gateway, "/api/topics?search=t")["topics"][0]["groups"], 1);

    member.commit_offsets(offsets(4, 25)).await.expect("commit");
    until_lag(&gateway, "billing", 0).await;
    let overview = api(&gateway, "/api/overview");
    assert_eq!((&overview["version"], &overview["gateway"]["pid"]), (&1.into(), &gateway.ready().pid.into()));

    member.close().await;
    let options = gateway.options().clone();
    assert!(gateway.sigterm().success());
    gateway.restart(options);
    eventually("the second start says where it serves", || gateway.written().matches("/healthz").count() == 2).await;
    produce_numbers(&gateway, "t", 4, 0..8).await;
    until_lag(&gateway, "billing", 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_shows_every_shard_and_what_was_done() {
    let gateway = Gateway::start(options(2));
    create_topic(&gateway, "t", 4).await;
    produce_numbers(&gateway, "t", 4, 0..100).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    commit(&mut raw, "g", "t", &[(0, 5)]);
    let sum = |overview: &Value, name: &str| {
        let shards = overview["shards"].as_array().expect("a list");
        shards.iter().map(|shard| shard[name].as_u64().expect("a count")).sum::<u64>()
    };
    let mut overview = Value::Null;
    // What each shard has is counted apart from the lag, so that one can be told before the other.
    eventually("the gateway has looked at itself twice, and each shard was counted", || {
        overview = api(&gateway, "/api/overview");
        let points = overview["history"]["connections"].as_array().map_or(0, Vec::len);
        let counted = (sum(&overview, "partitions"), sum(&overview, "groups"));
        points >= 2 && overview["totals"]["lag"] == 20 && counted == (4, 1)
    })
    .await;
    assert_eq!(overview["gateway"]["nodes"].as_array().expect("a list").len(), gateway.nodes().len());
    let shards = overview["shards"].as_array().expect("a list");
    assert_eq!(shards.iter().map(|shard| shard["shard"].clone()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((&overview["totals"]["topics"], &overview["totals"]["groups"]), (&1.into(), &1.into()));
    assert_eq!(overview["lagging"][0]["group"], "g");
    assert!(overview["health"]["since"].is_i64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_groups_come_in_pages_each_once_and_a_stop_does_not_wait_for_a_census() {
    let mut gateway = Gateway::start(options(2));
    create_topic(&gateway, "t", 1).await;
    produce_numbers(&gateway, "t", 1, 0..10).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let name = |n: u64| format!("group-{n:04}/\u{e4}");
    for n in 0..2_000 {
        commit(&mut raw, &name(n), "t", &[(0, (n % 11) as i64)]);
    }
    eventually("all have been seen", || api(&gateway, "/api/groups?limit=1")["total"] == 2_000).await;
    for sort in ["name", "lag", "members"] {
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = api(&gateway, &format!("/api/groups?sort={sort}&limit=300&after={next}"));
            let rows = page["groups"].as_array().expect("a list");
            seen.extend(rows.iter().map(|row| (row["lag"].as_u64().expect("a lag"), row["group"].to_string())));
            let Some(mark) = page["next"].as_str() else { break };
            next = mark.bytes().map(|byte| format!("%{byte:02x}")).collect();
        }
        let lags: BTreeMap<&String, u64> = seen.iter().map(|(lag, group)| (group, *lag)).collect();
        assert_eq!((seen.len(), lags.len()), (2_000, 2_000), "by {sort}");
        match sort {
            "lag" => assert!(seen.is_sorted_by(|a, b| (b.0, &a.1) <= (a.0, &b.1)), "the largest first"),
            _ => assert!(seen.is_sorted_by(|a, b| a.1 < b.1)),
        }
    }
    let path = "/api/groups/group-0007%2F%C3%A4";
    assert_eq!((&api(&gateway, path)["group"], &api(&gateway, path)["lag"]), (&name(7).into(), &3.into()));
    assert_eq!(api(&gateway, "/api/groups?search=-19&state=Empty")["total"], 100);
    assert_eq!(api(&gateway, "/api/groups?state=Dead")["total"], 0);
    assert_eq!(api(&gateway, "/api/topics/t")["groups_total"], 2_000);
    let series = |metrics: &str| metrics.lines().filter(|line| line.starts_with("ringgate_group_lag{")).count();
    assert_eq!(series(&exposition(&gateway)), 1_000, "metrics_group_series_max");

    // Each of these goes through all groups, one after the other; the stop decides what becomes of them.
    let address = admin(&gateway);
    let looks: Vec<_> = (0..8).map(|_| std::thread::spawn(move || asked_for_topic(address))).collect();
    eventually("one has been answered", || looks.iter().any(std::thread::JoinHandle::is_finished)).await;
    assert!(gateway.sigterm().success());
    for look in looks {
        let _ = look.join().expect("no panic");
    }
}

fn asked_for_topic(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /api/topics/t HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_and_names_that_are_not_known_are_not_served() {
    let gateway = Gateway::start(options(1).set("admin-hosts", "gw.example.com"));
    for (path, why) in [
        ("/api/groups?limit=0", "allowed is 1 to 500"),
        ("/api/groups?sort=size", "allowed are lag, name, members"),
        ("/api/groups?state=Good", "allowed are Empty"),
        ("/api/groups?search=a&search=b", "given twice"),
        ("/api/groups?x=1", "allowed are search, state, sort, after, limit"),
        ("/api/groups?search=%zz", "hexadecimal"),
        ("/api/topics?after=zzz", "the next of an earlier answer"),
        ("/api/overview?pretty", "none is allowed"),
    ] {
        let (status, body) = get(&gateway, path);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let error = body["error"].as_str().expect("an error");
        assert!(status == 400 && error.contains(why), "{path}: {status} {error}");
    }
    assert_eq!(get(&gateway, &format!("/api/groups?search={}", "a".repeat(5_000))).0, 400);
    for path in ["/api/groups/%ff", "/api/topics/%ff", "/api/group", "/api/group?id=%ff"] {
        let (status, body) = get(&gateway, path);
        assert!(status == 400 && body.starts_with("{\"error\":"), "{path}: {status} {body}");
    }
    let (status, body) = ask(&gateway, "POST", "/api/groups", "127.0.0.1");
    assert_eq!((status, body.as_str()), (405, "{\"error\":\"only GET is answered here\"}"));
    for path in ["/api/groups/nosuch", "/api/groups/", "/api/topics/nosuch", "/api/nosuch", "/api/topics/%2e%2e"] {
        let (status, body) = get(&gateway, path);
        assert!(status == 404 && body.starts_with("{\"error\":"), "{path}: {status} {body}");
    }
    for (host, status) in [("localhost:1", 200), ("gw.example.com", 200), ("evil.example.com", 421)] {
        eventually(host, || get_as(&gateway, "/api/groups", host).0 == status).await;
        assert!(get_as(&gateway, "/api/groups", host).1.starts_with('{'), "{host}");
        assert_eq!(get_as(&gateway, "/healthz", host).0, 200, "probes and scrapers come by any name");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_whose_names_are_no_part_of_a_path_are_told_of_by_id() {
    let gateway = Gateway::start(options(2));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for (name, id) in [("", ""), (".", "."), ("..", ".."), ("a/b?c&d=e", "a%2Fb%3Fc%26d%3De")] {
        commit(&mut raw, name, "t", &[(0, 0)]);
        let group = api(&gateway, &format!("/api/group?id={id}"));
        assert_eq!((&group["group"], &group["partitions_total"]), (&name.into(), &1.into()), "{group}");
    }
    assert_eq!(get(&gateway, "/api/group?id=nosuch").0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_requests_on_every_admin_connection_keep_nobody_from_asking_for_health() {
    let gateway = Gateway::start(options(1));
    let halves: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut half = TcpStream::connect(admin(&gateway)).expect("connect");
            half.write_all(b"GET /healthz HTTP/1.1\r\nHost:").expect("half a request");
            half
        })
        .collect();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(&gateway, path).0, 200, "{path}");
    }
    let met = "ringgate_admin_limit_hit_total{limit=\"connections\"} ";
    let count = exposition(&gateway).lines().find_map(|line| line.strip_prefix(met)?.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count >= 200 - 64), "{count:?}");
    drop(halves);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_the_consumer_protocol_is_shown_with_what_its_members_have() {
    let quick = options(2).set("consumer-heartbeat-interval", "100ms").set("consumer-assignment-interval", 0);
    let gateway = Gateway::start(quick.set("metrics-partition-lag", true));
    create_topic(&gateway, "t", 4).await;
    produce_numbers(&gateway, "t", 4, 0..40).await;
    let members: Vec<Member> =
        (0..2).map(|_| Member::join(&gateway, "modern", &["t"], &[("group.protocol", "consumer")])).collect();
    for member in &members {
        member.until_assigned(2).await;
    }
    members[0].commit_offsets(offsets(1, 4)).await.expect("commit");
    until_lag(&gateway, "modern", 6).await;
    let group = api(&gateway, "/api/groups/modern");
    assert_eq!((&group["type"], &group["members_total"], &group["lag"]), (&"consumer".into(), &2.into(), &6.into()));
    let mut had: Vec<i64> = Vec::new();
    for member in group["members"].as_array().expect("a list") {
        assert_eq!(member["assigned"][0]["topic"], "t", "{group}");
        had.extend(member["assigned"][0]["partitions"].as_array().expect("a list").iter().filter_map(Value::as_i64));
    }
    had.sort_unstable();
    assert_eq!(had, [0, 1, 2, 3]);
    let row = "ringgate_partition_lag{group=\"modern\",topic=\"t\",partition=\"0\"} 6\n";
    eventually("the lag of the partition is a metric", || exposition(&gateway).contains(row)).await;
}
