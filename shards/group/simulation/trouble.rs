//! What goes wrong: connections that break, machines that stand still, processes that die, topics that change.

use std::sync::Arc;

use super::event::Event;
use super::world::World;

impl World {
    pub fn trouble(&mut self) {
        if self.is_calm {
            return;
        }
        let after_us = self.random.between(500_000, 4_000_000);
        self.queue.add(self.now_us + after_us, Event::Trouble);
        let kind = self.random.below(self.troubles.len() as u64) as usize;
        let often = self.troubles[kind];
        if !self.gateway.is_up || !self.random.percent(often) {
            return;
        }
        match kind {
            0 => self.cut_connection(),
            1 => self.die(),
            // The machine stands still.
            2 if self.now_us < self.frozen_until_us => {}
            2 => {
                let stood_us = self.random.between(1_000_000, 20_000_000);
                self.trace(|| format!("stands still for {stood_us} us"));
                self.frozen_until_us = self.now_us + stood_us;
                let (run, stood_ms) = (self.gateway.run, stood_us / 1000);
                self.queue.add(self.frozen_until_us, Event::Thaw { run, stood_ms });
            }
            3 => self.change_topics(),
            4 => (0..3).for_each(|_| self.cut_connection()),
            // A log that is closed stays so until somebody starts the gateway again.
            _ => {
                if self.gateway.shards.iter().any(|shard| shard.log_is_closed) {
                    self.die();
                }
            }
        }
    }

    fn cut_connection(&mut self) {
        let open: Vec<u64> = self.connections.keys().copied().collect();
        if open.is_empty() {
            return;
        }
        let id = *self.random.of(&open);
        self.trace(|| format!("connection {id} is cut"));
        let client = self.connections[&id].client;
        let (sooner, later) = (self.random.between(10, 2_000_000), self.random.between(10, 20_000_000));
        let (gateway_us, client_us) = if self.random.percent(50) { (sooner, later) } else { (later, sooner) };
        self.queue.add(self.now_us + gateway_us, Event::GatewaySeesClose { connection: id });
        self.queue.add(self.now_us + client_us, Event::ClientSeesClose { client, connection: id });
    }

    pub fn die(&mut self) {
        self.crash();
        self.frozen_until_us = 0;
        self.summary.crashes += 1;
        let after_us = self.random.between(50_000, 6_000_000);
        self.queue.add(self.now_us + after_us, Event::Start);
    }

    pub fn restart(&mut self) {
        let shards = self.random.between(1, 4) as u16;
        self.start_gateway(shards);
        self.fetch_all();
    }

    /// A topic grows, another comes, or one goes, perhaps to come again.
    fn change_topics(&mut self) {
        let mut deleted = Vec::new();
        match self.random.below(6) {
            0 | 1 => self.catalogue.set("k-a", self.catalogue.partitions_of("k-a") + 1),
            2 | 3 => self.catalogue.set("k-c", 2),
            4 => deleted.extend(self.catalogue.delete("k-b")),
            _ => {
                let partitions = self.random.between(1, 4) as i32;
                deleted.extend(self.catalogue.delete("k-b"));
                self.catalogue.set("k-b", partitions);
            }
        }
        for topic in &deleted {
            self.trace(|| format!("{topic:?} goes"));
            self.checks.topic_deleted(self.now_us, topic);
        }
        let catalogue = Arc::new(self.catalogue.clone());
        for shard in 0..self.gateway.shards.len() {
            let after_us = self.random.between(10, 100_000);
            let (catalogue, deleted) = (catalogue.clone(), deleted.clone());
            let event = Event::Topics { run: self.gateway.run, shard, catalogue, deleted };
            self.queue.add(self.now_us + after_us, event);
        }
    }
}
