//! The two group protocols side by side: what is advertised works, and the older one is not worse for it.

use std::collections::BTreeSet;

use kafka_protocol::messages::{ApiVersionsRequest, ListGroupsRequest};

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, unkeyed};
use crate::common::member::Member;
use crate::common::raw::Raw;
use crate::common::within;

const PROTOCOLS: [&str; 2] = ["consumer", "classic"];

fn join(gateway: &Gateway, group: &str, protocol: &str) -> Member {
    Member::join(gateway, group, &["work"], &[("group.protocol", protocol)])
}

async fn produce(gateway: &Gateway, numbers: std::ops::Range<i32>) {
    let producer = producer(gateway, &[("linger.ms", "1")]);
    for n in numbers {
        let value = n.to_string();
        let record = unkeyed("work", &value).partition(n % 4);
        within("delivery", producer.send(record, std::time::Duration::from_secs(30))).await.expect("delivered");
    }
}

fn numbers(member: &Member) -> BTreeSet<i32> {
    member.seen().iter().map(|record| record.text().parse().expect("a number")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k081_both_group_protocols_are_advertised_and_work_on_one_gateway() {
    let options = || Options::new(2).set("consumer-heartbeat-interval", "100ms").set("consumer-assignment-interval", 0);
    let gateway = Gateway::start(options());
    create_topic(&gateway, "work", 4).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let advertised = raw.call(0, &ApiVersionsRequest::default()).api_keys;
    for (api_key, newest) in [(11, 9), (12, 4), (14, 5), (68, 1), (69, 1)] {
        let api = advertised.iter().find(|api| api.api_key == api_key).expect("it is advertised");
        assert_eq!((api.min_version, api.max_version), (0, newest), "API {api_key}");
    }

    // A group of each at the same time, then the same client and group with the other protocol.
    let mut expected = 0..20;
    for turn in 0..2 {
        let mut members = Vec::new();
        for (group, protocol) in [("one", PROTOCOLS[turn]), ("two", PROTOCOLS[1 - turn])] {
            let pair = [join(&gateway, group, protocol), join(&gateway, group, protocol)];
            for member in &pair {
                member.until_assigned(2).await;
            }
            members.push((group, protocol, pair));
        }
        let mut kinds: Vec<_> = raw
            .call(5, &ListGroupsRequest::default())
            .groups
            .iter()
            .map(|group| (group.group_id.to_string(), group.group_type.to_string()))
            .collect();
        kinds.sort();
        let told: Vec<_> =
            members.iter().map(|(group, protocol, _)| (group.to_string(), protocol.to_string())).collect();
        assert_eq!(kinds, told, "turn {turn}");

        produce(&gateway, expected.clone()).await;
        for (group, protocol, pair) in members {
            for member in &pair {
                member.until_seen(10).await;
                member.commit().await.expect("commit");
            }
            let [one, two] = pair.each_ref().map(numbers);
            assert!(one.is_disjoint(&two), "{group}, {protocol}: {one:?} {two:?}");
            assert_eq!(
                one.union(&two).copied().collect::<BTreeSet<_>>(),
                expected.clone().collect(),
                "{group}, {protocol}"
            );
            for member in pair {
                assert_eq!(member.errors(), Vec::<String>::new(), "{group}, {protocol}");
                member.close().await;
            }
        }
        // What was committed by one protocol is where the other goes on.
        expected = expected.end..expected.end + 20;
    }
}
