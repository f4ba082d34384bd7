//! Reaching a target, its versions, topics and coordinators.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse, FindCoordinatorRequest,
    FindCoordinatorResponse,
};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::Options;
use ringgate_client::Target;

use crate::peer::{Does, broker, introduce, listen};
use crate::{on_executor, options};

/// An address where nobody listens.
fn nobody() -> String {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    taken.local_addr().expect("an address").to_string()
}

#[test]
fn bootstrap_servers_are_tried_in_turn_and_all_are_named_when_none_answers() {
    let (dead, alive) = (nobody(), broker(|_| Does::Close));
    let about = on_executor({
        let bootstrap = [dead.clone(), alive.clone()];
        move || async move { Target::reach(&options(&bootstrap)).await.expect("the second answers").about() }
    });
    assert_eq!(about["cluster_id"], "a cluster");
    assert_eq!(about["brokers"], format!("7@{alive}"));
    let other = nobody();
    let error = on_executor({
        let bootstrap = [dead.clone(), other.clone()];
        move || async move { Target::reach(&options(&bootstrap)).await.err().expect("nobody is there") }
    });
    assert!(error.to_string().contains(&dead) && error.to_string().contains(&other), "{error}");
}

#[test]
fn an_old_broker_is_asked_for_its_versions_again_as_it_understands() {
    let address = listen(|asked| match asked.api {
        // KIP-511: a version that it does not have is answered in version 0.
        ApiKey::ApiVersions if asked.version > 0 => {
            asked.answer_of(0, &ApiVersionsResponse::default().with_error_code(35))
        }
        ApiKey::ApiVersions => {
            let api = |key, max| ApiVersion::default().with_api_key(key).with_max_version(max);
            asked.answer(&ApiVersionsResponse::default().with_api_keys(vec![api(3, 5), api(12, 2)]))
        }
        _ => introduce(&asked, "127.0.0.1:9").unwrap_or(Does::Close),
    });
    on_executor(move || async move {
        let target = Target::reach(&options(&[address])).await.expect("reached");
        assert_eq!(target.version(ApiKey::Heartbeat), Ok(2));
        let error = target.version(ApiKey::JoinGroup).expect_err("it does not have it");
        assert!(error.to_string().contains("JoinGroup"), "{error}");
    });
}

#[test]
fn a_pinned_version_is_used_and_one_that_cannot_be_is_refused() {
    let address = broker(|_| Does::Close);
    on_executor(move || async move {
        let api_versions = [(ApiKey::Heartbeat as i16, 3), (ApiKey::Produce as i16, 99)].into();
        let target = Target::reach(&Options { api_versions, ..options(&[address]) }).await.expect("reached");
        assert_eq!(target.version(ApiKey::Heartbeat), Ok(3));
        assert!(target.version(ApiKey::Produce).is_err());
    });
}

#[test]
fn a_coordinator_that_is_still_loading_is_asked_for_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let address = broker(|asked| {
        assert_eq!(asked.read::<FindCoordinatorRequest>().coordinator_keys[0].as_str(), "g");
        let code = [15, 14, 0][ASKED.fetch_add(1, Ordering::SeqCst)];
        let found = Coordinator::default()
            .with_error_code(code)
            .with_host(StrBytes::from_static_str("127.0.0.9"))
            .with_port(99);
        asked.answer(&FindCoordinatorResponse::default().with_coordinators(vec![found]))
    });
    on_executor(move || async move {
        let target = Target::reach(&options(&[address])).await.expect("reached");
        assert_eq!(target.coordinator("g").await.expect("found").to_string(), "127.0.0.9:99");
    });
    assert_eq!(ASKED.load(Ordering::SeqCst), 3);
}

#[test]
fn a_topic_is_made_with_its_settings_and_its_leaders_are_known_then() {
    let address = broker(|asked| {
        let request = asked.read::<CreateTopicsRequest>();
        let topic = &request.topics[0];
        let code = if topic.name.as_str() == "there" { 36 } else { 0 };
        assert_eq!((topic.num_partitions, topic.replication_factor), (2, -1));
        assert_eq!(topic.configs[0].value.as_deref(), Some("1000"));
        let made = CreatableTopicResult::default().with_name(topic.name.clone()).with_error_code(code);
        asked.answer(&CreateTopicsResponse::default().with_topics(vec![made]))
    });
    on_executor(move || async move {
        let target = Target::reach(&options(std::slice::from_ref(&address))).await.expect("reached");
        target.create_topic("t", 2, &[("retention.ms", "1000")]).await.expect("made");
        let leaders = target.leaders("t").await.expect("known");
        assert_eq!(leaders.iter().map(ToString::to_string).collect::<Vec<_>>(), [address.clone(), address]);
        let error = target.create_topic("there", 2, &[("retention.ms", "1000")]).await.expect_err("refused");
        assert!(error.to_string().contains("TOPIC_ALREADY_EXISTS"), "{error}");
    });
}

#[test]
fn connections_come_from_the_source_addresses_in_turn() {
    let address = broker(|_| Does::Nothing);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    on_executor(move || async move {
        let source_ips = ["127.0.0.2", "127.0.0.3"].map(|ip| ip.parse().expect("an address")).to_vec();
        let options = Options { source_ips, ..options(&[address]) };
        let target = Target::reach(&options).await.expect("reached");
        let at = at.parse().expect("an address");
        let mut connections = Vec::new();
        for _ in 0..4 {
            connections.push(target.connect(&at).await.expect("connected"));
        }
    });
    let peers: Vec<_> = (0..4).map(|_| listener.accept().expect("a connection").1.ip().to_string()).collect();
    // The first address made the acquaintance.
    assert_eq!(peers, ["127.0.0.3", "127.0.0.2", "127.0.0.3", "127.0.0.2"]);
}

#[test]
fn an_address_that_is_not_this_hosts_is_told_apart_from_a_peer_that_is_not_there() {
    let source_ips = vec!["192.0.2.1".parse().expect("an address")];
    let options = Options { source_ips, ..options(&["127.0.0.1:9".into()]) };
    let error = on_executor(move || async move { Target::reach(&options).await.err().expect("cannot connect") });
    assert!(error.to_string().contains("no local address is left"), "{error}");
}
