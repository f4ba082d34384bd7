//! The fleet's connections: one per member, or a few that members share and some for who is joining.

use std::time::Instant;

use kafka_protocol::protocol::Request;
use ringgate_client::{Address, CallError, Connection, Link};

use super::driver::Fleet;
use super::inbox::{Asked, Event, Tell};
use super::member::{NONE, State};
use crate::limits::{FLEET_DRAIN_LOOK, LOBBY_KEPT};

/// A place for a connection.
#[derive(Default)]
pub(super) struct Place {
    /// Whom it reaches, or is to reach.
    broker: u32,
    link: Option<Link<Tell>>,
    /// Counts connections, to tell what is heard of an earlier one.
    attempt: u32,
    connecting: bool,
    /// It is for fetches.
    fetches: bool,
    /// Members to go on when it is connected.
    waiting: Vec<u32>,
}

/// All places of an executor.
#[derive(Default)]
pub(super) struct Links {
    places: Vec<Place>,
    brokers: Vec<Address>,
    /// With shared connections, the first of each broker's; `NONE` before there is one.
    shared: Vec<u32>,
    /// The same for fetches.
    shared_fetches: Vec<u32>,
    /// With shared connections, by broker: connections of members that have joined.
    lobby: Vec<Vec<u32>>,
    /// Places that nobody uses.
    free: Vec<u32>,
    /// Connections of members that went silent.
    abandoned: Vec<Link<Tell>>,
}

impl Links {
    /// With a place for each member, unless they share.
    pub(super) fn new(own: usize) -> Links {
        let mut links = Links::default();
        links.places.resize_with(own, Place::default);
        links
    }

    /// The number of a broker.
    pub(super) fn broker(&mut self, address: Address) -> u32 {
        let known = self.brokers.iter().position(|known| *known == address);
        let number = known.unwrap_or_else(|| {
            self.brokers.push(address);
            self.shared.push(NONE);
            self.shared_fetches.push(NONE);
            self.lobby.push(Vec::new());
            self.brokers.len() - 1
        });
        number as u32
    }

    fn place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        })
    }

    /// Where a member's heartbeats and commits go.
    fn home(&mut self, member: u32, broker: u32, shared: u32) -> u32 {
        if shared == 0 {
            return member;
        }
        if self.shared[broker as usize] == NONE {
            self.shared[broker as usize] = self.places.len() as u32;
            self.places.resize_with(self.places.len() + shared as usize, Place::default);
        }
        self.shared[broker as usize] + member % shared
    }

    /// Where a member's fetches go, where members share.
    fn shared_fetches(&mut self, member: u32, broker: u32, shared: u32) -> u32 {
        if self.shared_fetches[broker as usize] == NONE {
            self.shared_fetches[broker as usize] = self.places.len() as u32;
            let place = || Place { fetches: true, ..Place::default() };
            self.places.resize_with(self.places.len() + shared as usize, place);
        }
        self.shared_fetches[broker as usize] + member % shared
    }

    fn usable(&self, place: u32, broker: u32) -> bool {
        let place = &self.places[place as usize];
        place.broker == broker && place.link.as_ref().is_some_and(|link| link.ended().is_none())
    }

    /// Connections that stand.
    pub(super) fn connected(&self) -> usize {
        self.places.iter().filter(|place| place.link.is_some()).count()
    }
}

impl Fleet {
    /// The connection for a member's heartbeats and commits to this broker, if it stands; otherwise the member goes on
    /// when it does.
    pub(super) fn home(&mut self, member: u32, broker: u32) -> Option<u32> {
        let place = self.links.home(member, broker, self.plan.shared_conn);
        self.reach(place, broker, member)
    }

    /// Any connection to this broker that a group's members may use and that no join holds up.
    pub(super) fn standing(&mut self, group: u32, broker: u32) -> Option<u32> {
        let shared = self.plan.shared_conn;
        self.members_of(group).find_map(|member| {
            let is_free = shared > 0 || self.members[member as usize].state != State::Joining;
            let place = self.links.home(member, broker, shared);
            (is_free && self.links.usable(place, broker)).then_some(place)
        })
    }

