//! Consumer groups of KIP-848: scenarios 114 to 125, and what they rest on.

use ringgate_group::request::*;
use ringgate_group::{ErrorCode, Response, StoreError, Text};

use crate::consumer_world::{Consumer, Known, assert_shared_out};
use crate::world::{GROUP, Store, World};

fn world_with(topic: &str, partitions: i32) -> (World, Known) {
    let mut world = World::with(|config| {
        config.initial_rebalance_delay = std::time::Duration::ZERO;
        config.consumer_assignment_interval = std::time::Duration::ZERO;
    });
    let mut known = Known::default();
    known.set(&mut world, topic, partitions);
    (world, known)
}

/// A group of these members at rest.
fn group(world: &mut World, members: &[&str]) -> Vec<Consumer> {
    let mut members: Vec<Consumer> = members.iter().map(|id| Consumer::new(id, &["t"])).collect();
    members.iter_mut().for_each(|member| member.join(world));
    world.come_to_rest(&mut members);
    members
}

#[test]
fn s114_the_first_member_is_at_epoch_1_with_all_partitions() {
    let (mut world, _known) = world_with("t", 3);
    let mut member = Consumer::new("m1", &["t"]);
    member.join(&mut world);
    assert_eq!((member.epoch, member.numbers()), (1, vec![0, 1, 2]));
    let group = world.consumers();
    assert_eq!((group.group_state.as_str(), group.group_epoch, group.assignment_epoch), ("Stable", 1, 1));
    assert_eq!(group.assignor_name.as_str(), "uniform");
}

#[test]
fn s115_a_second_member_gets_what_the_first_gives_back_and_not_before() {
    let (mut world, _known) = world_with("t", 4);
    let mut first = Consumer::new("m1", &["t"]);
    first.join(&mut world);
    let mut second = Consumer::new("m2", &["t"]);
    second.join(&mut world);
    assert_eq!((second.epoch, second.numbers()), (2, vec![]), "the first has everything");
    let had = first.has.clone();
    assert!(first.beat(&mut world));
    assert_eq!((first.epoch, first.has.len()), (1, 2), "its epoch moves when it has given back");
    assert!(!second.beat(&mut world), "the first has not said that it did");
    assert_eq!(world.consumers().group_state.as_str(), "Reconciling");
    assert!(!first.beat(&mut world));
    assert_eq!(first.epoch, 2);
    assert!(second.beat(&mut world));
    assert_eq!(second.has.union(&first.has), had);
    assert_eq!(world.consumers().group_state.as_str(), "Stable");
}

#[test]
fn s116_a_lost_answer_may_be_asked_for_again_and_nothing_else_may() {
    let (mut world, _known) = world_with("t", 4);
    let mut members = group(&mut world, &["m1", "m2"]);
    let before = members[0].clone();
    let third = world.beat(Consumer::new("m3", &["t"]).joining());
    assert_eq!(third.error_code, ErrorCode::NONE);
    members[0].beat(&mut world);
    members[0].beat(&mut world);
    assert!(members[0].epoch > before.epoch);
    let again = |epoch, has: &ringgate_group::PartitionSet| {
        let consumer = Consumer { epoch, has: has.clone(), ..members[0].clone() };
        consumer.owning()
    };
    assert_eq!(world.beat_error(again(before.epoch, &members[0].has)), 0, "the previous epoch with what it has");
    assert_eq!(world.beat_error(again(before.epoch, &before.has.union(&members[1].has))), 110, "with what is not its");
    assert_eq!(world.beat_error(members[0].leaving(before.epoch)), 110, "without saying what it has");
    assert_eq!(world.beat_error(again(members[0].epoch + 1, &members[0].has)), 110, "an epoch to come");
    assert_eq!(world.beat_error(again(members[0].epoch, &members[0].has)), 0);
}

