//! `fleet`: many consumer groups that join, heartbeat and commit, as real clients do it.
//!
//! Heartbeats are an open loop: each member has a schedule of its own with jitter, and a heartbeat that could not be
//! sent in time, since the one before has no answer, counts from when it was meant to be sent. With `--closed` a member's
//! next heartbeat follows the answer to the last. Joins begin at a given
//! rate from the start of the schedule; what joins and assignments take, and how long groups take to be stable, is
//! measured also where it falls into the warm-up. What must stay true: a partition has one owner in a generation.

pub(in crate::scenario) mod assignor;
mod classic;
pub(in crate::scenario) mod codes;
mod commits;
mod consumer;
mod coordinators;
mod driver;
mod fetchers;
mod group;
mod inbox;
mod links;
mod member;
mod operations;
mod out;
mod plan;
mod polls;
mod slots;
mod storm;
mod timers;
mod vanished;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_protocol::protocol::StrBytes;
use ringgate_client::Target;

pub use assignor::Assignor;
pub use driver::{Fleet as Members, Topics};
use member::Member;
pub(in crate::scenario) use member::State;
pub use plan::{Flags, Plan, Protocol};
pub(in crate::scenario) use plan::{above_zero, time};
pub(in crate::scenario) use storm::Storm;
pub(in crate::scenario) use timers::Nanos;

use crate::host::{Root, memory};
use crate::limits::FLEET_DRAIN_LOOK;
use crate::measure::Window;
use crate::result::{Checks, Parameter, Unit, Value};
use crate::scenario::leftovers::Leftovers;
use crate::scenario::own_groups;
use crate::scenario::users::Users;
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// What all executors share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The topics.
    pub topics: Topics,
    /// Executors that still use them, or groups.
    pub(in crate::scenario) users: Users,
    /// Before there was any member.
    pub resident: Resident,
}

/// One executor's part.
pub struct Fleet(Members);

impl Scenario for Fleet {
    const NAME: &'static str = "fleet";
    const PRIMARY: &'static str = "heartbeat";
    type Plan = Plan;
    type Shared = Shared;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        plan.parameters()
    }

    async fn found(plan: &Plan, seat: &Seat) -> Result<Shared, SetupError> {
        found(plan, seat).await
    }

    async fn prepare(plan: &Plan, shared: &Shared, seat: &Seat) -> Result<Fleet, SetupError> {
        Members::prepare(plan, shared, seat).await.map(Fleet)
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        self.0.start(window, seat.executors);
        self.0.drive(window.end, Some(&seat.stop), |_| false).await;
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        self.0.finish(seat).await
    }
}

/// The groups' names, by number.
fn group_name(seat: &Seat, group: u32) -> String {
    format!("{}-g{group}", seat.common.prefix)
}

/// Makes the topics of a fleet.
///
/// # Errors
/// The target cannot be reached, has one of the groups already, or refuses.
pub(in crate::scenario) async fn found(plan: &Plan, seat: &Seat) -> Result<Shared, SetupError> {
    let target = Target::reach(&seat.common.client()).await?;
    own_groups::are_new(&target, (0..plan.groups).map(|group| group_name(seat, group))).await?;
    let mut topics = Topics { names: Vec::new(), ids: Vec::new(), partitions: plan.partitions };
    for number in 0..plan.topics {
        let name = format!("{}-t{number}", seat.common.prefix);
        // The bound of all partitions is far below.
        target.create_topic(&name, plan.partitions as i32, &[]).await?;
        let topic = target.topic(&name).await?;
        topics.names.push(StrBytes::from_string(name));
        topics.ids.push(topic.id);
    }
    Ok(Shared { topics, users: Users::all(seat), resident: Resident::now(seat) })
}