    /// Connects for groups that have no connection to leave over: members that share have none before they heartbeat.
    pub(super) async fn connect_to_leave(&mut self, until: Instant) {
        for group in 0..self.groups.len() as u32 {
            let Some(broker) = self.groups[group as usize].coordinator else { continue };
            if self.plan.shared_conn > 0 && self.standing(group, broker).is_none() {
                self.home(self.members_of(group).start, broker);
            }
        }
        while Instant::now() < until && self.links.places.iter().any(|place| place.connecting) {
            self.drive((Instant::now() + FLEET_DRAIN_LOOK).min(until), None, |_| false).await;
        }
    }

    /// The connection for a member's join: its own, also where members share, since a join holds up what is behind it.
    pub(super) fn lobby(&mut self, member: u32, broker: u32) -> Option<u32> {
        if self.plan.shared_conn == 0 {
            return self.reach(member, broker, member);
        }
        let mut place = self.members[member as usize].lobby;
        if place == NONE {
            while let Some(kept) = self.links.lobby[broker as usize].pop() {
                if self.links.usable(kept, broker) {
                    place = kept;
                    break;
                }
                self.drop_place(kept);
            }
            if place == NONE {
                place = self.links.place();
            }
            self.members[member as usize].lobby = place;
        }
        self.reach(place, broker, member)
    }

    /// The member has joined, or given up.
    pub(super) fn leave_lobby(&mut self, member: u32) {
        let place = std::mem::replace(&mut self.members[member as usize].lobby, NONE);
        if place == NONE {
            return;
        }
        let broker = self.links.places[place as usize].broker;
        let kept = &mut self.links.lobby[broker as usize];
        if kept.len() < LOBBY_KEPT && self.links.places[place as usize].link.is_some() {
            kept.push(place);
        } else {
            self.drop_place(place);
        }
    }

    /// The connection for a fetcher, if it stands; otherwise the member's fetches go on when it does.
    pub(super) fn fetch_place(&mut self, member: u32, born: u32, broker: u32) -> Option<u32> {
        let place = if self.plan.shared_conn > 0 {
            self.links.shared_fetches(member, broker, self.plan.shared_conn)
        } else {
            let fetcher = self.fetchers.one(member, born)?;
            if fetcher.place == NONE {
                fetcher.place = self.links.place();
                self.links.places[fetcher.place as usize].fetches = true;
            }
            fetcher.place
        };
        self.reach(place, broker, member)
    }

    /// A fetcher is gone: its own connection, if it had one, is closed.
    pub(super) fn end_fetch_place(&mut self, place: u32) {
        if place != NONE {
            self.drop_place(place);
        }
    }

    fn drop_place(&mut self, number: u32) {
        let place = &mut self.links.places[number as usize];
        place.attempt += 1;
        place.connecting = false;
        place.fetches = false;
        place.waiting.clear();
        // Closed.
        place.link = None;
        self.links.free.push(number);
    }

    fn reach(&mut self, number: u32, broker: u32, member: u32) -> Option<u32> {
        if self.links.usable(number, broker) {
            return Some(number);
        }
        let place = &mut self.links.places[number as usize];
        if !place.waiting.contains(&member) {
            place.waiting.push(member);
        }
        if !place.connecting || place.broker != broker {
            place.connecting = true;
            place.broker = broker;
            place.link = None;
            place.attempt += 1;
            let (attempt, address) = (place.attempt, self.links.brokers[broker as usize].clone());
            let (target, inbox, connecting) = (self.target.clone(), self.inbox.clone(), self.connecting.clone());
            let connect = async move {
                let permit = connecting.take().await;
                let came = target.connect(&address).await.map(Box::new);
                drop(permit);
                inbox.put(Event::Connected { link: number, attempt, came });
            };
            ringgate_runtime::spawn_as("a connect", connect).detach();
        }
        None
    }

