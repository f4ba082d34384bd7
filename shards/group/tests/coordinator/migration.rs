//! A group changes its protocol while it has members: scenarios 126 to 128 (6.10).

use bytes::Bytes;
use ringgate_group::request::*;
use ringgate_group::{ErrorCode, MigrationPolicy, Request, Response, Text};

use crate::consumer_world::{Consumer, Known, assert_shared_out};
use crate::world::{Client, GROUP, Store, World};

/// A subscription to `t`, with what the member has, if it says that.
fn subscription(owned: Option<&[i32]>) -> Bytes {
    let mut out = if owned.is_some() { vec![0, 1] } else { vec![0, 0] };
    out.extend([0, 0, 0, 1, 0, 1, b't']);
    out.extend([0xff; 4]);
    if let Some(owned) = owned {
        out.extend([0, 0, 0, 1, 0, 1, b't']);
        out.extend((owned.len() as i32).to_be_bytes());
        owned.iter().for_each(|partition| out.extend(partition.to_be_bytes()));
    }
    out.into()
}

fn assignment(partitions: &[i32], user_data: &[u8]) -> Bytes {
    let mut out = vec![0, 1, 0, 0, 0, 1, 0, 1, b't'];
    out.extend((partitions.len() as i32).to_be_bytes());
    partitions.iter().for_each(|partition| out.extend(partition.to_be_bytes()));
    out.extend((user_data.len() as i32).to_be_bytes());
    out.extend(user_data);
    out.into()
}

/// The partitions of an assignment that the coordinator made.
fn partitions(bytes: &Bytes) -> Vec<i32> {
    let numbers: Vec<i32> =
        bytes[2..].chunks(4).filter(|c| c.len() == 4).map(|c| i32::from_be_bytes(c.try_into().unwrap())).collect();
    if numbers[0] == 0 {
        return Vec::new();
    }
    let count = i32::from_be_bytes(bytes[9..13].try_into().unwrap()) as usize;
    bytes[13..13 + 4 * count].chunks(4).map(|c| i32::from_be_bytes(c.try_into().unwrap())).collect()
}

/// A client of the classic protocol, and what it has.
struct Classic {
    client: Client,
    has: Vec<i32>,
}

impl Classic {
    fn new(connection: u64) -> Classic {
        let mut client = Client::new(connection);
        client.protocols = vec![Protocol { name: "range".into(), metadata: subscription(None) }];
        Classic { client, has: Vec::new() }
    }

    /// Heartbeats; joins and syncs again when it is told to. Cooperative: it keeps what it may and says so.
    fn go_on(&mut self, world: &mut World) -> bool {
        match world.heartbeat(&self.client) {
            ErrorCode::NONE => false,
            ErrorCode::REBALANCE_IN_PROGRESS => {
                self.rejoin(world);
                true
            }
            other => panic!("{other:?}"),
        }
    }

    fn rejoin(&mut self, world: &mut World) {
        self.client.protocols[0].metadata = subscription(Some(&self.has));
        let token = world.join(self.client.connection, self.client.join_request());
        let joined = world.joined(token);
        assert_eq!((joined.error_code, joined.members.len(), joined.leader.len()), (ErrorCode::NONE, 0, 0));
        self.client.takes(&joined);
        let token = world.sync(&self.client, &[]);
        let synced = world.synced(token);
        assert_eq!(synced.error_code, ErrorCode::NONE);
        self.has = partitions(&synced.assignment);
    }
}

fn world(policy: MigrationPolicy) -> (World, Known) {
    let mut world = World::with(|config| {
        config.initial_rebalance_delay = std::time::Duration::ZERO;
        config.consumer_assignment_interval = std::time::Duration::ZERO;
        config.consumer_migration_policy = policy;
    });
    let mut known = Known::default();
    known.set(&mut world, "t", 4);
    (world, known)
}

