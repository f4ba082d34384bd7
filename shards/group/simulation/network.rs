//! Between clients and their connections: what clients want done, and how long bytes are under way.

use ringgate_group::{Response, Text};

use super::client::{Client, Io, Line};
use super::event::Event;
use super::gateway::Connection;
use super::random::Random;
use super::world::World;

/// How long bytes are under way.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    pub usual_us: u64,
    pub slow_us: u64,
    pub slow_percent: u64,
}

impl Delays {
    pub fn of(&self, random: &mut Random) -> u64 {
        if random.percent(self.slow_percent) {
            return random.between(self.usual_us, self.slow_us);
        }
        random.between(20, self.usual_us)
    }
}

impl World {
    /// Lets a client do something, and does what it wants done.
    pub fn with_client(&mut self, number: usize, act: impl FnOnce(&mut dyn Client, &mut Io<'_>)) {
        let Some(mut client) = self.clients[number].client.take() else { return };
        let mut io = Io {
            now_us: self.now_us,
            random: &mut self.random,
            catalogue: &self.catalogue,
            knowledge: &mut self.knowledge,
            is_calm: self.is_calm,
            connected: self.clients[number].connection.is_some(),
            connect: false,
            sends: Vec::new(),
            line: None,
            wakes: Vec::new(),
            holds: None,
        };
        act(&mut *client, &mut io);
        let Io { connect, sends, line, wakes, holds, .. } = io;
        let group = client.group();
        if let Some((member_id, has)) = holds {
            self.checks.holds(number, &group, member_id, has);
        }
        if self.options.trace > 0 && (connect || line.is_some()) {
            let name = client.name();
            self.trace(|| format!("client {number} ({name}) connects: {connect}, ends: {line:?}"));
        }
        self.clients[number].client = Some(client);
        if connect {
            self.connect(number, &group);
        }
        for (sent, request) in sends {
            let Some(id) = self.clients[number].connection else { break };
            let delay_us = self.delays.of(&mut self.random);
            let Some(connection) = self.connections.get_mut(&id) else { break };
            let seq = connection.next_seq;
            connection.next_seq += 1;
            connection.outstanding.push_back((seq, sent));
            connection.to_gateway_us = connection.to_gateway_us.max(self.now_us + delay_us);
            let at_us = connection.to_gateway_us;
            self.queue.add(at_us, Event::Arrive { connection: id, seq, request });
        }
        if let Some(line) = line
            && let Some(id) = self.clients[number].connection.take()
            && let Some(connection) = self.connections.get(&id)
        {
            let noticed_us = match line {
                Line::Close => self.delays.of(&mut self.random),
                Line::Vanish => self.random.between(5_000_000, 40_000_000),
            };
            let at_us = connection.to_gateway_us.max(self.now_us + noticed_us);
            self.queue.add(at_us, Event::GatewaySeesClose { connection: id });
        }
        for (at_us, wake) in wakes {
            self.queue.add(at_us, Event::Wake { client: number, wake });
        }
    }

    fn connect(&mut self, client: usize, group: &Text) {
        let id = self.next_connection;
        self.next_connection += 1;
        self.clients[client].connection = Some(id);
        if !self.gateway.is_up {
            let after_us = self.random.between(100, 100_000);
            return self.queue.add(self.now_us + after_us, Event::ClientSeesClose { client, connection: id });
        }
        let shard = match self.random.percent(60) {
            true => self.owner(group.as_str()),
            false => self.random.below(self.gateway.shards.len() as u64) as usize,
        };
        self.connections.insert(id, Connection::new(client, shard));
    }

    pub fn answer_arrives(&mut self, id: u64, seq: u64, response: Response) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let client = connection.client;
        if self.clients[client].connection != Some(id) {
            return;
        }
        let Some((expected, sent)) = connection.outstanding.pop_front().filter(|(expected, _)| *expected == seq) else {
            return self.checks.fail("answers come in the order of requests", format!("{id}: {seq} {response:?}"));
        };
        debug_assert_eq!(expected, seq);
        self.with_client(client, |client, io| client.answered(io, sent, response));
    }
}
