//! Members of a group, each on a connection of its own, whose every join and sync is sent when the test
//! says so and received when it wants: for what happens between the two.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
};

use super::group::{commit_codes, commit_request, describe_groups, group_id, join_request, state, subscription};
use super::raw::{Raw, string};

/// Long enough for an answer that should not come to come.
pub const A_MOMENT: Duration = Duration::from_millis(300);

/// The newest versions of what a member sends.
pub const JOIN: i16 = 9;
pub const SYNC: i16 = 5;
pub const HEARTBEAT: i16 = 4;
pub const LEAVE: i16 = 5;
pub const COMMIT: i16 = 8;

/// Longer than any test.
const FOR_EVER_MS: i32 = 300_000;

/// One member, of protocol type `consumer` with the protocol `range`.
pub struct Peer {
    pub raw: Raw,
    pub group: String,
    /// "" before it has one.
    pub id: String,
    pub instance: Option<String>,
    pub generation: i32,
    /// Who leads, by its last join.
    pub leader: String,
    pub session_ms: i32,
    pub rebalance_ms: i32,
    pub topics: Vec<String>,
}

impl Peer {
    /// One that is not in the group yet, and is never expelled for being slow.
    pub fn connect(address: SocketAddr, group: &str) -> Peer {
        Peer {
            raw: Raw::connect(address),
            group: group.to_owned(),
            id: String::new(),
            instance: None,
            generation: -1,
            leader: String::new(),
            session_ms: FOR_EVER_MS,
            rebalance_ms: FOR_EVER_MS,
            topics: vec!["t".to_owned()],
        }
    }

    pub fn timeouts(mut self, session_ms: i32, rebalance_ms: i32) -> Peer {
        (self.session_ms, self.rebalance_ms) = (session_ms, rebalance_ms);
        self
    }

    /// A static member.
    pub fn instance(mut self, instance: &str) -> Peer {
        self.instance = Some(instance.to_owned());
        self
    }

    pub fn leads(&self) -> bool {
        self.leader == self.id
    }

    /// This member's next join, in versions from 5 on.
    pub fn join_request(&self) -> JoinGroupRequest {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        join_request(&self.group, &self.id, "consumer", subscription(&topics))
            .with_session_timeout_ms(self.session_ms)
            .with_rebalance_timeout_ms(self.rebalance_ms)
            .with_group_instance_id(self.instance.as_deref().map(string))
    }

    /// Takes the id that a dynamic member is given before it joins.
    pub fn ask_for_id(&mut self) {
        assert_eq!(self.try_for_id(), 79, "a dynamic member is told its id first");
    }

    /// Asks for the id that a dynamic member is given before it joins; the code, 79 when there is room for it.
    pub fn try_for_id(&mut self) -> i16 {
        let answer = self.raw.call(JOIN, &self.join_request());
        if answer.error_code == 79 {
            self.id = answer.member_id.to_string();
        }
        answer.error_code
    }

    /// Sends a join, with an id unless it is static; what to receive it by.
    pub fn send_join(&mut self) -> i32 {
        if self.id.is_empty() && self.instance.is_none() {
            self.ask_for_id();
        }
        self.raw.send(JOIN, &self.join_request())
    }

    /// The answer to a join; where that is a success this is a member by it from now on.
    pub fn receive_join(&mut self, sent: i32) -> JoinGroupResponse {
        let answer = self.raw.receive::<JoinGroupRequest>(JOIN, sent);
        if answer.error_code == 0 {
            self.id = answer.member_id.to_string();
            self.generation = answer.generation_id;
            self.leader = answer.leader.to_string();
        }
        answer
    }

    /// Joins, which must succeed.
    pub fn join(&mut self) -> JoinGroupResponse {
        let sent = self.send_join();
        let answer = self.receive_join(sent);
        assert_eq!(answer.error_code, 0);
        answer
    }

    pub fn sync_request(&self, assignments: &[(&str, &str)]) -> SyncGroupRequest {
        let assignment = |&(member, bytes): &(&str, &str)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(string(member))
                .with_assignment(Bytes::copy_from_slice(bytes.as_bytes()))
        };
        SyncGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(string(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(string))
            .with_protocol_type(Some(string("consumer")))
            .with_protocol_name(Some(string("range")))
            .with_assignments(assignments.iter().map(assignment).collect())
    }

    pub fn send_sync(&mut self, assignments: &[(&str, &str)]) -> i32 {
        let request = self.sync_request(assignments);
        self.raw.send(SYNC, &request)
    }