/// A stable classic group of one with all four partitions.
fn classic_group(world: &mut World, user_data: &[u8]) -> Classic {
    let mut classic = Classic::new(1);
    let token = world.enter(&mut classic.client);
    world.advance(0);
    let joined = world.joined(token);
    classic.client.takes(&joined);
    let mut sync = classic.client.sync_request(&[]);
    let member_id = classic.client.member_id.clone();
    sync.assignments = vec![Assignment { member_id, assignment: assignment(&[0, 1, 2, 3], user_data) }];
    let token = world.ask(1, ringgate_group::Request::Sync(sync));
    assert_eq!(world.synced(token).error_code, ErrorCode::NONE);
    classic.has = vec![0, 1, 2, 3];
    classic
}

/// Everybody heartbeats until nobody has anything to do.
fn come_to_rest(world: &mut World, classic: &mut Classic, consumer: &mut Consumer) {
    for _ in 0..20 {
        world.advance(1_000);
        let told = classic.go_on(world) | consumer.beat(world);
        let mut all = consumer.numbers();
        all.extend(&classic.has);
        all.sort_unstable();
        all.dedup();
        assert!(all.len() == consumer.has.len() + classic.has.len(), "a partition is with both");
        if !told && world.consumers().group_state.as_str() == "Stable" {
            return;
        }
    }
    panic!("the group does not come to rest");
}

#[test]
fn s126_a_classic_group_goes_up_with_the_first_member_of_the_consumer_protocol_and_its_members_go_on() {
    let (mut world, mut known) = world(MigrationPolicy::Bidirectional);
    let mut classic = classic_group(&mut world, b"");
    let generation = classic.client.generation;
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    assert_eq!((consumer.epoch, consumer.has.len()), (generation + 1, 0), "the other has everything");
    let group = world.consumers();
    assert_eq!((group.members.len(), group.members.iter().filter(|member| member.is_classic).count()), (2, 1));
    assert_eq!(world.heartbeat(&classic.client), ErrorCode::REBALANCE_IN_PROGRESS);
    come_to_rest(&mut world, &mut classic, &mut consumer);
    assert_eq!((classic.has.len(), consumer.has.len()), (2, 2));
    assert_eq!(classic.client.generation, consumer.epoch);

    world.restart();
    known.tell(&mut world);
    assert!(!classic.go_on(&mut world) && !consumer.beat(&mut world), "a restart changes nothing");
    assert_eq!(world.describe().group_state.as_str(), "Dead", "it is no classic group any more");
    let stale = Client { generation: generation - 1, ..classic.client.clone() };
    assert_eq!(world.heartbeat(&stale), ErrorCode::ILLEGAL_GENERATION);
}

#[test]
fn s127_what_cannot_be_taken_over_stays_classic_and_the_newcomer_is_told_69() {
    let newcomer = Consumer::new("new", &["t"]);
    for policy in [MigrationPolicy::Downgrade, MigrationPolicy::Disabled] {
        let (mut world, _known) = world(policy);
        let classic = classic_group(&mut world, b"");
        assert_eq!(world.beat_error(newcomer.joining()), 69, "{policy:?}");
        assert_eq!((world.heartbeat(&classic.client), world.state()), (ErrorCode::NONE, "Stable".to_owned()));
    }
    let (mut world, _known) = world(MigrationPolicy::Bidirectional);
    let classic = classic_group(&mut world, b"of an assignor of its own");
    let before = (world.totals.members(), world.totals.bytes());
    assert_eq!(world.beat_error(newcomer.joining()), 69);
    assert_eq!((world.heartbeat(&classic.client), world.state()), (ErrorCode::NONE, "Stable".to_owned()));
    assert_eq!((world.totals.members(), world.totals.bytes()), before);

    let (mut world, _known) = self::world(MigrationPolicy::Bidirectional);
    let mut connect = Client::new(1);
    connect.protocols = vec![Protocol { name: "default".into(), metadata: Bytes::from_static(b"opaque") }];
    let request = JoinGroupRequest { protocol_type: "connect".into(), api_version: 3, ..connect.join_request() };
    let token = world.join(1, request);
    world.advance(0);
    assert_eq!(world.joined(token).error_code, ErrorCode::NONE);
    assert_eq!(world.beat_error(newcomer.joining()), 69, "another protocol type");
}

