//! What passes is asked for again, against brokers that answer as each test says.

#[allow(dead_code)]
#[path = "../../../client/tests/client/peer.rs"]
mod peer;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    ApiKey, FindCoordinatorRequest, FindCoordinatorResponse, ListOffsetsRequest, ListOffsetsResponse,
    OffsetFetchRequest, OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use peer::{Asked, Does, broker};
use ringgate_client::{CallError, Options, Security};
use ringgate_runtime::{Config, Executors, Placement};
use ringgate_tools::cluster::Cluster;
use ringgate_tools::offsets::{Partitions, Which, committed, offsets};

/// Far above what anything here takes.
const LIVENESS: Duration = Duration::from_secs(30);

/// Kafka's codes of what passes with groups: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
/// REQUEST_TIMED_OUT.
const PASSING: [i16; 4] = [14, 15, 16, 7];

/// Reaches a cluster from an executor, and gives what a test made of it. What passes is asked for again for as long as
/// `patience`.
fn with_cluster<T: Send + 'static>(
    address: String,
    request_timeout: Duration,
    patience: Duration,
    test: impl AsyncFnOnce(&Cluster) -> T + Send + 'static,
) -> T {
    let config = Config { shards: 1, placement: Placement::Unpinned, spin: Duration::ZERO };
    let mut executors = Executors::start(&config).expect("an executor");
    let came = Arc::new(Mutex::new(None));
    let tell = came.clone();
    let mut test = Some(test);
    executors.run(move |_| {
        let (test, tell, address) = (test.take().expect("one executor"), tell.clone(), address.clone());
        move || async move {
            let options = Options {
                bootstrap: vec![address],
                client_id: "a-tool",
                request_timeout,
                in_flight: 5,
                security: Security::default(),
                api_versions: Default::default(),
                source_ips: Vec::new(),
            };
            let cluster = Cluster::reach(&options, patience).await.expect("reached");
            let output = ringgate_runtime::timeout(LIVENESS, test(&cluster)).await.expect("it ends");
            *tell.lock().expect("nobody panics with it") = Some(output);
        }
    });
    executors.join();
    let came = came.lock().expect("nobody panics with it").take();
    came.expect("it has ended")
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.into())
}

/// Says that `address` coordinates whatever is asked for.
fn coordinator(asked: &Asked, address: &str) -> Does {
    let (host, port) = address.rsplit_once(':').expect("an address");
    let found =
        |key| Coordinator::default().with_key(key).with_host(text(host)).with_port(port.parse().expect("a port"));
    let request = asked.read::<FindCoordinatorRequest>();
    let keys = if asked.version >= 4 { request.coordinator_keys } else { vec![request.key] };
    asked.answer(&FindCoordinatorResponse::default().with_coordinators(keys.into_iter().map(found).collect()))
}

/// Answers an OffsetFetch: each group has committed 7 of partition 0 of `orders`, unless `code` says otherwise.
fn offset_fetch(asked: &Asked, code: impl Fn(&str) -> i16) -> Does {
    let request = asked.read::<OffsetFetchRequest>();
    let group = |group: kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup| {
        let code = code(&group.group_id);
        let partition = OffsetFetchResponsePartitions::default().with_committed_offset(7);
        let topic =
            OffsetFetchResponseTopics::default().with_name(TopicName(text("orders"))).with_partitions(vec![partition]);
        let topics = if code == 0 { vec![topic] } else { Vec::new() };
        OffsetFetchResponseGroup::default().with_group_id(group.group_id).with_topics(topics).with_error_code(code)
    };
    asked.answer(&OffsetFetchResponse::default().with_groups(request.groups.into_iter().map(group).collect()))
}

