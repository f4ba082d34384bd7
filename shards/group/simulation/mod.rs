//! A gateway's coordinators in a simulated world: clocks, network, store and clients of which one seed decides
//! everything, and the real state machines in the middle of it.
//!
//! [`run`] lives one day: for some minutes clients come, go, break and misbehave, connections are lost, the store
//! is slow or fails, the process dies and starts again with what the store has kept, perhaps with another number
//! of shards. Then faults end, and what is left has to come to rest within its timeouts, to keep all it has, and
//! to leave nothing behind when it goes. `checks` judges every step.
//!
//! What is real: `Coordinator`, `Batcher`, `Pipeline`, `Route`, the flow control between shards, the assignors, the bytes
//! of the records. What is simulated: `gateway` (shards, timers, the store), `mailboxes` (their queues), `world` (time and
//! the course of the day; `trouble` is what goes wrong in it, `evening` how it ends), `network`, and who lives there
//! (`population`): `classic`, `consumer`, `hostile`. `mutation` puts faults in on purpose, to prove that they are
//! found.

mod checks;
mod classic;
mod client;
mod consumer;
mod evening;
mod event;
mod gateway;
mod hostile;
mod mailboxes;
mod mutation;
mod network;
mod population;
mod queue;
mod random;
mod topics;
mod trouble;
mod wire;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use mutation::Mutation;
use world::World;

/// How a day is lived.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub mutation: Mutation,
    /// So many of the last lines of what happened are kept.
    pub trace: usize,
}

/// What days were full of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub seeds: u64,
    pub steps: u64,
    pub simulated_us: u64,
    pub requests: u64,
    pub commits: u64,
    pub rebalances: u64,
    pub crashes: u64,
    pub migrations: u64,
}

impl Summary {
    pub fn add(&mut self, other: &Summary) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.simulated_us += other.simulated_us;
        self.requests += other.requests;
        self.commits += other.commits;
        self.rebalances += other.rebalances;
        self.crashes += other.crashes;
        self.migrations += other.migrations;
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { seeds, steps, requests, commits, rebalances, crashes, migrations, .. } = self;
        let hours = self.simulated_us as f64 / 3.6e9;
        write!(
            f,
            "{seeds} seeds, {steps} steps, {hours:.1} simulated hours, {requests} requests, {commits} acknowledged \
             commits, {rebalances} rebalances, {migrations} migrations, {crashes} crashes"
        )
    }
}

/// What did not hold.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub invariant: String,
    pub details: String,
    pub at_us: u64,
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        let at_s = self.at_us as f64 / 1e6;
        write!(f, "seed {}, {at_s:.3} s: not so: {}\n  {}", self.seed, self.invariant, self.details)
    }
}

/// Lives the day of a seed.
pub fn run(seed: u64, options: Options) -> Result<Summary, Box<Failure>> {
    let mut world = World::new(seed, options);
    let lived = catch_unwind(AssertUnwindSafe(|| world.live()));
    let panicked = lived.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    });
    let failure = match panicked {
        Some(panic) => Some(("nothing panics".to_owned(), panic)),
        None => world.failure().map(|(invariant, details)| (invariant.to_owned(), details)),
    };
    match failure {
        None => Ok(world.summary()),
        Some((invariant, details)) => {
            let (at_us, trace) = world.into_trace();
            Err(Box::new(Failure { seed, invariant, details, at_us, trace }))
        }
    }
}