#[test]
fn s128_when_the_last_member_of_the_consumer_protocol_goes_the_group_is_classic_again_and_rebalances() {
    let (mut world, mut known) = world(MigrationPolicy::Bidirectional);
    let mut classic = classic_group(&mut world, b"");
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    come_to_rest(&mut world, &mut classic, &mut consumer);
    let epoch = consumer.epoch;
    assert_eq!(world.beat(consumer.leaving(-1)).error_code.0, 0);
    assert_eq!((world.state().as_str(), world.consumers().error_code.0), ("PreparingRebalance", 69));
    assert_eq!(world.beat_error(consumer.owning()), 69);
    assert_eq!(world.heartbeat(&Client { generation: epoch + 1, ..classic.client.clone() }).0, 27);
    world.restart();
    known.tell(&mut world);
    assert_eq!(world.state(), "Stable", "what was kept is the group as it came down");

    let token = world.join(1, classic.client.join_request());
    world.advance(0);
    let joined = world.joined(token);
    assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::NONE, epoch + 2));
    assert_eq!(joined.leader, classic.client.member_id);
    assert_eq!(world.totals.members(), 1);
}

#[test]
fn s128_when_a_static_member_starts_again_as_the_last_classic_one_nobody_has_to_rebalance() {
    for (other_wishes, at_rest) in [(false, true), (true, true), (false, false)] {
        let (mut world, _known) = world(MigrationPolicy::Bidirectional);
        let mut classic = classic_group(&mut world, b"");
        let mut consumer = Consumer { instance: Some("i".into()), ..Consumer::new("new", &["t"]) };
        if other_wishes {
            consumer.names = Some(vec!["t".into(), "u".into()]);
        }
        consumer.join(&mut world);
        if at_rest {
            come_to_rest(&mut world, &mut classic, &mut consumer);
        }
        let mut again = Classic::new(2);
        again.client.instance = Some("i".into());
        let token = world.join(2, again.client.join_request());
        let joined = world.joined(token);
        assert_eq!(joined.error_code, ErrorCode::NONE);
        again.client.takes(&joined);
        if other_wishes || !at_rest {
            // Without rest the first has yet to give back what the second would be given.
            assert_eq!(world.state(), "PreparingRebalance");
            continue;
        }
        assert_eq!((world.state().as_str(), joined.generation_id), ("Stable", consumer.epoch));
        let token = world.sync(&again.client, &[]);
        assert_eq!(partitions(&world.synced(token).assignment), consumer.numbers());
        for client in [&classic.client, &again.client] {
            assert_eq!(world.heartbeat(client), ErrorCode::NONE);
        }
        // It is a classic group like others: whoever comes has everybody join again.
        world.enter(&mut Client { protocols: classic.client.protocols.clone(), ..Client::new(3) });
        assert_eq!(world.heartbeat(&classic.client), ErrorCode::REBALANCE_IN_PROGRESS);
    }
}

#[test]
fn a_write_of_before_a_group_went_down_and_up_again_is_none_of_what_it_is_now() {
    let (mut w, _) = world(MigrationPolicy::Bidirectional);
    let mut classic = classic_group(&mut w, &[]);
    let mut consumer = Consumer::new("c", &["t"]);
    consumer.join(&mut w);
    come_to_rest(&mut w, &mut classic, &mut consumer);
    w.store = Store::Waits;
    let heartbeat = |request| Request::ConsumerGroupHeartbeat(Box::new(request));
    let left = w.ask(9, heartbeat(consumer.leaving(-1)));
    consumer.epoch = 0;
    let back = w.ask(9, heartbeat(consumer.joining()));
    w.parked(left);
    w.complete_all(Ok(()));
    w.store = Store::Keeps;
    for token in [left, back] {
        assert!(matches!(w.answer(token), Response::ConsumerGroupHeartbeat(it) if it.error_code == ErrorCode::NONE));
    }
    // Nothing that was ever written keeps the group from its end.
    w.beat(consumer.leaving(-1));
    w.leave(vec![classic.client.leaving()]);
    let token = w.ask(9, Request::DeleteGroup(DeleteGroupRequest { group_id: GROUP.into() }));
    assert!(matches!(w.answer(token), Response::DeleteGroup(ErrorCode::NONE)));
}

