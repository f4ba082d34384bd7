//! Listing, describing and deleting groups.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::common::group::{commit, consumer_joins};
use crate::common::member::Member;
use crate::common::raw::Raw;
use crate::common::{blocking, eventually};
use crate::{MODES, document, fields, gateway, refused, told, tool, topic_with_records};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lag_and_owners_of_a_group_of_real_consumers_are_told() {
    for mode in MODES {
        let gateway = gateway(mode);
        topic_with_records(&gateway, "orders", 3, 10, 1_000).await;
        let more = [("auto.offset.reset", "earliest"), ("client.id", "billing-1"), ("enable.auto.commit", "false")];
        let member = Member::join(&gateway, "billing", &["orders"], &more);
        eventually("all is assigned and read", || member.assignment().len() == 3 && member.seen().len() == 30).await;
        let stable = document(&gateway, "groups describe billing").await;
        let group = &stable["groups"][0];
        assert_eq!(
            fields(group),
            [
                "assignor",
                "coordinator",
                "epoch",
                "group",
                "lag",
                "members",
                "partitions",
                "protocol_type",
                "state",
                "type"
            ]
        );
        assert_eq!((&group["state"], &group["type"]), (&json!("Stable"), &json!("classic")));
        assert_eq!(group["assignor"], "range");
        assert_eq!(group["lag"], Value::Null, "nothing is committed, so nothing is known: {group}");
        assert_eq!(group["members"][0]["client"], "billing-1");
        assert_eq!(group["members"][0]["assigned"], json!([{"topic": "orders", "partitions": [0, 1, 2]}]));
        let partition = &group["partitions"][1];
        assert_eq!(
            fields(partition),
            ["client", "committed", "end", "error", "host", "lag", "member", "metadata", "partition", "topic"]
        );
        assert_eq!(partition["member"], group["members"][0]["member"]);
        assert_eq!((&partition["committed"], &partition["end"]), (&Value::Null, &json!(10)));
        let refusal = refused(&gateway, "groups reset billing --topic orders --to-latest --execute").await;
        for part in ["Stable", "1 member", "billing-1", "nothing was committed"] {
            assert!(refusal.contains(part), "{part} in {refusal}");
        }
        let mut of_the_first = TopicPartitionList::new();
        of_the_first.add_partition_offset("orders", 0, Offset::Offset(10)).expect("an offset");
        member.commit_offsets(of_the_first).await.expect("committed");
        // A dry run ends as its execution would.
        for (line, why) in [
            ("groups reset billing --topic orders --to-latest", "it is Stable with 1 member (billing-1"),
            ("groups delete billing", "NON_EMPTY_GROUP"),
            ("groups delete-offsets billing --topic orders", "GROUP_SUBSCRIBED_TO_TOPIC"),
        ] {
            for line in [line.to_owned(), format!("{line} --execute")] {
                let refusal = refused(&gateway, &line).await;
                assert!(refusal.contains(why), "{line}: {refusal}");
            }
        }
        let (shown, code) = told(&gateway, "groups delete billing").await;
        assert!(code == 1 && shown.contains("would be refused") && !shown.contains("NON_EMPTY_GROUP"), "{shown}");
        member.close().await;
        // It has left by that.
        assert_eq!(document(&gateway, "groups describe billing").await["groups"][0]["state"], "Empty");
        commit(&mut Raw::connect(gateway.node_of_shard(0).addr), "billing", "orders", &[(0, 10), (1, 7)]);
        let group = document(&gateway, "groups describe billing").await["groups"][0].clone();
        let rows: Vec<_> = group["partitions"].as_array().expect("rows").iter().map(|row| &row["lag"]).collect();
        assert_eq!(rows, [0, 3]);
        assert_eq!((&group["lag"], &group["members"]), (&json!(3), &json!([])));
        let (text, _) = told(&gateway, "groups describe billing --min-lag 1").await;
        let orders: Vec<&str> = text.lines().filter(|line| line.starts_with("orders")).collect();
        assert_eq!(orders.len(), 1, "only partition 1 is behind: {text}");
        assert_eq!(orders[0].split_whitespace().collect::<Vec<_>>()[..5], ["orders", "1", "7", "10", "3"]);
        let (text, _) = told(&gateway, "groups describe --all --state").await;
        assert!(text.lines().any(|line| line.starts_with("billing") && line.ends_with(" 3")), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_all_shards_are_listed_once_by_name_state_and_type() {
    for mode in MODES {
        let gateway = gateway(mode);
        topic_with_records(&gateway, "orders", 1, 1, 1_000).await;
        let mut raw = Raw::connect(gateway.bootstrap());
        // So many that both shards coordinate some.
        for number in 0..20 {
            commit(&mut raw, &format!("simple-{number:02}"), "orders", &[(0, 1)]);
        }
        assert_eq!(raw.call(1, &consumer_joins("modern", "a-member", &["orders"])).error_code, 0);
        let all = document(&gateway, "groups list").await;
        let groups = all["groups"].as_array().expect("groups");
        assert_eq!(groups.len(), 21);
        assert_eq!(fields(&groups[0]), ["coordinator", "group", "protocol_type", "state", "type"]);
        let mut nodes: Vec<i64> =
            groups.iter().map(|group| group["coordinator"]["id"].as_i64().expect("an id")).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), gateway.nodes().len(), "who coordinates them");
        let names = |document: &Value| -> Vec<String> {
            let groups = document["groups"].as_array().expect("groups");
            groups.iter().map(|group| group["group"].as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(names(&document(&gateway, "groups list --type consumer").await), ["modern"]);
        assert_eq!(names(&document(&gateway, "groups list --search -07").await), ["simple-07"]);
        assert_eq!(names(&document(&gateway, "groups list --state empty").await).len(), 20);
        assert_eq!(document(&gateway, "groups list --state Dead").await["groups"], json!([]));
        for (line, says) in [
            ("groups list --state Dead", "no group is like that"),
            ("groups describe --all --min-lag 1000", "no group is so far behind"),
            ("topics list --search payments", "no topic is like that"),
        ] {
            let output = tool(&gateway, line).await;
            let told = String::from_utf8(output.stderr).expect("text");
            assert!(output.status.success() && output.stdout.is_empty() && told.contains(says), "{line}: {told}");
        }
        let output = tool(&gateway, "groups list --state Nosuch").await;
        let told = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.code() == Some(2) && told.contains("allowed are Stable, Empty,"), "{told}");
        let modern = document(&gateway, "groups describe modern").await["groups"][0].clone();
        assert_eq!((&modern["type"], &modern["assignor"]), (&json!("consumer"), &json!("uniform")));
        assert!(modern["epoch"].as_i64().is_some_and(|epoch| epoch > 0), "{modern}");
        assert_eq!(modern["members"][0]["member"], "a-member");
        let everything = document(&gateway, "groups describe --all").await;
        assert_eq!(names(&everything), names(&all), "each once, in order");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_offsets_are_deleted_only_when_told_to_and_who_is_not_there_is_told_apart() {
    for mode in MODES {
        let gateway = gateway(mode);
        topic_with_records(&gateway, "orders", 2, 3, 1_000).await;
        let mut raw = Raw::connect(gateway.bootstrap());
        for group in ["one", "two"] {
            commit(&mut raw, group, "orders", &[(0, 1), (1, 2)]);
        }
        let (text, code) = told(&gateway, "groups delete one two").await;
        assert!(code == 0 && text.contains("dry run") && text.contains("would be deleted"), "{text}");
        let (_, code) = told(&gateway, "groups delete-offsets one --topic orders:1").await;
        assert_eq!(code, 0);
        let lag = |document: &Value| document["groups"][0]["lag"].clone();
        assert_eq!(lag(&document(&gateway, "groups describe one").await), 3, "nothing is gone");
        let gone = document(&gateway, "groups delete-offsets one --topic orders:1 --execute").await;
        assert_eq!(
            gone["partitions"],
            json!([{"topic": "orders", "partition": 1, "current": 2, "deleted": true, "error": null}])
        );
        assert_eq!(lag(&document(&gateway, "groups describe one").await), 2, "partition 0 is left");
        let output = tool(&gateway, "groups delete one absent --execute --json").await;
        assert_eq!(output.status.code(), Some(1));
        let came: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!((&came["groups"][0]["deleted"], &came["groups"][1]["deleted"]), (&json!(true), &json!(false)));
        assert_eq!(came["errors"], json!([{"subject": "group absent", "error": "there is no such group"}]));
        let output = tool(&gateway, "groups describe one two --json").await;
        assert_eq!(output.status.code(), Some(1), "the first is gone");
        let came: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(came["groups"][0]["group"], "two", "and the second is told all the same");
        assert_eq!(came["errors"][0]["subject"], "group one");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_who_has_seen_enough_is_no_error() {
    let gateway = gateway(MODES[0]);
    topic_with_records(&gateway, "orders", 1, 1, 1_000).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for number in 0..2_000 {
        commit(&mut raw, &format!("a-group-with-a-name-that-fills-the-pipe-{number:04}"), "orders", &[(0, 1)]);
    }
    let servers = gateway.servers();
    let (first, status, errors) = blocking("the tool", move || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ringgate"))
            .args(["groups", "describe", "--all", "--bootstrap", &servers])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the tool runs");
        let mut first = String::new();
        BufReader::with_capacity(64, child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
        let mut errors = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
        (first, child.wait().expect("it ends"), errors)
    })
    .await;
    assert!(first.starts_with("group a-group-"), "{first}");
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_not_there_is_an_error_that_names_it() {
    let output = blocking("the tool", || {
        let line = "topics list --bootstrap 127.0.0.1:1 --timeout 5s --json";
        Command::new(env!("CARGO_BIN_EXE_ringgate")).args(line.split(' ')).output().expect("the tool runs")
    })
    .await;
    assert_eq!(output.status.code(), Some(1));
    let came: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert!(came["errors"][0]["error"].as_str().is_some_and(|why| why.contains("127.0.0.1:1")), "{came}");
}
