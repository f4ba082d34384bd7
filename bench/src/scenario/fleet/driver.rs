//! One executor's part of a fleet: one task that looks at what has happened and what is due.
//!
//! Members are no tasks: 100,000 of them are rows of a table, and what holds buffers is the task of a connection.
//! Whatever has to wait for something (a coordinator, a connection, an answer) leaves the member in the state that says so,
//! and `advance` takes it on from there.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::GroupId;
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Answered, CallError, Permits, Target};
use ringgate_runtime::Budget;
use uuid::Uuid;

use super::assignor::subscription;
use super::fetchers::Fetchers;
use super::group::Group;
use super::inbox::{Ask, Asked, Event, Inbox};
use super::links::Links;
use super::member::{Member, NONE, State};
use super::operations::{Operations, Versions};
use super::out::Out;
use super::plan::{Plan, Protocol};
use super::storm::Storm;
use super::timers::{Nanos, Timers};
use super::vanished::Vanished;
use crate::engine::{OTHER_SLOTS, SLOTS};
use crate::limits::{FLEET_CONNECTING_MAX, FLEET_TURN, LATE_SENDS, MEMBER_PAUSE};
use crate::measure::{Recorder, Window};
use crate::random::Random;
use crate::scenario::users::Users;
use crate::scenario::{Seat, SetupError};
use crate::stop::Stop;

/// The topics that all groups subscribe to.
#[derive(Debug, Clone)]
pub struct Topics {
    /// Names, by number.
    pub names: Vec<StrBytes>,
    /// Ids, by number.
    pub ids: Vec<Uuid>,
    /// Partitions of each.
    pub partitions: u32,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A member begins to join.
    Start(u32),
    /// A member's next heartbeat, in this life.
    Heartbeat(u32, u32),
    /// A member's next commit.
    Commit(u32, u32),
    /// A member tries again.
    Retry(u32, u32),
    /// A group's coordinator is asked for again.
    Find(u32),
    /// Something of the storm's.
    Storm(u32),
    /// A member's next fetch, by the fetcher that was born as this one.
    Fetch(u32, u32),
}

/// A group and where it is coordinated.
pub(super) struct Place {
    pub name: StrBytes,
    pub group: Group,
    /// The coordinator's number.
    pub coordinator: Option<u32>,
    pub finding: bool,
    /// The member that leads a classic group.
    pub leader: u32,
    /// Who vanished without a word.
    pub vanished: Vanished,
}

/// See the module.
pub struct Fleet {
    pub(super) plan: Rc<Plan>,
    pub(super) topics: Topics,
    pub(super) subscription: Bytes,
    pub(super) target: Target,
    pub(super) versions: Versions,
    /// Time 0.
    pub(super) base: Instant,
    pub(super) window: Option<Window>,
    pub(super) inbox: Inbox,
    pub(super) timers: Timers<Due>,
    pub(super) random: Random,
    pub(super) groups: Vec<Place>,
    pub(super) members: Vec<Member>,
    pub(super) links: Links,
    /// Of members that fetch.
    pub(super) fetchers: Fetchers,
    pub(super) connecting: Permits,
    pub(super) recorder: Recorder,
    pub(super) operations: Operations,
    /// Requests without an answer.
    pub(super) out: Out,
    /// Nothing is asked any more.
    pub(super) closing: bool,
    /// All members have been told to leave.
    pub(super) leaving: bool,
    /// Partitions of stable groups that nobody had.
    pub(super) unassigned: u64,
    pub(super) examples: Vec<String>,
    /// Before there was any member.
    pub(super) resident: super::Resident,
    /// Executors that still have members.
    pub(super) users: Users,
    /// Groups that were stable when the schedule ended.
    pub(super) stable_at_end: usize,
    /// Why it cannot go on.
    pub(super) aborted: Option<String>,
    /// What happens to the fleet, and who decides it.
    pub(super) storm: Option<Box<dyn Storm>>,
}

