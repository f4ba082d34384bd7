//! What members of consumer groups (KIP-848) are told while the store is slow, fails, or dies, and what they get
//! when their patterns become known late.

use ringgate_group::request::*;
use ringgate_group::response::*;
use ringgate_group::{ErrorCode, Record, Request, Response, StoreError};

use crate::consumer_world::{Consumer, Known, assert_shared_out};
use crate::world::{Client, GROUP, Store, World};

fn world() -> (World, Known) {
    let mut w = World::with(|config| {
        config.initial_rebalance_delay = std::time::Duration::ZERO;
        config.consumer_assignment_interval = std::time::Duration::ZERO;
    });
    let mut known = Known::default();
    known.set(&mut w, "t", 4);
    (w, known)
}

fn told(response: Response) -> ConsumerGroupHeartbeatResponse {
    match response {
        Response::ConsumerGroupHeartbeat(response) => response,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_waits_for_what_an_earlier_step_changed() {
    let (mut w, _) = world();
    let member = Consumer::new("m", &["t"]);
    w.store = Store::Waits;
    let request = || Request::ConsumerGroupHeartbeat(Box::new(member.joining()));
    let first = w.ask(1, request());
    // The same again changes nothing, and would tell of partitions that nobody has kept yet.
    let second = w.ask(1, request());
    w.parked(first);
    w.parked(second);
    w.complete_all(Ok(()));
    assert_eq!(told(w.answer(first)).assignment.map(|it| it.len()), Some(4));
    assert_eq!(told(w.answer(second)).assignment.map(|it| it.len()), Some(4));
}

#[test]
fn what_a_failed_write_held_goes_with_the_next_and_nothing_is_told_of_it_before() {
    let (mut w, mut known) = world();
    let mut member = Consumer::new("m", &["t"]);
    w.store = Store::Waits;
    let first = w.ask(1, Request::ConsumerGroupHeartbeat(Box::new(member.joining())));
    let second = w.ask(1, Request::ConsumerGroupHeartbeat(Box::new(member.joining())));
    w.complete(Err(StoreError::Unavailable));
    w.carry_out();
    w.complete(Ok(()));
    w.carry_out();
    for token in [first, second] {
        assert_eq!(told(w.answer(token)).error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    }
    w.store = Store::Keeps;
    member.join(&mut w);
    assert_eq!(member.numbers(), [0, 1, 2, 3]);
    // What it was told is what is there after the process has died.
    w.restart();
    known.tell(&mut w);
    assert!(!member.beat(&mut w));
    assert_eq!(w.consumers().members.len(), 1);
}

#[test]
fn a_group_is_not_deleted_before_the_end_of_its_members_is_kept() {
    let (mut w, mut known) = world();
    let mut member = Consumer::new("m", &["t"]);
    member.join(&mut w);
    w.store = Store::Fails(StoreError::Unavailable);
    assert_eq!(w.beat_error(member.leaving(-1)), ErrorCode::COORDINATOR_NOT_AVAILABLE.0);
    let delete = || Request::DeleteGroup(DeleteGroupRequest { group_id: GROUP.into() });
    let token = w.ask(2, delete());
    assert!(matches!(w.answer(token), Response::DeleteGroup(ErrorCode::COORDINATOR_NOT_AVAILABLE)));
    w.store = Store::Keeps;
    // What was left over is written by this one, and the group by the next.
    let tokens = [w.ask(2, delete()), w.ask(2, delete())];
    assert!(matches!(w.answer(tokens[1]), Response::DeleteGroup(ErrorCode::NONE)));
    assert!(w.kept.is_empty(), "{:?}", w.kept);
    w.restart();
    known.tell(&mut w);
    assert_eq!(w.coordinator.member_count(), 0);
}

#[test]
fn a_refused_heartbeat_makes_no_consumer_group_of_a_classic_one() {
    let (mut w, _) = world();
    let mut client = [Client::new(1)];
    w.form(&mut client);
    w.settle(&client);
    w.leave(vec![client[0].leaving()]);
    let before = client[0].generation;
    let mut member = Consumer::new("m", &[]);
    member.regex = Some("(".into());
    assert_eq!(w.beat_error(member.joining()), ErrorCode::INVALID_REGULAR_EXPRESSION.0);
    let mut again = [Client::new(1)];
    w.form(&mut again);
    assert!(again[0].generation > before, "the group goes on from where it was");
}

#[test]
fn the_old_record_of_a_static_member_that_came_back_ends_at_the_next_start() {
    let (mut w, mut known) = world();
    let mut member = Consumer { instance: Some("i".into()), ..Consumer::new("old", &["t"]) };
    member.join(&mut w);
    w.beat(member.leaving(-2));
    let away: Vec<_> = w.kept.iter().map(|(key, record)| (key.clone(), record.clone())).collect();
    member.member_id = "new".into();
    member.join(&mut w);
    // The tombstone of the old id is what the store has lost.
    for (key, record) in away {
        w.kept.entry(key).or_insert(record);
    }
    w.restart();
    known.tell(&mut w);
    assert_eq!(w.consumers().members.len(), 1);
    member.beat(&mut w);
    assert_eq!(w.consumers().members[0].member_id, "new");
    let of_old =
        |record: &&Record| matches!(record, Record::ConsumerMember { member, .. } if member.member_id == "old");
    assert_eq!(w.kept.values().find(of_old), None);
}

fn with_pattern(member_id: &str, pattern: &str) -> Consumer {
    Consumer { regex: Some(pattern.into()), ..Consumer::new(member_id, &[]) }
}

#[test]
fn a_pattern_that_names_what_others_have_gets_its_share() {
    let (mut w, _) = world();
    let mut members = vec![with_pattern("a", "t.*")];
    members[0].join(&mut w);
    w.come_to_rest(&mut members);
    let mut second = with_pattern("b", "t|u");
    second.join(&mut w);
    members.push(second);
    w.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
    assert_eq!(members[1].numbers().len(), 2);
}

#[test]
fn a_static_member_with_a_pattern_comes_back_to_what_it_had() {
    let (mut w, _) = world();
    let mut other = Consumer::new("other", &["t"]);
    other.join(&mut w);
    let mut members = vec![Consumer { instance: Some("i".into()), ..with_pattern("old", "t.*") }];
    members[0].join(&mut w);
    w.beat(members[0].leaving(-2));
    // The group's epoch moves on while it is away.
    w.beat(other.leaving(-1));
    members[0].member_id = "new".into();
    members[0].has = Default::default();
    members[0].join(&mut w);
    w.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
}

#[test]
fn what_a_member_had_that_left_in_a_write_that_was_cut_off_is_shared_out_after_a_start() {
    let (mut w, mut known) = world();
    let mut members = vec![Consumer::new("a", &["t"]), Consumer::new("b", &["t"])];
    members.iter_mut().for_each(|member| member.join(&mut w));
    w.come_to_rest(&mut members);
    let before = w.consumers().group_epoch;
    // The process dies when the member's tombstone is kept and the group's record is not.
    let gone = members.pop().expect("one of two");
    let tombstone = Record::ConsumerMemberTombstone { group_id: GROUP.into(), member_id: gone.member_id };
    assert!(w.kept.remove(&tombstone.key()).is_some());
    w.restart();
    known.tell(&mut w);
    w.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
    assert_eq!(w.consumers().group_epoch, before + 1);
}

#[test]
fn a_target_of_a_write_that_was_cut_off_is_made_anew_after_a_start() {
    let (mut w, mut known) = world();
    let mut members = vec![Consumer { instance: Some("i".into()), ..Consumer::new("a", &["t"]) }];
    members[0].join(&mut w);
    w.come_to_rest(&mut members);
    let before = w.kept.clone();
    // Another comes and dies with the process, of whose write only the first member's smaller target is kept.
    Consumer::new("b", &["t"]).join(&mut w);
    let is_first = |record: &Record| matches!(record, Record::ConsumerMember { member, .. } if member.member_id == "a");
    w.kept.retain(|_, record| is_first(record));
    for (key, record) in before {
        w.kept.entry(key).or_insert(record);
    }
    w.restart();
    known.tell(&mut w);
    // One that comes back begins with its target.
    w.beat(members[0].leaving(-2));
    members[0] = Consumer { member_id: "c".into(), has: Default::default(), ..members[0].clone() };
    members[0].join(&mut w);
    w.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
}

#[test]
fn a_start_raises_no_epoch_of_a_group_that_is_kept_whole() {
    let (mut w, mut known) = world();
    let static_one = Consumer { instance: Some("i".into()), ..Consumer::new("b", &["t"]) };
    let mut members = vec![Consumer::new("a", &["t"]), static_one, with_pattern("c", "t.*")];
    members.iter_mut().for_each(|member| member.join(&mut w));
    w.come_to_rest(&mut members);
    // The group need not know that a static member has another id by now.
    w.beat(members[1].leaving(-2));
    members[1].member_id = "d".into();
    members[1].join(&mut w);
    w.come_to_rest(&mut members);
    let before = w.consumers().group_epoch;
    w.restart();
    known.tell(&mut w);
    w.come_to_rest(&mut members);
    assert_eq!(w.consumers().group_epoch, before);
}
