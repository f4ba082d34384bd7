//! Admin APIs: topics, settings, groups.

use std::collections::BTreeSet;
use std::sync::Barrier;

use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::{BrokerId, CreateTopicsRequest, ListGroupsRequest, ListGroupsResponse, MetadataRequest};
use rdkafka::error::RDKafkaErrorCode;

use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::{create_topic, try_create_topic};
use crate::common::member::Member;
use crate::common::partition::{create, versions};
use crate::common::raw::{Raw, string, topic_name};
use crate::common::settings::{DELETE, SET, TOPIC, codes, create_partitions, edit, replace, setting};

const CREATE_TOPICS: i16 = 19;

fn topic(name: &str, partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replication_factor)
}

fn configured(name: &str, setting: &str, value: Option<&str>) -> CreatableTopic {
    let setting = CreatableTopicConfig::default().with_name(string(setting)).with_value(value.map(string));
    topic(name, 1, 1).with_configs(vec![setting])
}

fn create_topics(
    raw: &mut Raw,
    version: i16,
    validate_only: bool,
    topics: Vec<CreatableTopic>,
) -> Vec<CreatableTopicResult> {
    let request =
        CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(30_000).with_validate_only(validate_only);
    raw.call(version, &request).topics
}

fn created(results: &[CreatableTopicResult]) -> Vec<i16> {
    results.iter().map(|topic| topic.error_code).collect()
}

/// Every topic with its number of partitions.
fn topics(raw: &mut Raw) -> BTreeSet<(String, usize)> {
    let response = raw.call(9, &MetadataRequest::default().with_topics(None));
    let name = |topic: &kafka_protocol::messages::metadata_response::MetadataResponseTopic| {
        topic.name.as_ref().map_or_else(String::new, |name| name.to_string())
    };
    response.topics.iter().map(|topic| (name(topic), topic.partitions.len())).collect()
}

#[test]
fn k094_a_wrong_replication_factor_a_wrong_count_and_a_wrong_name_have_each_their_code_and_a_message() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let long = "x".repeat(250);
    for version in versions(CREATE_TOPICS) {
        let asked = vec![
            topic("replicated", 1, 3),
            topic("unreplicated", 1, 0),
            topic("less", 1, -2),
            topic("none", 0, 1),
            topic("minus", -2, 1),
            topic("", 1, 1),
            topic("..", 1, 1),
            topic(&long, 1, 1),
            topic("a/b", 1, 1),
        ];
        let answered = create_topics(&mut raw, version, false, asked);
        assert_eq!(created(&answered), [38, 38, 38, 37, 37, 17, 17, 17, 17], "version {version}");
        for topic in answered {
            assert!(topic.error_message.is_some_and(|why| why.len() > 10), "{:?} without a reason", topic.name);
        }
    }
    assert!(topics(&mut raw).is_empty());
}

