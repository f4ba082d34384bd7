//! A group of very many members, each on a connection of its own, from its first generation through a rebalance,
//! while a member of another group goes on with its heartbeats; and how long the shards' slices were meanwhile.
//!
//! By itself it takes a group of [`MEMBERS`], so that it fits any machine's limits, and prints what it saw with
//! `--nocapture`. `just slices` measures a release build with 9,500 members.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse, SyncGroupRequest};

use crate::common::LIVENESS;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{Member, describe_groups, group_id, join_request, subscription};
use crate::common::metrics::exposition;
use crate::common::raw::{Raw, string};

/// Members where `RINGGATE_TEST_MEMBERS` does not say.
const MEMBERS: usize = 500;
const GROUP: &str = "large";

/// The members of the large group, the leader first.
struct Crowd {
    members: Vec<(Raw, String)>,
}

impl Crowd {
    /// Members that have connected and got their ids.
    fn arrive(gateway: &Gateway, count: usize) -> Crowd {
        let mut members: Vec<(Raw, String)> = Vec::with_capacity(count);
        for _ in 0..count {
            let mut raw = Raw::connect(gateway.bootstrap());
            let answer = raw.call(9, &join(""));
            assert_eq!(answer.error_code, 79);
            members.push((raw, answer.member_id.to_string()));
        }
        Crowd { members }
    }

    /// Everybody joins, from this generation; returns the leader's answer when all are answered.
    fn join(&mut self, generation: i32) -> JoinGroupResponse {
        let mut asked: Vec<i32> = Vec::with_capacity(self.members.len());
        for (raw, id) in &mut self.members[..1] {
            asked.push(raw.send(9, &join(id)));
        }
        if generation > 0 {
            // The leader's join begins a rebalance. Before it, the others would be answered at once.
            let (raw, id) = &mut self.members[1];
            let other = Member { group: GROUP.into(), id: id.clone(), generation };
            let deadline = Instant::now() + LIVENESS;
            while other.heartbeat(raw) != 27 {
                assert!(Instant::now() < deadline, "hung: no rebalance begins");
            }
        }
        asked.extend(self.members[1..].iter_mut().map(|(raw, id)| raw.send(9, &join(id))));
        let mut leaders = Vec::new();
        let mut generations = Vec::new();
        for ((raw, id), asked) in self.members.iter_mut().zip(asked) {
            let joined = raw.receive::<JoinGroupRequest>(9, asked);
            assert_eq!((joined.error_code, joined.member_id.as_str()), (0, id.as_str()));
            generations.push(joined.generation_id);
            if joined.leader == joined.member_id {
                leaders.push(joined);
            } else {
                assert!(joined.members.is_empty(), "only the leader is told who is in the group");
            }
        }
        generations.dedup();
        assert_eq!((leaders.len(), generations.len()), (1, 1), "one leader, and one generation for all");
        leaders.remove(0)
    }

    /// The leader gives everybody something of its own, and everybody gets it.
    fn sync(&mut self, leader: &JoinGroupResponse) {
        let given = |id: &str| Bytes::from(format!("for {id} in generation {}", leader.generation_id));
        let asked: Vec<i32> = self
            .members
            .iter_mut()
            .map(|(raw, id)| {
                let assignments = if *id == leader.member_id.as_str() {
                    let assignment = |id: &str| {
                        SyncGroupRequestAssignment::default().with_member_id(string(id)).with_assignment(given(id))
                    };
                    leader.members.iter().map(|member| assignment(&member.member_id)).collect()
                } else {
                    Vec::new()
                };
                let request = SyncGroupRequest::default()
                    .with_group_id(group_id(GROUP))
                    .with_generation_id(leader.generation_id)
                    .with_member_id(string(id))
                    .with_protocol_type(Some(string("consumer")))
                    .with_protocol_name(Some(string("range")))
                    .with_assignments(assignments);
                raw.send(5, &request)
            })
            .collect();
        for ((raw, id), asked) in self.members.iter_mut().zip(asked) {
            let synced = raw.receive::<SyncGroupRequest>(5, asked);
            assert_eq!((synced.error_code, &synced.assignment), (0, &given(id)));
        }
    }
}

fn join(id: &str) -> JoinGroupRequest {
    join_request(GROUP, id, "consumer", subscription(&["orders", "payments", "shipments"]))
}

/// A group beside it: heartbeats one after the other until told to stop; how many, and the longest round trip.
fn beside(mut raw: Raw, member: Member, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<(u64, Duration)> {
    std::thread::spawn(move || {
        let (mut count, mut longest) = (0, Duration::ZERO);
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            assert_eq!(member.heartbeat(&mut raw), 0, "the other group is stable all the time");
            longest = longest.max(began.elapsed());
            count += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        (count, longest)
    })
}

#[test]
fn a_large_group_rebalances_whole_while_another_goes_on() {
    let count = std::env::var("RINGGATE_TEST_MEMBERS").map_or(MEMBERS, |count| count.parse().expect("a number"));
    let options = Options::new(1)
        .set("admin-listen", "127.0.0.1:0")
        .set("slice-clock", "cpu")
        .set("initial-rebalance-delay", "4s")
        .set("max-connections", count + 64);
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let member = Member::consumer(&mut raw, "beside", &["orders"]);
    let stop = Arc::<AtomicBool>::default();
    let beside = beside(raw, member, stop.clone());

    let mut crowd = Crowd::arrive(&gateway, count);
    for generation in 1..=2 {
        let began = Instant::now();
        let leader = crowd.join(generation - 1);
        let mut told: Vec<&str> = leader.members.iter().map(|member| member.member_id.as_str()).collect();
        let mut expected: Vec<&str> = crowd.members.iter().map(|(_, id)| id.as_str()).collect();
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!((leader.generation_id, told), (generation, expected));
        let metadata = subscription(&["orders", "payments", "shipments"]);
        assert!(leader.members.iter().all(|member| member.metadata == metadata));
        let joined = began.elapsed();
        crowd.sync(&leader);
        println!("generation {generation}: joined after {joined:?}, synced after {:?}", began.elapsed());
        print_slices(&gateway);
    }
    let described = describe_groups(&mut crowd.members[0].0, 5, &[GROUP]).remove(0);
    assert_eq!((described.group_state.as_str(), described.members.len()), ("Stable", count));

    stop.store(true, Ordering::Relaxed);
    let (heartbeats, longest) = beside.join().expect("the group beside it");
    assert!(heartbeats > 0);
    println!("{heartbeats} heartbeats of the other group meanwhile, the longest took {longest:?}");
    print_slices(&gateway);
}

fn print_slices(gateway: &Gateway) {
    let text = exposition(gateway);
    for line in text.lines().filter(|line| line.starts_with("ringgate_slice_seconds")) {
        println!("{line}");
    }
}
