//! `ringgate groups` and `ringgate topics` against a gateway that real clients have used, with a node per shard and with
//! one for all.

#[path = "../common/mod.rs"]
mod common;

mod groups;
mod reset;
mod topics;

use std::process::{Command, Output, Stdio};

use common::gateway::{Advertise, Gateway, Options};
use common::librdkafka::{create_topic, producer};
use common::{blocking, within};
use rdkafka::producer::FutureRecord;
use serde_json::Value;

/// Both ways in which nodes are told of.
const MODES: [Advertise; 2] = [Advertise::Shards, Advertise::Gateway];

/// A gateway of two shards, which keeps records of long ago.
fn gateway(advertise: Advertise) -> Gateway {
    Gateway::start(Options::new(2).advertise(advertise).set_of_the_store("log-retention", 0))
}

/// Runs the tool to its end.
async fn tool(gateway: &Gateway, line: &str) -> Output {
    let servers = gateway.servers();
    let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    blocking("the tool", move || {
        Command::new(env!("CARGO_BIN_EXE_ringgate"))
            .args(arguments)
            .args(["--bootstrap", &servers, "--timeout", "60s"])
            .stdin(Stdio::null())
            .output()
            .expect("the tool runs")
    })
    .await
}

/// What it said on stdout, and its exit code.
async fn told(gateway: &Gateway, line: &str) -> (String, i32) {
    let output = tool(gateway, line).await;
    // For whoever reads why a test failed.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).expect("text"), output.status.code().expect("an exit code"))
}

/// What it said on stderr, having failed.
async fn refused(gateway: &Gateway, line: &str) -> String {
    let output = tool(gateway, line).await;
    assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// The document that it printed, having succeeded.
async fn document(gateway: &Gateway, line: &str) -> Value {
    let output = tool(gateway, &format!("{line} --json")).await;
    assert!(output.status.success(), "{line}: {output:?}");
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"));
    assert_eq!(document["version"], 1);
    assert_eq!(document["errors"], Value::Array(Vec::new()), "{line}");
    document
}

/// A topic with `count` records in each partition, a second apart, the first of `first_ms`.
async fn topic_with_records(gateway: &Gateway, topic: &str, partitions: i32, count: i64, first_ms: i64) {
    create_topic(gateway, topic, partitions).await;
    let producer = producer(gateway, &[]);
    for partition in 0..partitions {
        for record in 0..count {
            let record: FutureRecord<'_, str, str> =
                FutureRecord::to(topic).payload("a record").partition(partition).timestamp(first_ms + 1_000 * record);
            let sent = producer.send_result(record).map_err(|(error, _)| error).expect("queued");
            within("a record is taken", sent).await.expect("the producer is there").expect("taken");
        }
    }
}

/// The names of an object's fields, in order.
fn fields(object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
