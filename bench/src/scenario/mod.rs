//! Scenarios: what load is.
//!
//! A scenario is a value per executor. The engine calls, in this order: [`Scenario::found`] once, on executor 0,
//! for what all share (topics, coordinators' addresses); [`Scenario::prepare`] on each executor (connections, groups);
//! when all are ready, [`Scenario::drive`] with the window they share; then [`Scenario::finish`], which stops what runs,
//! waits for what is outstanding, and tells what it found.

pub mod churn;
pub mod commit_storm;
pub mod consume;
pub mod e2e;
pub mod fleet;
pub mod floor;
pub mod idle;
mod leftovers;
pub mod operation;
mod own_groups;
pub mod produce;
pub mod rebalance_storm;
pub mod records;
mod users;

use std::collections::BTreeMap;
use std::rc::Rc;

use ringgate_client::{CallError, ClientError};

use crate::limits::EXAMPLES_MAX;
use crate::measure::{Recorder, SeriesId, Window};
use crate::plan::Common;
use crate::result::{Checks, Parameter, Value};
use crate::stop::Stop;

/// What a scenario gets on its executor.
#[derive(Clone)]
pub struct Seat {
    /// This executor's number, from 0.
    pub executor: u16,
    /// How many executors share the load: each drives its part of the rate, connections and members.
    pub executors: u16,
    /// What every scenario has: target, loop, security, limits.
    pub common: Rc<Common>,
    /// The server's process, when it is on this machine and to be looked at.
    pub server_pid: Option<u32>,
    /// Whether this executor polls instead of sleeping (`--pace spin`).
    pub polls: bool,
    /// Where latencies, counts and errors go.
    pub recorder: Recorder,
    /// The primary operation's response times.
    pub primary_rt: SeriesId,
    /// Tells that the run is to end early.
    pub stop: Stop,
    /// The seed of this executor's random choices, derived from the run's.
    pub seed: u64,
}

/// A run cannot begin: exit code 3. Says what was tried and what the answer was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(pub String);

impl From<CallError> for SetupError {
    fn from(error: CallError) -> SetupError {
        SetupError(error.to_string())
    }
}

impl From<ClientError> for SetupError {
    fn from(error: ClientError) -> SetupError {
        SetupError(error.0)
    }
}

/// A run cannot go on: exit code 4, with what there is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Aborted(pub String);

/// What one executor's part of a scenario found; the engine joins them by adding.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// What was wrong with what was moved.
    pub checks: Checks,
    /// Values that are no counters: summed over executors unless the scenario's part 0 alone gives them.
    pub values: BTreeMap<String, Value>,
    /// For the reader.
    pub notes: Vec<String>,
    /// What the target says it is (`result::Target::about`).
    pub about: BTreeMap<String, String>,
}

impl Findings {
    /// Adds another executor's: values of one name are summed, a sentence or an example is kept once.
    pub fn merge(&mut self, other: Findings) {
        for (kind, count) in other.checks.violations {
            *self.checks.violations.entry(kind).or_default() += count;
        }
        let room = EXAMPLES_MAX.saturating_sub(self.checks.examples.len());
        self.checks.examples.extend(other.checks.examples.into_iter().take(room));
        for (name, value) in other.values {
            self.values.entry(name).and_modify(|mine| mine.value += value.value).or_insert(value);
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self.about.extend(other.about);
    }
}

/// See the [module](self).
pub trait Scenario: Sized + 'static {
    /// Its name on the command line.
    const NAME: &'static str;
    /// The operation that `rt`, `st` and `wt` mean when no operation is named.
    const PRIMARY: &'static str;
    /// Its own parameters, checked.
    type Plan: Clone + Send + 'static;
    /// What `found` makes for all executors.
    type Shared: Clone + Send + 'static;

    /// Its parameters as a reader would write them.
    fn parameters(plan: &Self::Plan) -> Vec<Parameter>;

    /// Makes what all executors share; runs once, on executor 0.
    fn found(plan: &Self::Plan, seat: &Seat) -> impl Future<Output = Result<Self::Shared, SetupError>>;

    /// Makes this executor's part ready: connections, groups.
    fn prepare(plan: &Self::Plan, shared: &Self::Shared, seat: &Seat)
    -> impl Future<Output = Result<Self, SetupError>>;

    /// Drives load until the window ends or the seat is told to stop.
    fn drive(&mut self, seat: &Seat, window: Window) -> impl Future<Output = Result<(), Aborted>>;

    /// Waits for what is outstanding (bounded by the request timeout), closes, and tells what was found.
    fn finish(self, seat: &Seat) -> impl Future<Output = Findings>;
}
