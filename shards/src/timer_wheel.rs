//! A hierarchical timer wheel as a pure value: time goes in as monotonic milliseconds, keys that are due
//! come out.
//!
//! A timer fires no earlier than its deadline and less than one tick after it, as seen by a caller that
//! looks then. Arming, re-arming, cancelling and firing cost O(1), whatever the number of timers; a timer
//! moves to a finer level at most once per level while it approaches its deadline. No call works through a
//! whole slot: [`TimerWheel::poll_expired`] gives one key at a time and moves at most [`MOVES_SLICE`]
//! timers, so that 200,000 sessions that were armed in one go are no stall when their slot comes up.
//!
//! Level `l` has 64 slots of `64^l` ticks each. A timer lies in the level of the highest base-64 digit in
//! which its tick differs from the wheel's, in the slot of that digit. So each level is ahead of all
//! coarser ones, within a level slots come up in ascending order, and the next slot to look at is one
//! `trailing_zeros` away. Eleven levels cover every `u64` of milliseconds.

use std::hash::Hash;

use ringgate_group::pieced::{PiecedMap, PiecedSlab};

/// Milliseconds by which a timer may fire late. Below the 10 ms that the shard promises, since a wake-up
/// takes some of that; not finer, so that timers close to each other share a wake-up.
pub const TICK_MS: u64 = 4;

/// Timers that one [`TimerWheel::poll_expired`] moves to finer levels at most: some 10 us of work.
pub const MOVES_SLICE: usize = 128;

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 11;
const _: () = assert!(LEVELS as u32 * DIGIT_BITS >= u64::BITS - TICK_MS.ilog2());
const _: () = assert!(TICK_MS <= 10 && MOVES_SLICE > 0);

/// Timers whose tick has come.
const DUE: usize = LEVELS * SLOTS;
/// Timers of a coarse slot that has come up, on their way to finer levels.
const MOVING: usize = DUE + 1;
const LISTS: usize = MOVING + 1;

/// A place in a circular, doubly linked list. The first [`LISTS`] places are the lists' own ends; the others
/// are timers, or free.
#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

struct Timer<K> {
    key: K,
    tick: u64,
}

/// Timers by key; each key has at most one.
pub struct TimerWheel<K> {
    links: Vec<Link>,
    /// Timer `i` has the place `LISTS + i`.
    timers: PiecedSlab<Timer<K>>,
    places: PiecedMap<K, u32>,
    /// A bit for each slot that has a timer.
    occupied: [u64; LEVELS],
    /// The wheel's time in ticks: no slot before it has a timer.
    tick: u64,
}

impl<K: Eq + Hash + Clone> Default for TimerWheel<K> {
    fn default() -> TimerWheel<K> {
        TimerWheel::new()
    }
}

impl<K: Eq + Hash + Clone> TimerWheel<K> {
    /// A wheel without timers.
    pub fn new() -> TimerWheel<K> {
        TimerWheel {
            links: (0..LISTS as u32).map(|own| Link { before: own, after: own }).collect(),
            timers: PiecedSlab::new(),
            places: PiecedMap::new(),
            occupied: [0; LEVELS],
            tick: 0,
        }
    }

    /// Timers that are armed.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Arms the timer of `key` for `deadline_ms`, in place of the one that it has. A deadline that has
    /// passed is due at the next look.
    pub fn arm(&mut self, key: K, deadline_ms: u64) {
        // The last tick stands for all that is beyond it: the end of time is never slept past.
        let tick = deadline_ms.div_ceil(TICK_MS).min(u64::MAX / TICK_MS);
        let place = match self.places.get(&key) {
            Some(&place) => {
                self.unlink(place);
                if let Some(timer) = self.timers.get_mut(place as usize - LISTS) {
                    timer.tick = tick;
                }
                place
            }
            None => {
                let place = self.take_place(Timer { key: key.clone(), tick });
                self.places.insert(key, place);
                place
            }
        };
        self.link(place, tick);
    }

    /// Takes back the timer of `key`; `false` when it has none.
    pub fn cancel(&mut self, key: &K) -> bool {
        let Some(place) = self.places.remove(key) else { return false };
        self.unlink(place);
        self.give_back(place);
        true
    }

