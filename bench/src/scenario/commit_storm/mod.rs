//! `commit-storm`: OffsetCommit, and OffsetFetch among it, by many members that have one request out each.
//!
//! A member has partitions of its own and commits ever higher offsets, so that every OffsetFetch can be judged: it gives
//! the last one that was acknowledged, or one whose answer is missing. At the end every key is read once more.

mod ledger;
mod member;
mod membership;
mod plan;
mod requests;

use std::rc::Rc;
use std::time::{Duration, Instant};

use kafka_protocol::messages::{GroupId, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::Target;
use ringgate_runtime::{Task, spawn_as, timeout};

use member::{Act, Desk, Member, Slot};
use membership::Forming;
pub use plan::{Membership, Plan};
use requests::Identity;

use crate::engine::{Outstanding, Pacer, unless_told};
use crate::limits::{LATE_SENDS, SESSION_TIMEOUT_MAX, SESSION_TIMEOUT_SPARE};
use crate::measure::Window;
use crate::plan::{Arrivals, Common, Load};
use crate::random::{Random, derive};
use crate::result::{Parameter, Unit, Value};
use crate::scenario::leftovers::Leftovers;
use crate::scenario::own_groups;
use crate::scenario::users::Users;
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// One executor's part.
pub struct CommitStorm {
    plan: Plan,
    desk: Rc<Desk>,
    /// By group: its part of all requests, and its members.
    groups: Vec<(f64, Vec<Rc<Member>>)>,
    outstanding: Outstanding,
    working: Vec<Task<()>>,
    topic: Topic,
    /// Until when slots are sent; known when the schedule begins.
    last_send: Option<Instant>,
}

/// The run's own topic, which every executor's offsets are of: they are gone with it.
#[derive(Clone)]
pub struct Topic {
    name: String,
    users: Users,
}

impl Scenario for CommitStorm {
    const NAME: &'static str = "commit-storm";
    const PRIMARY: &'static str = "commit";
    type Plan = Plan;
    type Shared = Topic;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        plan.parameters()
    }

    async fn found(plan: &Plan, seat: &Seat) -> Result<Topic, SetupError> {
        let name = format!("{}-commits", seat.common.prefix);
        let target = Target::reach(&seat.common.client()).await?;
        own_groups::are_new(&target, (0..plan.groups).map(|group| group_name(seat, group))).await?;
        target.create_topic(&name, plan.topic_partitions(), &[]).await?;
        Ok(Topic { name, users: Users::all(seat) })
    }

    async fn prepare(plan: &Plan, shared: &Topic, seat: &Seat) -> Result<CommitStorm, SetupError> {
        let target = Target::reach(&seat.common.client()).await?;
        let desk = Desk::new(&target, &seat.recorder)?;
        let topic = TopicName(StrBytes::from_string(shared.name.clone()));
        let mine = (0..plan.groups).filter(|group| group % u32::from(seat.executors) == u32::from(seat.executor));
        let forming: Vec<_> = mine
            .map(|group| {
                let name = GroupId(StrBytes::from_string(group_name(seat, group)));
                let (desk, topic, plan, session) =
                    (desk.clone(), topic.clone(), plan.clone(), session_timeout(&seat.common));
                spawn_as("form", async move {
                    let members = match plan.membership {
                        Membership::Joined => {
                            Forming::new(&desk.target, name, topic, plan.members, plan.partitions, session)
                                .form()
                                .await?
                        }
                        Membership::Standalone => standalone(&desk.target, &name, &topic, &plan).await?,
                    };
                    let members = members.into_iter().map(|(connection, who)| Member::new(&desk, who, connection));
                    Ok::<_, SetupError>((plan.weight(group), members.collect()))
                })
            })
            .collect();
        let mut groups: Vec<(f64, Vec<Rc<Member>>)> = Vec::new();
        for formed in forming {
            groups.push(formed.await?);
        }
        let working = groups.iter().flat_map(|(_, members)| members);
        let working = working.map(|member| spawn_as("member", member.clone().work())).collect();
        Ok(CommitStorm {
            plan: plan.clone(),
            desk,
            groups,
            outstanding: Outstanding::new(seat.common.max_outstanding),
            working,
            topic: shared.clone(),
            last_send: None,
        })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        self.last_send = Some(window.end + LATE_SENDS);
        match seat.common.load {
            Load::Open { rate, arrivals } => {
                let share: f64 = self.groups.iter().map(|(weight, _)| weight).sum();
                let fetches = self.plan.fetch_share;
                let paced: Vec<Task<()>> = [(Act::Commit, 1.0 - fetches), (Act::Fetch, fetches)]
                    .into_iter()
                    .filter(|(_, part)| part * share > 0.0)
                    .map(|(act, part)| self.pace(act, rate * share * part, arrivals, seat, window))
                    .collect();
                for paced in paced {
                    paced.await;
                }
            }
            Load::Closed | Load::Own => {
                let members = self.groups.iter().flat_map(|(_, members)| members).enumerate();
                let busy: Vec<Task<()>> =
                    members.map(|(nth, member)| self.keep_busy(nth, member.clone(), seat, window)).collect();
                for busy in busy {
                    busy.await;
                }
            }
        }
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        let members = || self.groups.iter().flat_map(|(_, members)| members);
        // Members that are behind go on for a moment, unless the run is to end; what they do not come to is never sent.
        let now = Instant::now();
        let last_send = self.last_send.unwrap_or(now);
        let caught_up = timeout(last_send.saturating_duration_since(now), self.outstanding.none_out());
        let _ = unless_told(&seat.stop, caught_up).await;
        let until = Instant::now().min(last_send);
        members().for_each(|member| member.give_up_queued(until));
        // One request of each member is out at most, and may have to look for the coordinator first.
        let most = seat.common.request_timeout * 2;
        let _ = timeout(most, self.outstanding.none_out()).await;
        for working in self.working {
            working.cancel().await;
        }
        members().for_each(|member| member.give_up_under_way());
        let settling: Vec<Task<()>> = members().map(|member| spawn_as("settle", member.clone().settle(most))).collect();
        for settling in settling {
            settling.await;
        }
        let mut findings = Findings { about: self.desk.target.about(), ..Findings::default() };
        let wrong = self.desk.wrong.take();
        findings.checks.violations.extend([
            ("stale_offsets".to_owned(), wrong.stale),
            ("never_sent_offsets".to_owned(), wrong.never_sent),
            ("unread_offsets".to_owned(), wrong.unread),
        ]);
        findings.checks.examples = wrong.examples;
        let count = |count: usize| Value { value: count as f64, unit: Unit::Count };
        findings.values.insert("members".into(), count(members().count()));
        findings.values.insert("groups".into(), count(self.groups.len()));
        if self.topic.users.leave() {
            let groups = (0..self.plan.groups).map(|group| group_name(seat, group)).collect();
            let made = Leftovers { groups, topics: vec![self.topic.name] };
            if self.plan.keep_topics {
                findings.notes.push(made.kept(&seat.common.prefix));
            } else {
                findings.notes.extend(made.delete(&self.desk.target).await);
            }
        }
        findings
    }
}

