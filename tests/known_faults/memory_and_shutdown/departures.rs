//! Many clients that go at the same moment, and those that go without a word.

use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use kafka_protocol::messages::{GroupId, JoinGroupRequest, MetadataRequest, SyncGroupRequest};

use super::{JOIN_VERSION, join};
use crate::common::eventually;
use crate::common::fetch::fetch_request;
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::peer::members;
use crate::common::raw::{Raw, string};

fn connections(gateway: &Gateway) -> u64 {
    metric(gateway, "ringgate_connections", "")
}

/// As many members as there are connections, joined and synced, in one generation.
async fn settle(connections: &mut [Raw], group: &str, session: Duration) {
    let (founder, others) = connections.split_first_mut().expect("a member");
    // Whoever founds a group waits for nobody. Those that come wait until it joins again.
    let mut joined = vec![founder.call(JOIN_VERSION, &join(group, "", session))];
    if !others.is_empty() {
        let sent: Vec<_> = others.iter_mut().map(|raw| raw.send(JOIN_VERSION, &join(group, "", session))).collect();
        eventually("all of them join", || members(founder, group) == sent.len() + 1).await;
        joined[0] = founder.call(JOIN_VERSION, &join(group, &joined[0].member_id, session));
        let answers = others.iter_mut().zip(sent);
        joined.extend(answers.map(|(raw, sent)| raw.receive::<JoinGroupRequest>(JOIN_VERSION, sent)));
    }
    let generation = joined[0].generation_id;
    let syncs: Vec<_> = connections
        .iter_mut()
        .zip(&joined)
        .map(|(raw, joined)| {
            assert_eq!((joined.error_code, joined.generation_id), (0, generation), "one generation");
            let sync = SyncGroupRequest::default()
                .with_group_id(GroupId(string(group)))
                .with_generation_id(joined.generation_id)
                .with_member_id(joined.member_id.clone());
            raw.send(0, &sync)
        })
        .collect();
    for (raw, sent) in connections.iter_mut().zip(syncs) {
        assert_eq!(raw.receive::<SyncGroupRequest>(0, sent).error_code, 0);
    }
}

/// Closes connections over an answer that is there and was not read, which resets them.
fn reset(mut connections: Vec<Raw>) {
    for raw in &mut connections {
        raw.send(9, &MetadataRequest::default());
    }
    for raw in &mut connections {
        raw.wait_for_bytes();
    }
    drop(connections);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k121_members_that_go_all_at_once_leave_empty_groups_and_their_memory() {
    const GROUPS: usize = 5;
    const MEMBERS: usize = 60;
    const SESSION: Duration = Duration::from_secs(6);
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    let mut witness = Raw::connect(gateway.bootstrap());
    let files = gateway.open_files();
    let names: Vec<_> = (0..GROUPS).map(|n| format!("workers-{n}")).collect();
    let mut after_first = 0;
    for round in 0..3 {
        let mut all = Vec::new();
        let mut parked = Vec::new();
        for group in &names {
            let mut members: Vec<_> = (0..MEMBERS).map(|_| Raw::connect(gateway.bootstrap())).collect();
            settle(&mut members, group, SESSION).await;
            all.extend(members);
            // And some whose first join waits for the others to join again.
            parked.extend((0..MEMBERS / 4).map(|_| {
                let mut raw = Raw::connect(gateway.bootstrap());
                raw.send(JOIN_VERSION, &join(group, "", SESSION));
                raw
            }));
        }
        drop(parked);
        reset(all);
        let describe = DescribeGroupsRequest::default();
        let describe = describe.with_groups(names.iter().map(|name| GroupId(string(name))).collect());
        eventually("the groups are empty", || {
            let described = witness.call(5, &describe).groups;
            described.iter().all(|group| group.error_code == 0 && group.group_state.as_str() == "Empty")
        })
        .await;
        assert_eq!(metric(&gateway, "ringgate_group_members", ""), 0);
        eventually("their connections are gone", || connections(&gateway) == 1 && gateway.open_files() <= files + 1)
            .await;
        match round {
            0 => after_first = gateway.rss(),
            _ => {
                let grown = gateway.rss().saturating_sub(after_first);
                assert!(grown < 16 << 10, "{grown} KiB more than after the first round");
            }
        }
    }
    assert_eq!(metric(&gateway, "ringgate_connection_panics_total", ""), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k122_nothing_that_waits_keeps_a_connection_whose_client_is_gone() {
    const CLIENTS: usize = 400;
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    let mut witness = Raw::connect(gateway.bootstrap());
    let topic = create(&mut witness, "quiet", 1, &[]);
    let files = gateway.open_files();
    let waits = fetch_request(12, &[(&topic, &[(0, 0)])]).with_max_wait_ms(crate::common::fetch::FOR_EVER_MS);
    let session = Duration::from_secs(30);
    let mut leader = Raw::connect(gateway.bootstrap());
    settle(std::slice::from_mut(&mut leader), "workers", session).await;
    for _ in 0..2 {
        let mut waiting: Vec<_> = (0..CLIENTS).map(|_| Raw::connect(gateway.bootstrap())).collect();
        for (nth, raw) in waiting.iter_mut().enumerate() {
            match nth % 4 {
                // One with requests behind what waits.
                0 => {
                    raw.send(12, &waits);
                    raw.send(9, &MetadataRequest::default());
                    raw.send(12, &waits)
                }
                1 => raw.send(JOIN_VERSION, &join("workers", "", session)),
                _ => raw.send(12, &waits),
            };
        }
        let parked = (CLIENTS / 4 + 1) as u64;
        eventually("all of them wait", || {
            metric(&gateway, "ringgate_group_members", "") == parked && connections(&gateway) == CLIENTS as u64 + 2
        })
        .await;
        drop(waiting);
        eventually("their connections are gone", || connections(&gateway) == 2 && gateway.open_files() <= files + 2)
            .await;
        eventually("and what they waited for", || metric(&gateway, "ringgate_group_members", "") == 1).await;
    }
}

#[test]
fn k122_the_kernel_asks_after_clients_that_are_silent() {
    // A host that loses its network sends neither FIN nor RST; only the kernel's own questions tell.
    let gateway = Gateway::start(Options::new(2));
    for node in [gateway.bootstrap(), gateway.nodes()[0].addr] {
        let mut raw = Raw::connect(node);
        raw.call(9, &MetadataRequest::default());
        assert!(has_keepalive_timer(node, raw.address()), "{node}");
    }
}

/// Whether the socket at `local` that is connected to `peer` has a keep-alive timer, as the kernel lists it.
fn has_keepalive_timer(local: SocketAddr, peer: SocketAddr) -> bool {
    const KEEPALIVE: &str = "02";
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's list of sockets");
    let (local, peer) = (listed(local), listed(peer));
    let row = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|row| row.get(1) == Some(&local.as_str()) && row.get(2) == Some(&peer.as_str()));
    let row = row.expect("the connection is listed");
    row[5].starts_with(&format!("{KEEPALIVE}:"))
}

/// An address as the list has it: in hexadecimal, the bytes of the address as a number of this machine.
fn listed(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("an IPv4 address") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}
