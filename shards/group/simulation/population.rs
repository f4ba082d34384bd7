//! Who lives in a world: its groups, their members, and those that nobody should have to deal with.

use ringgate_group::{MigrationPolicy, Text};

use super::classic::{self, Classic, Flaw};
use super::client::Client;
use super::consumer::{self, Consumer};
use super::hostile::Hostile;
use super::world::{Place, World};

/// The group whose members speak both protocols.
pub const MIXED: &str = "m0";

impl World {
    /// The groups of this world and who is in them.
    pub fn populate(&mut self) {
        let (classic, consumer) = (self.random.between(1, 2), self.random.below(3));
        self.knowledge.classic_groups = (0..classic).map(|n| format!("c{n}").into()).collect();
        let is_mixed = self.gateway.config.consumer_migration_policy != MigrationPolicy::Disabled;
        self.knowledge.consumer_groups = (0..consumer).map(|n| format!("k{n}").into()).collect();
        for group in self.knowledge.classic_groups.clone() {
            let (cooperative, both) = (self.random.percent(50), self.random.percent(50));
            let topics: Vec<Text> = if both { vec!["c-a".into(), "c-b".into()] } else { vec!["c-a".into()] };
            let members = self.random.between(1, 5);
            let broken = if self.random.percent(50) { self.random.between(1, 2) } else { 0 };
            for n in 0..members + broken {
                let flaws = [
                    Flaw::NeverSyncs,
                    Flaw::NeverHeartbeats,
                    Flaw::JoinsTwice,
                    Flaw::WrongGeneration,
                    Flaw::NeverComesBack,
                ];
                let is_static = n < members && self.random.percent(30);
                let manner = classic::Manner {
                    group: group.clone(),
                    topics: topics.clone(),
                    instance: is_static.then(|| format!("i{n}").into()),
                    cooperative,
                    mixed: false,
                    heartbeats_always: self.random.percent(40),
                    // Before 9 a static leader that starts again is not told that it leads (KIP-814), and nobody
                    // notices then that a topic has grown.
                    join_version: *self.random.of(if is_static { &[9, 9, 9] } else { &[1, 3, 4, 7, 9] }),
                    session_ms: *self.random.of(&[6_000, 9_000, 12_000]),
                    rebalance_ms: *self.random.of(&[4_000, 15_000, 30_000]),
                    heartbeat_ms: self.random.between(1_500, 2_500),
                    commit_ms: self.random.between(2_000, 6_000),
                    flaw: if n < members { Flaw::None } else { *self.random.of(&flaws) },
                };
                self.add_client(Box::new(Classic::new(manner)));
            }
        }
        for group in self.knowledge.consumer_groups.clone() {
            let members = self.random.between(1, 5);
            let broken = u64::from(self.random.percent(30));
            for n in 0..members + broken {
                let regex = self.random.percent(30);
                let manner = consumer::Manner {
                    group: group.clone(),
                    topics: if regex { Vec::new() } else { vec!["k-a".into(), "k-b".into()] },
                    regex: regex.then(|| "k-.*".into()),
                    instance: self.random.percent(30).then(|| format!("i{n}").into()),
                    assignor: self.random.percent(40).then(|| (*self.random.of(&["uniform", "range"])).into()),
                    rebalance_ms: *self.random.of(&[5_000, 20_000]),
                    commit_ms: self.random.between(2_000, 6_000),
                    revokes_in_ms: *self.random.of(&[0, 300, 4_000]),
                    never_revokes: n >= members,
                };
                self.add_client(Box::new(Consumer::new(manner)));
            }
        }
        if is_mixed {
            return self.populate_mixed();
        }
        // Where groups may change their protocol a stranger could make a consumer group of a classic one, and the
        // checks know those of each by their names.
        if self.random.percent(50) {
            let group = self.knowledge.classic_groups[0].clone();
            self.add_client(Box::new(Hostile::new(group)));
        }
    }

    /// A group that moves from one protocol to the other and back, as its members come and go.
    fn populate_mixed(&mut self) {
        let (classic, consumers) = (self.random.between(1, 3), self.random.between(1, 3));
        let cooperative = self.random.percent(50);
        let topics: Vec<Text> = vec!["k-a".into(), "k-b".into()];
        for n in 0..classic {
            let is_static = self.random.percent(30);
            let manner = classic::Manner {
                group: MIXED.into(),
                topics: topics.clone(),
                instance: is_static.then(|| format!("i{n}").into()),
                cooperative,
                mixed: true,
                heartbeats_always: self.random.percent(40),
                join_version: *self.random.of(if is_static { &[9, 9, 9] } else { &[1, 3, 4, 7, 9] }),
                session_ms: *self.random.of(&[6_000, 9_000, 12_000]),
                rebalance_ms: *self.random.of(&[4_000, 15_000, 30_000]),
                heartbeat_ms: self.random.between(1_500, 2_500),
                commit_ms: self.random.between(2_000, 6_000),
                flaw: Flaw::None,
            };
            self.add_client(Box::new(Classic::new(manner)));
        }
        for n in 0..consumers {
            let manner = consumer::Manner {
                group: MIXED.into(),
                topics: topics.clone(),
                regex: None,
                instance: self.random.percent(30).then(|| format!("j{n}").into()),
                assignor: self.random.percent(40).then(|| (*self.random.of(&["uniform", "range"])).into()),
                rebalance_ms: *self.random.of(&[5_000, 20_000]),
                commit_ms: self.random.between(2_000, 6_000),
                revokes_in_ms: *self.random.of(&[0, 300, 4_000]),
                never_revokes: false,
            };
            self.add_client(Box::new(Consumer::new(manner)));
        }
    }

    fn add_client(&mut self, client: Box<dyn Client>) {
        let at_ms = self.random.below(8_000);
        let number = self.clients.len();
        self.clients.push(Place { client: Some(client), connection: None });
        self.with_client(number, |client, io| client.begin(io, at_ms));
    }
}