#[test]
fn a_newcomer_that_there_is_no_room_for_makes_nothing_of_a_classic_group() {
    let (mut w, _) = world(MigrationPolicy::Bidirectional);
    w.config.max_total_members = 1;
    w.restart();
    let classic = classic_group(&mut w, &[]);
    let before = (w.totals.members(), w.totals.bytes());
    assert_eq!(w.beat_error(Consumer::new("c", &["t"]).joining()), ErrorCode::COORDINATOR_NOT_AVAILABLE.0);
    assert_eq!((w.state().as_str(), w.consumers().error_code.0), ("Stable", 69));
    assert_eq!(w.heartbeat(&classic.client), ErrorCode::NONE, "nobody is sent to join again");
    assert_eq!((w.totals.members(), w.totals.bytes()), before);
}

#[test]
fn a_static_member_that_starts_again_with_the_consumer_protocol_takes_the_place_of_what_it_was() {
    let (mut w, _) = world(MigrationPolicy::Bidirectional);
    let mut first = classic_group(&mut w, &[]);
    let mut consumer = Consumer::new("c", &["t"]);
    consumer.join(&mut w);
    come_to_rest(&mut w, &mut first, &mut consumer);
    let mut second = Classic::new(2);
    second.client.instance = Some("i".into());
    second.rejoin(&mut w);
    // It was stopped without a word, as classic static members are, and is another process now.
    let mut after = Consumer { instance: Some("i".into()), ..Consumer::new("after", &["t"]) };
    after.join(&mut w);
    assert_eq!(w.consumers().members.len(), 3);
    assert!(w.consumers().members.iter().any(|member| member.member_id == "after"));
}

#[test]
fn where_groups_may_not_come_down_classic_members_stay_in_the_consumer_group() {
    let (mut world, _known) = world(MigrationPolicy::Upgrade);
    let mut classic = classic_group(&mut world, b"");
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    come_to_rest(&mut world, &mut classic, &mut consumer);
    world.beat(consumer.leaving(-1));
    assert_eq!(world.consumers().members.len(), 1);
    while classic.go_on(&mut world) {}
    assert_eq!(classic.has.len(), 4);
}