fn groups(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_group_whose_coordinator_loads_or_moves_is_asked_for_again_and_the_others_once() {
    // The coordinator of everything until it says that it is not.
    let (moved_to, first) = (Arc::new(OnceLock::<String>::new()), Arc::new(OnceLock::<String>::new()));
    let asked_for = Arc::new(Mutex::new(Vec::<String>::new()));
    let second = broker(|asked| offset_fetch(&asked, |_| 0));
    moved_to.set(second).expect("set once");
    let times = Arc::new(AtomicUsize::new(0));
    let address = broker({
        let (asked_for, first, times) = (asked_for.clone(), first.clone(), times.clone());
        move |asked| match asked.api {
            ApiKey::FindCoordinator => {
                let over = times.load(Ordering::SeqCst) >= PASSING.len();
                coordinator(&asked, if over { moved_to.wait() } else { first.wait() })
            }
            ApiKey::OffsetFetch => {
                let names =
                    asked.read::<OffsetFetchRequest>().groups.into_iter().map(|group| group.group_id.to_string());
                asked_for.lock().expect("nobody panics with it").extend(names);
                let time = times.fetch_add(1, Ordering::SeqCst);
                offset_fetch(&asked, |group| if group == "moving" { PASSING[time] } else { 0 })
            }
            _ => Does::Close,
        }
    });
    first.set(address.clone()).expect("set once");
    let came = with_cluster(address, LIVENESS, LIVENESS, async |cluster| {
        committed(cluster, &groups(&["still", "moving"]), None).await
    });
    for group in ["still", "moving"] {
        let offsets = came[group].as_ref().expect("offsets");
        assert_eq!(offsets["orders"][&0].offset, 7, "{group}");
    }
    let asked_for = asked_for.lock().expect("nobody panics with it");
    assert_eq!(asked_for.iter().filter(|group| *group == "still").count(), 1);
    assert_eq!(asked_for.iter().filter(|group| *group == "moving").count(), PASSING.len());
}

#[test]
fn what_does_not_pass_in_time_and_what_never_does_are_errors_of_their_groups_alone() {
    let own = Arc::new(OnceLock::<String>::new());
    let known = own.clone();
    let address = broker(move |asked| match asked.api {
        ApiKey::FindCoordinator => coordinator(&asked, known.wait()),
        // NOT_COORDINATOR for ever, and GROUP_AUTHORIZATION_FAILED.
        _ => offset_fetch(&asked, |group| match group {
            "moving" => 16,
            "forbidden" => 30,
            _ => 0,
        }),
    });
    own.set(address.clone()).expect("set once");
    let came = with_cluster(address, LIVENESS, Duration::from_millis(500), async |cluster| {
        committed(cluster, &groups(&["good", "moving", "forbidden"]), None).await
    });
    assert!(came["good"].is_ok());
    for (group, code) in [("moving", 16), ("forbidden", 30)] {
        assert!(matches!(&came[group], Err(CallError::Kafka { code: is, .. }) if *is == code), "{:?}", came[group]);
    }
}

#[test]
fn a_partition_whose_leader_moves_is_asked_for_again_and_one_that_is_not_there_is_not() {
    let times = Arc::new(AtomicUsize::new(0));
    let count = times.clone();
    let address = broker(move |asked| {
        let time = count.fetch_add(1, Ordering::SeqCst);
        let request = asked.read::<ListOffsetsRequest>();
        let topic = |topic: kafka_protocol::messages::list_offsets_request::ListOffsetsTopic| {
            let partition = |partition: kafka_protocol::messages::list_offsets_request::ListOffsetsPartition| {
                // NOT_LEADER_OR_FOLLOWER, the first time.
                let code = if partition.partition_index == 1 && time == 0 { 6 } else { 0 };
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(partition.partition_index)
                    .with_offset(40 + i64::from(partition.partition_index))
                    .with_error_code(code)
            };
            ListOffsetsTopicResponse::default()
                .with_name(topic.name)
                .with_partitions(topic.partitions.into_iter().map(partition).collect())
        };
        asked.answer(&ListOffsetsResponse::default().with_topics(request.topics.into_iter().map(topic).collect()))
    });
    let came = with_cluster(address, LIVENESS, LIVENESS, async |cluster| {
        // The peer has two partitions of every topic.
        let wanted = Partitions::from([("orders".to_string(), BTreeSet::from([0, 1, 2]))]);
        offsets(cluster, &wanted, Which::Latest).await.expect("the broker answers")
    });
    let orders = &came["orders"];
    assert_eq!((&orders[&0], &orders[&1]), (&Ok(Some(40)), &Ok(Some(41))));
    assert!(matches!(orders[&2], Err(CallError::Kafka { code: 3, .. })), "{:?}", orders[&2]);
    assert_eq!(times.load(Ordering::SeqCst), 2, "the one that moved is asked for again, the other is not");
}

#[test]
fn a_broker_that_does_not_answer_is_waited_for_once() {
    let own = Arc::new(OnceLock::<String>::new());
    let known = own.clone();
    let times = Arc::new(AtomicUsize::new(0));
    let count = times.clone();
    let address = broker(move |asked| match asked.api {
        ApiKey::FindCoordinator => coordinator(&asked, known.wait()),
        _ => {
            count.fetch_add(1, Ordering::SeqCst);
            Does::Nothing
        }
    });
    own.set(address.clone()).expect("set once");
    // Coordinators are looked up within the same time, on a busy machine too.
    let timeout = Duration::from_secs(5);
    with_cluster(address, timeout, timeout, async |cluster| {
        for group in ["a", "b", "c"] {
            let came = committed(cluster, &groups(&[group]), None).await;
            assert_eq!(came[group], Err(CallError::TimedOut));
        }
    });
    assert_eq!(times.load(Ordering::SeqCst), 1);
}
