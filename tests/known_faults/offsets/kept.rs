//! What is kept is what was answered, before a restart and after it, however large it is.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::SyncGroupRequest;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;

use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit, commit_codes, commit_request, committed, delete_offsets, state};
use crate::common::librdkafka::create_topic;
use crate::common::peer::{JOIN, Peer, SYNC, members};
use crate::common::raw::{Raw, string};

/// Xorshift: choices that a seed repeats.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k089_the_last_commit_that_was_acknowledged_counts_before_and_after_every_restart() {
    const GROUPS: u64 = 4;
    const PARTITIONS: u64 = 3;
    let seed = u64::from(std::process::id()) | 1 << 40;
    eprintln!("seed {seed}");
    let mut choices = Choices(seed);
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", PARTITIONS as i32).await;
    let mut expected: BTreeMap<(u64, u64), i64> = BTreeMap::new();
    for round in 0..5 {
        let mut doors: Vec<Raw> =
            gateway.nodes().iter().map(|node| node.addr).chain([gateway.bootstrap()]).map(Raw::connect).collect();
        let count = doors.len() as u64;
        for _ in 0..80 {
            let (group, partition) = (choices.below(GROUPS), choices.below(PARTITIONS));
            let (name, index) = (format!("group-{group}"), partition as i32);
            let raw = &mut doors[choices.below(count) as usize];
            match choices.below(10) {
                0 => {
                    let _ = delete_offsets(raw, &name, &[("t", &[index])]);
                    expected.insert((group, partition), -1);
                }
                // Several of one key in flight on one connection: their order counts.
                1..4 => {
                    let offsets: Vec<i64> = (0..4).map(|_| choices.below(100) as i64).collect();
                    let sent: Vec<i32> = offsets
                        .iter()
                        .map(|offset| raw.send(8, &commit_request(&name, "t", &[(index, *offset)])))
                        .collect();
                    for sent in sent {
                        let answer = raw.receive::<kafka_protocol::messages::OffsetCommitRequest>(8, sent);
                        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
                    }
                    expected.insert((group, partition), offsets[3]);
                }
                // Twice in one request: the later counts.
                4 => {
                    let offsets = [(index, choices.below(100) as i64), (index, choices.below(100) as i64)];
                    assert_eq!(commit_codes(raw, 8, &commit_request(&name, "t", &offsets)), [0, 0]);
                    expected.insert((group, partition), offsets[1].1);
                }
                _ => {
                    let offset = choices.below(100) as i64;
                    commit(raw, &name, "t", &[(index, offset)]);
                    expected.insert((group, partition), offset);
                }
            }
        }
        let compare = |gateway: &Gateway, when: &str| {
            let mut raw = Raw::connect(gateway.bootstrap());
            for (&(group, partition), &offset) in &expected {
                let told = committed(&mut raw, &format!("group-{group}"), "t", &[partition as i32]);
                assert_eq!(told, [offset], "group-{group}, partition {partition}, {when} restart {round}");
            }
        };
        compare(&gateway, "before");
        let shards = 1 + choices.below(3) as usize;
        if choices.below(2) == 0 {
            gateway.kill9();
        } else {
            assert!(tokio::task::block_in_place(|| gateway.sigterm()).success());
        }
        gateway.restart(Options::new(shards));
        compare(&gateway, "after");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k089_commits_of_two_connections_at_once_end_as_one_of_their_last() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 1).await;
    let mut told = Vec::new();
    for round in 0..20_i64 {
        let mut doors = [gateway.nodes()[0].addr, gateway.bootstrap()].map(Raw::connect);
        let group = format!("group-{round}");
        let mut sent = [Vec::new(), Vec::new()];
        for nth in 0..8 {
            for (which, raw) in doors.iter_mut().enumerate() {
                let offset = which as i64 * 100 + 50 - nth;
                sent[which].push(raw.send(8, &commit_request(&group, "t", &[(0, offset)])));
            }
        }
        for (raw, sent) in doors.iter_mut().zip(sent) {
            for sent in sent {
                let answer = raw.receive::<kafka_protocol::messages::OffsetCommitRequest>(8, sent);
                assert_eq!(answer.topics[0].partitions[0].error_code, 0);
            }
        }
        let offset = committed(&mut doors[0], &group, "t", &[0])[0];
        assert!([43, 143].contains(&offset), "{offset} was the last of neither");
        told.push((group, offset));
    }
    gateway.kill9();
    gateway.restart(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    for (group, offset) in told {
        assert_eq!(committed(&mut raw, &group, "t", &[0]), [offset], "{group}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k090_a_very_large_group_is_loaded_and_others_with_it() {
    const MEMBERS: usize = 30;
    const METADATA: usize = 700_000;
    const PARTITIONS: i32 = 400;
    let mut gateway = Gateway::start(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    crate::common::partition::create(&mut raw, "t", PARTITIONS, &[]);
    commit(&mut raw, "small", "t", &[(0, 7)]);

    let join = |peer: &Peer| {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(string("range"))
            .with_metadata(Bytes::from(vec![1; METADATA]));
        peer.join_request().with_protocols(vec![protocol])
    };
    let mut peers: Vec<Peer> = (0..MEMBERS).map(|_| Peer::connect(gateway.bootstrap(), "large")).collect();
    peers.iter_mut().for_each(Peer::ask_for_id);
    let request = join(&peers[0]);
    let founded = peers[0].raw.send(JOIN, &request);
    assert_eq!(peers[0].receive_join(founded).error_code, 0);
    let mut sent = Vec::new();
    for peer in &mut peers[1..] {
        let request = join(peer);
        sent.push(peer.raw.send(JOIN, &request));
    }
    crate::common::eventually("the others wait", || members(&mut raw, "large") == MEMBERS).await;
    let request = join(&peers[0]);
    let again = peers[0].raw.send(JOIN, &request);
    let answer = peers[0].receive_join(again);
    assert_eq!((answer.error_code, answer.members.len()), (0, MEMBERS));
    for (peer, sent) in peers[1..].iter_mut().zip(sent) {
        assert_eq!(peer.receive_join(sent).error_code, 0);
    }
    let generation = peers[1].generation;
    let requests: Vec<SyncGroupRequest> = peers.iter().map(|peer| peer.sync_request(&[])).collect();
    let sent: Vec<i32> = peers.iter_mut().zip(&requests).map(|(peer, request)| peer.raw.send(SYNC, request)).collect();
    for (peer, sent) in peers.iter_mut().zip(sent) {
        assert_eq!(peer.receive_sync(sent).0, 0);
    }
    assert_eq!(state(&mut raw, "large"), "Stable");
    // And one commit of more than a batch of writes holds: 12 KiB of each of many partitions.
    let offsets: Vec<(i32, i64)> = (0..PARTITIONS).map(|partition| (partition, 9)).collect();
    let mut request = commit_request("wide", "t", &offsets);
    for partition in &mut request.topics[0].partitions {
        partition.committed_metadata = Some(string(&"\u{20ac}".repeat(4_096)));
    }
    assert!(commit_codes(&mut raw, 8, &request).iter().all(|code| *code == 0));

    for shards in [1, 2] {
        gateway.kill9();
        gateway.restart(Options::new(shards));
        let mut raw = Raw::connect(gateway.bootstrap());
        assert_eq!(committed(&mut raw, "small", "t", &[0]), [7]);
        let all: Vec<i32> = (0..PARTITIONS).collect();
        assert!(committed(&mut raw, "wide", "t", &all).iter().all(|offset| *offset == 9));
        assert_eq!((state(&mut raw, "large"), members(&mut raw, "large")), ("Stable".to_owned(), MEMBERS));
        for peer in &mut peers {
            peer.raw = Raw::connect(gateway.bootstrap());
            assert_eq!((peer.heartbeat(), peer.generation), (0, generation));
        }
    }
}
