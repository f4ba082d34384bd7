//! What may be done to a fleet on purpose.

use std::time::{Duration, Instant};

use kafka_protocol::protocol::StrBytes;
use ringgate_client::limits::CONTROL_PAUSE;

use super::driver::{Due, Fleet};
use super::inbox::Event;
use super::member::State;
use super::plan::Protocol;
use super::timers::Nanos;

/// Decides what is done to a fleet. It is called by the fleet's one task.
pub(in crate::scenario) trait Storm {
    /// A time that it had set has come.
    fn due(&mut self, fleet: &mut Fleet, at: Nanos, what: u32);

    /// A group has become stable.
    fn stable(&mut self, fleet: &mut Fleet, group: u32);
}

impl Fleet {
    /// From now on this one decides.
    pub(in crate::scenario) fn suffers(&mut self, storm: Box<dyn Storm>) {
        self.storm = Some(storm);
    }

    /// Tells the storm at this time.
    pub(in crate::scenario) fn storm_at(&mut self, at: Nanos, what: u32) {
        self.timers.set(at, Due::Storm(what));
    }

    /// Why it cannot go on.
    pub(in crate::scenario) fn why_aborted(&self) -> Option<&str> {
        self.aborted.as_deref()
    }

    /// Members of this executor.
    pub(in crate::scenario) fn member_count(&self) -> u32 {
        self.members.len() as u32
    }

    /// Groups of this executor.
    pub(in crate::scenario) fn group_count(&self) -> u32 {
        self.groups.len() as u32
    }

    /// How far a member is.
    pub(in crate::scenario) fn state(&self, member: u32) -> State {
        self.members[member as usize].state
    }

    /// Whether all members of a group hold an assignment of one generation.
    pub(in crate::scenario) fn is_stable(&self, group: u32) -> bool {
        self.groups[group as usize].group.is_stable()
    }

    /// Any member that holds an assignment; none when there seem to be none.
    pub(in crate::scenario) fn any_stable(&mut self) -> Option<u32> {
        let mut tries = (0..64).map(|_| self.random.below(self.members.len() as u64) as u32);
        tries.find(|member| self.members.get(*member as usize).is_some_and(|row| row.state == State::Stable))
    }

    /// A member leaves as it should; a static one of a classic group only goes, as its clients do.
    pub(in crate::scenario) fn leaves(&mut self, member: u32) {
        self.count("storm.leaves", 1);
        let says_so = !self.plan.is_static || self.plan.protocol == Protocol::Consumer;
        if says_so {
            self.leave(member);
        }
        self.is_gone(member, self.plan.is_static);
        // The connection stays until the answer is there; the member comes back over it.
    }

    /// A member vanishes without a word; its connection is closed or reset, or stays. `returns` when it will be back.
    pub(in crate::scenario) fn vanishes(&mut self, member: u32, ends: bool, reset: bool, returns: bool) {
        self.count("storm.kills", 1);
        if ends {
            self.cut(member, reset);
        } else {
            self.abandon(member);
        }
        let keeps_place = self.plan.is_static && returns;
        let row = &self.members[member as usize];
        if !keeps_place && !row.id.is_empty() {
            self.groups[row.group as usize].vanished.add(row.id.clone(), Instant::now());
        }
        self.is_gone(member, keeps_place);
    }

    /// The group of a member that is away is to do without it, unless a static one keeps its place until it is back.
    fn is_gone(&mut self, member: u32, keeps_place: bool) {
        let now = self.now();
        let number = self.members[member as usize].group;
        self.unsettle(member);
        let group = &mut self.groups[number as usize].group;
        group.disturb(now, !keeps_place);
        if !keeps_place {
            group.departs();
        }
        self.release_all(member);
        self.leave_lobby(member);
        for fetcher in self.fetchers.end(member) {
            self.end_fetch_place(fetcher.place);
        }
        let row = &mut self.members[member as usize];
        row.begin_life();
        row.state = State::Away;
        row.keeps_place = keeps_place;
        row.id = StrBytes::default();
        row.generation = 0;
    }

