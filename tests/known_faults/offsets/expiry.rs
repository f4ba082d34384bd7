//! When offsets go: by time, and with their topic. What must not go is looked at when something younger has
//! gone, so that no test waits for a time.

use std::time::{Duration, Instant};

use kafka_protocol::messages::DeleteTopicsRequest;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;

use super::OFFSET_COMMIT;
use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{Member, commit, commit_codes, commit_request, committed, state};
use crate::common::librdkafka::create_topic;
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, string, topic_name};

/// The versions that may say how long their offsets are kept.
const WITH_RETENTION: std::ops::RangeInclusive<i16> = 2..=4;

fn options(retention: &str) -> Options {
    Options::new(2).set("offsets-retention", retention).set("offsets-retention-check-interval", "20ms")
}

/// Waits until every group that is there now has been looked at for what has expired.
async fn until_swept(raw: &mut Raw) {
    // One group for each shard's own turn: names enough that each has some.
    let groups: Vec<String> = (0..16).map(|n| format!("marker-{n}")).collect();
    for _ in 0..2 {
        for group in &groups {
            let request = commit_request(group, "marker", &[(0, 1)]).with_retention_time_ms(1);
            assert_eq!(commit_codes(raw, 4, &request), [0]);
        }
        eventually("what is to go goes", || groups.iter().all(|group| committed(raw, group, "marker", &[0]) == [-1]))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k083_without_a_retention_of_their_own_offsets_stay_while_there_are_members_and_their_time_after_that() {
    const RETENTION: Duration = Duration::from_millis(1_500);
    let gateway = Gateway::start(options("1500ms"));
    create_topic(&gateway, "t", 10).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let member = Member::consumer(&mut raw, "g", &["t"]);
    let partitions: Vec<i32> = versions(OFFSET_COMMIT).map(i32::from).collect();
    let all = vec![7; partitions.len()];
    for version in versions(OFFSET_COMMIT) {
        // What is not said is -1 on the wire, or is not on it.
        let request = commit_request("g", "t", &[(version.into(), 7)])
            .with_generation_id_or_member_epoch(member.generation)
            .with_member_id(string(&member.id))
            .with_retention_time_ms(-1);
        assert_eq!(commit_codes(&mut raw, version, &request), [0], "version {version}");
    }
    // Younger, and of nobody: its time begins with its commit.
    commit(&mut raw, "simple", "t", &[(0, 7)]);
    eventually("the younger offset goes", || committed(&mut raw, "simple", "t", &[0]) == [-1]).await;
    assert_eq!(committed(&mut raw, "g", "t", &partitions), all, "an idle member keeps them");
    let left = Instant::now();
    member.leave(&mut raw);
    eventually("they go", || state(&mut raw, "g") == "Dead").await;
    assert!(left.elapsed() >= RETENTION, "gone {:?} after the last member", left.elapsed());
    assert_eq!(committed(&mut raw, "g", "t", &partitions), vec![-1; partitions.len()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k084_a_restart_changes_nothing_about_when_offsets_expire() {
    let mut gateway = Gateway::start(options("7d").embedded("Iggy keeps no time of a commit"));
    create_topic(&gateway, "marker", 1).await;
    create_topic(&gateway, "t", 10).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(OFFSET_COMMIT) {
        let request = commit_request("default", "t", &[(version.into(), 7)]);
        assert_eq!(commit_codes(&mut raw, version, &request), [0]);
        if WITH_RETENTION.contains(&version) {
            let hour = commit_request("hour", "t", &[(version.into(), 7)]).with_retention_time_ms(3_600_000);
            assert_eq!(commit_codes(&mut raw, version, &hour), [0]);
        }
    }
    let member = Member::consumer(&mut raw, "emptied", &["t"]);
    assert_eq!(member.commit(&mut raw, "t", &[(0, 7)]), [0]);
    member.leave(&mut raw);
    let partitions: Vec<i32> = versions(OFFSET_COMMIT).map(i32::from).collect();
    let hours: Vec<i32> = WITH_RETENTION.map(i32::from).collect();
    for _ in 0..3 {
        until_swept(&mut raw).await;
        assert_eq!(committed(&mut raw, "default", "t", &partitions), vec![7; partitions.len()]);
        assert_eq!(committed(&mut raw, "hour", "t", &hours), vec![7; hours.len()]);
        assert_eq!(committed(&mut raw, "emptied", "t", &[0]), [7]);
        gateway.kill9();
        gateway.restart(options("7d"));
        raw = Raw::connect(gateway.bootstrap());
    }
    // A time of its own is over when it is, also where it was loaded.
    let brief = commit_request("brief", "t", &[(0, 7)]).with_retention_time_ms(1_500);
    let committed_at = Instant::now();
    assert_eq!(commit_codes(&mut raw, 4, &brief), [0]);
    gateway.kill9();
    gateway.restart(options("7d"));
    let mut raw = Raw::connect(gateway.bootstrap());
    eventually("it goes", || committed(&mut raw, "brief", "t", &[0]) == [-1]).await;
    assert!(committed_at.elapsed() >= Duration::from_millis(1_500), "after {:?}", committed_at.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k085_a_retention_of_0_is_the_gateways_own_before_and_after_a_restart() {
    // Kafka would let such an offset expire at once; clients that send 0 mean that they do not care.
    let mut gateway = Gateway::start(options("7d"));
    create_topic(&gateway, "marker", 1).await;
    create_topic(&gateway, "t", 5).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in WITH_RETENTION {
        for asked in [0, i64::MIN] {
            let request = commit_request(&format!("g{asked}"), "t", &[(version.into(), 7)]);
            assert_eq!(commit_codes(&mut raw, version, &request.with_retention_time_ms(asked)), [0]);
        }
    }
    for _ in 0..2 {
        until_swept(&mut raw).await;
        for asked in [0, i64::MIN] {
            assert_eq!(committed(&mut raw, &format!("g{asked}"), "t", &[2, 3, 4]), [7; 3]);
        }
        gateway.kill9();
        gateway.restart(options("7d"));
        raw = Raw::connect(gateway.bootstrap());
    }
}

fn delete_topic(raw: &mut Raw, name: &str) {
    let topic = DeleteTopicState::default().with_name(Some(topic_name(name)));
    let response = raw.call(6, &DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000));
    assert_eq!(response.responses[0].error_code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k088_a_topic_that_was_made_again_has_no_commits() {
    let mut gateway = Gateway::start(Options::new(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    let groups: Vec<String> = (0..8).map(|n| format!("group-{n}")).collect();
    create(&mut raw, "stays", 1, &[]);
    for restarts in [false, true] {
        create(&mut raw, "t", 2, &[]);
        for group in &groups {
            commit(&mut raw, group, "t", &[(0, 7), (1, 8)]);
            commit(&mut raw, group, "stays", &[(0, 9)]);
        }
        delete_topic(&mut raw, "t");
        if restarts {
            // Killed right behind the answer: what the groups hold may not have been cleared yet.
            gateway.kill9();
            gateway.restart(Options::new(2));
            raw = Raw::connect(gateway.bootstrap());
        }
        create(&mut raw, "t", 2, &[]);
        for group in &groups {
            assert_eq!(committed(&mut raw, group, "t", &[0, 1]), [-1, -1], "{group}");
            assert_eq!(committed(&mut raw, group, "stays", &[0]), [9], "{group}");
        }
        commit(&mut raw, &groups[0], "t", &[(1, 3)]);
        gateway.kill9();
        gateway.restart(Options::new(3));
        raw = Raw::connect(gateway.bootstrap());
        for group in &groups {
            let expected = if *group == groups[0] { 3 } else { -1 };
            assert_eq!(committed(&mut raw, group, "t", &[0, 1]), [-1, expected], "{group}, after a restart");
            assert_eq!(committed(&mut raw, group, "stays", &[0]), [9], "{group}");
        }
        delete_topic(&mut raw, "t");
    }
}
