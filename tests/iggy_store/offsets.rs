//! Groups and committed offsets of Kafka's clients that lie in Iggy.

use iggy::prelude::*;
use kafka_protocol::messages::OffsetFetchRequest;
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};

use crate::common::faulty_links::FaultyLinks;
use crate::common::gateway::{Gateway, IGGY_PASSWORD, Options};
use crate::common::group::{self, commit, committed, delete_groups, group_id};
use crate::common::librdkafka::create_topic;
use crate::common::metrics::exposition;
use crate::common::raw::{Raw, string, topic_name};
use crate::common::{eventually, within};

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;

async fn sdk(server: std::net::SocketAddr) -> IggyClient {
    let credentials = Credentials::UsernamePassword("iggy".into(), IGGY_PASSWORD.to_string().into());
    let client = IggyClient::builder()
        .with_tcp()
        .with_server_address(server.to_string())
        .with_auto_sign_in(AutoLogin::Enabled(credentials))
        .with_no_delay()
        .build()
        .expect("a client");
    within("connect", client.connect()).await.expect("connect");
    client
}

fn named(name: &str) -> Identifier {
    Identifier::named(name).expect("a name")
}

/// What Iggy has as the `ExternalGroup` offset of a Kafka group; `None` also when it has no such group.
async fn external(client: &IggyClient, group: &str, topic: &str, partition: u32) -> Option<u64> {
    let consumer = Consumer::external_group(named(&format!("kafka.cg.{group}")));
    let (stream, topic) = (named("kafka"), named(topic));
    match within("offset", client.get_consumer_offset(&consumer, &stream, &topic, Some(partition))).await {
        Ok(offset) => offset.map(|offset| offset.stored_offset),
        Err(error) => {
            assert_eq!(error.as_code(), 5003, "{error}");
            None
        }
    }
}

/// For how long the gateway may answer groups yet, as its metrics say.
fn lease_seconds(gateway: &Gateway) -> f64 {
    let text = exposition(gateway);
    let line = text.lines().find_map(|line| line.strip_prefix("ringgate_group_lease_seconds "));
    line.expect("the lease among the metrics").parse().expect("seconds")
}

/// Commits with a metadata string; the code.
fn commit_with(raw: &mut Raw, group: &str, topic: &str, partition: i32, offset: i64, metadata: &str) -> i16 {
    let mut request = group::commit_request(group, topic, &[(partition, offset)]);
    request.topics[0].partitions[0].committed_metadata = Some(string(metadata));
    group::commit_codes(raw, 8, &request)[0]
}