#[test]
fn a_classic_member_joins_a_consumer_group_without_waiting_for_anybody() {
    let (mut world, _known) = world(MigrationPolicy::Bidirectional);
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    let mut classic = Classic::new(1);
    let token = world.join(1, classic.client.join_request());
    let first = world.joined(token);
    assert_eq!(first.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    classic.client.member_id = first.member_id;
    classic.rejoin(&mut world);
    come_to_rest(&mut world, &mut classic, &mut consumer);
    assert_eq!((classic.has.len(), consumer.has.len()), (2, 2));

    let other = JoinGroupRequest { protocol_type: "connect".into(), ..classic.client.join_request() };
    let token = world.join(2, other);
    assert_eq!(world.joined(token).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let mut third = classic.client.join_request();
    (third.member_id, third.api_version) = (Text::EMPTY, 3);
    third.protocols[0].name = "roundrobin".into();
    let token = world.join(3, third);
    assert_eq!(world.joined(token).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL, "nothing in common");
}

#[test]
fn a_classic_member_that_neither_joins_nor_syncs_in_time_is_removed() {
    let (mut world, _known) = world(MigrationPolicy::Bidirectional);
    let classic = classic_group(&mut world, b"");
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    for _ in 0..13 {
        // It lives, and does nothing about what it is told.
        match world.heartbeat(&classic.client) {
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::UNKNOWN_MEMBER_ID => {}
            other => panic!("{other:?}"),
        }
        world.advance(5_000);
        consumer.beat(&mut world);
    }
    assert_eq!(world.heartbeat(&classic.client), ErrorCode::UNKNOWN_MEMBER_ID);
    consumer.beat(&mut world);
    assert_shared_out(&[consumer], 4);
}

#[test]
fn parked_members_are_told_27_when_the_group_goes_up() {
    let (mut world, _known) = world(MigrationPolicy::Bidirectional);
    let classic = classic_group(&mut world, b"");
    let mut second = Classic::new(2);
    let parked = world.enter(&mut second.client);
    world.parked(parked);
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    assert_eq!(world.joined(parked).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(world.consumers().members.len(), 3);
    assert_eq!(world.heartbeat(&classic.client), ErrorCode::REBALANCE_IN_PROGRESS);
    assert!(world.store == Store::Keeps && world.open == 0, "nobody waits");
}

#[test]
fn a_group_whose_leader_gave_a_partition_to_two_members_stays_classic() {
    let (mut world, _known) = world(MigrationPolicy::Bidirectional);
    let mut clients = [Classic::new(1).client, Classic::new(2).client];
    world.form(&mut clients);
    let mut sync = clients[0].sync_request(&[]);
    let given = |client: &Client, partitions: &[i32]| Assignment {
        member_id: client.member_id.clone(),
        assignment: assignment(partitions, &[]),
    };
    sync.assignments = vec![given(&clients[0], &[0, 1, 2]), given(&clients[1], &[2, 3])];
    let token = world.ask(1, ringgate_group::Request::Sync(sync));
    assert_eq!(world.synced(token).error_code, ErrorCode::NONE);
    let (before, totals) = (world.describe(), (world.totals.members(), world.totals.bytes()));
    assert_eq!(world.beat_error(Consumer::new("new", &["t"]).joining()), 69);
    assert_eq!((world.describe(), (world.totals.members(), world.totals.bytes())), (before, totals));
    assert!(clients.iter().all(|client| world.heartbeat(client) == ErrorCode::NONE));
}

#[test]
fn an_id_that_was_given_out_keeps_nobody_from_an_empty_group_and_may_join_it() {
    let (mut world, _known) = world(MigrationPolicy::Bidirectional);
    let mut classic = Classic::new(1);
    let token = world.join(1, classic.client.join_request());
    let answer = world.joined(token);
    assert_eq!(answer.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    classic.client.member_id = answer.member_id;
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    assert_eq!((consumer.epoch, consumer.has.len()), (1, 4));
    assert!(!world.timers.keys().any(|key| format!("{key:?}").starts_with("Pending")), "{:?}", world.timers);
    classic.rejoin(&mut world);
    come_to_rest(&mut world, &mut classic, &mut consumer);
    assert_eq!((classic.has.len(), consumer.has.len()), (2, 2));
}

#[test]
fn a_classic_member_that_wishes_for_more_than_the_gateway_has_room_for_is_told_15_and_stays_as_it_is() {
    let mut world = World::with(|config| {
        config.initial_rebalance_delay = std::time::Duration::ZERO;
        config.consumer_assignment_interval = std::time::Duration::ZERO;
        config.max_group_memory = 16_384;
    });
    let mut known = Known::default();
    known.set(&mut world, "t", 4);
    let mut classic = classic_group(&mut world, &[]);
    let mut consumer = Consumer::new("new", &["t"]);
    consumer.join(&mut world);
    come_to_rest(&mut world, &mut classic, &mut consumer);
    let (before, bytes) = (world.consumers(), world.totals.bytes());
    let mut request = classic.client.join_request();
    request.protocols.push(Protocol { name: "other".into(), metadata: Bytes::from(vec![0; 16_384]) });
    let token = world.join(1, request);
    assert_eq!(world.joined(token).error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!((world.consumers(), world.totals.bytes()), (before, bytes));
    assert!(!classic.go_on(&mut world), "it goes on");
}

#[test]
fn a_heartbeat_that_is_refused_makes_no_consumer_group_of_an_empty_classic_one() {
    let (mut world, _known) = world(MigrationPolicy::Bidirectional);
    let classic = classic_group(&mut world, b"");
    world.leave(vec![classic.client.leaving()]);
    let refused = ConsumerGroupHeartbeatRequest {
        subscribed_topic_regex: Some("a(".into()),
        ..Consumer::new("new", &["t"]).joining()
    };
    assert_eq!(world.beat_error(refused), 128);
    assert_eq!((world.state().as_str(), world.consumers().error_code.0), ("Empty", 69));
    let mut again = Classic::new(2);
    let token = world.enter(&mut again.client);
    world.advance(0);
    assert_eq!(world.joined(token).generation_id, classic.client.generation + 2, "generations only grow");
}
