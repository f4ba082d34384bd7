//! Decides when who is hit.

use std::time::Duration;

use super::plan::{Cut, Kind, Plan};
use crate::measure::Window;
use crate::scenario::fleet::{Members, Nanos, State, Storm};

/// What a timer of the storm's is for: the next strike, or the return of a member, by its number.
const STRIKE: u32 = u32::MAX;

pub(super) struct Weather {
    plan: Plan,
    executor: u16,
    /// With `rolling`: by group, how many of its members have had their turn.
    rolled: Vec<u32>,
    /// With `add-partitions`: how many each topic is to have.
    partitions: u32,
}

fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}

impl Weather {
    pub(super) fn new(plan: &Plan, executor: u16) -> Weather {
        Weather { plan: plan.clone(), executor, rolled: Vec::new(), partitions: plan.fleet.partitions }
    }

    /// The storm breaks with the measured window.
    pub(super) fn begin(mut self, fleet: &mut Members, window: Window) {
        self.rolled = vec![0; fleet.group_count() as usize];
        fleet.storm_at(fleet.nanos(window.measure_from), STRIKE);
        fleet.suffers(Box::new(self));
    }

    /// Between two strikes.
    fn gap(&self, fleet: &Members) -> Nanos {
        match self.plan.storm {
            Kind::Kill | Kind::Leave => {
                let per_second = self.plan.rate * f64::from(fleet.member_count()).max(1.0);
                (1e9 / per_second) as Nanos
            }
            _ => nanos(self.plan.interval),
        }
    }

    fn strike(&mut self, fleet: &mut Members) {
        match self.plan.storm {
            Kind::Kill | Kind::Leave => {
                if let Some(member) = fleet.any_stable() {
                    self.hit(fleet, member);
                }
            }
            Kind::Flap => {
                for group in 0..fleet.group_count() {
                    let first = fleet.members_of(group).start;
                    if fleet.state(first) == State::Stable {
                        self.hit(fleet, first);
                    }
                }
            }
            Kind::Rolling => {
                for group in 0..fleet.group_count() {
                    self.roll(fleet, group);
                }
            }
            Kind::AddPartitions => {
                self.partitions += self.plan.gain;
                fleet.gain_partitions(self.partitions, self.executor == 0);
            }
            Kind::Reconnect => fleet.lose_all_connections(self.plan.cut == Cut::Rst),
        }
    }

    /// A member is gone, and comes back in a while.
    fn hit(&self, fleet: &mut Members, member: u32) {
        let says_so = matches!(self.plan.storm, Kind::Leave | Kind::Flap | Kind::Rolling);
        if says_so {
            fleet.leaves(member);
        } else {
            fleet.vanishes(
                member,
                self.plan.cut != Cut::Silent,
                self.plan.cut == Cut::Rst,
                self.plan.return_after.is_some(),
            );
        }
        if let Some(after) = self.plan.return_after {
            fleet.storm_at(fleet.now() + nanos(after), member);
        }
    }

    /// The next member of a group has its turn.
    fn roll(&mut self, fleet: &mut Members, group: u32) {
        let members = fleet.members_of(group);
        let Some(member) = members.clone().nth(self.rolled[group as usize] as usize) else { return };
        if fleet.is_stable(group) {
            self.rolled[group as usize] += 1;
            self.hit(fleet, member);
        }
    }
}

impl Storm for Weather {
    fn due(&mut self, fleet: &mut Members, at: Nanos, what: u32) {
        if what != STRIKE {
            fleet.returns(what);
            return;
        }
        self.strike(fleet);
        if self.plan.storm != Kind::Rolling {
            fleet.storm_at(at + self.gap(fleet), STRIKE);
        }
    }

    fn stable(&mut self, fleet: &mut Members, group: u32) {
        if self.plan.storm == Kind::Rolling && fleet.is_measured() {
            self.roll(fleet, group);
        }
    }
}