    /// When to look next, in monotonic ms: never later than the earliest deadline can fire, and earlier
    /// where timers have to be moved to a finer level first. In the past or present while
    /// [`poll_expired`](TimerWheel::poll_expired) has more to do for the time that it was last given.
    /// `None` when no timer is armed.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.list_is_empty(DUE) || !self.list_is_empty(MOVING) {
            return Some(self.tick.saturating_mul(TICK_MS));
        }
        self.next_slot().map(|(_, tick)| tick.saturating_mul(TICK_MS))
    }

    /// A key whose deadline has passed at `now_ms`; its timer is gone with that. Keys come out tick by
    /// tick. On `None` either nothing more is due, or a slice of moves is done and
    /// [`next_deadline`](TimerWheel::next_deadline) says to look again at once: a caller that yields
    /// whenever it gets `None` never holds up its shard. Time that goes back is taken to stand still.
    pub fn poll_expired(&mut self, now_ms: u64) -> Option<K> {
        let now = now_ms / TICK_MS;
        let mut moves_left = MOVES_SLICE;
        loop {
            if let Some(key) = self.take_due() {
                return Some(key);
            }
            while let Some(place) = self.first_of(MOVING) {
                if moves_left == 0 {
                    return None;
                }
                moves_left -= 1;
                self.unlink(place);
                if let Some(timer) = self.timers.get(place as usize - LISTS) {
                    let tick = timer.tick;
                    self.link(place, tick);
                }
            }
            if !self.list_is_empty(DUE) {
                continue;
            }
            match self.next_slot() {
                Some((slot, tick)) if tick <= now => {
                    self.tick = tick;
                    self.occupied[slot / SLOTS] &= !(1 << (slot % SLOTS));
                    self.splice(slot, if slot < SLOTS { DUE } else { MOVING });
                }
                _ => {
                    self.tick = self.tick.max(now);
                    return None;
                }
            }
        }
    }

    fn take_due(&mut self) -> Option<K> {
        let place = self.first_of(DUE)?;
        self.unlink(place);
        let timer = self.give_back(place)?;
        self.places.remove(&timer.key);
        Some(timer.key)
    }

    /// The slot that comes up first, and the tick at which it does.
    fn next_slot(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = level as u32 * DIGIT_BITS;
        let coarser = self.tick.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        let digits = (coarser << DIGIT_BITS) | slot as u64;
        Some((level * SLOTS + slot, digits << shift))
    }

    /// The list in which a timer of this tick belongs now.
    fn list_for(&self, tick: u64) -> usize {
        if tick <= self.tick {
            return DUE;
        }
        let level = (tick ^ self.tick).ilog2() / DIGIT_BITS;
        let digit = (tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        level as usize * SLOTS + digit
    }

    fn link(&mut self, place: u32, tick: u64) {
        let list = self.list_for(tick);
        if list < DUE {
            self.occupied[list / SLOTS] |= 1 << (list % SLOTS);
        }
        let last = self.links[list].before;
        self.links[place as usize] = Link { before: last, after: list as u32 };
        self.links[last as usize].after = place;
        self.links[list].before = place;
    }

    fn unlink(&mut self, place: u32) {
        let Link { before, after } = self.links[place as usize];
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        // Alone in its list: both neighbours are the list's end, whose place is the list's number.
        let list = before as usize;
        if before == after && list < DUE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    /// Appends all of one list to another.
    fn splice(&mut self, from: usize, to: usize) {
        let Link { before: last, after: first } = self.links[from];
        if first as usize == from {
            return;
        }
        self.links[from] = Link { before: from as u32, after: from as u32 };
        let end = self.links[to].before;
        self.links[end as usize].after = first;
        self.links[first as usize].before = end;
        self.links[last as usize].after = to as u32;
        self.links[to].before = last;
    }

    fn first_of(&self, list: usize) -> Option<u32> {
        let first = self.links[list].after;
        (first as usize != list).then_some(first)
    }

    fn list_is_empty(&self, list: usize) -> bool {
        self.links[list].after as usize == list
    }

    fn take_place(&mut self, timer: Timer<K>) -> u32 {
        // Places stay far below 2^32: each timer belongs to a member, a connection or a wait, all bounded.
        let place = (LISTS + self.timers.insert(timer)) as u32;
        if self.links.len() <= place as usize {
            self.links.resize(place as usize + 1, Link { before: place, after: place });
        }
        place
    }

    fn give_back(&mut self, place: u32) -> Option<Timer<K>> {
        let number = place as usize - LISTS;
        self.timers.get(number)?;
        Some(self.timers.remove(number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Everything due at `now`, looking again for as long as the wheel says so.
    fn expired(wheel: &mut TimerWheel<u32>, now: u64) -> Vec<u32> {
        let mut keys = Vec::new();
        loop {
            match wheel.poll_expired(now) {
                Some(key) => keys.push(key),
                None if wheel.next_deadline().is_some_and(|next| next <= now) => {}
                None => return keys,
            }
        }
    }

    #[test]
    fn a_timer_fires_at_its_deadline_or_within_a_tick_after_and_only_once() {
        for deadline in (0..40).chain(4090..4100).chain([1 << 20, (1 << 40) + 3]) {
            let mut wheel = TimerWheel::new();
            wheel.arm(7, deadline);
            if deadline > 0 {
                assert_eq!(wheel.poll_expired(deadline - 1), None, "early for {deadline}");
            }
            assert_eq!(expired(&mut wheel, deadline + TICK_MS - 1), [7], "late for {deadline}");
            assert_eq!(wheel.poll_expired(u64::MAX), None);
            assert_eq!(wheel.next_deadline(), None);
        }
    }

    #[test]
    fn arming_again_moves_the_timer_and_cancelling_removes_it() {
        let mut wheel = TimerWheel::new();
        wheel.arm(1, 1_000);
        wheel.arm(2, 1_000);
        wheel.arm(1, 500_000);
        assert_eq!(wheel.len(), 2);
        assert_eq!(expired(&mut wheel, 1_000), [2]);
        assert!(!wheel.cancel(&2), "it fired");
        assert!(wheel.cancel(&1));
        assert!(!wheel.cancel(&1));
        assert!(wheel.is_empty());
        assert_eq!(expired(&mut wheel, u64::MAX), [0; 0]);
    }

    #[test]
    fn a_timer_that_is_due_can_still_be_cancelled_or_armed_for_later() {
        let mut wheel = TimerWheel::new();
        for key in 0..3 {
            wheel.arm(key, 100);
        }
        assert_eq!(wheel.poll_expired(100), Some(0));
        assert!(wheel.cancel(&1));
        wheel.arm(2, 200);
        assert_eq!(expired(&mut wheel, 199), [0; 0]);
        assert_eq!(expired(&mut wheel, 200), [2]);
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_the_next_look_even_when_time_stands_still() {
        let mut wheel = TimerWheel::new();
        assert_eq!(wheel.poll_expired(10_000), None);
        wheel.arm(1, 3);
        assert!(wheel.next_deadline().is_some_and(|next| next <= 10_000));
        assert_eq!(wheel.poll_expired(9_000), Some(1));
    }

    #[test]
    fn the_farthest_deadlines_are_kept_without_overflow() {
        let mut wheel = TimerWheel::new();
        wheel.arm(1, u64::MAX);
        wheel.arm(2, u64::MAX - 2 * TICK_MS);
        assert_eq!(expired(&mut wheel, u64::MAX - 3 * TICK_MS), [0; 0]);
        assert!(wheel.next_deadline().is_some());
        assert_eq!(expired(&mut wheel, u64::MAX), [2, 1]);
    }

    #[test]
    fn two_hundred_thousand_sessions_of_one_slot_come_up_in_slices() {
        const SESSIONS: u32 = 200_000;
        let mut wheel = TimerWheel::new();
        for key in 0..SESSIONS {
            wheel.arm(key, 1_000_000 + u64::from(key % 10_000));
        }
        assert_eq!(wheel.len(), SESSIONS as usize);
        // A sleeper that obeys next_deadline finds every key in time and each look moves one slice.
        let mut fired = 0;
        let mut looks = 0;
        while let Some(next) = wheel.next_deadline() {
            looks += 1;
            assert!(looks < 10 * u64::from(SESSIONS), "the wheel does not come to rest");
            while let Some(key) = wheel.poll_expired(next) {
                let deadline = 1_000_000 + u64::from(key % 10_000);
                assert!((deadline..deadline + TICK_MS).contains(&next), "{key} at {next}");
                fired += 1;
            }
        }
        assert_eq!(fired, SESSIONS);
        assert!(looks > u64::from(SESSIONS) / MOVES_SLICE as u64, "a look did more than a slice");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Cancel(u32),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let delay = prop_oneof![3 => 0..300u64, 3 => 0..50_000u64, 1 => 0..100_000_000u64];
        let pass = prop_oneof![5 => 0..40u64, 3 => 0..5_000u64, 1 => 0..50_000_000u64];
        prop_oneof![
            6 => (0..40u32, delay).prop_map(|(key, delay)| Step::Arm(key, delay)),
            2 => (0..40u32).prop_map(Step::Cancel),
            4 => pass.prop_map(Step::Pass),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec(step(), 1..200)) {
            let mut wheel = TimerWheel::new();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Arm(key, delay) => {
                        // Some deadlines lie in the past.
                        let deadline = (now + delay).saturating_sub(20);
                        wheel.arm(key, deadline);
                        model.insert(key, deadline);
                    }
                    Step::Cancel(key) => prop_assert_eq!(wheel.cancel(&key), model.remove(&key).is_some()),
                    Step::Pass(by) => {
                        now += by;
                        let keys = expired(&mut wheel, now);
                        let fired: BTreeSet<u32> = keys.iter().copied().collect();
                        prop_assert_eq!(fired.len(), keys.len(), "a key fired twice");
                        for key in &keys {
                            let deadline = model.remove(key);
                            prop_assert!(deadline.is_some_and(|at| at <= now), "{} fired early", key);
                        }
                        for (key, deadline) in &model {
                            prop_assert!(deadline + TICK_MS > now, "{} is late", key);
                        }
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
                let next = wheel.next_deadline();
                prop_assert_eq!(next.is_none(), model.is_empty());
                if let (Some(next), Some(earliest)) = (next, model.values().min()) {
                    prop_assert!(next < earliest + TICK_MS || next <= now, "{} sleeps past {}", next, earliest);
                }
            }
        }
    }
}
