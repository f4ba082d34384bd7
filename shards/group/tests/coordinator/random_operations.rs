//! Random days of a few clients, with a store that is slow and fails, closed connections and restarts.
//! The coordinator's own debug assertions hold throughout; here it is checked from outside.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use ringgate_group::request::*;
use ringgate_group::{ErrorCode, ReplyToken, Request, Response, StoreError, Text};

use crate::world::*;

const CLIENTS: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    Join(usize),
    JoinChanged(usize, u8),
    Restart(usize),
    Sync(usize),
    Heartbeat(usize),
    Leave(usize),
    Close(usize),
    Commit(usize),
    Delete,
    Expire,
    Advance(u16),
    Complete(bool),
    CompleteAll,
    CrashAndRestart,
    /// All do what they have to for a stable group, if nothing stands in the way.
    Form,
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        6 => client.clone().prop_map(Step::Join),
        1 => (client.clone(), 0u8..3).prop_map(|(n, how)| Step::JoinChanged(n, how)),
        1 => client.clone().prop_map(Step::Restart),
        6 => client.clone().prop_map(Step::Sync),
        3 => client.clone().prop_map(Step::Heartbeat),
        1 => client.clone().prop_map(Step::Leave),
        1 => client.clone().prop_map(Step::Close),
        3 => client.prop_map(Step::Commit),
        1 => Just(Step::Delete),
        1 => Just(Step::Expire),
        3 => (0u16..20_000).prop_map(Step::Advance),
        2 => any::<bool>().prop_map(Step::Complete),
        2 => Just(Step::CompleteAll),
        1 => Just(Step::CrashAndRestart),
        2 => Just(Step::Form),
    ]
}

/// What the clients have open, and what they were told.
struct Day {
    w: World,
    clients: Vec<Client>,
    /// Who asked, as which member and in which generation.
    open: HashMap<ReplyToken, (usize, Text, i32)>,
    leads: Vec<bool>,
    list: Vec<Text>,
    /// The last acknowledged commit, and those that may have come after it.
    acknowledged: i64,
    committing: HashMap<ReplyToken, i64>,
    next_offset: i64,
    /// The latest generation that a join was answered with in this group's life.
    generation: i32,
    /// The group may end with a write that is under way.
    expires: bool,
    /// Syncs that gave something.
    assigned: usize,
}

impl Day {
    fn new() -> Day {
        let clients: Vec<Client> = (0..CLIENTS)
            .map(|n| match n {
                0 => Client::with_instance(n as u64, "a"),
                1 => Client { join_version: 3, ..Client::new(n as u64) },
                _ => Client::new(n as u64),
            })
            .collect();
        let mut w = World::new();
        w.store = Store::Waits;
        Day {
            w,
            leads: vec![false; CLIENTS],
            clients,
            open: HashMap::new(),
            list: Vec::new(),
            acknowledged: -1,
            committing: HashMap::new(),
            next_offset: 0,
            generation: 0,
            expires: false,
            assigned: 0,
        }
    }

    fn ask(&mut self, n: usize, request: Request) {
        let token = self.w.ask(self.clients[n].connection, request);
        self.open.insert(token, (n, self.clients[n].member_id.clone(), self.clients[n].generation));
    }

