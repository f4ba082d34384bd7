//! What members of consumer groups may make the gateway hold: what is refused, with what, and that all of it comes
//! back when they go.

use std::time::Duration;

use ringgate_group::limits::{Limit, NAMED_TOPIC_BYTES, PARTITION_BYTES, PATTERN_BYTES};
use ringgate_group::request::*;
use ringgate_group::{GroupConfig, Text};

use crate::consumer_world::{Consumer, Known};
use crate::world::World;

fn world_with(topics: &[(&str, i32)], bounds: impl FnOnce(&mut GroupConfig)) -> (World, Known) {
    let mut world = World::with(|config| {
        config.consumer_assignment_interval = Duration::ZERO;
        bounds(config);
    });
    let mut known = Known::default();
    for (name, partitions) in topics {
        known.set(&mut world, name, *partitions);
    }
    known.tell(&mut world);
    (world, known)
}

fn with_pattern(member_id: &str, regex: &str) -> Consumer {
    Consumer { names: None, regex: Some(regex.into()), ..Consumer::new(member_id, &[]) }
}

fn in_group(request: ConsumerGroupHeartbeatRequest, group: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest { group_id: group.into(), ..request }
}

fn hits(world: &World, limit: Limit) -> u64 {
    world.coordinator.limits_hit().of(limit)
}

#[test]
fn a_group_has_at_most_16_patterns_and_a_member_may_still_exchange_its_own() {
    let (mut world, _known) = world_with(&[("t", 1)], |_| {});
    let mut members: Vec<Consumer> = (0..16).map(|n| with_pattern(&format!("m{n}"), &format!("t{{{n}}}"))).collect();
    members.iter_mut().for_each(|member| member.join(&mut world));
    let before = (world.totals.patterns(), world.totals.members(), world.totals.bytes());
    assert_eq!(before.0, 16);
    assert_eq!(world.beat_error(with_pattern("m16", "another").joining()), 42);
    assert_eq!((world.totals.patterns(), world.totals.members(), world.totals.bytes()), before);
    assert_eq!(hits(&world, Limit::PatternsPerGroup), 1);
    assert_eq!(world.beat_error(with_pattern("m16", "t{3}").joining()), 0, "one that the group has");
    let exchange = |member: &Consumer, regex: &str| ConsumerGroupHeartbeatRequest {
        subscribed_topic_regex: Some(regex.into()),
        ..member.beating()
    };
    assert_eq!(world.beat_error(exchange(&members[3], "another")), 42, "t{{3}} stays, for the other member");
    assert_eq!(world.beat_error(exchange(&members[5], "another")), 0);
    assert_eq!(world.totals.patterns(), 16);
}

#[test]
fn a_pattern_that_is_too_large_is_counted_and_one_that_is_none_is_not() {
    let (mut world, _known) = world_with(&[("t", 1)], |_| ());
    let counted = |world: &World| world.coordinator.limits_hit().of(Limit::PatternBytes);
    assert_eq!(world.beat_error(with_pattern("m", "t(").joining()), 128);
    assert_eq!(counted(&world), 0);
    assert_eq!(world.beat_error(with_pattern("m", &"t".repeat(1_025)).joining()), 128);
    assert_eq!(world.beat_error(with_pattern("m", "(\\w{1000}){1000}").joining()), 128, "it compiles to too much");
    assert_eq!(counted(&world), 2);
}

#[test]
fn patterns_of_all_groups_are_counted_and_who_is_refused_leaves_no_group_behind() {
    let (mut world, _known) = world_with(&[("t", 1)], |config| config.max_total_patterns = 2);
    assert_eq!(world.beat_error(in_group(with_pattern("m", "t").joining(), "a")), 0);
    assert_eq!(world.beat_error(in_group(with_pattern("m", "t").joining(), "b")), 0);
    assert_eq!(world.beat_error(in_group(with_pattern("m", "t").joining(), "c")), 15);
    assert_eq!((world.totals.groups(), hits(&world, Limit::TotalPatterns)), (2, 1));
    assert_eq!(world.beat_error(in_group(with_pattern("n", "t").joining(), "a")), 0, "the same one in the same group");
    assert_eq!(world.beat_error(in_group(with_pattern("m", "t").leaving(-1), "b")), 0);
    assert_eq!(world.beat_error(in_group(with_pattern("m", "t").joining(), "c")), 0);
    assert_eq!(world.totals.patterns(), 2);
}