#[test]
fn a_member_that_lacks_what_it_was_told_of_by_a_lost_answer_is_told_again() {
    let (mut world, _known) = world_with("t", 4);
    let mut members = group(&mut world, &["m1", "m2"]);
    let other = members.pop().expect("one of two");
    let before = members[0].clone();
    world.beat(other.leaving(-1));
    let lost = world.beat(before.beating());
    assert!(lost.member_epoch > before.epoch && lost.assignment.is_some_and(|it| it.len() == 4));
    for epoch in [before.epoch, lost.member_epoch] {
        let again = world.beat(Consumer { epoch, ..before.clone() }.owning());
        assert_eq!(again.assignment.map(|it| it.len()), Some(4));
    }
}

#[test]
fn s117_an_unknown_member_is_25_and_an_unknown_group_69() {
    let (mut world, _known) = world_with("t", 1);
    let stranger = Consumer { epoch: 3, ..Consumer::new("stranger", &["t"]) };
    assert_eq!(world.beat_error(stranger.owning()), 69);
    assert_eq!(world.beat_error(stranger.leaving(-1)), 69);
    group(&mut world, &["m1"]);
    assert_eq!(world.beat_error(stranger.owning()), 25);
    assert_eq!(world.beat_error(stranger.leaving(-1)), 25);
}

#[test]
fn s118_requests_that_cannot_be_are_refused_before_the_group_is_made() {
    let (mut world, _known) = world_with("t", 1);
    let good = Consumer::new("m1", &["t"]).joining();
    type Change = fn(&mut ConsumerGroupHeartbeatRequest);
    let bad: [(i16, Change); 13] = [
        (42, |it| it.member_id = Text::EMPTY),
        (42, |it| (it.member_id, it.api_version, it.member_epoch) = (Text::EMPTY, 0, 1)),
        (42, |it| (it.member_id, it.api_version, it.member_epoch) = (Text::EMPTY, 0, -1)),
        (42, |it| it.group_id = Text::EMPTY),
        (42, |it| it.instance_id = Some(Text::EMPTY)),
        (42, |it| it.rack_id = Some(Text::EMPTY)),
        (42, |it| it.rebalance_timeout_ms = -1),
        (42, |it| it.topic_partitions = None),
        (42, |it| it.topic_partitions = Some([(1, 0)].into_iter().collect())),
        (42, |it| it.subscribed_topic_names = None),
        (42, |it| it.member_epoch = -2),
        (42, |it| it.member_epoch = -3),
        (112, |it| it.server_assignor = Some("roundrobin".into())),
    ];
    for (n, (code, change)) in bad.into_iter().enumerate() {
        let mut request = good.clone();
        change(&mut request);
        let answer = world.beat(request);
        assert_eq!(answer.error_code.0, code, "case {n}");
        assert!(answer.error_message.is_some(), "case {n}");
    }
    assert_eq!(world.coordinator.group_count(), 0);
    let regex = ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some("a(".into()), ..good.clone() };
    assert_eq!(world.beat_error(regex), 128);
    let long = ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some("a".repeat(2_000).into()), ..good.clone() };
    assert_eq!(world.beat_error(long), 128);
    let unnamed = ConsumerGroupHeartbeatRequest { api_version: 0, member_id: Text::EMPTY, ..good.clone() };
    let answer = world.beat(unnamed);
    assert!(answer.member_id.is_some_and(|id| !id.is_empty()), "in v0 the coordinator makes the id");
    let nothing = ConsumerGroupHeartbeatRequest { subscribed_topic_names: Some(Vec::new()), ..good };
    assert_eq!(world.beat(nothing).assignment.map(|it| it.len()), Some(0), "no topics at all are fine");
}