impl Fleet {
    /// The groups of this executor, none of whose members has joined yet; their coordinators are known, and with a
    /// connection per member all are connected.
    ///
    /// # Errors
    /// The target cannot be reached, lacks an API, or has no coordinator for a group.
    pub async fn prepare(plan: &Plan, shared: &super::Shared, seat: &Seat) -> Result<Fleet, SetupError> {
        let topics = shared.topics.clone();
        // A join is answered when the others have joined: after the rebalance timeout at the latest. Clients wait that
        // long for it, and five seconds more.
        let request_timeout = seat.common.request_timeout.max(plan.rebalance_timeout + Duration::from_secs(5));
        let common = crate::plan::Common { request_timeout, ..(*seat.common).clone() };
        let target = Target::reach(&common.client()).await?;
        let versions = Versions::new(&target, plan)?;
        let (executor, executors) = (u32::from(seat.executor), u32::from(seat.executors));
        let mine = (0..plan.groups).filter(|group| group % executors == executor);
        let names: Vec<String> = mine.map(|group| super::group_name(seat, group)).collect();
        let anew = plan.protocol == Protocol::Classic;
        let partitions = topics.partitions * plan.topics;
        let groups: Vec<Place> = names
            .iter()
            .map(|name| Place {
                name: StrBytes::from_string(name.clone()),
                group: Group::new(plan.members, partitions, anew),
                coordinator: None,
                finding: false,
                leader: NONE,
                vanished: Vanished::new(plan),
            })
            .collect();
        let members: Vec<Member> =
            (0..groups.len() as u32 * plan.members).map(|m| Member::new(m / plan.members)).collect();
        let own = if plan.shared_conn == 0 { members.len() } else { 0 };
        let fetching = if plan.poll.is_some() { members.len() } else { 0 };
        let mut fleet = Fleet {
            plan: Rc::new(plan.clone()),
            subscription: subscription(&topics.names),
            topics,
            versions,
            base: Instant::now(),
            window: None,
            inbox: Inbox::default(),
            timers: Timers::default(),
            random: Random::new(seat.seed),
            groups,
            members,
            links: Links::new(own),
            fetchers: Fetchers::new(fetching),
            connecting: Permits::new(FLEET_CONNECTING_MAX),
            recorder: seat.recorder.clone(),
            operations: Operations::new(&seat.recorder),
            out: Out::default(),
            closing: false,
            leaving: false,
            unassigned: 0,
            examples: Vec::new(),
            storm: None,
            aborted: None,
            resident: shared.resident,
            users: shared.users.clone(),
            stable_at_end: 0,
            target,
        };
        let coordinators = fleet.target.coordinators(&names).await?;
        for (place, address) in fleet.groups.iter_mut().zip(coordinators) {
            place.coordinator = Some(fleet.links.broker(address));
        }
        fleet.connect_all(own).await?;
        if plan.poll.is_some() {
            let led = super::polls::led(&fleet.target, &fleet.topics, true).await?;
            fleet.are_led(Ok(led));
        }
        Ok(fleet)
    }

    async fn connect_all(&mut self, own: usize) -> Result<(), SetupError> {
        for member in 0..own as u32 {
            if let Some(broker) = self.groups[self.members[member as usize].group as usize].coordinator {
                self.home(member, broker);
            }
        }
        for _ in 0..own {
            poll_fn(|cx| self.inbox.poll(cx)).await;
            match self.inbox.take() {
                Some(Event::Connected { came: Err(error), .. }) => {
                    let standing = self.links.connected();
                    return Err(SetupError(format!("after {standing} connections of {own}: {error}")));
                }
                Some(Event::Connected { link, attempt, came }) => self.connected(link, attempt, came),
                _ => {}
            }
        }
        Ok(())
    }

    /// Nanoseconds since the fleet was made.
    pub(in crate::scenario) fn now(&self) -> Nanos {
        self.nanos(Instant::now())
    }

    pub(super) fn now_instant(&self) -> Instant {
        Instant::now()
    }

    pub(in crate::scenario) fn nanos(&self, at: Instant) -> Nanos {
        at.saturating_duration_since(self.base).as_nanos() as Nanos
    }

    pub(super) fn instant(&self, at: Nanos) -> Instant {
        self.base + Duration::from_nanos(at)
    }

    /// Has every member join in its turn, from the window's start on.
    pub fn start(&mut self, window: Window, executors: u16) {
        self.window = Some(window);
        let gap = f64::from(executors) * 1e9 / self.plan.join_rate;
        let start = self.nanos(window.start);
        for member in 0..self.members.len() as u32 {
            self.timers.set(start + (f64::from(member) * gap) as Nanos, Due::Start(member));
        }
    }