#[test]
fn a_pattern_that_is_none_leaves_no_group_behind() {
    let (mut world, _known) = world_with(&[("t", 1)], |_| {});
    assert_eq!(world.beat_error(with_pattern("m", "(").joining()), 128);
    assert_eq!(world.totals.groups(), 0);
}

#[test]
fn all_that_members_take_is_counted_the_same_after_a_restart_and_comes_back_when_they_go() {
    let topics = [("t", 40), ("orders-eu", 30), ("orders-us", 30)];
    let (mut world, known) = world_with(&topics, |_| {});
    let mut first = Consumer::new("m1", &["t"]);
    first.join(&mut world);
    assert_eq!(world.beat_error(first.leaving(-1)), 0);
    let empty = world.totals.bytes();

    let mut members = [
        Consumer::new("m1", &["t", "orders-eu"]),
        Consumer { instance: Some("i".into()), ..Consumer::new("m2", &["t"]) },
        with_pattern("m3", "orders-.*"),
        with_pattern("m4", "orders-.*"),
    ];
    members.iter_mut().for_each(|member| member.join(&mut world));
    world.come_to_rest(&mut members);
    world.advance(10_000);
    world.come_to_rest(&mut members);
    let taken = world.totals.bytes() - empty;
    let of_partitions = 100 * PARTITION_BYTES;
    let of_names = 2 * NAMED_TOPIC_BYTES + PATTERN_BYTES;
    assert!(taken > of_partitions + of_names, "{taken}");
    assert!(taken < of_partitions + of_names + 4 * 1_024, "each once: {taken}");

    world.restart();
    let mut known = known;
    known.tell(&mut world);
    world.come_to_rest(&mut members);
    assert_eq!(world.totals.bytes() - empty, taken);

    // A static member goes and comes back under another id.
    assert_eq!(world.beat_error(members[1].leaving(-2)), 0);
    members[1].member_id = "m2-again".into();
    members[1].join(&mut world);
    world.come_to_rest(&mut members);
    assert_eq!(world.totals.bytes() - empty, taken + "-again".len());
    for member in &members {
        assert_eq!(world.beat_error(member.leaving(-1)), 0);
    }
    assert_eq!((world.totals.bytes(), world.totals.patterns()), (empty, 0));
}

#[test]
fn who_names_topics_with_more_partitions_than_there_is_room_for_is_told_15_and_leaves_no_group_behind() {
    let (mut world, _known) = world_with(&[("t", 4), ("wide", 5_000)], |config| config.max_group_memory = 1 << 20);
    let wide = Consumer::new("m1", &["wide"]);
    assert_eq!(world.beat_error(wide.joining()), 15);
    assert_eq!((world.totals.groups(), world.totals.bytes(), hits(&world, Limit::GroupMemory)), (0, 0, 1));
    let mut members = [Consumer::new("m1", &["t"])];
    members[0].join(&mut world);
    world.come_to_rest(&mut members);
    let before = world.totals.bytes();
    let wider = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: Some(vec!["t".into(), "wide".into()]),
        ..members[0].owning()
    };
    assert_eq!(world.beat_error(wider), 15);
    assert_eq!(world.beat_error(Consumer::new("m2", &["wide"]).joining()), 15);
    assert_eq!(world.totals.bytes(), before);
    assert!(!members[0].beat(&mut world), "who is there goes on");
}

#[test]
fn a_pattern_with_more_partitions_than_there_is_room_for_gives_none_until_there_is() {
    let (mut world, mut known) = world_with(&[("t", 4), ("wide", 3_000)], |config| config.max_group_memory = 1 << 20);
    let other = in_group(Consumer::new("other", &["wide"]).joining(), "other");
    assert_eq!(world.beat_error(other.clone()), 0);
    let mut members = [with_pattern("m1", "w.*")];
    members[0].join(&mut world);
    for _ in 0..5 {
        world.advance(1_000);
        members[0].beat(&mut world);
        assert!(members[0].epoch > 0 && members[0].has.is_empty(), "{members:?}");
    }
    assert!(hits(&world, Limit::GroupMemory) > 0);
    let before = world.totals.bytes();
    assert_eq!(world.beat_error(ConsumerGroupHeartbeatRequest { member_epoch: -1, ..other }), 0);
    assert!(before - world.totals.bytes() > 3_000 * PARTITION_BYTES);
    world.come_to_rest(&mut members);
    assert_eq!(members[0].has.len(), 3_000);

    // What grows past the room stays as it is.
    known.set(&mut world, "wide", 5_000);
    world.advance(1_000);
    members[0].beat(&mut world);
    assert_eq!((members[0].has.len(), world.consumers().group_state.as_str()), (3_000, "Assigning"));
    known.set(&mut world, "wide", 3_001);
    world.come_to_rest(&mut members);
    assert_eq!(members[0].has.len(), 3_001);
}