#[test]
fn s119_the_assignment_is_told_when_it_changes_and_when_everything_is_asked_for() {
    let (mut world, _known) = world_with("t", 2);
    let mut members = group(&mut world, &["m1"]);
    assert_eq!(world.beat(members[0].owning()).assignment, None);
    let full = ConsumerGroupHeartbeatRequest {
        member_epoch: members[0].epoch,
        topic_partitions: Some(members[0].has.clone()),
        ..members[0].joining()
    };
    assert_eq!(world.beat(full).assignment.as_ref(), Some(&members[0].has));
    let writes = world.writes;
    assert!(!members[0].beat(&mut world));
    assert_eq!(world.writes, writes, "a heartbeat that changes nothing is not kept");
}

#[test]
fn s120_a_static_member_comes_back_to_what_it_had_and_only_after_it_said_that_it_goes() {
    let (mut world, _known) = world_with("t", 4);
    let mut members: Vec<Consumer> = ["a", "b"]
        .map(|id| Consumer { instance: Some(format!("instance-{id}").into()), ..Consumer::new(id, &["t"]) })
        .to_vec();
    members.iter_mut().for_each(|member| member.join(&mut world));
    world.come_to_rest(&mut members);
    let epoch = world.consumers().group_epoch;
    let mut back = Consumer { member_id: "a-again".into(), ..members[0].clone() };
    assert_eq!(world.beat_error(back.joining()), 111, "UNRELEASED_INSTANCE_ID");
    let answer = world.beat(members[0].leaving(-2));
    assert_eq!((answer.error_code.0, answer.member_epoch), (0, -2));
    assert_eq!(world.consumers().group_state.as_str(), "Reconciling", "it is away, not gone");
    back.join(&mut world);
    assert_eq!((back.epoch, &back.has), (members[0].epoch, &members[0].has));
    assert_eq!(world.consumers().group_epoch, epoch, "the others need not know");
    assert_eq!(world.beat_error(members[0].owning()), 82, "its old id is fenced");
    assert_eq!(world.beat_error(Consumer { instance: Some("instance-c".into()), ..back.clone() }.owning()), 25);

    world.beat(back.leaving(-2));
    world.advance(44_000);
    members[1].beat(&mut world);
    world.advance(2_000);
    assert_eq!(world.consumers().members.len(), 1, "who is away longer than the session is gone");
}

#[test]
fn s120_a_static_member_of_version_0_that_comes_back_without_an_id_is_given_one() {
    let (mut world, _known) = world_with("t", 2);
    let mut member = Consumer { instance: Some("i".into()), ..Consumer::new("", &["t"]) };
    for restart in 0..2 {
        let joining = ConsumerGroupHeartbeatRequest { api_version: 0, ..member.joining() };
        let answer = world.beat(joining);
        member.member_id = answer.member_id.expect("a member id");
        (member.epoch, member.has) = (answer.member_epoch, answer.assignment.expect("an assignment"));
        assert!(!member.member_id.is_empty(), "restart {restart}");
        member.beat(&mut world);
        assert_eq!(member.numbers(), [0, 1]);
        world.beat(member.leaving(-2));
        member = Consumer { instance: member.instance, ..Consumer::new("", &["t"]) };
    }
}

#[test]
fn a_static_member_that_comes_back_while_targets_are_made_elsewhere_is_not_left_out() {
    let partitions = 600;
    let (mut world, _known) = world_with("t", partitions);
    let of = |id: &str| Consumer { instance: Some(format!("instance-{id}").into()), ..Consumer::new(id, &["t"]) };
    let mut members = vec![of("a"), of("b")];
    members.iter_mut().for_each(|member| member.join(&mut world));
    world.come_to_rest(&mut members);
    world.assigns_later = true;
    members.push(of("c"));
    members[2].join(&mut world);
    world.beat(members[0].leaving(-2));
    members[0].member_id = "a-again".into();
    members[0].join(&mut world);
    world.assign();
    world.come_to_rest(&mut members);
    assert_shared_out(&members, partitions);
}