impl Members {
    /// Waits for what is outstanding, has all members leave, and tells what was found.
    pub async fn finish(mut self, seat: &Seat) -> Findings {
        self.closing = true;
        let ended = Instant::now();
        let connections = self.connections();
        let resident = Resident::now(seat);
        self.give_up_slots(ended);
        let in_vain = self.drain(seat).await;
        self.connect_to_leave(Instant::now() + seat.common.request_timeout).await;
        self.leaving = true;
        self.leave_everything();
        self.drain(seat).await;

        let mut values = BTreeMap::new();
        let mut put = |name: &str, value: f64, unit| values.insert(name.to_string(), Value { value, unit });
        let count = |n: usize| n as f64;
        put("groups", count(self.groups.len()), Unit::Count);
        put("members", count(self.members.len()), Unit::Count);
        put("connections", count(connections), Unit::Count);
        let formed = self.groups.iter().filter(|place| place.group.is_formed()).count();
        put("groups_formed", count(formed), Unit::Count);
        let stable = self.stable_at_end;
        put("groups_stable", count(stable), Unit::Count);
        let all_formed = formed == self.groups.len();
        if seat.executor == 0 && all_formed {
            for (name, before, now) in [
                ("generator_bytes_per_member", self.resident.generator, resident.generator),
                ("server_bytes_per_member", self.resident.server, resident.server),
            ] {
                if let Some((before, now)) = before.zip(now) {
                    let each = (now as f64 - before as f64) / f64::from(self.plan.all_members());
                    put(name, each, Unit::Bytes);
                }
            }
        }
        if in_vain > 0 {
            put("joins_unanswered", count(in_vain), Unit::Count);
        }
        let mut notes = Vec::new();
        if in_vain > 0 {
            notes.push(
                "Some joins were unanswered at the end (`joins_unanswered`), for they waited for members that had still to \
                 learn of the rebalance by their next heartbeat: they are in `join.rt` with the time until then, which is \
                 less than they would have taken"
                    .into(),
            );
        }
        if !all_formed {
            notes.push(
                "Not all groups became stable: `stable` and `settle` tell of those only that did, and heartbeats are \
                 fewer than they would be"
                    .into(),
            );
        }
        if self.plan.shared_conn > 0 {
            notes.push(
                "Members shared connections (--shared-conn): what a target takes per connection is not in this result"
                    .into(),
            );
        }
        if self.plan.poll.is_some() && self.plan.shared_conn > 0 {
            notes.push("Fetches shared connections (--shared-conn), so none of them waited at the target".into());
        }
        let mut checks = Checks::default();
        let all = |of: fn(&crate::check::Ownership) -> u64| -> u64 {
            self.groups.iter().map(|place| of(&place.group.ownership)).sum()
        };
        checks.violations.insert("owned_twice".into(), all(|ownership| ownership.owned_twice));
        checks.violations.insert("unknown_partitions".into(), all(|ownership| ownership.unknown));
        checks.violations.insert("unassigned".into(), self.unassigned);
        let examples = self.groups.iter().flat_map(|place| {
            place.group.ownership.examples.iter().map(move |example| format!("group {}: {example}", place.name))
        });
        checks.examples =
            self.examples.iter().cloned().chain(examples).take(crate::limits::CHECK_EXAMPLES_MAX).collect();
        notes.extend(self.take_away(seat).await);
        Findings { checks, values, notes, ..Findings::default() }
    }

    /// When no executor has members any more, groups and topics go. Gives what there is to say of it.
    async fn take_away(&self, seat: &Seat) -> Vec<String> {
        if !self.users.leave() {
            return Vec::new();
        }
        let made = Leftovers {
            groups: (0..self.plan.groups).map(|group| group_name(seat, group)).collect(),
            topics: self.topics.names.iter().map(ToString::to_string).collect(),
        };
        if self.plan.keep_topics { vec![made.kept(&seat.common.prefix)] } else { made.delete(&self.target).await }
    }

    /// Waits for what is outstanding, but not for joins that are in vain; gives how many of these there are. What has no
    /// answer then has timed out.
    async fn drain(&mut self, seat: &Seat) -> usize {
        let until = Instant::now() + seat.common.request_timeout + Duration::from_secs(1);
        loop {
            let look = (Instant::now() + FLEET_DRAIN_LOOK).min(until);
            self.drive(look, None, |fleet| fleet.out.len() == 0).await;
            let in_vain = if self.leaving { 0 } else { self.joins_in_vain() };
            if self.out.len() <= in_vain {
                return in_vain;
            }
            if Instant::now() >= until {
                self.give_up_outstanding(self.leaving);
                return in_vain;
            }
        }
    }

    /// Joins whose group has members that do not join again, since nobody sends heartbeats any more: the coordinator answers
    /// when it has given those up.
    fn joins_in_vain(&self) -> usize {
        if self.plan.protocol == Protocol::Consumer {
            return 0;
        }
        let is_awaited = |row: &Member| match row.state {
            State::Stable => !row.heartbeat_out,
            State::ToJoin | State::Pausing => !row.id.is_empty(),
            _ => false,
        };
        let in_vain = (0..self.groups.len() as u32).map(|group| {
            let range = self.members_of(group);
            let members = &self.members[range.start as usize..range.end as usize];
            let joining = members.iter().filter(|row| row.state == State::Joining).count();
            if members.iter().any(is_awaited) { joining } else { 0 }
        });
        in_vain.sum()
    }
}

/// Resident bytes of a process, if the kernel tells.
fn resident_bytes(pid: u32) -> Option<u64> {
    memory(&Root::default(), pid).ok().map(|memory| memory.rss_bytes)
}

/// Resident bytes of this process and of the server's, where they are known.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    generator: Option<u64>,
    server: Option<u64>,
}

impl Resident {
    fn now(seat: &Seat) -> Resident {
        Resident { generator: resident_bytes(std::process::id()), server: seat.server_pid.and_then(resident_bytes) }
    }
}