    pub(super) fn connected(&mut self, number: u32, attempt: u32, came: Result<Box<Connection>, CallError>) {
        let place = &mut self.links.places[number as usize];
        if place.attempt != attempt {
            return;
        }
        place.connecting = false;
        let (fetches, broker) = (place.fetches, place.broker);
        let waiting = std::mem::take(&mut place.waiting);
        match came {
            Ok(connection) => {
                let inbox = self.inbox.clone();
                place.link = Some(connection.linked(move |_| inbox.put(Event::Lost { link: number, attempt })));
                for member in waiting {
                    if fetches { self.fetch_all_due(member) } else { self.advance(member) }
                }
            }
            Err(error) if fetches => {
                for member in waiting {
                    self.fetch_has_no_connection(member, broker, &error);
                }
            }
            Err(error) => {
                for member in waiting {
                    let group = self.members[member as usize].group;
                    self.groups[group as usize].coordinator = None;
                    self.failed("connect", error.code(), self.now_instant());
                    self.pause(member);
                }
            }
        }
    }

    pub(super) fn lost(&mut self, number: u32, attempt: u32) {
        let place = &mut self.links.places[number as usize];
        if place.attempt != attempt || place.link.take().is_none() {
            return;
        }
        let fetches = place.fetches;
        self.count("connections.lost", 1);
        if fetches {
            // Those with a Fetch out are told by it, others connect again for their next.
            return;
        }
        for member in self.who_lives_at(number) {
            // Those with a heartbeat out are told by it.
            if self.is_cut_off(member) && !self.members[member as usize].heartbeat_out {
                self.pause(member);
            }
        }
    }

    /// Whose heartbeats and commits go through a place.
    fn who_lives_at(&self, place: u32) -> Vec<u32> {
        if self.plan.shared_conn == 0 {
            return vec![place];
        }
        let lives_here = |member: &u32| {
            let broker = self.groups[self.members[*member as usize].group as usize].coordinator;
            let first = broker.map(|broker| self.links.shared[broker as usize]).filter(|first| *first != NONE);
            first.is_some_and(|first| first + member % self.plan.shared_conn == place)
        };
        (0..self.members.len() as u32).filter(lives_here).collect()
    }

    /// Sends a request over a connection that stands.
    pub(super) fn send<R: Request>(&mut self, place: u32, version: i16, request: &R, asked: Asked) {
        let number = self.out.asks(asked);
        let tell = Tell { inbox: self.inbox.clone(), number };
        match &self.links.places[place as usize].link {
            Some(link) => link.submit_request(version, request, tell),
            None => self.inbox.put(Event::Answer { number, came: Err(CallError::Disconnected), at: asked.intended }),
        }
    }

    /// Ends a member's own connection.
    pub(super) fn cut(&mut self, member: u32, reset: bool) {
        if self.plan.shared_conn > 0 {
            return;
        }
        self.cut_place(member, reset);
        let fetches: Vec<u32> = self.fetchers.of(member).iter().map(|fetcher| fetcher.place).collect();
        for place in fetches.into_iter().filter(|place| *place != NONE) {
            self.cut_place(place, reset);
        }
    }

    fn cut_place(&mut self, number: u32, reset: bool) {
        let place = &mut self.links.places[number as usize];
        place.attempt += 1;
        place.connecting = false;
        place.waiting.clear();
        if let Some(link) = place.link.take() {
            if reset { link.reset() } else { link.close() }
        }
    }

    /// A member's own connection stays open and nobody uses it any more, until the run ends; the member gets another one.
    pub(super) fn abandon(&mut self, member: u32) {
        if self.plan.shared_conn > 0 {
            return;
        }
        let fetches = self.fetchers.of(member).iter().map(|fetcher| fetcher.place).filter(|place| *place != NONE);
        let places: Vec<u32> = std::iter::once(member).chain(fetches).collect();
        for place in places {
            let place = &mut self.links.places[place as usize];
            place.attempt += 1;
            place.connecting = false;
            place.waiting.clear();
            self.links.abandoned.extend(place.link.take());
        }
    }

    /// Ends all connections at once.
    pub(super) fn cut_all(&mut self, reset: bool) {
        for number in 0..self.links.places.len() as u32 {
            if self.links.places[number as usize].link.is_some() {
                self.cut_place(number, reset);
            }
        }
    }
}