#[test]
fn a_static_member_that_says_that_it_comes_back_has_its_session_for_it_whatever_it_had_to_give_back() {
    let (mut world, _known) = world_with("t", 4);
    let mut member = Consumer { instance: Some("i".into()), ..Consumer::new("slow", &["t"]) };
    let joining = ConsumerGroupHeartbeatRequest { rebalance_timeout_ms: 5_000, ..member.joining() };
    let answer = world.beat(joining);
    (member.epoch, member.has) = (answer.member_epoch, answer.assignment.expect("an assignment"));
    let mut second = Consumer::new("m2", &["t"]);
    second.join(&mut world);
    assert!(member.beat(&mut world), "it is told to give back");
    world.beat(member.leaving(-2));
    for _ in 0..4 {
        world.advance(10_000);
        second.beat(&mut world);
    }
    assert_eq!(world.consumers().members.len(), 2);
    member.member_id = "again".into();
    member.join(&mut world);
}

#[test]
fn s121_who_does_not_give_back_within_its_rebalance_timeout_is_removed() {
    let (mut world, _known) = world_with("t", 4);
    let mut slow = Consumer::new("slow", &["t"]);
    slow.join(&mut world);
    let mut second = Consumer::new("m2", &["t"]);
    second.join(&mut world);
    assert!(slow.beat(&mut world), "it is told to give back");
    let epoch = world.consumers().group_epoch;
    for _ in 0..7 {
        world.advance(10_000);
        // It lives, and says nothing of what it has.
        world.beat(slow.beating());
        second.beat(&mut world);
    }
    assert_eq!(world.consumers().group_epoch, epoch + 1);
    assert_eq!(world.beat_error(slow.owning()), 25);
    second.beat(&mut world);
    assert_shared_out(&[second], 4);
}