    /// A member that is away comes back.
    pub(in crate::scenario) fn returns(&mut self, member: u32) {
        if self.members[member as usize].state != State::Away {
            return;
        }
        self.count("storm.returns", 1);
        let now = self.now();
        let number = self.members[member as usize].group;
        if !std::mem::take(&mut self.members[member as usize].keeps_place) {
            let group = &mut self.groups[number as usize].group;
            group.disturb(now, true);
            group.arrives();
        }
        self.members[member as usize].state = State::ToJoin;
        self.advance(member);
    }

    /// All connections end at once.
    pub(in crate::scenario) fn lose_all_connections(&mut self, reset: bool) {
        self.count("storm.reconnects", 1);
        self.cut_all(reset);
        for member in 0..self.members.len() as u32 {
            if self.is_cut_off(member) && !self.members[member as usize].heartbeat_out {
                self.advance(member);
            }
        }
    }

    /// Whether a member holds an assignment, which it does on trust from now on: its connection is gone.
    pub(super) fn is_cut_off(&mut self, member: u32) -> bool {
        let now = self.now();
        let row = &mut self.members[member as usize];
        if row.state != State::Stable {
            return false;
        }
        row.owes_heartbeat = true;
        let number = row.group;
        self.unsettle(member);
        self.groups[number as usize].group.disturb(now, false);
        true
    }

    /// Every topic is brought to so many partitions, by this executor or by another one; then leaders of classic groups
    /// notice and join again.
    pub(in crate::scenario) fn gain_partitions(&mut self, partitions: u32, adds: bool) {
        let now = self.now();
        let all = partitions * self.topics.names.len() as u32;
        for place in &mut self.groups {
            // Coordinators of KIP-848 groups may notice before this is told that it is done.
            place.group.disturb(now, true);
            if self.plan.protocol == Protocol::Consumer {
                place.group.ownership.grow(all);
            }
        }
        let (target, inbox, names) = (self.target.clone(), self.inbox.clone(), self.topics.names.clone());
        let gain = async move {
            let mut came = Ok(partitions);
            for name in &names {
                let one = if adds {
                    target.add_partitions(name, partitions as i32).await.map_err(|error| error.to_string())
                } else {
                    see_partitions(&target, name, partitions as usize).await
                };
                if let Err(why) = one {
                    came = Err(why);
                    break;
                }
            }
            inbox.put(Event::Gained(came));
        };
        ringgate_runtime::spawn_as("a storm", gain).detach();
    }

    pub(super) fn gained(&mut self, came: Result<u32, String>) {
        let partitions = match came {
            Ok(partitions) => partitions,
            Err(why) => {
                self.aborted = Some(why);
                return;
            }
        };
        self.count("storm.gains", 1);
        self.topics.partitions = partitions;
        if self.plan.protocol == Protocol::Consumer {
            return;
        }
        for number in 0..self.groups.len() as u32 {
            let leader = self.groups[number as usize].leader;
            if self.members_of(number).contains(&leader) && self.members[leader as usize].state == State::Stable {
                self.rejoin(leader, false, false);
            }
        }
    }

    /// The schedule has ended: groups that are not stable again count with the time that they waited.
    pub(in crate::scenario) fn give_up_recoveries(&mut self) {
        let (now, at) = (self.now(), self.measured(Instant::now()));
        for place in &self.groups {
            if let Some(since) = place.group.disturbed_at() {
                self.recorder.count("groups.not_recovered", at, 1);
                let waited = Duration::from_nanos(now.saturating_sub(since));
                self.recorder.record(self.operations.recovery, at, waited);
            }
        }
    }
}

/// Waits until a topic has as many partitions as another executor gives it.
async fn see_partitions(target: &ringgate_client::Target, name: &str, partitions: usize) -> Result<(), String> {
    let until = Instant::now() + target.request_timeout();
    loop {
        target.forget_topic(name);
        let seen = target.topic(name).await.map_err(|error| error.to_string())?.leaders.len();
        if seen >= partitions {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("topic {name} still has {seen} partitions instead of {partitions}"));
        }
        ringgate_runtime::sleep(CONTROL_PAUSE).await;
    }
}