/// The group's code, and its offset and metadata string for one partition.
fn fetched(raw: &mut Raw, group: &str, topic: &str, partition: i32) -> (i16, Option<(i64, String)>) {
    let topic =
        OffsetFetchRequestTopics::default().with_name(topic_name(topic)).with_partition_indexes(vec![partition]);
    let group = OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(Some(vec![topic]));
    let response = raw.call(8, &OffsetFetchRequest::default().with_groups(vec![group]));
    let partition = response.groups[0].topics.first().map(|topic| &topic.partitions[0]);
    let found = partition.map(|it| (it.committed_offset, it.metadata.as_deref().unwrap_or_default().to_string()));
    (response.groups[0].error_code, found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_external_group_offsets_with_the_value_that_was_sent() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "orders", 3).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    // Nothing is in the topic: at its end, far past it, and one that is deleted again.
    commit(&mut raw, "readers", "orders", &[(0, 0), (1, 1_000_000), (2, 7)]);
    let client = sdk(gateway.server().iggy()).await;
    for (partition, offset) in [(0, 0), (1, 1_000_000), (2, 7)] {
        assert_eq!(external(&client, "readers", "orders", partition).await, Some(offset));
    }
    commit(&mut raw, "readers", "orders", &[(2, -1)]);
    assert_eq!(external(&client, "readers", "orders", 2).await, None);
    assert_eq!(group::delete_offsets(&mut raw, "readers", &[("orders", &[1])]), (0, vec![0]));
    assert_eq!(external(&client, "readers", "orders", 1).await, None);
    assert_eq!(external(&client, "readers", "orders", 0).await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_and_their_metadata_survive_a_killed_gateway_and_another_number_of_shards() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "orders", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let groups: Vec<String> = (0..20).map(|n| format!("group-{n}")).collect();
    for (n, group) in (0..).zip(&groups) {
        commit(&mut raw, group, "orders", &[(0, n)]);
        assert_eq!(commit_with(&mut raw, group, "orders", 1, n + 100, &format!("note {n}")), 0);
    }
    // The string belongs to its commit, not to a later one at the same offset.
    assert_eq!(commit_with(&mut raw, "group-3", "orders", 1, 103, ""), 0);
    gateway.kill9();
    gateway.restart(Options::new(3).on_iggy());
    let mut raw = Raw::connect(gateway.bootstrap());
    for (n, group) in (0..).zip(&groups) {
        assert_eq!(fetched(&mut raw, group, "orders", 0), (0, Some((n, String::new()))), "{group}");
        let note = if n == 3 { String::new() } else { format!("note {n}") };
        assert_eq!(fetched(&mut raw, group, "orders", 1), (0, Some((n + 100, note))), "{group}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_group_goes_from_iggy_and_the_next_of_its_name_begins_anew() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "orders", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    commit(&mut raw, "readers", "orders", &[(0, 5), (1, 6)]);
    assert_eq!(delete_groups(&mut raw, 2, &["readers"]), [("readers".to_string(), 0)]);
    assert_eq!(committed(&mut raw, "readers", "orders", &[0, 1]), [-1, -1]);
    // At once, while the old one may still be on its way out.
    commit(&mut raw, "readers", "orders", &[(0, 9)]);
    let client = sdk(gateway.server().iggy()).await;
    assert_eq!(external(&client, "readers", "orders", 0).await, Some(9));
    assert_eq!(external(&client, "readers", "orders", 1).await, None);
    assert_eq!(delete_groups(&mut raw, 2, &["readers"]), [("readers".to_string(), 0)]);
    let groups = || async {
        within("groups", client.get_consumer_groups(&named("kafka"), &named("orders"))).await.expect("groups")
    };
    eventually("the group is gone from Iggy", || {
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(groups())).is_empty()
    })
    .await;
    gateway.kill9();
    gateway.restart(Options::new(2).on_iggy());
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(committed(&mut raw, "readers", "orders", &[0, 1]), [-1, -1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_gateway_is_invisible_to_a_stable_group() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "orders", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let member = group::Member::consumer(&mut raw, "readers", &["orders"]);
    assert_eq!(member.commit(&mut raw, "orders", &[(0, 5)]), [0]);
    for shards in [3, 1] {
        gateway.kill9();
        gateway.restart(Options::new(shards).on_iggy());
        raw = Raw::connect(gateway.bootstrap());
        assert_eq!(member.heartbeat(&mut raw), 0, "the same generation goes on");
        assert_eq!(committed(&mut raw, "readers", "orders", &[0]), [5]);
        assert_eq!(member.commit(&mut raw, "orders", &[(0, 5)]), [0]);
    }
    assert_eq!(group::state(&mut raw, "readers"), "Stable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_gateway_ends_with_code_3_and_names_the_one_that_coordinates() {
    let mut gateway = Gateway::start(Options::new(1).on_iggy());
    let pid = gateway.ready().pid;
    let server = gateway.server().iggy();
    let (status, written) = Gateway::start_in_vain(&Options::new(1).on_iggy_at(server));
    assert_eq!(status.code(), Some(3), "{written}");
    assert!(written.contains(&format!("process {pid} ")), "{written}");
    // The lease is given back at an orderly stop, so that the next one need not wait for its end.
    assert!(gateway.sigterm().success());
    let next = Gateway::start(Options::new(1).on_iggy_at(server));
    assert!(!next.written().contains("waiting whether it renews"), "{}", next.written());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_that_cannot_be_read_are_not_taken_for_none() {
    let server = Gateway::start(Options::new(1).iggy());
    let links = FaultyLinks::to(server.iggy());
    // The set-up must go well, however long it takes; then there is another one that soon gives up.
    let patient = Options::new(1).on_iggy_at(links.address()).set("iggy-timeout", "60s");
    let mut gateway = Gateway::start(patient.clone());
    create_topic(&gateway, "orders", 1).await;
    commit(&mut Raw::connect(gateway.bootstrap()), "known", "orders", &[(0, 5)]);
    gateway.kill9();
    gateway.restart(patient.set("iggy-timeout", "2s").set("admin-listen", "127.0.0.1:0"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let at = |offset| (0, Some((offset, String::new())));
    eventually("the offset is known again", || fetched(&mut raw, "known", "orders", 0) == at(5)).await;
    // It holds for longer than the next answers take.
    eventually("the lease is fresh", || lease_seconds(&gateway) > 9.0).await;
    links.stall(true);
    assert_eq!(fetched(&mut raw, "unknown", "orders", 0).0, COORDINATOR_LOAD_IN_PROGRESS);
    assert_eq!(commit_with(&mut raw, "known", "orders", 0, 6, ""), COORDINATOR_NOT_AVAILABLE);
    assert_eq!(committed(&mut raw, "known", "orders", &[0]), [5], "what is here is answered, and is what Iggy has");
    links.stall(false);
    eventually("commits are taken again", || commit_with(&mut raw, "known", "orders", 0, 7, "") == 0).await;
    eventually("what was not known is", || fetched(&mut raw, "unknown", "orders", 0) == at(-1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_cannot_renew_its_lease_answers_no_groups_and_ends_when_another_has_it() {
    let server = Gateway::start(Options::new(1).iggy());
    let links = FaultyLinks::to(server.iggy());
    let options = Options::new(1).on_iggy_at(links.address());
    let mut cut_off = Gateway::start(options.set("admin-listen", "127.0.0.1:0"));
    create_topic(&cut_off, "orders", 1).await;
    let mut raw = Raw::connect(cut_off.bootstrap());
    assert!(lease_seconds(&cut_off) > 1.0);
    let member = group::Member::consumer(&mut raw, "readers", &["orders"]);
    links.stall(true);
    eventually("groups are answered no more", || member.heartbeat(&mut raw) == COORDINATOR_NOT_AVAILABLE).await;
    assert_eq!(lease_seconds(&cut_off), 0.0);
    // Its process is there, so the other one has to see that it is silent for long enough.
    let next = Gateway::start(Options::new(1).on_iggy_at(server.iggy()));
    let mut to_next = Raw::connect(next.bootstrap());
    assert_eq!(member.heartbeat(&mut to_next), 0, "the group goes on at the other one");
    assert_eq!(member.heartbeat(&mut raw), COORDINATOR_NOT_AVAILABLE);
    links.stall(false);
    let (status, written) = cut_off.end();
    assert_eq!(status.code(), Some(3), "{written}");
    assert!(written.contains(&format!("process {} ", next.ready().pid)), "{written}");
    assert_eq!(member.heartbeat(&mut to_next), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_side_topic_is_compacted_and_loses_nothing() {
    const PARTITIONS: i32 = 50;
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "orders", PARTITIONS).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    let member = group::Member::consumer(&mut raw, "readers", &["orders"]);
    let note = |n: i64| format!("{n} {}", "x".repeat(4_000));
    let rounds = 60;
    for n in 0..rounds {
        let offsets: Vec<(i32, i64)> = (0..PARTITIONS).map(|partition| (partition, n)).collect();
        let mut request = group::commit_request("readers", "orders", &offsets)
            .with_generation_id_or_member_epoch(member.generation)
            .with_member_id(string(&member.id));
        for partition in &mut request.topics[0].partitions {
            partition.committed_metadata = Some(string(&note(n)));
        }
        assert!(group::commit_codes(&mut raw, 8, &request).iter().all(|code| *code == 0));
    }
    let client = sdk(gateway.server().iggy()).await;
    let bytes = || {
        let details = async {
            let (stream, topic) = (named("kafka"), named("__ringgate_groups"));
            let topic =
                within("side topic", client.get_topic(&stream, &topic)).await.expect("answer").expect("a topic");
            topic.partitions.iter().map(|partition| partition.size.as_bytes_u64()).max().expect("partitions")
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(details))
    };
    let before = bytes();
    assert!(before > 8 << 20, "{before} bytes are not worth compacting");
    // The start looks whether there is something to compact.
    gateway.kill9();
    gateway.restart(Options::new(2).on_iggy());
    eventually("segments were deleted", || bytes() < before / 2).await;
    gateway.kill9();
    gateway.restart(Options::new(1).on_iggy());
    raw = Raw::connect(gateway.bootstrap());
    assert_eq!(member.heartbeat(&mut raw), 0);
    for partition in [0, PARTITIONS - 1] {
        assert_eq!(fetched(&mut raw, "readers", "orders", partition), (0, Some((rounds - 1, note(rounds - 1)))));
    }
}