#[test]
fn s122_commits_and_fetches_need_the_members_epoch() {
    let (mut world, _known) = world_with("t", 2);
    let members = group(&mut world, &["m1"]);
    let commit = |version, member: &Text, epoch| {
        let partition = CommitPartition { committed_offset: 5, committed_leader_epoch: -1, ..Default::default() };
        OffsetCommitRequest {
            api_version: version,
            group_id: GROUP.into(),
            generation_id_or_member_epoch: epoch,
            member_id: member.clone(),
            topics: vec![CommitTopic { name: "t".into(), topic_id: 1, partitions: vec![partition] }],
            ..Default::default()
        }
    };
    let (id, epoch) = (&members[0].member_id, members[0].epoch);
    assert_eq!(world.commit(commit(9, id, epoch)).0, 0);
    assert_eq!(world.commit(commit(9, id, epoch + 1)).0, 113, "STALE_MEMBER_EPOCH");
    assert_eq!(world.commit(commit(9, id, epoch - 1)).0, 113);
    assert_eq!(world.commit(commit(8, id, epoch)).0, 35);
    assert_eq!(world.commit(commit(9, &"stranger".into(), epoch)).0, 25);
    assert_eq!(world.commit(commit(9, &Text::EMPTY, -1)).0, 25, "an administrator has to wait until nobody is there");

    let mut fetch = |member: Option<&str>, epoch| {
        let request = OffsetFetchRequest {
            group_id: GROUP.into(),
            member_id: member.map(Text::from),
            member_epoch: epoch,
            ..Default::default()
        };
        let token = world.ask(1, ringgate_group::Request::OffsetFetch(request));
        match world.answer(token) {
            Response::OffsetFetch(response) => response.error_code.0,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fetch(None, -1), 0);
    assert_eq!(fetch(Some("m1"), epoch), 0);
    assert_eq!(fetch(Some("m1"), epoch + 1), 113);
    assert_eq!(fetch(Some(""), epoch), 25);
    world.beat(members[0].leaving(-1));
    assert_eq!(world.commit(commit(9, &Text::EMPTY, -1)).0, 0);
}

#[test]
fn what_was_read_before_the_epoch_moved_on_may_still_be_committed() {
    // KIP-1251: the epoch is an old one, the partitions were its own already then.
    let (mut world, mut known) = world_with("t", 2);
    let mut members = group(&mut world, &["m1"]);
    let before = members[0].epoch;
    known.set(&mut world, "t", 3);
    world.come_to_rest(&mut members);
    assert!(members[0].epoch > before);
    let mut commit = |partition, epoch| {
        let partition = CommitPartition { partition_index: partition, committed_offset: 5, ..Default::default() };
        world.commit(OffsetCommitRequest {
            api_version: 9,
            group_id: GROUP.into(),
            generation_id_or_member_epoch: epoch,
            member_id: "m1".into(),
            topics: vec![CommitTopic { name: "t".into(), topic_id: 1, partitions: vec![partition] }],
            ..Default::default()
        })
    };
    assert_eq!(commit(0, before).0, 0);
    assert_eq!(commit(2, before).0, 113, "it got this one later");
    assert_eq!(commit(2, before + 1).0, 0);
    assert_eq!(commit(0, before - 1).0, 113, "it had nothing then");
}

#[test]
fn s123_a_topic_that_grows_comes_or_goes_raises_the_epoch_with_the_next_heartbeat() {
    let (mut world, mut known) = world_with("t", 2);
    let mut members = group(&mut world, &["m1", "m2"]);
    let epoch = world.consumers().group_epoch;
    known.set(&mut world, "t", 6);
    assert_eq!(world.consumers().group_epoch, epoch, "nobody has come by");
    world.come_to_rest(&mut members);
    assert_eq!(world.consumers().group_epoch, epoch + 1);
    assert_shared_out(&members, 6);
    known.set(&mut world, "another", 3);
    world.come_to_rest(&mut members);
    assert_eq!(world.consumers().group_epoch, epoch + 1, "nobody subscribes to it");
    known.delete(&mut world, "t");
    world.come_to_rest(&mut members);
    assert_eq!(world.consumers().group_epoch, epoch + 2);
    assert!(members.iter().all(|member| member.has.is_empty()));
}

#[test]
fn s124_a_pattern_names_the_topics_that_there_are_and_those_that_come() {
    let (mut world, mut known) = world_with("orders-eu", 2);
    known.set(&mut world, "orders-us", 1);
    known.set(&mut world, "my-orders-eu", 5);
    let mut member = Consumer { names: None, regex: Some("orders-.*".into()), ..Consumer::new("m1", &[]) };
    member.join(&mut world);
    let mut members = [member];
    world.come_to_rest(&mut members);
    assert_eq!(members[0].has.len(), 3, "the whole name has to match");
    known.set(&mut world, "orders-asia", 4);
    world.advance(10_000);
    world.come_to_rest(&mut members);
    assert_eq!(members[0].has.len(), 7);

    let epoch = world.consumers().group_epoch;
    world.restart();
    known.tell(&mut world);
    world.come_to_rest(&mut members);
    assert_eq!((world.consumers().group_epoch, members[0].has.len()), (epoch, 7), "a restart changes nothing");

    members[0].regex = Some(Text::EMPTY);
    members[0].names = Some(vec!["my-orders-eu".into()]);
    let answer = world.beat(ConsumerGroupHeartbeatRequest {
        subscribed_topic_regex: Some(Text::EMPTY),
        subscribed_topic_names: members[0].names.clone(),
        ..members[0].owning()
    });
    assert_eq!(answer.error_code.0, 0);
    members[0].has = answer.assignment.expect("all else goes");
    world.come_to_rest(&mut members);
    assert_eq!(members[0].has.len(), 5);
}

#[test]
fn s125_who_leaves_raises_the_epoch_and_the_last_leaves_the_group_empty() {
    let (mut world, _known) = world_with("t", 4);
    let mut members = group(&mut world, &["m1", "m2"]);
    let epoch = world.consumers().group_epoch;
    let answer = world.beat(members[1].leaving(-1));
    assert_eq!((answer.error_code.0, answer.member_epoch), (0, -1));
    members.truncate(1);
    world.come_to_rest(&mut members);
    assert_eq!(world.consumers().group_epoch, epoch + 1);
    assert_shared_out(&members, 4);
    let delete = |world: &mut World| {
        let request = DeleteGroupRequest { group_id: GROUP.into() };
        let token = world.ask(1, ringgate_group::Request::DeleteGroup(request));
        match world.answer(token) {
            Response::DeleteGroup(error) => error.0,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(delete(&mut world), 68);
    world.beat(members[0].leaving(-1));
    assert_eq!(world.consumers().group_state.as_str(), "Empty");
    assert_eq!(delete(&mut world), 0);
    assert_eq!(world.consumers().error_code.0, 69);
    assert_eq!((world.totals.members(), world.totals.bytes(), world.kept.len()), (0, 0, 0));
}

#[test]
fn a_silent_member_is_given_up_after_the_session_timeout() {
    let (mut world, _known) = world_with("t", 4);
    let mut members = group(&mut world, &["m1", "m2"]);
    world.advance(40_000);
    members[0].beat(&mut world);
    world.advance(10_000);
    assert_eq!(world.beat_error(members[1].owning()), 25);
    members.truncate(1);
    world.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
}

#[test]
fn a_member_that_was_fenced_starts_over_with_its_id_and_gets_its_partitions_back() {
    let (mut world, _known) = world_with("t", 4);
    let mut members = group(&mut world, &["m1", "m2"]);
    let mut again = Consumer { has: Default::default(), ..members[0].clone() };
    again.join(&mut world);
    assert_eq!((again.epoch, &again.has), (members[0].epoch, &members[0].has));
    members[0] = again;
    world.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
}

#[test]
fn a_restart_is_invisible_to_a_group_at_rest_and_to_one_that_is_on_its_way() {
    let (mut world, mut known) = world_with("t", 6);
    let mut members = group(&mut world, &["m1", "m2"]);
    let before = world.consumers();
    world.restart();
    known.tell(&mut world);
    assert_eq!(world.consumers(), before);
    assert!(members.iter_mut().all(|member| !member.beat(&mut world)));

    let mut third = Consumer::new("m3", &["t"]);
    third.join(&mut world);
    members.push(third);
    members[0].beat(&mut world);
    world.restart();
    known.tell(&mut world);
    world.come_to_rest(&mut members);
    assert_shared_out(&members, 6);
    world.restart();
    known.tell(&mut world);
    world.advance(50_000);
    assert_eq!(world.consumers().group_state.as_str(), "Empty", "sessions go on after a restart");
}

#[test]
fn nobody_is_told_of_a_change_before_it_is_kept() {
    let (mut world, _known) = world_with("t", 4);
    world.store = Store::Waits;
    let member = Consumer::new("m1", &["t"]);
    let token = world.ask(1, ringgate_group::Request::ConsumerGroupHeartbeat(Box::new(member.joining())));
    world.parked(token);
    world.complete_all(Err(StoreError::Unavailable));
    match world.answer(token) {
        Response::ConsumerGroupHeartbeat(answer) => assert_eq!(answer.error_code.0, 15),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_administrator_who_removes_a_member_is_answered_when_that_is_kept() {
    let (mut world, _known) = world_with("t", 4);
    let members = group(&mut world, &["m1", "m2"]);
    let leaving = |member: &Consumer| LeavingMember { member_id: member.member_id.clone(), group_instance_id: None };
    let request = LeaveGroupRequest { api_version: 5, group_id: GROUP.into(), members: vec![leaving(&members[1])] };
    world.store = Store::Waits;
    let token = world.ask(1, ringgate_group::Request::Leave(request));
    world.parked(token);
    world.complete_all(Ok(()));
    match world.answer(token) {
        Response::Leave(answer) => assert_eq!(answer.members[0].error_code.0, 0),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.beat_error(members[1].owning()), 25);
}

#[test]
fn what_a_member_no_longer_subscribes_to_goes_with_the_heartbeat_that_says_so() {
    let mut world = World::with(|config| config.consumer_assignment_interval = std::time::Duration::from_secs(600));
    let mut known = Known::default();
    known.set(&mut world, "t", 2);
    known.set(&mut world, "u", 2);
    let mut member = Consumer::new("m1", &["t", "u"]);
    member.join(&mut world);
    assert_eq!((member.epoch, member.has.len()), (1, 4));
    let only_t = member.has.iter().filter(|(topic, _)| *topic == 1).collect();

    let asked = ConsumerGroupHeartbeatRequest { subscribed_topic_names: Some(vec!["t".into()]), ..member.beating() };
    let answer = world.beat(asked.clone());
    assert_eq!((answer.member_epoch, answer.assignment.as_ref()), (1, Some(&only_t)), "long before the next targets");
    let group = world.consumers();
    assert_eq!((group.group_epoch, group.assignment_epoch, group.group_state.as_str()), (2, 1, "Assigning"));
    assert_eq!(world.beat(asked).assignment, None, "it was told");
    member.has = only_t;
    assert!(!member.beat(&mut world), "given back, and the old target does not bring it back");
    assert_eq!((member.epoch, world.consumers().members[0].assignment.len()), (1, 2));

    // A pattern whose topics are not known takes nothing away.
    let asked = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: Some(Vec::new()),
        subscribed_topic_regex: Some("u|t".into()),
        ..member.beating()
    };
    assert_eq!(world.beat(asked).assignment, None);
}

#[test]
fn assignments_are_made_no_more_often_than_the_interval_allows() {
    let mut world = World::new();
    let mut known = Known::default();
    known.set(&mut world, "t", 4);
    let mut first = Consumer::new("m1", &["t"]);
    first.join(&mut world);
    assert_eq!(first.has.len(), 4, "the first of all is made at once");
    let mut second = Consumer::new("m2", &["t"]);
    second.join(&mut world);
    let group = world.consumers();
    assert_eq!((group.group_state.as_str(), group.group_epoch, group.assignment_epoch), ("Assigning", 2, 1));
    assert_eq!((second.epoch, second.has.len()), (1, 0));
    let mut members = [first, second];
    world.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
}

#[test]
fn a_large_group_is_assigned_elsewhere_and_comes_to_rest_all_the_same() {
    let (mut world, _known) = world_with("t", 700);
    let mut members: Vec<Consumer> = (0..40).map(|n| Consumer::new(&format!("m{n}"), &["t"])).collect();
    members.iter_mut().for_each(|member| member.join(&mut world));
    world.come_to_rest(&mut members);
    assert_shared_out(&members, 700);
    let (least, most) = (members.iter().map(|m| m.has.len()).min(), members.iter().map(|m| m.has.len()).max());
    assert_eq!((least, most), (Some(17), Some(18)));
}

#[test]
fn the_assignor_that_most_members_want_is_used() {
    let (mut world, _known) = world_with("t", 4);
    let mut members: Vec<Consumer> = ["m1", "m2"].map(|id| Consumer::new(id, &["t"])).to_vec();
    members[0].assignor = Some("range".into());
    members.iter_mut().for_each(|member| member.join(&mut world));
    assert_eq!(world.consumers().assignor_name.as_str(), "range");
    world.come_to_rest(&mut members);
    assert_eq!((members[0].numbers(), members[1].numbers()), (vec![0, 1], vec![2, 3]));

    let epoch = world.consumers().group_epoch;
    let asks = |member: &Consumer, assignor: &str| ConsumerGroupHeartbeatRequest {
        server_assignor: Some(assignor.into()),
        ..member.owning()
    };
    assert_eq!(world.beat_error(asks(&members[1], "range")), 0);
    assert_eq!(world.consumers().group_epoch, epoch, "the group has that assignor already");
    members.iter().for_each(|member| assert_eq!(world.beat_error(asks(member, "uniform")), 0));
    assert_eq!((world.consumers().group_epoch, world.consumers().assignor_name.as_str()), (epoch + 1, "uniform"));
}

#[test]
fn an_empty_group_changes_its_kind_with_who_comes_and_keeps_its_offsets() {
    let (mut world, mut known) = world_with("t", 2);
    let mut members = group(&mut world, &["m1"]);
    let commit = OffsetCommitRequest {
        api_version: 9,
        group_id: GROUP.into(),
        generation_id_or_member_epoch: members[0].epoch,
        member_id: "m1".into(),
        topics: vec![CommitTopic {
            name: "t".into(),
            topic_id: 0,
            partitions: vec![CommitPartition { committed_offset: 7, ..Default::default() }],
        }],
        ..Default::default()
    };
    assert_eq!(world.commit(commit).0, 0);
    assert_eq!(world.describe().group_state.as_str(), "Dead", "DescribeGroups knows classic groups only");
    world.beat(members[0].leaving(-1));

    let mut classic = [crate::world::Client::new(1)];
    world.form(&mut classic);
    world.settle(&classic);
    assert_eq!((world.describe().group_state.as_str(), world.consumers().error_code.0), ("Stable", 69));
    assert_eq!(world.beat_error(members[0].owning()), 69, "it was a member of another group");
    world.restart();
    known.tell(&mut world);
    assert_eq!(world.describe().group_state.as_str(), "Stable");
    assert_eq!(world.offset(), 7);
    world.leave(vec![LeavingMember { member_id: classic[0].member_id.clone(), group_instance_id: None }]);

    members[0].has = Default::default();
    members[0].join(&mut world);
    assert_eq!((members[0].epoch, world.offset()), (1, 7));
    world.restart();
    known.tell(&mut world);
    assert_eq!(world.consumers().members.len(), 1);
}

#[test]
fn a_member_id_is_one_members_whatever_instance_a_client_names_with_it() {
    let (mut world, _known) = world_with("t", 4);
    let mut away = Consumer { instance: Some("i".into()), ..Consumer::new("m3", &["t"]) };
    let mut members = group(&mut world, &["m1", "m2"]);
    away.join(&mut world);
    members.push(away.clone());
    world.come_to_rest(&mut members);
    assert_eq!(world.beat_error(away.leaving(-2)), 0);
    // As a new static member, and as the one that is away.
    for instance in ["new", "i"] {
        let twice = Consumer { instance: Some(instance.into()), ..Consumer::new("m1", &["t"]) };
        assert_eq!(world.beat_error(twice.joining()), 42);
    }
    assert_eq!((world.consumers().members.len(), world.totals.members()), (3, 3));
    // Under its own id the one that is away comes back, and the others were not disturbed.
    away.join(&mut world);
    members[2] = away;
    world.come_to_rest(&mut members);
    assert_shared_out(&members, 4);
}

#[test]
fn a_member_that_wishes_for_more_than_the_gateway_has_room_for_is_told_15_and_stays_as_it_is() {
    let mut world = World::with(|config| {
        config.max_group_memory = 16_384;
        config.consumer_assignment_interval = std::time::Duration::ZERO;
    });
    let mut known = Known::default();
    known.set(&mut world, "t", 1);
    let mut members = [Consumer::new("m1", &["t"])];
    members[0].join(&mut world);
    world.come_to_rest(&mut members);
    let (before, bytes) = (world.consumers(), world.totals.bytes());
    let names = (0..1_000).map(|n| ringgate_group::Text::from(format!("topic-{n}"))).collect();
    let request = ConsumerGroupHeartbeatRequest { subscribed_topic_names: Some(names), ..members[0].owning() };
    assert_eq!(world.beat_error(request), 15);
    assert_eq!((world.consumers(), world.totals.bytes()), (before, bytes));
    assert_eq!(world.coordinator.limits_hit().of(ringgate_group::limits::Limit::GroupMemory), 1);
    assert!(!members[0].beat(&mut world), "it goes on");
}