    /// Drives until then, or until the run is told to stop, or `done`.
    pub async fn drive(&mut self, until: Instant, stop: Option<&Stop>, done: impl Fn(&Fleet) -> bool) {
        let mut budget = Budget::new();
        let mut told = pin!(async {
            match stop {
                Some(stop) => stop.told().await,
                None => std::future::pending().await,
            }
        });
        loop {
            let mut turn = 0;
            while turn < FLEET_TURN
                && let Some(event) = self.inbox.take()
            {
                self.happened(event);
                turn += 1;
            }
            let now = Instant::now();
            if stop.is_some_and(Stop::is_told) || done(self) {
                return;
            }
            if now >= until {
                if stop.is_some() {
                    self.send_what_was_due(until, &mut budget).await;
                }
                return;
            }
            while turn < FLEET_TURN
                && let Some((at, due)) = self.timers.due(self.nanos(now))
            {
                self.is_due(at, due);
                turn += 1;
            }
            if turn > 0 {
                budget.turn().await;
                continue;
            }
            let next = self.timers.next().map_or(until, |at| self.instant(at).min(until));
            let mut over = pin!(ringgate_runtime::sleep_until(next));
            poll_fn(|cx| {
                if self.inbox.poll(cx).is_ready() || told.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                over.as_mut().poll(cx)
            })
            .await;
            budget.renew();
        }
    }

    /// What was due by the window's end and would be left over, since this executor looks too late for it, is sent, as
    /// other scenarios' slots are.
    async fn send_what_was_due(&mut self, end: Instant, budget: &mut Budget) {
        let mut turn = 0;
        while Instant::now() < end + LATE_SENDS
            && let Some((at, due)) = self.timers.due(self.nanos(end))
        {
            self.is_due(at, due);
            turn += 1;
            if turn % FLEET_TURN == 0 {
                budget.turn().await;
            }
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Answer { number, came, at } => {
                if let Some(asked) = self.out.ended(number) {
                    self.answered(asked, came, at);
                }
            }
            Event::Connected { link, attempt, came } => self.connected(link, attempt, came),
            Event::Lost { link, attempt } => self.lost(link, attempt),
            Event::Coordinator { group, came } => self.found(group, came),
            Event::Gained(came) => self.gained(came),
            Event::Led(came) => self.are_led(came),
        }
    }

    fn is_due(&mut self, at: Nanos, due: Due) {
        if self.closing {
            return;
        }
        match due {
            Due::Start(member) => {
                if self.members[member as usize].state == State::Away {
                    self.members[member as usize].state = State::ToJoin;
                    self.advance(member);
                }
            }
            Due::Retry(member, life) => {
                let row = &mut self.members[member as usize];
                if row.life == life && row.state == State::Pausing {
                    row.state = State::ToJoin;
                }
                if row.life == life {
                    self.advance(member);
                }
            }
            Due::Heartbeat(member, life) => {
                let row = &mut self.members[member as usize];
                if row.life == life && row.state == State::Stable {
                    row.heartbeat_waits = true;
                    let free = !row.heartbeat_out;
                    self.advance(member);
                    self.slot(at, SLOTS, free && !self.members[member as usize].heartbeat_waits);
                }
            }
            Due::Commit(member, life) => {
                let row = &mut self.members[member as usize];
                if row.life == life && row.state == State::Stable {
                    row.commit_waits = true;
                    let free = !row.commit_out;
                    self.advance(member);
                    self.slot(at, OTHER_SLOTS, free && !self.members[member as usize].commit_waits);
                }
            }
            Due::Find(group) => self.find(group),
            Due::Fetch(member, born) => self.fetch_is_due(at, member, born),
            Due::Storm(what) => self.of_storm(|storm, fleet| storm.due(fleet, at, what)),
        }
    }

    /// Connections that stand.
    pub(super) fn connections(&self) -> usize {
        self.links.connected()
    }

    /// Takes a member on from where it is, as far as it goes without waiting.
    pub(super) fn advance(&mut self, member: u32) {
        if self.closing {
            return;
        }
        let row = &self.members[member as usize];
        let wants = match row.state {
            State::ToJoin => true,
            State::Stable => {
                (!row.heartbeat_out && (row.heartbeat_waits || row.owes_heartbeat))
                    || (row.commit_waits && !row.commit_out)
            }
            _ => false,
        };
        if !wants {
            return;
        }
        let group = row.group;
        let Some(broker) = self.groups[group as usize].coordinator else {
            self.find(group);
            return;
        };
        match (self.members[member as usize].state, self.plan.protocol) {
            (State::ToJoin, Protocol::Classic) => {
                if let Some(place) = self.lobby(member, broker) {
                    self.send_join(member, place);
                }
            }
            (State::ToJoin, Protocol::Consumer) => {
                if let Some(place) = self.home(member, broker) {
                    self.send_first(member, place);
                }
            }
            _ => {
                let Some(place) = self.home(member, broker) else { return };
                let row = &self.members[member as usize];
                if !row.heartbeat_out && (row.heartbeat_waits || row.owes_heartbeat) {
                    self.send_heartbeat(member, place);
                }
                let row = &self.members[member as usize];
                if row.commit_waits && !row.commit_out {
                    self.send_commit(member, place);
                }
            }
        }
    }

