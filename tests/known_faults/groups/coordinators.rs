//! Who coordinates a group: what FindCoordinator says, before and after a restart.

use std::collections::BTreeMap;

use kafka_protocol::messages::{FindCoordinatorRequest, MetadataRequest};

use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit, commit_codes, commit_request, committed};
use crate::common::librdkafka::create_topic;
use crate::common::partition::versions;
use crate::common::peer::{Peer, form};
use crate::common::raw::{Raw, string};

/// Node id, host and port.
type Node = (i32, String, i32);

const FIND_COORDINATOR: i16 = 10;
/// The first version that asks for several keys.
const BATCH_SINCE: i16 = 4;

fn brokers(raw: &mut Raw) -> Vec<Node> {
    let response = raw.call(12, &MetadataRequest::default());
    response.brokers.iter().map(|broker| (broker.node_id.0, broker.host.to_string(), broker.port)).collect()
}

/// Code and node of each key, in whatever shape the version has.
fn find(raw: &mut Raw, version: i16, key_type: i8, keys: &[&str]) -> Vec<(String, i16, Node)> {
    let request = FindCoordinatorRequest::default().with_key_type(key_type);
    if version < BATCH_SINCE {
        let one = |key: &&str| {
            let found = raw.call(version, &request.clone().with_key(string(key)));
            (key.to_string(), found.error_code, (found.node_id.0, found.host.to_string(), found.port))
        };
        return keys.iter().map(one).collect();
    }
    let response = raw.call(version, &request.with_coordinator_keys(keys.iter().map(|key| string(key)).collect()));
    let told = response.coordinators.iter();
    told.map(|found| (found.key.to_string(), found.error_code, (found.node_id.0, found.host.to_string(), found.port)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k057_the_coordinator_is_a_broker_that_metadata_names() {
    let mut gateway = Gateway::start(Options::new(3));
    let groups = ["a", "b", "c"];
    for _ in 0..2 {
        let mut raw = Raw::connect(gateway.bootstrap());
        let brokers = brokers(&mut raw);
        for version in versions(FIND_COORDINATOR) {
            let found = find(&mut raw, version, 0, &groups);
            assert_eq!(found.len(), groups.len(), "version {version}: an entry for each key");
            for ((key, code, node), group) in found.iter().zip(groups) {
                assert_eq!((&key[..], *code), (group, 0), "version {version}");
                assert!(brokers.contains(node), "version {version}: {node:?} is none of {brokers:?}");
            }
            // The report wants 24 for the empty id; Kafka looks the coordinator of any id up, and refuses
            // the empty one where it is joined.
            assert!(
                find(&mut raw, version, 0, &[""]).iter().all(|(_, code, node)| *code == 0 && brokers.contains(node))
            );
            if version == 0 {
                continue;
            }
            for key_type in [1, 2, 3, -1] {
                for (_, code, node) in find(&mut raw, version, key_type, &groups) {
                    assert_eq!((code, node), (42, (-1, String::new(), -1)), "version {version}, type {key_type}");
                }
            }
        }
        for version in BATCH_SINCE..=*versions(FIND_COORDINATOR).end() {
            assert!(find(&mut raw, version, 0, &[]).is_empty(), "version {version}");
        }
        gateway.kill9();
        gateway.restart(Options::new(3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k073_the_node_that_is_named_coordinates_the_group_however_often_it_moves() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let names: Vec<String> = (0..12).map(|n| format!("group-{n}")).collect();
    let mut peers: BTreeMap<&str, Peer> = BTreeMap::new();
    for name in &names {
        let mut peer = Peer::connect(gateway.bootstrap(), name);
        form(std::slice::from_mut(&mut peer));
        peers.insert(name, peer);
    }
    let mut owners = Vec::new();
    for shards in [3, 1, 4, 2] {
        gateway.kill9();
        gateway.restart(Options::new(shards));
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = find(&mut Raw::connect(gateway.bootstrap()), 4, 0, &keys);
        owners.push(found.iter().map(|(_, _, node)| node.0).collect::<Vec<_>>());
        for (group, code, (id, host, port)) in found {
            assert_eq!(code, 0);
            let peer = peers.get_mut(&group[..]).expect("one of the groups");
            let named = format!("{host}:{port}").parse().expect("an address");
            // Asked anywhere else, the gateway hands on to the owner: there is no node that says "not me".
            let doors = gateway.nodes().iter().map(|node| node.addr).chain([gateway.bootstrap(), named]);
            for door in doors {
                peer.raw = Raw::connect(door);
                assert_eq!(peer.heartbeat(), 0, "{group} at {door}, named is node {id}");
                assert_eq!(peer.commit("t", 5), 0, "{group} at {door}, named is node {id}");
            }
            // The session goes on where the client was sent.
            assert_eq!(peer.join().error_code, 0);
            peer.settle_alone();
        }
    }
    if gateway.nodes().len() > 1 {
        assert!(owners.windows(2).all(|pair| pair[0] != pair[1]), "groups have moved: {owners:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k074_many_stored_offsets_are_loaded_and_other_answers_than_loading_follow() {
    const GROUPS: i64 = 200;
    const PARTITIONS: i32 = 100;
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", PARTITIONS).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for group in 0..GROUPS {
        let offsets: Vec<(i32, i64)> = (0..PARTITIONS).map(|partition| (partition, group + 1)).collect();
        commit(&mut raw, &format!("group-{group}"), "t", &offsets);
    }
    gateway.kill9();
    gateway.restart(Options::new(3));
    // What is loaded before the gateway is ready is never told of; were it loaded later, 14 would end.
    let mut raw = Raw::connect(gateway.bootstrap());
    let partitions: Vec<i32> = (0..PARTITIONS).collect();
    for group in 0..GROUPS {
        let name = format!("group-{group}");
        assert_eq!(committed(&mut raw, &name, "t", &partitions), vec![group + 1; PARTITIONS as usize]);
    }
    let mut peer = Peer::connect(gateway.bootstrap(), "group-0");
    form(std::slice::from_mut(&mut peer));
    assert_eq!(peer.commit("t", 7), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k074_a_store_that_takes_no_more_is_15_and_not_14_and_only_for_its_groups() {
    const ROOM: u64 = 256 << 10;
    let mut gateway = Gateway::start(Options::new(2).embedded("the store's own files are full"));
    create_topic(&gateway, "t", 1).await;
    let mut member = Peer::connect(gateway.bootstrap(), "full");
    form(std::slice::from_mut(&mut member));
    let mut raw = Raw::connect(gateway.bootstrap());
    gateway.limit_files(Some(ROOM));
    let mut taken = 0;
    let code = loop {
        let mut request = commit_request("full-too", "t", &[(0, taken)]);
        request.topics[0].partitions[0].committed_metadata = Some(string(&"x".repeat(4_096)));
        match commit_codes(&mut raw, 8, &request)[0] {
            0 => taken += 1,
            code => break code,
        }
        assert!(taken < 1_000, "the limit holds");
    };
    assert_eq!(code, 15);
    // The log of one shard's groups is closed, that of the other's is not.
    let codes: Vec<i16> =
        (0..16).map(|n| commit_codes(&mut raw, 8, &commit_request(&format!("group-{n}"), "t", &[(0, 5)]))[0]).collect();
    assert!(codes.contains(&0) && codes.contains(&15), "{codes:?}");
    assert!(codes.iter().all(|code| [0, 15].contains(code)), "{codes:?}");
    // What is known is told, and is what was acknowledged last.
    assert_eq!(committed(&mut raw, "full-too", "t", &[0]), [taken - 1]);
    let written: Vec<i64> = (0..16).map(|n| committed(&mut raw, &format!("group-{n}"), "t", &[0])[0]).collect();
    let expected: Vec<i64> = codes.iter().map(|code| if *code == 0 { 5 } else { -1 }).collect();
    assert_eq!(written, expected);
    // A group forms where that can be kept, and is told 15 where it cannot.
    for (n, code) in codes.iter().enumerate() {
        let mut peer = Peer::connect(gateway.bootstrap(), &format!("group-{n}"));
        peer.join();
        let id = peer.id.clone();
        assert_eq!(peer.sync(&[(&id, "all")]).0, *code, "group-{n}");
    }
    assert_eq!(member.heartbeat(), 0, "a session needs no store");

    gateway.limit_files(None);
    gateway.kill9();
    gateway.restart(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    assert_eq!(committed(&mut raw, "full-too", "t", &[0]), [taken - 1]);
    member.raw = Raw::connect(gateway.bootstrap());
    assert_eq!((member.heartbeat(), member.commit("t", 9)), (0, 0));
    commit(&mut raw, "full-too", "t", &[(0, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k075_members_are_known_after_a_restart_and_their_ids_are_never_given_again() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::connect(gateway.bootstrap(), "workers")).collect();
    form(&mut peers);
    while peers[0].generation < 7 {
        crate::common::peer::rejoin(&mut peers);
        crate::common::peer::settle(&mut peers);
    }
    assert_eq!(peers[1].commit("t", 42), 0);
    let mut ids: Vec<String> = peers.iter().map(|peer| peer.id.clone()).collect();
    for shards in [3, 1] {
        gateway.kill9();
        gateway.restart(Options::new(shards));
        for (nth, peer) in peers.iter_mut().enumerate() {
            peer.raw = Raw::connect(gateway.bootstrap());
            assert_eq!((peer.heartbeat(), peer.sync(&[])), (0, (0, nth.to_string().into())));
        }
        assert_eq!(committed(&mut peers[0].raw, "workers", "t", &[0]), [42]);
        assert_eq!(peers[2].commit("t", 42), 0, "the generation is still good");
        // Whoever joins elsewhere or here is somebody else.
        for group in ["workers", "others"] {
            let mut stranger = Peer::connect(gateway.bootstrap(), group);
            stranger.ask_for_id();
            assert!(!ids.contains(&stranger.id), "{} was given before", stranger.id);
            ids.push(stranger.id);
        }
    }
    // The old generation does not pass when there is a newer one.
    let old = peers[1].generation;
    crate::common::peer::rejoin(&mut peers);
    crate::common::peer::settle(&mut peers);
    peers[1].generation = old;
    assert_eq!((peers[1].heartbeat(), peers[1].commit("t", 1)), (22, 22));
    assert_eq!(committed(&mut peers[0].raw, "workers", "t", &[0]), [42]);
}
