//! A group as all its members together see it: when it is stable, and how long that took.
//!
//! A value: times go in, and what is to be recorded comes out.

use crate::check::Ownership;

use super::timers::Nanos;

/// What a group that became stable is recorded as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Became {
    /// For the first time: since its first member joined.
    pub formed: Option<Nanos>,
    /// For the first time: since the last of its members' requests to join.
    pub settled: Option<Nanos>,
    /// Since it was disturbed.
    pub recovered: Option<Nanos>,
    /// Generations that nobody had been waiting for: all but one of those since the disturbance, or since the first
    /// member joined.
    pub wasted: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Group {
    /// Members that are to be in the group now.
    present: u32,
    /// Of those, how many hold an assignment of `generation`.
    settled: u32,
    /// The highest that a member was told; a member epoch with KIP-848.
    generation: i32,
    /// Generations since the disturbance or the first join.
    generations: u64,
    first_join: Option<Nanos>,
    last_join: Nanos,
    /// It was stable once.
    formed: bool,
    stable: bool,
    disturbed: Option<Disturbed>,
    /// Who owns what.
    pub ownership: Ownership,
    /// Whether each generation begins with nobody owning anything.
    anew: bool,
}

#[derive(Debug, Clone, Copy)]
struct Disturbed {
    at: Nanos,
    /// Only a later generation can be the one without the disturbance.
    beyond: Option<i32>,
}

impl Group {
    /// A group that `present` members will join. With `anew`, each generation assigns all partitions again.
    pub fn new(present: u32, partitions: u32, anew: bool) -> Group {
        Group {
            present,
            settled: 0,
            generation: 0,
            generations: 0,
            first_join: None,
            last_join: 0,
            formed: false,
            stable: false,
            disturbed: None,
            ownership: Ownership::new(partitions),
            anew,
        }
    }

    /// A member asks to join that is not in the group.
    pub fn joins(&mut self, now: Nanos) {
        self.first_join.get_or_insert(now);
        self.last_join = now;
    }

    /// A member of an earlier generation asks to join the next one.
    pub fn joins_again(&mut self, now: Nanos) {
        self.last_join = now;
    }

    /// A member was told of a generation. True when it is the first to be, and nobody expected one: the group had
    /// been stable and was not disturbed.
    pub fn told(&mut self, generation: i32, partitions: u32) -> bool {
        if generation <= self.generation {
            return false;
        }
        self.generation = generation;
        self.generations += 1;
        self.settled = 0;
        self.stable = false;
        if self.anew {
            self.ownership.begin(partitions);
        } else {
            self.ownership.grow(partitions);
        }
        self.formed && self.disturbed.is_none()
    }

    /// A member holds an assignment of this generation.
    pub fn holds(&mut self, generation: i32) {
        if generation == self.generation {
            self.settled += 1;
        }
    }

    /// A member that held an assignment of this generation is about to join again, or is gone.
    pub fn unsettles(&mut self, generation: i32) {
        if generation == self.generation {
            self.settled = self.settled.saturating_sub(1);
            self.stable = false;
        }
    }

    /// A member is not to be in the group any more.
    pub fn departs(&mut self) {
        self.present = self.present.saturating_sub(1);
    }

    /// A member is to be in the group again, or for the first time.
    pub fn arrives(&mut self) {
        self.present += 1;
        self.stable = false;
    }

    /// Something was done to the group on purpose. Until it is stable again what follows is expected. `rebalances` when
    /// it cannot be stable without another generation.
    pub fn disturb(&mut self, now: Nanos, rebalances: bool) {
        if self.disturbed.is_none() {
            self.generations = 0;
        }
        let disturbed = self.disturbed.get_or_insert(Disturbed { at: now, beyond: None });
        if rebalances {
            disturbed.beyond = Some(self.generation);
        }
        self.stable = false;
    }