    /// Code and assignment.
    pub fn receive_sync(&mut self, sent: i32) -> (i16, Bytes) {
        let answer = self.raw.receive::<SyncGroupRequest>(SYNC, sent);
        (answer.error_code, answer.assignment)
    }

    pub fn sync(&mut self, assignments: &[(&str, &str)]) -> (i16, Bytes) {
        let sent = self.send_sync(assignments);
        self.receive_sync(sent)
    }

    /// Syncs as the only member, which takes all.
    pub fn settle_alone(&mut self) {
        settle(std::slice::from_mut(self));
    }

    pub fn heartbeat(&mut self) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_member_id(string(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(string))
            .with_generation_id(self.generation);
        self.raw.call(HEARTBEAT, &request).error_code
    }

    /// Leaves; its own code.
    pub fn leave(&mut self) -> i16 {
        let member = MemberIdentity::default()
            .with_member_id(string(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(string));
        let request = LeaveGroupRequest::default().with_group_id(group_id(&self.group)).with_members(vec![member]);
        let answer = self.raw.call(LEAVE, &request);
        assert_eq!(answer.error_code, 0);
        answer.members[0].error_code
    }

    /// Commits an offset of partition 0 as this member; its code.
    pub fn commit(&mut self, topic: &str, offset: i64) -> i16 {
        let request = commit_request(&self.group, topic, &[(0, offset)])
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(string(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(string));
        commit_codes(&mut self.raw, COMMIT, &request)[0]
    }
}

/// Makes all of them the members of one generation of a group that nobody else is in. The first leads; each
/// is assigned its own position in the list.
pub fn form(peers: &mut [Peer]) {
    rejoin(peers);
    settle(peers);
}

/// Brings all of them into the next generation; nobody has synced then. Where all are members already, the
/// first must be the leader.
pub fn rejoin(peers: &mut [Peer]) {
    if peers[0].generation < 0 {
        // Whoever founds a group does not wait for others.
        peers[0].join();
        if peers.len() == 1 {
            return;
        }
    }
    let (first, others) = peers.split_first_mut().expect("a member");
    // All ids first: an id that has not joined holds a generation back.
    for peer in others.iter_mut().filter(|peer| peer.id.is_empty() && peer.instance.is_none()) {
        peer.ask_for_id();
    }
    let mut sent = Vec::new();
    if others.iter().all(|peer| peer.generation >= 0) {
        // To a leader's join only is a follower's, which wants what it did, an answer to wait for.
        assert!(first.leads(), "the first of them leads");
        sent.push(first.send_join());
        let witness = &mut others[0];
        wait(|| state(&mut witness.raw, &witness.group) == "PreparingRebalance");
        sent.extend(others.iter_mut().map(Peer::send_join));
    } else {
        sent.extend(others.iter_mut().map(Peer::send_join));
        wait(|| members(&mut first.raw, &first.group) > others.len());
        sent.insert(0, first.send_join());
    }
    for (peer, sent) in peers.iter_mut().zip(sent) {
        assert_eq!(peer.receive_join(sent).error_code, 0);
    }
    assert!(peers.iter().all(|peer| peer.generation == peers[0].generation), "one generation");
}

/// Syncs all of them.
pub fn settle(peers: &mut [Peer]) {
    let numbers: Vec<(String, String)> =
        peers.iter().enumerate().map(|(nth, peer)| (peer.id.clone(), nth.to_string())).collect();
    let assignments: Vec<(&str, &str)> = numbers.iter().map(|(id, nth)| (&id[..], &nth[..])).collect();
    let sent: Vec<i32> = peers
        .iter_mut()
        .map(|peer| if peer.leads() { peer.send_sync(&assignments) } else { peer.send_sync(&[]) })
        .collect();
    for (nth, (peer, sent)) in peers.iter_mut().zip(sent).enumerate() {
        assert_eq!(peer.receive_sync(sent), (0, Bytes::from(nth.to_string())));
    }
}

fn wait(mut until: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + super::LIVENESS;
    while !until() {
        assert!(std::time::Instant::now() < deadline, "hung: members that come");
        std::thread::sleep(super::LOOK_AGAIN);
    }
}

/// How many members the group has, by DescribeGroups.
pub fn members(raw: &mut Raw, group: &str) -> usize {
    describe_groups(raw, 5, &[group])[0].members.len()
}
