//! Listing and describing topics.

use serde_json::{Value, json};

use crate::common::group::commit;
use crate::common::librdkafka::create_topic;
use crate::common::raw::Raw;
use crate::{MODES, document, fields, gateway, refused, told, tool, topic_with_records};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_listed_and_described_with_their_readers() {
    for mode in MODES {
        let gateway = gateway(mode);
        topic_with_records(&gateway, "orders", 3, 4, 1_000).await;
        create_topic(&gateway, "payments", 1).await;
        let mut raw = Raw::connect(gateway.bootstrap());
        commit(&mut raw, "billing", "orders", &[(0, 4), (2, 1)]);
        commit(&mut raw, "elsewhere", "payments", &[(0, 0)]);
        let all = document(&gateway, "topics list").await;
        assert_eq!(fields(&all["topics"][0]), ["id", "internal", "partitions", "replicas", "topic"]);
        let names: Vec<&Value> =
            all["topics"].as_array().expect("topics").iter().map(|topic| &topic["topic"]).collect();
        assert_eq!(names, ["orders", "payments"]);
        assert_eq!(document(&gateway, "topics list --search pay").await["topics"][0]["topic"], "payments");
        let told_of = document(&gateway, "topics describe orders --groups").await["topics"][0].clone();
        assert_eq!(fields(&told_of), ["configs", "groups", "id", "internal", "partitions", "topic"]);
        let partition = &told_of["partitions"][2];
        assert_eq!(fields(partition), ["end", "isr", "leader", "partition", "records", "replicas", "start"]);
        assert_eq!((&partition["start"], &partition["end"], &partition["records"]), (&json!(0), &json!(4), &json!(4)));
        assert!(gateway.nodes().iter().any(|node| partition["leader"] == node.id), "{partition}");
        assert_eq!(told_of["groups"], json!([{"group": "billing", "state": "Empty", "lag": 3}]));
        assert_eq!(document(&gateway, "topics describe orders").await["topics"][0]["groups"], Value::Null);
        let (text, code) = told(&gateway, "topics describe orders payments").await;
        assert!(code == 0 && text.contains("topic orders: 3 partitions, 1 replica, 12 records"), "{text}");
        let output = tool(&gateway, "topics describe nowhere payments --json").await;
        assert_eq!(output.status.code(), Some(1));
        let came: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(
            (&came["topics"][0]["topic"], &came["errors"][0]["subject"]),
            (&json!("payments"), &json!("topic nowhere"))
        );
        assert!(refused(&gateway, "topics describe nowhere").await.contains("no such topic"));
    }
}