    /// Whether it is stable now and was not when this was last asked: then what is to be recorded. `is_spread` tells
    /// whether everybody has a share who is to have one: with KIP-848 a member that joined belongs to the generation
    /// before, without partitions, until the coordinator has assigned anew.
    pub fn became_stable(&mut self, now: Nanos, is_spread: impl FnOnce() -> bool) -> Option<Became> {
        let behind =
            self.disturbed.and_then(|disturbed| disturbed.beyond).is_some_and(|beyond| self.generation <= beyond);
        let missing = !self.anew && self.ownership.unassigned() > 0;
        if self.stable || self.present == 0 || self.settled < self.present || behind || missing || !is_spread() {
            return None;
        }
        self.stable = true;
        let first = !std::mem::replace(&mut self.formed, true);
        let disturbed = self.disturbed.take();
        let became = Became {
            formed: self.first_join.filter(|_| first).map(|first| now.saturating_sub(first)),
            settled: first.then(|| now.saturating_sub(self.last_join)),
            recovered: disturbed.map(|disturbed| now.saturating_sub(disturbed.at)),
            wasted: self.generations.saturating_sub(1),
        };
        self.generations = 0;
        Some(became)
    }

    /// Members that are to be in the group now.
    pub fn present(&self) -> u32 {
        self.present
    }

    /// Whether all members hold an assignment of one generation.
    pub fn is_stable(&self) -> bool {
        self.stable
    }

    /// Whether it ever was.
    pub fn is_formed(&self) -> bool {
        self.formed
    }

    /// Since when it is disturbed, when it is not stable again.
    pub fn disturbed_at(&self) -> Option<Nanos> {
        self.disturbed.map(|disturbed| disturbed.at)
    }

    /// The highest generation that a member was told.
    pub fn generation(&self) -> i32 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every member of a generation is told of it and holds an assignment.
    fn generation(group: &mut Group, number: i32, members: u32, now: Nanos) -> Option<Became> {
        group.told(number, 4);
        (0..members).for_each(|_| group.holds(number));
        group.became_stable(now, || true)
    }

    #[test]
    fn a_group_is_formed_when_all_its_members_hold_one_generation() {
        let mut group = Group::new(2, 4, true);
        group.joins(100);
        assert_eq!(generation(&mut group, 1, 1, 150), None, "one of two");
        group.joins(200);
        assert!(!group.told(2, 4), "nobody is surprised before it is formed");
        group.holds(1);
        assert_eq!(group.became_stable(210, || true), None, "an assignment of the last generation");
        group.holds(2);
        group.holds(2);
        let became = Became { formed: Some(150), settled: Some(50), recovered: None, wasted: 1 };
        assert_eq!(group.became_stable(250, || true), Some(became));
        assert_eq!(group.became_stable(260, || true), None, "told once");
        assert!(group.told(3, 4), "nobody did anything");
    }

    #[test]
    fn a_first_member_that_joins_again_is_the_last_to_join() {
        let mut group = Group::new(2, 4, true);
        group.joins(100);
        generation(&mut group, 1, 1, 110);
        group.joins(200);
        group.unsettles(1);
        group.joins_again(300);
        let became = generation(&mut group, 2, 2, 340).expect("formed");
        assert_eq!((became.formed, became.settled), (Some(240), Some(40)));
    }

    #[test]
    fn a_disturbed_group_recovers_in_a_later_generation() {
        let mut group = Group::new(3, 4, true);
        generation(&mut group, 5, 3, 10).expect("formed");
        group.disturb(1_000, true);
        group.unsettles(5);
        group.departs();
        assert_eq!(group.became_stable(1_001, || true), None, "the two that are left do not know yet");
        assert!(!group.told(6, 4), "expected");
        group.told(7, 4);
        group.holds(7);
        group.holds(7);
        let became = Became { recovered: Some(3_000), wasted: 1, ..Became::default() };
        assert_eq!(group.became_stable(4_000, || true), Some(became));
        group.arrives();
        assert!(!group.is_stable(), "one is missing");
    }

    #[test]
    fn lost_connections_alone_need_no_new_generation() {
        let mut group = Group::new(1, 4, true);
        generation(&mut group, 1, 1, 10).expect("formed");
        group.disturb(100, false);
        group.disturb(110, false);
        assert_eq!(group.became_stable(150, || true).expect("nobody left").recovered, Some(50));
    }

    #[test]
    fn a_group_of_kip_848_is_stable_when_every_partition_is_owned() {
        let mut group = Group::new(1, 2, false);
        group.told(3, 2);
        group.holds(3);
        group.ownership.take(0, [0]);
        assert_eq!(group.became_stable(5, || true), None);
        group.ownership.take(0, [1]);
        assert_eq!(group.became_stable(6, || false), None, "somebody else is to have one");
        assert!(group.became_stable(6, || true).is_some());
        group.told(4, 3);
        group.holds(4);
        assert_eq!(group.became_stable(7, || true), None, "there is a third now");
    }
}
