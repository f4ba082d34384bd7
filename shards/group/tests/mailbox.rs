//! Flow control between shards, over queues that are as small as queues can be.

use std::collections::VecDeque;

use proptest::prelude::*;
use ringgate_group::limits::{MAILBOX_NOTICES_MAX, MAILBOX_REQUESTS_MAX};
use ringgate_group::mailbox::{Backlogs, Starving, Step, Turn};
use ringgate_group::route::ShardId;

/// A shard with its mailbox.
struct Shard {
    requests: VecDeque<(u16, u64)>,
    notices: usize,
    starving: Starving,
    backlogs: Backlogs<(u16, u64)>,
    turn: Turn,
    batch: Vec<(u16, u64)>,
    sleeps: bool,
    /// As with the real thing a wake-up that comes before it sleeps is not lost.
    is_woken: bool,
    served: Vec<(u16, u64)>,
}

impl Shard {
    fn is_awake(&self) -> bool {
        !self.sleeps || self.is_woken
    }
}

/// Shards whose mailboxes hold so many requests.
struct World {
    shards: Vec<Shard>,
    capacity: usize,
    sent: Vec<Vec<u64>>,
}

impl World {
    fn new(shards: usize, capacity: usize) -> World {
        let shard = |_| Shard {
            requests: VecDeque::new(),
            notices: 0,
            starving: Starving::new(shards),
            backlogs: Backlogs::new(shards),
            turn: Turn::default(),
            batch: Vec::new(),
            sleeps: true,
            is_woken: false,
            served: Vec::new(),
        };
        World { shards: (0..shards).map(shard).collect(), capacity, sent: vec![vec![0; shards]; shards] }
    }

    fn send(&mut self, from: usize, to: usize) {
        let nth = self.sent[from][to];
        self.sent[from][to] += 1;
        self.shards[from].backlogs.push(ShardId(to as u16), (from as u16, nth));
        self.flush(from, to);
    }

    fn flush(&mut self, from: usize, to: usize) {
        let mut backlogs = std::mem::replace(&mut self.shards[from].backlogs, Backlogs::new(0));
        let owner = &mut self.shards[to];
        let (capacity, requests, is_woken) = (self.capacity, &mut owner.requests, &mut owner.is_woken);
        let offer = |request| match requests.len() < capacity {
            true => {
                requests.push_back(request);
                *is_woken = true;
                None
            }
            false => Some(request),
        };
        let was_blocked = backlogs.is_blocked();
        let has_room_again = backlogs.send(ShardId(to as u16), offer, || owner.starving.announce(ShardId(from as u16)));
        assert_eq!(backlogs.is_blocked(), !backlogs.is_empty(), "connections read while nothing is kept back");
        assert_eq!(has_room_again, was_blocked && backlogs.is_empty());
        self.shards[from].backlogs = backlogs;
    }

    /// One step of one shard that is awake.
    fn step(&mut self, shard: usize) {
        let this = &mut self.shards[shard];
        if std::mem::take(&mut this.sleeps) {
            this.is_woken = false;
        }
        match this.turn.poll_step() {
            Step::Notices(most) => {
                let taken = this.notices.min(most);
                this.notices -= taken;
                this.turn.handle_taken(taken);
            }
            Step::Requests(most) => {
                this.batch.extend((0..most).map_while(|_| this.requests.pop_front()));
                this.turn.handle_taken(this.batch.len());
            }
            Step::TellStarving => {
                let told: Vec<ShardId> = this.starving.take().collect();
                told.into_iter().for_each(|sender| self.shards[usize::from(sender.0)].is_woken = true);
            }
            Step::Serve => this.served.append(&mut this.batch),
            Step::Flush => (0..self.shards.len()).for_each(|to| self.flush(shard, to)),
            Step::Yield => {}
            Step::Wait => this.sleeps = true,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order_and_nobody_waits_for_ever(
        shards in 2usize..5,
        capacity in 1usize..4,
        acts in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..400),
    ) {
        let mut world = World::new(shards, capacity);
        for (sends, a, b) in acts {
            let (a, b) = (a.index(shards), b.index(shards));
            match sends && a != b {
                true => world.send(a, b),
                false if world.shards[a].is_awake() => world.step(a),
                false => {}
            }
        }
        // From here on nobody sends any more: whoever is awake goes on until all sleep.
        let mut steps = 0;
        while let Some(awake) = (0..shards).find(|shard| world.shards[*shard].is_awake()) {
            world.step(awake);
            steps += 1;
            prop_assert!(steps < 100_000, "they never come to rest");
        }
        for (to, shard) in world.shards.iter().enumerate() {
            prop_assert!(shard.backlogs.is_empty() && shard.requests.is_empty());
            for from in 0..shards {
                let of_one = shard.served.iter().filter(|(sender, _)| usize::from(*sender) == from).map(|(_, nth)| *nth);
                prop_assert_eq!(of_one.collect::<Vec<_>>(), (0..world.sent[from][to]).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_sender_that_met_a_full_mailbox_is_told_of_room_once() {
    let starving = Starving::new(3);
    starving.announce(ShardId(2));
    starving.announce(ShardId(2));
    assert_eq!(starving.take().collect::<Vec<_>>(), [ShardId(2)]);
    assert_eq!(starving.take().count(), 0);
}

#[test]
fn room_that_comes_up_while_a_sender_says_that_it_starves_is_used() {
    let mut backlogs = Backlogs::new(2);
    (0..3).for_each(|nth| backlogs.push(ShardId(1), nth));
    let (room, mut arrived) = (std::cell::Cell::new(0), Vec::new());
    let offer = |nth: i32| match room.get() {
        0 => Some(nth),
        free => {
            room.set(free - 1);
            arrived.push(nth);
            None
        }
    };
    // The owner has made room for two just before it would have seen the flag.
    assert!(!backlogs.send(ShardId(1), offer, || room.set(2)));
    assert_eq!((arrived, backlogs.len(), backlogs.is_blocked()), (vec![0, 1], 1, true));
}

#[test]
fn a_turn_takes_notices_before_requests_and_tells_of_room_before_it_serves() {
    let mut turn = Turn::default();
    assert_eq!(turn.poll_step(), Step::Notices(MAILBOX_NOTICES_MAX));
    turn.handle_taken(0);
    assert_eq!(turn.poll_step(), Step::Requests(MAILBOX_REQUESTS_MAX));
    turn.handle_taken(1);
    let rest = [(); 4].map(|()| turn.poll_step());
    assert_eq!(rest, [Step::TellStarving, Step::Serve, Step::Flush, Step::Yield]);
}

#[test]
fn a_turn_waits_only_when_it_found_nothing() {
    for (notices, requests, last) in [(0, 0, Step::Wait), (3, 0, Step::Yield), (0, 3, Step::Yield)] {
        let mut turn = Turn::default();
        for _ in 0..2 {
            assert!(matches!(turn.poll_step(), Step::Notices(_)));
            turn.handle_taken(notices);
            assert!(matches!(turn.poll_step(), Step::Requests(_)));
            turn.handle_taken(requests);
            let ends = |step: &Step| matches!(step, Step::Wait | Step::Yield);
            assert_eq!(std::iter::from_fn(|| Some(turn.poll_step())).find(ends), Some(last));
        }
    }
}