impl CommitStorm {
    /// Hands the slots of a schedule to members: to groups by their weights, within a group in turn.
    fn pace(&self, act: Act, rate: f64, arrivals: Arrivals, seat: &Seat, window: Window) -> Task<()> {
        let seed = derive(seat.seed, act as u64);
        let mut pacer = Pacer::new(seat, window, rate, arrivals, seed);
        if act == Act::Fetch {
            pacer = pacer.beside_primary(self.desk.fetch.rt());
        }
        let (groups, outstanding) = (self.groups.clone(), self.outstanding.clone());
        spawn_as("pace", async move {
            let mut random = Random::new(derive(seed, 1));
            let total: f64 = groups.iter().map(|(weight, _)| weight).sum();
            let mut turns = vec![0; groups.len()];
            while let Some(intended) = pacer.next().await {
                let Some(permit) = pacer.admit(&outstanding, intended).await else { return };
                let mut left = random.unit() * total;
                let chosen = groups.iter().position(|(weight, _)| {
                    left -= weight;
                    left < 0.0
                });
                let chosen = chosen.unwrap_or(groups.len() - 1);
                let members = &groups[chosen].1;
                let turn = turns[chosen];
                turns[chosen] = (turn + 1) % members.len();
                members[turn].give(Slot { act, intended, permit: Some(permit) });
            }
        })
    }

    /// Closed loop: one request after the other until the window ends.
    fn keep_busy(&self, nth: usize, member: Rc<Member>, seat: &Seat, window: Window) -> Task<()> {
        let (stop, fetch_share) = (seat.stop.clone(), self.plan.fetch_share);
        let mut random = Random::new(derive(seat.seed, nth as u64));
        spawn_as("busy", async move {
            loop {
                let now = Instant::now();
                if now >= window.end || stop.is_told() {
                    return;
                }
                let act = if random.unit() < fetch_share { Act::Fetch } else { Act::Commit };
                member.act(act, now).await;
            }
        })
    }
}

fn group_name(seat: &Seat, group: u32) -> String {
    format!("{}-commits-{group}", seat.common.prefix)
}

/// Members in nothing but name, each with a connection to the coordinator.
async fn standalone(
    target: &Target,
    group: &GroupId,
    topic: &TopicName,
    plan: &Plan,
) -> Result<Vec<(ringgate_client::Connection, Identity)>, SetupError> {
    let coordinator = target.coordinator(&group.0).await?;
    let each = i32::try_from(plan.partitions).unwrap_or(i32::MAX);
    let mut members = Vec::new();
    for nth in 0..i32::try_from(plan.members).unwrap_or(i32::MAX) {
        let who = Identity {
            group: group.clone(),
            member: StrBytes::default(),
            generation: -1,
            topic: topic.clone(),
            partitions: (nth * each..(nth + 1) * each).collect(),
        };
        members.push((target.connect(&coordinator).await?, who));
    }
    Ok(members)
}

/// Long enough for the whole run: members send no heartbeats, and not every commit need extend a session.
fn session_timeout(common: &Common) -> Duration {
    (common.warmup + common.duration + common.request_timeout + SESSION_TIMEOUT_SPARE).min(SESSION_TIMEOUT_MAX)
}