    fn send_heartbeat(&mut self, member: u32, place: u32) {
        let interval = self.interval(self.plan.hb_interval);
        let row = &mut self.members[member as usize];
        row.heartbeat_out = true;
        let (what, intended) = if row.heartbeat_waits {
            row.heartbeat_waits = false;
            let intended = row.next_heartbeat;
            if !self.plan.closed {
                row.next_heartbeat += interval;
                let life = row.life;
                self.timers.set(intended + interval, Due::Heartbeat(member, life));
            }
            (Ask::Heartbeat, self.instant(intended))
        } else {
            (Ask::ExtraHeartbeat, Instant::now())
        };
        match self.plan.protocol {
            Protocol::Classic => {
                self.members[member as usize].owes_heartbeat = false;
                self.send_classic_heartbeat(member, place, what, intended);
            }
            Protocol::Consumer => self.send_consumer_heartbeat(member, place, what, intended),
        }
    }

    /// A member holds an assignment: its heartbeats and commits begin, somewhere within their first interval, so
    /// that members that joined together do not heartbeat together.
    pub(super) fn settle_down(&mut self, member: u32) {
        let now = self.now();
        let first = (self.plan.hb_interval.as_nanos() as f64 * self.random.unit()) as Nanos;
        let commit = self.plan.commit_interval.map(|mean| (mean.as_nanos() as f64 * self.random.unit()) as Nanos);
        let row = &mut self.members[member as usize];
        row.state = State::Stable;
        let life = row.life;
        row.next_heartbeat = now + first;
        if self.plan.closed {
            self.beats_again(member);
        } else {
            self.timers.set(now + first, Due::Heartbeat(member, life));
        }
        if let Some(commit) = commit {
            self.members[member as usize].next_commit = now + commit;
            self.timers.set(now + commit, Due::Commit(member, life));
        }
        self.leave_lobby(member);
        self.fetch_owned(member);
        if self.plan.closed {
            self.advance(member);
        }
    }

    /// In a closed loop a member that is well has its next heartbeat to send.
    pub(super) fn beats_again(&mut self, member: u32) {
        let now = self.now();
        let row = &mut self.members[member as usize];
        if self.plan.closed && row.state == State::Stable && !row.heartbeat_waits {
            row.heartbeat_waits = true;
            row.next_heartbeat = now;
        }
    }

    /// A member gives up what it holds and joins again, at once or after a pause. `forgotten` when the coordinator knows
    /// it no more.
    pub(super) fn rejoin(&mut self, member: u32, forgotten: bool, pause: bool) {
        self.unsettle(member);
        let row = &mut self.members[member as usize];
        row.begin_life();
        row.state = State::ToJoin;
        if forgotten {
            if self.plan.protocol == Protocol::Classic {
                // With KIP-848 a member keeps its id for life.
                row.id = StrBytes::default();
            }
            row.generation = 0;
            self.release_all(member);
        }
        self.fetch_owned(member);
        if pause {
            self.pause(member);
        } else {
            self.advance(member);
        }
    }

    /// A member holds its assignment no more.
    pub(super) fn unsettle(&mut self, member: u32) {
        let row = &mut self.members[member as usize];
        if std::mem::take(&mut row.counted) {
            let (group, generation) = (row.group, row.generation);
            self.groups[group as usize].group.unsettles(generation);
        }
    }

    /// Nothing is a member's any more.
    pub(super) fn release_all(&mut self, member: u32) {
        let row = &mut self.members[member as usize];
        let assignment = std::mem::take(&mut row.assignment);
        let released = std::mem::take(&mut row.to_release);
        let ownership = &mut self.groups[row.group as usize].group.ownership;
        ownership.release(member, assignment.iter().chain(&released).copied());
    }