    fn take_answers(&mut self) {
        let mut answered: Vec<_> = std::mem::take(&mut self.w.answers).into_iter().collect();
        answered.sort_by_key(|(token, _)| *token);
        if self.expires {
            self.generation = 0;
        }
        let (before, mut deleted) = (self.generation, self.expires);
        deleted |= answered.iter().any(|(_, answer)| matches!(answer, Response::DeleteGroup(ErrorCode::NONE)));
        for (token, response) in answered {
            let (n, asked_as, generation) = self.open.remove(&token).expect("an answer to what was asked");
            let client = &mut self.clients[n];
            match response {
                Response::Join(answer) => match answer.error_code {
                    ErrorCode::NONE => {
                        assert!(deleted || answer.generation_id >= before, "generations only grow");
                        self.generation = self.generation.max(answer.generation_id);
                        let is_stale = client.generation > answer.generation_id && client.member_id == answer.member_id;
                        if !is_stale {
                            client.takes(&answer);
                            self.leads[n] = answer.leader == answer.member_id;
                            if !answer.members.is_empty() {
                                assert!(self.leads[n]);
                                self.list = answer.members.into_iter().map(|member| member.member_id).collect();
                            }
                        }
                    }
                    ErrorCode::MEMBER_ID_REQUIRED => client.member_id = answer.member_id,
                    ErrorCode::REBALANCE_IN_PROGRESS => {}
                    _ => client.member_id = Default::default(),
                },
                Response::Sync(answer) if answer.error_code == ErrorCode::NONE && !answer.assignment.is_empty() => {
                    // What the leader of this very generation gave, to this member or to the one whose place
                    // it has taken.
                    let text = std::str::from_utf8(&answer.assignment).unwrap();
                    let (member, of) = text.split_once('!').unwrap();
                    assert_eq!(of, generation.to_string());
                    assert!(asked_as == member || client.instance.is_some());
                    self.assigned += 1;
                }
                Response::OffsetCommit(answer) => {
                    let offset = self.committing.remove(&token).expect("a commit");
                    if answer.topics[0].partitions[0].1 == ErrorCode::NONE {
                        assert!(offset > self.acknowledged);
                        self.acknowledged = offset;
                    }
                }
                Response::DeleteGroup(ErrorCode::NONE) => {
                    self.acknowledged = -1;
                    self.generation = 0;
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Join(n) => self.ask(n, Request::Join(self.clients[n].join_request())),
            Step::JoinChanged(n, how) => {
                let topics = [["t"].as_slice(), &["t", "u"], &["u"]][usize::from(how)];
                self.clients[n].protocols = vec![protocol("range", topics)];
                self.ask(n, Request::Join(self.clients[n].join_request()));
            }
            Step::Restart(n) => {
                self.clients[n].member_id = Default::default();
                self.ask(n, Request::Join(self.clients[n].join_request()));
            }
            Step::Sync(n) => {
                let given: Vec<_> = match self.leads[n] {
                    true => self
                        .list
                        .iter()
                        .map(|member| (member.clone(), format!("{member}!{}", self.clients[n].generation)))
                        .collect(),
                    false => Vec::new(),
                };
                let given: Vec<_> = given.iter().map(|(member, text)| (member, text.as_str())).collect();
                self.ask(n, Request::Sync(self.clients[n].sync_request(&given)));
            }
            Step::Heartbeat(n) => self.ask(n, Request::Heartbeat(self.clients[n].heartbeat_request())),
            Step::Leave(n) => {
                let members = vec![self.clients[n].leaving()];
                self.ask(n, Request::Leave(LeaveGroupRequest { api_version: 4, group_id: GROUP.into(), members }));
            }
            Step::Close(n) => {
                self.w.close(self.clients[n].connection);
                self.clients[n].connection += 100;
            }
            Step::Commit(n) => {
                self.next_offset += 1;
                let mut request = self.clients[n].commit_request(self.next_offset);
                if self.next_offset % 2 == 0 {
                    request = commit_request(self.next_offset);
                }
                let token = self.w.ask(self.clients[n].connection, Request::OffsetCommit(request));
                self.open.insert(token, (n, Text::EMPTY, 0));
                self.committing.insert(token, self.next_offset);
            }
            Step::Delete => self.ask(0, Request::DeleteGroup(DeleteGroupRequest { group_id: GROUP.into() })),
            Step::Expire => {
                self.expires = true;
                self.w.coordinator.handle_expiry(self.w.now);
                self.w.carry_out();
            }
            Step::Advance(ms) => self.w.advance(u64::from(ms)),
            Step::Complete(_) if self.w.waiting.is_empty() => {}
            Step::Complete(fails) => {
                self.w.complete(if fails { Err(StoreError::Unavailable) } else { Ok(()) });
                self.w.carry_out();
            }
            Step::CompleteAll => self.w.complete_all(Ok(())),
            Step::Form => {
                // Twice for those that are given an id first.
                for n in (0..CLIENTS).chain(0..CLIENTS) {
                    self.take(Step::Join(n));
                }
                self.take(Step::Advance(0));
                (0..CLIENTS).for_each(|n| self.take(Step::Sync(n)));
                self.take(Step::CompleteAll);
            }
            Step::CrashAndRestart => {
                self.open.clear();
                self.committing.clear();
                self.w.restart();
                self.generation = 0;
            }
        }
        self.take_answers();
        self.check();
    }

    fn check(&mut self) {
        assert_eq!(self.w.open, self.open.len());
        assert_eq!(self.w.coordinator.check_counts(), Ok(()));
        assert!(self.w.totals.members() >= self.w.coordinator.member_count());
        if self.w.coordinator.group_count() == 0 {
            assert_eq!((self.w.totals.members(), self.w.totals.bytes()), (0, 0));
        }
        if self.w.waiting.is_empty() {
            self.expires = false;
            assert_eq!(self.w.offset(), self.acknowledged);
        }
    }

    /// In the end everything is decided, every session is over, and nothing is left open.
    fn end(mut self) -> usize {
        self.w.store = Store::Keeps;
        self.w.complete_all(Ok(()));
        for _ in 0..20 {
            self.w.advance(100_000);
        }
        self.take_answers();
        assert_eq!((self.open.len(), self.w.open), (0, 0), "{:?}", self.open);
        assert_eq!(self.w.totals.members(), 0);
        assert!(self.w.timers.is_empty(), "{:?}", self.w.timers);
        let before = self.w.offset();
        self.w.restart();
        assert_eq!(self.w.offset(), before);
        self.assigned
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once_and_no_acknowledged_commit_is_lost(steps in prop::collection::vec(step(), 1..120)) {
        let mut day = Day::new();
        for step in steps {
            day.take(step);
        }
        day.end();
    }
}

#[test]
fn random_days_reach_assignments_often_enough_to_mean_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 60..120);
    let assigned = (0..100).filter(|_| {
        let mut day = Day::new();
        steps.new_tree(&mut runner).unwrap().current().into_iter().for_each(|step| day.take(step));
        day.end() > 0
    });
    assert!(assigned.count() > 25);
}
