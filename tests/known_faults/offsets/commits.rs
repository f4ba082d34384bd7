//! What OffsetCommit takes, and from whom.

use kafka_protocol::messages::OffsetCommitRequest;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{OFFSET_COMMIT, fetch, plain};
use crate::common::eventually;
use crate::common::fetch::{FOR_EVER_MS, fetch_request, only_partition};
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{Member as Alone, commit, commit_codes, commit_request, committed};
use crate::common::librdkafka::create_topic;
use crate::common::member::Member;
use crate::common::metrics::metric;
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, Writer, batch, string, topic_name};

/// The first version with instance ids.
const INSTANCE_SINCE: i16 = 7;

/// A commit of offset 7 of one partition with this metadata.
fn with_metadata(group: &str, topic: &str, metadata: Option<&str>) -> OffsetCommitRequest {
    let mut request = commit_request(group, topic, &[(0, 7)]);
    request.topics[0].partitions[0].committed_metadata = metadata.map(string);
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k077_who_is_in_no_group_commits_to_empty_ones_only_whatever_it_calls_itself() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let active = Alone::consumer(&mut raw, "active", &["t"]);
    Alone::consumer(&mut raw, "emptied", &["t"]).leave(&mut raw);
    for version in versions(OFFSET_COMMIT) {
        for instance in [None, Some("x")] {
            if version < INSTANCE_SINCE && instance.is_some() {
                continue;
            }
            let mut code = |group: &str| {
                let request =
                    commit_request(group, "t", &[(0, i64::from(version))]).with_group_instance_id(instance.map(string));
                commit_codes(&mut raw, version, &request)
            };
            assert_eq!(code(&format!("absent-{version}-{}", instance.is_some())), [0], "version {version}");
            assert_eq!(code("emptied"), [0], "version {version}");
            assert_eq!(code("active"), [25], "version {version}");
            assert_eq!(committed(&mut raw, "emptied", "t", &[0]), [i64::from(version)]);
        }
    }
    assert_eq!(committed(&mut raw, "active", "t", &[0]), [-1]);
    assert_eq!(active.heartbeat(&mut raw), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k077_a_stock_consumer_with_an_instance_id_and_partitions_of_its_own_choice_commits() {
    use rdkafka::consumer::{CommitMode, Consumer};
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let more = [("group.id", "assigned"), ("group.instance.id", "x")];
    let offsets = tokio::task::block_in_place(|| {
        let reader = crate::common::librdkafka::reader(&gateway, &more);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("t", 0, Offset::Offset(5)).expect("an offset");
        reader.assign(&list).expect("assign");
        reader.commit(&list, CommitMode::Sync).expect("commit");
        reader.committed_offsets(list, crate::common::LIVENESS).expect("committed")
    });
    assert_eq!(offsets.elements()[0].offset(), Offset::Offset(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k082_no_metadata_is_taken_and_told_as_empty() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    for restarted in [false, true] {
        let mut raw = Raw::connect(gateway.bootstrap());
        for version in versions(OFFSET_COMMIT) {
            for (group, metadata) in [("null", None), ("empty", Some("")), ("some", Some("a note"))] {
                let group = format!("{group}-{version}");
                if !restarted {
                    assert_eq!(commit_codes(&mut raw, version, &with_metadata(&group, "t", metadata)), [0]);
                }
                for fetch_version in versions(super::OFFSET_FETCH) {
                    let (code, told) = fetch(&mut raw, fetch_version, &group, Some(&[("t", &[0])]));
                    let expected = ("t".to_owned(), 0, 7, Some(metadata.unwrap_or("").to_owned()), 0);
                    assert_eq!((code, &told[..]), (0, &[expected][..]), "{group}, fetched by {fetch_version}");
                }
            }
        }
        if !restarted {
            drop(raw);
            gateway.kill9();
            gateway.restart(Options::new(1));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k087_metadata_of_4096_is_taken_and_more_is_12_and_takes_no_memory() {
    const GROUPS: usize = 100;
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    create_topic(&gateway, "t", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut refused = 0;
    for version in versions(OFFSET_COMMIT) {
        let group = format!("g-{version}");
        for (length, code) in [(4_096, 0), (4_097, 12), (30_000, 12)] {
            let request = with_metadata(&group, "t", Some(&"x".repeat(length)));
            assert_eq!(commit_codes(&mut raw, version, &request), [code], "version {version}, {length}");
            refused += u64::from(code != 0);
        }
        let (_, told) = fetch(&mut raw, 8, &group, Some(&[("t", &[0])]));
        assert_eq!(told[0].3.as_ref().map(String::len), Some(4_096), "what was taken stays");
        // Each partition is answered for itself.
        let mut both = commit_request(&group, "t", &[(0, 8), (1, 9)]);
        both.topics[0].partitions[0].committed_metadata = Some(string(&"x".repeat(4_097)));
        assert_eq!(commit_codes(&mut raw, version, &both), [12, 0]);
        assert_eq!(committed(&mut raw, &group, "t", &[0, 1]), [7, 9]);
        refused += 1;
    }
    // Kafka counts UTF-16 units, not bytes.
    let euros = "\u{20ac}".repeat(4_096);
    assert_eq!(commit_codes(&mut raw, 8, &with_metadata("units", "t", Some(&euros))), [0]);
    assert_eq!(commit_codes(&mut raw, 8, &with_metadata("units", "t", Some(&"\u{1f600}".repeat(2_049)))), [12]);
    refused += 1;

    let large = with_metadata("large", "t", Some(&"x".repeat(10 << 20)));
    assert_eq!(commit_codes(&mut raw, 8, &large), [12]);
    let before = gateway.rss();
    for group in 0..GROUPS {
        let request = with_metadata(&format!("large-{group}"), "t", Some(&"x".repeat(1 << 20)));
        assert_eq!(commit_codes(&mut raw, 8, &request), [12]);
    }
    refused += 1 + GROUPS as u64;
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more for 100 MiB that were refused");
    assert_eq!(metric(&gateway, "ringgate_limit_hit_total", "limit=\"offset_metadata_max_bytes\""), refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k092_a_commit_past_the_end_is_kept_and_the_fetch_there_says_so_at_once() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "t", 1, &[]);
    topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1_000, &["a", "b", "c"]));
    for group in ["raw", "earliest", "latest", "error"] {
        commit(&mut raw, group, "t", &[(0, 100)]);
        assert_eq!(committed(&mut raw, group, "t", &[0]), [100], "as it was sent");
    }
    for version in versions(1) {
        // Longer than any test would wait.
        let request = fetch_request(version, &[(&topic, &[(0, 100)])]).with_max_wait_ms(FOR_EVER_MS);
        let fetched = raw.call(version, &request);
        assert_eq!(only_partition(&fetched).error_code, 1, "version {version}");
    }
    let join = |reset: &str| Member::join(&gateway, reset, &["t"], &[("auto.offset.reset", reset)]);
    let earliest = join("earliest");
    earliest.until_seen(3).await;
    assert_eq!(earliest.seen().iter().map(|record| record.offset).collect::<Vec<_>>(), [0, 1, 2]);
    earliest.close().await;
    let error = join("error");
    eventually("the consumer is told", || !error.errors().is_empty()).await;
    assert!(error.seen().is_empty());
    error.close().await;
    let latest = join("latest");
    latest.until_assigned(1).await;
    // It resets when it fetches, which nothing tells: what is produced before that is not for it.
    let mut produced = 3;
    eventually("the consumer goes on at the end", || {
        topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1_000, &["d"]));
        produced += 1;
        !latest.seen().is_empty()
    })
    .await;
    let first = latest.seen()[0].offset;
    assert!((3..produced).contains(&first), "{first}, of {produced}");
    latest.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k093_unknown_topics_and_partitions_fail_alone() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(OFFSET_COMMIT) {
        for is_member in [false, true] {
            let group = format!("g-{version}-{is_member}");
            let topic = |name: &str, partitions: &[i32]| {
                let partition = |&index: &i32| {
                    OffsetCommitRequestPartition::default().with_partition_index(index).with_committed_offset(5)
                };
                OffsetCommitRequestTopic::default()
                    .with_name(topic_name(name))
                    .with_partitions(partitions.iter().map(partition).collect())
            };
            let mut request = commit_request(&group, "t", &[]).with_topics(vec![
                topic("u", &[0]),
                topic("t", &[99, 0]),
                topic("v", &[]),
            ]);
            if is_member {
                let member = Alone::consumer(&mut raw, &group, &["t"]);
                request =
                    request.with_generation_id_or_member_epoch(member.generation).with_member_id(string(&member.id));
            }
            let response = raw.call(version, &request);
            let mut told: Vec<_> = response
                .topics
                .iter()
                .flat_map(|topic| {
                    topic.partitions.iter().map(|p| (topic.name.to_string(), p.partition_index, p.error_code))
                })
                .collect();
            told.sort();
            let expected = [("t", 0, 0), ("t", 99, 3), ("u", 0, 3)].map(|(topic, p, code)| (topic.to_owned(), p, code));
            assert_eq!(told, expected, "version {version}, member {is_member}");
            let (_, kept) = fetch(&mut raw, 8, &group, None);
            assert_eq!(kept, [plain("t", 0, 5)], "version {version}");
        }
    }
}