    /// A member tries again in a while.
    pub(super) fn pause(&mut self, member: u32) {
        let at = self.now() + MEMBER_PAUSE.as_nanos() as Nanos + self.random.below(MEMBER_PAUSE.as_nanos() as u64);
        let row = &mut self.members[member as usize];
        if row.state == State::ToJoin {
            row.state = State::Pausing;
        }
        let life = row.life;
        self.timers.set(at, Due::Retry(member, life));
    }

    /// The group may have become stable.
    pub(super) fn look_at(&mut self, number: u32) {
        let now = self.now();
        let range = self.members_of(number);
        let members = &self.members[range.start as usize..range.end as usize];
        let place = &mut self.groups[number as usize];
        // Leaders of classic groups have assigned to all. Any assignor of KIP-848 gives a member one of each topic's
        // partitions, as far as there are as many.
        let wanted = place.group.present().min(self.topics.partitions) as usize;
        let classic = self.plan.protocol == Protocol::Classic;
        let is_spread = || classic || members.iter().filter(|row| !row.assignment.is_empty()).count() >= wanted;
        let Some(became) = place.group.became_stable(now, is_spread) else { return };
        let unassigned = place.group.ownership.unassigned();
        if unassigned > 0 {
            self.unassigned += u64::from(unassigned);
            if self.examples.len() < crate::limits::CHECK_EXAMPLES_MAX {
                let (name, generation) = (&place.name, place.group.generation());
                self.examples
                    .push(format!("group {name}, generation {generation}: {unassigned} partitions have no owner"));
            }
        }
        let at = self.measured(Instant::now());
        for (series, span) in [
            (self.operations.stable, became.formed),
            (self.operations.settle, became.settled),
            (self.operations.recovery, became.recovered),
        ] {
            if let Some(span) = span {
                self.recorder.record(series, at, Duration::from_nanos(span));
            }
        }
        if became.wasted > 0 {
            self.recorder.count("generations.wasted", at, became.wasted);
        }
        self.of_storm(|storm, fleet| storm.stable(fleet, number));
    }

    pub(super) fn of_storm(&mut self, then: impl FnOnce(&mut dyn Storm, &mut Fleet)) {
        if let Some(mut storm) = self.storm.take() {
            then(&mut *storm, self);
            self.storm = Some(storm);
        }
    }

    /// A group's members.
    pub(in crate::scenario) fn members_of(&self, group: u32) -> std::ops::Range<u32> {
        group * self.plan.members..(group + 1) * self.plan.members
    }

    /// Whether the warm-up is over.
    pub(in crate::scenario) fn is_measured(&self) -> bool {
        self.window.is_some_and(|window| Instant::now() >= window.measure_from)
    }

    /// What is not on a schedule counts in the measured window also when it falls into the warm-up.
    pub(super) fn measured(&self, at: Instant) -> Instant {
        self.window.map_or(at, |window| at.max(window.measure_from))
    }

    pub(super) fn count(&mut self, name: &'static str, by: u64) {
        let at = self.measured(Instant::now());
        self.recorder.count(name, at, by);
    }

    /// Counts an error.
    pub(super) fn failed(&mut self, operation: &'static str, code: i16, at: Instant) {
        self.recorder.error(operation, code, at);
    }

    pub(super) fn group_id(&self, member: u32) -> GroupId {
        GroupId(self.groups[self.members[member as usize].group as usize].name.clone())
    }

    pub(super) fn instance_id(&self, member: u32) -> Option<StrBytes> {
        let row = &self.members[member as usize];
        self.plan.is_static.then(|| {
            let name = &self.groups[row.group as usize].name;
            StrBytes::from_string(format!("{name}-m{}", member % self.plan.members))
        })
    }

    fn answered(&mut self, asked: Asked, came: Result<Answered, CallError>, at: Instant) {
        match (asked.what, self.plan.protocol) {
            (Ask::Join, Protocol::Classic) => self.joined(asked, came, at),
            (Ask::Sync, _) => self.synced(asked, came, at),
            (Ask::Heartbeat | Ask::ExtraHeartbeat, Protocol::Classic) => self.beaten(asked, came, at),
            (Ask::Join | Ask::Heartbeat | Ask::ExtraHeartbeat, _) => self.told(asked, came, at),
            (Ask::Commit, _) => self.committed(asked, came, at),
            (Ask::Leave, _) => self.left(asked, came, at),
            (Ask::Fetch(born), _) => self.fetched(asked, born, came, at),
        }
    }
}