#[test]
fn k094_the_policy_takes_any_replication_factor_above_1() {
    let gateway = Gateway::start(Options::new(1).set("replication-factor-policy", "accept"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let asked = vec![topic("a", 1, 3), topic("b", 1, 0), topic("c", 1, -2)];
    let answered = create_topics(&mut raw, 7, false, asked);
    assert_eq!(created(&answered), [0, 38, 38]);
    assert_eq!(answered[0].replication_factor, 1, "what there really is");
}

#[test]
fn k095_minus_1_takes_the_defaults_and_the_answer_tells_what_was_made() {
    let gateway = Gateway::start(Options::new(2).set("num-partitions", 3));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(CREATE_TOPICS) {
        let (one, two, assigned) = (format!("one-{version}"), format!("two-{version}"), format!("assigned-{version}"));
        let assignment = |index| {
            CreatableReplicaAssignment::default().with_partition_index(index).with_broker_ids(vec![BrokerId(1000)])
        };
        let assignments = vec![assignment(0), assignment(1)];
        let asked = vec![
            topic(&one, -1, -1),
            topic(&two, 2, -1),
            topic(&assigned, -1, -1).with_assignments(assignments.clone()),
            topic("counted", 2, -1).with_assignments(assignments.clone()),
            topic("replicated", -1, 1).with_assignments(assignments),
        ];
        let answered = create_topics(&mut raw, version, false, asked);
        assert_eq!(created(&answered), [0, 0, 0, 42, 42], "version {version}");
        let there = topics(&mut raw);
        for (topic, partitions) in answered.iter().zip([3, 2, 2]) {
            assert!(there.contains(&(topic.name.to_string(), partitions)), "{there:?}");
            if version >= 5 {
                assert_eq!((topic.num_partitions, topic.replication_factor), (partitions as i32, 1));
                assert!(topic.configs.as_ref().is_some_and(|all| all.len() > 20), "the settings are told");
            }
        }
    }
}

#[test]
fn k096_a_validate_only_request_answers_as_the_real_one_and_changes_nothing() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "there", 2, &[("retention.bytes", "2000000")]);
    let before = topics(&mut raw);
    for version in versions(CREATE_TOPICS) {
        let asked = vec![topic("new", 2, 1), topic("there", 2, 1), configured("wrong", "retention.ms", Some("x"))];
        let answered = create_topics(&mut raw, version, true, asked);
        assert_eq!(created(&answered), [0, 36, 40], "version {version}");
        if version >= 5 {
            assert_eq!((answered[0].num_partitions, answered[0].replication_factor), (2, 1));
        }
        assert!(answered[0].topic_id.is_nil(), "no topic, no id");
    }
    for version in versions(37) {
        let asked = [("there", 5), ("no-such", 5)];
        assert_eq!(codes(&create_partitions(&mut raw, version, true, &asked)), [0, 3]);
        assert_eq!(codes(&create_partitions(&mut raw, version, true, &[("there", 2)])), [37]);
    }
    for version in versions(44) {
        let asked = [("retention.ms", SET, Some("5000")), ("retention.bytes", DELETE, None)];
        assert_eq!(codes(&edit(&mut raw, version, true, &[(TOPIC, "there", &asked)])), [0]);
        let asked = [("retention.ms", SET, Some("x"))];
        assert_eq!(codes(&edit(&mut raw, version, true, &[(TOPIC, "there", &asked), (TOPIC, "no", &asked)])), [40, 3]);
    }
    for version in versions(33) {
        let asked = [("retention.ms", Some("5000"))];
        assert_eq!(codes(&replace(&mut raw, version, true, &[(TOPIC, "there", &asked)])), [0]);
        let asked = [("cleanup.policy", Some("compact"))];
        assert_eq!(codes(&replace(&mut raw, version, true, &[(TOPIC, "there", &asked)])), [40]);
    }
    assert_eq!(topics(&mut raw), before);
    assert_eq!(setting(&mut raw, "there", "retention.ms"), ("604800000".into(), 5));
    assert_eq!(setting(&mut raw, "there", "retention.bytes"), ("2000000".into(), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k097_a_topic_that_exists_is_told_so_however_it_is_asked_for() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 6).await;
    let again = try_create_topic(&gateway, "t", 3, 1).await;
    assert_eq!(again, Err(RDKafkaErrorCode::TopicAlreadyExists));
    let mut raw = Raw::connect(gateway.bootstrap());
    for version in versions(CREATE_TOPICS) {
        let twice = format!("twice-{version}");
        let asked = vec![
            topic("t", 3, 1),
            topic("t2", 0, 1),
            topic(&twice, 1, 1),
            topic(&format!("once-{version}"), 1, 1),
            topic(&twice, 2, 1),
        ];
        let answered = create_topics(&mut raw, version, false, asked);
        // A name that stands there twice is answered once.
        assert_eq!(created(&answered), [36, 37, 42, 0], "version {version}");
        assert_eq!(answered[2].name.as_str(), twice);
    }
    assert!(topics(&mut raw).iter().all(|(name, _)| !name.starts_with("twice")));
}

#[test]
fn k097_of_clients_that_create_one_topic_at_the_same_moment_exactly_one_wins() {
    const CLIENTS: usize = 6;
    let gateway = Gateway::start(Options::new(3));
    let start = Barrier::new(CLIENTS);
    for round in 0..5 {
        let name = format!("raced-{round}");
        let answered: Vec<(usize, i16)> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (name, start, node) = (&name, &start, gateway.node_of_shard(client % 3));
                    scope.spawn(move || {
                        let mut raw = Raw::connect(node.addr);
                        start.wait();
                        let partitions = client + 1;
                        let answered = create_topics(&mut raw, 5, false, vec![topic(name, partitions as i32, 1)]);
                        (partitions, answered[0].error_code)
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().expect("a client")).collect()
        });
        let winners: Vec<usize> = answered.iter().filter(|(_, code)| *code == 0).map(|(count, _)| *count).collect();
        assert_eq!(winners.len(), 1, "{answered:?}");
        assert!(answered.iter().all(|(_, code)| [0, 36].contains(code)), "{answered:?}");
        let mut raw = Raw::connect(gateway.bootstrap());
        assert!(topics(&mut raw).contains(&(name, winners[0])), "what the winner asked for is there");
    }
}