#[test]
fn the_names_of_a_patterns_topics_are_held_once_for_all_members_and_not_at_all_without_room() {
    const TOPICS: usize = 2_000;
    let (mut world, mut known) = world_with(&[], |config| config.max_group_memory = 64 << 20);
    known.set_many(&mut world, TOPICS);
    let mut first = with_pattern("m0", ".*");
    first.join(&mut world);
    let mut members = [first];
    world.come_to_rest(&mut members);
    assert_eq!(members[0].has.len(), TOPICS);
    let one = world.totals.bytes();
    for n in 1..50 {
        with_pattern(&format!("m{n}"), ".*").join(&mut world);
    }
    assert!(world.totals.bytes() - one < 50 * 1_024, "another member adds nothing of the topics");
    let of_names = |pattern: usize| TOPICS * pattern;
    assert!(one > TOPICS * PARTITION_BYTES + of_names("topic-000000".len()), "{one}");
    assert!(one < TOPICS * (PARTITION_BYTES + 32), "{one}");

    let (mut world, mut known) = world_with(&[], |config| config.max_group_memory = 32 << 10);
    known.set_many(&mut world, TOPICS);
    let mut member = with_pattern("m0", ".*");
    member.join(&mut world);
    let held = world.totals.bytes();
    assert!(held < 4_096, "{held}");
    for _ in 0..20 {
        world.advance(1_000);
        member.beat(&mut world);
        assert_eq!((member.has.len(), world.totals.bytes()), (0, held));
    }
    assert!(hits(&world, Limit::GroupMemory) > 10, "it is looked for again");
    // Others go on, and the pattern does as soon as there is room.
    assert_eq!(world.beat_error(in_group(Consumer::new("m", &["topic-000007"]).joining(), "other")), 0);
    known.set_many(&mut world, 80);
    let mut members = [member];
    world.advance(10_000);
    world.come_to_rest(&mut members);
    assert_eq!(members[0].has.len(), 80);
}

#[test]
fn names_that_all_members_share_are_held_once() {
    let (mut world, _known) = world_with(&[], |_| {});
    let names: Vec<String> = (0..1_000).map(|n| format!("a-topic-that-is-not-there-{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Consumer::new("m0", &names).join(&mut world);
    let one = world.totals.bytes();
    assert!(one > 1_000 * (NAMED_TOPIC_BYTES + names[0].len()));
    Consumer::new("m1", &names).join(&mut world);
    let more = world.totals.bytes() - one;
    assert!(more < 1_000 * size_of::<Text>() + 1_024, "{more}");
}

#[test]
fn a_full_group_says_so_first_and_who_is_not_a_member_hears_that_before_what_is_wrong_with_its_pattern() {
    let (mut world, _known) = world_with(&[("t", 1)], |config| config.max_members_per_group = 2);
    Consumer::new("m1", &["t"]).join(&mut world);
    let unknown = Consumer { epoch: 3, ..Consumer::new("m9", &["t"]) };
    let with_none = |request| ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some("(".into()), ..request };
    assert_eq!(world.beat_error(with_none(unknown.beating())), 25);
    let mut fixed = Consumer { instance: Some("i".into()), ..Consumer::new("m2", &["t"]) };
    fixed.join(&mut world);
    assert_eq!(world.beat_error(unknown.beating()), 81);
    assert_eq!(world.beat_error(with_none(unknown.joining())), 81);
    // A static member that comes back is in the group.
    assert_eq!(world.beat_error(fixed.leaving(-2)), 0);
    fixed.member_id = "m3".into();
    fixed.join(&mut world);
}
