//! Committed offsets expire as in Kafka (`offsets_retention`). What must not go is looked at when something
//! younger has gone: no test waits for a time.

use std::time::{Duration, Instant};

use kafka_protocol::messages::ListGroupsRequest;

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{Member, commit, commit_codes, commit_request, committed, state};
use crate::common::librdkafka::create_topic;
use crate::common::raw::Raw;

const RETENTION: Duration = Duration::from_millis(700);

fn options(retention: &str) -> Options {
    Options::new(2).set("offsets-retention", retention).set("offsets-retention-check-interval", "20ms")
}

fn expiring() -> Options {
    options(&format!("{}ms", RETENTION.as_millis()))
}

/// Commits an offset that goes at the next look, whatever the retention: versions 2 to 4 can say so.
fn commit_for_a_millisecond(raw: &mut Raw, group: &str, topic: &str, partition: i32) {
    let request = commit_request(group, topic, &[(partition, 1)]).with_retention_time_ms(1);
    assert_eq!(commit_codes(raw, 4, &request), [0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_of_a_group_without_members_go_after_their_time_and_the_group_with_them() {
    let mut gateway = Gateway::start(expiring());
    create_topic(&gateway, "t", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let start = Instant::now();
    commit(&mut raw, "simple", "t", &[(0, 7)]);
    eventually("the offset expires", || committed(&mut raw, "simple", "t", &[0]) == [-1]).await;
    assert!(start.elapsed() >= RETENTION, "gone after {:?}", start.elapsed());

    let member = Member::consumer(&mut raw, "left", &["t"]);
    assert_eq!(member.commit(&mut raw, "t", &[(0, 8)]), [0]);
    let start = Instant::now();
    member.leave(&mut raw);
    eventually("the group goes", || state(&mut raw, "left") == "Dead").await;
    assert!(start.elapsed() >= RETENTION, "gone after {:?}", start.elapsed());
    eventually("the other group goes, too", || state(&mut raw, "simple") == "Dead").await;
    assert!(raw.call(4, &ListGroupsRequest::default()).groups.is_empty());

    // A group is seen to be gone when that is durable: nothing comes back.
    gateway.kill9();
    gateway.restart(options("0"));
    let mut raw = Raw::connect(gateway.bootstrap());
    for group in ["simple", "left"] {
        assert_eq!((state(&mut raw, group), committed(&mut raw, group, "t", &[0])), ("Dead".to_owned(), vec![-1]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_group_keeps_the_offsets_of_what_it_reads_before_and_after_a_restart() {
    let mut gateway = Gateway::start(expiring());
    for topic in ["read", "given-up"] {
        create_topic(&gateway, topic, 1).await;
    }
    let mut raw = Raw::connect(gateway.bootstrap());
    let member = Member::consumer(&mut raw, "live", &["read"]);
    assert_eq!(member.commit(&mut raw, "read", &[(0, 5)]), [0]);
    let expires = async |raw: &mut Raw| {
        assert_eq!(member.commit(raw, "given-up", &[(0, 6)]), [0]);
        eventually("what it does not read expires", || committed(raw, "live", "given-up", &[0]) == [-1]).await;
        assert_eq!(committed(raw, "live", "read", &[0]), [5], "older, and still there");
        assert_eq!(member.heartbeat(raw), 0);
    };
    expires(&mut raw).await;
    gateway.kill9();
    gateway.restart(expiring());
    let mut raw = Raw::connect(gateway.bootstrap());
    expires(&mut raw).await;

    gateway.kill9();
    gateway.restart(expiring());
    let mut raw = Raw::connect(gateway.bootstrap());
    member.leave(&mut raw);
    eventually("the group goes", || state(&mut raw, "live") == "Dead").await;
    assert_eq!(committed(&mut raw, "live", "read", &[0]), [-1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_retention_0_offsets_stay_until_they_may_go() {
    let mut gateway = Gateway::start(options("0"));
    create_topic(&gateway, "t", 2).await;
    for _ in 0..2 {
        let mut raw = Raw::connect(gateway.bootstrap());
        commit(&mut raw, "g", "t", &[(0, 7)]);
        commit_for_a_millisecond(&mut raw, "g", "t", 1);
        eventually("the offset with a time of its own goes", || committed(&mut raw, "g", "t", &[1]) == [-1]).await;
        assert_eq!(committed(&mut raw, "g", "t", &[0]), [7]);
        gateway.kill9();
        gateway.restart(options("0"));
    }
    gateway.kill9();
    gateway.restart(expiring());
    let mut raw = Raw::connect(gateway.bootstrap());
    eventually("a retention counts for what is there already", || state(&mut raw, "g") == "Dead").await;
    assert_eq!(committed(&mut raw, "g", "t", &[0, 1]), [-1, -1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_gives_an_offset_its_whole_time_again() {
    let gateway = Gateway::start(expiring());
    create_topic(&gateway, "t", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    commit(&mut raw, "g", "t", &[(0, 1), (1, 1)]);
    let mut last = Instant::now();
    // Partition 1 is committed often; partition 0 goes meanwhile.
    eventually("the idle partition's offset expires", || {
        last = Instant::now();
        commit(&mut raw, "g", "t", &[(1, 2)]);
        committed(&mut raw, "g", "t", &[0]) == [-1]
    })
    .await;
    eventually("then the other's", || committed(&mut raw, "g", "t", &[1]) == [-1]).await;
    assert!(last.elapsed() >= RETENTION, "gone after {:?}", last.elapsed());
}