/// Group, state and type of each that is told.
fn groups(response: &ListGroupsResponse) -> BTreeSet<(&str, &str, &str)> {
    assert_eq!(response.error_code, 0);
    let told = response.groups.iter();
    told.map(|group| (group.group_id.as_str(), group.group_state.as_str(), group.group_type.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k098_groups_are_listed_by_state_and_by_type_whatever_the_case_of_the_filter() {
    let gateway = Gateway::start(Options::new(3));
    create_topic(&gateway, "t", 1).await;
    let member = Member::join(&gateway, "living", &["t"], &[]);
    member.until_assigned(1).await;
    let leaving = Member::join(&gateway, "left", &["t"], &[]);
    leaving.until_assigned(1).await;
    // Without an offset its group would go with it.
    let mut offsets = rdkafka::TopicPartitionList::new();
    offsets.add_partition_offset("t", 0, rdkafka::Offset::Offset(0)).expect("an offset");
    leaving.commit_offsets(offsets).await.expect("a commit");
    leaving.close().await;

    let mut raw = Raw::connect(gateway.bootstrap());
    let filtered = |states: &[&str]| {
        ListGroupsRequest::default().with_states_filter(states.iter().map(|state| string(state)).collect())
    };
    let (living, left) = ("living", "left");
    for version in 4..=*versions(16).end() {
        let kind = if version >= 5 { "classic" } else { "" };
        let (stable, empty) = ((living, "Stable", kind), (left, "Empty", kind));
        for (states, expected) in [
            (&["Stable"][..], vec![stable]),
            (&["stable"], vec![stable]),
            (&["STABLE", "empty"], vec![stable, empty]),
            (&["Empty"], vec![empty]),
            (&["Nope"], vec![]),
            (&["Nope", "Stable"], vec![stable]),
            (&[], vec![stable, empty]),
        ] {
            let response = raw.call(version, &filtered(states));
            assert_eq!(groups(&response), BTreeSet::from_iter(expected), "version {version}, {states:?}");
        }
    }
    for version in 5..=*versions(16).end() {
        for (types, count) in [(&["classic"][..], 2), (&["Classic"], 2), (&["consumer"], 0), (&["Nope"], 0), (&[], 2)] {
            let request = filtered(&[]).with_types_filter(types.iter().map(|kind| string(kind)).collect());
            assert_eq!(groups(&raw.call(version, &request)).len(), count, "version {version}, {types:?}");
            let request = request.with_states_filter(vec![string("empty")]);
            assert_eq!(groups(&raw.call(version, &request)).len(), count / 2, "version {version}, {types:?}");
        }
    }
    member.close().await;
}

#[test]
fn k100_a_wrong_setting_is_answered_40_with_its_reason_and_the_connection_lives() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    create(&mut raw, "t", 1, &[]);
    create(&mut raw, "other", 1, &[]);
    // As long as a string may be before the flexible versions: repeated whole it would not fit into the answer.
    let long = "9".repeat(i16::MAX as usize);
    let wrong = [
        ("cleanup.policy", "wrong"),
        ("retention.ms", "abc"),
        ("retention.ms", ""),
        ("no.such.setting", "1"),
        ("", "1"),
        ("min.insync.replicas", "2"),
        ("message.timestamp.type", "NoTime"),
        ("max.message.bytes", "-1"),
        ("retention.bytes", &long),
        (&long, "1"),
    ];
    for (name, value) in wrong {
        let shown: String = name.chars().take(40).collect();
        let is_reason = |why: &str| why.contains(&shown) && why.len() < 1_000;
        for version in versions(CREATE_TOPICS) {
            let good = format!("good-{version}");
            let asked = vec![configured("bad", name, Some(value)), topic(&good, 1, 1)];
            let answered = create_topics(&mut raw, version, true, asked);
            assert_eq!(created(&answered), [40, 0], "version {version}: {shown}");
            assert!(is_reason(answered[0].error_message.as_ref().expect("a reason")));
        }
        for version in versions(44) {
            let (bad, good) = ([(name, SET, Some(value))], [("retention.ms", SET, Some("1000000"))]);
            let answered = edit(&mut raw, version, false, &[(TOPIC, "t", &bad), (TOPIC, "other", &good)]);
            assert_eq!(codes(&answered), [40, 0], "version {version}: {shown}");
            assert!(is_reason(&answered[0].1), "{}", answered[0].1);
        }
        for version in versions(33) {
            let (bad, good) = ([(name, Some(value))], [("retention.ms", Some("1000000"))]);
            let answered = replace(&mut raw, version, false, &[(TOPIC, "t", &bad), (TOPIC, "other", &good)]);
            assert_eq!(codes(&answered), [40, 0], "version {version}: {shown}");
            assert!(is_reason(&answered[0].1), "{}", answered[0].1);
        }
    }
    // A value that is null: 40 where a topic is made, and 42 where it is changed, as in Kafka.
    for version in versions(CREATE_TOPICS) {
        let answered = create_topics(&mut raw, version, true, vec![configured("bad", "retention.ms", None)]);
        assert_eq!(created(&answered), [40]);
    }
    for version in versions(44) {
        assert_eq!(codes(&edit(&mut raw, version, false, &[(TOPIC, "t", &[("retention.ms", SET, None)])])), [42]);
    }
    for version in versions(33) {
        assert_eq!(codes(&replace(&mut raw, version, false, &[(TOPIC, "t", &[("retention.ms", None)])])), [42]);
    }
    assert_eq!(setting(&mut raw, "t", "retention.ms"), ("604800000".into(), 5));
    assert_eq!(topics(&mut raw).len(), 2, "the same connection still answers Metadata");
}
