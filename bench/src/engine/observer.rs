//! Who is told while a run goes on.

use std::time::Duration;

use crate::measure::Interval;
use crate::result::{IntervalRow, Probe, RunResult};

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Topics, coordinators' addresses: what all executors share is made.
    Found,
    /// Connections and groups are made.
    Prepare,
    /// Load is driven, and is in no result yet.
    WarmUp {
        /// How long.
        length: Duration,
    },
    /// Load is driven and measured.
    Measure {
        /// How long.
        length: Duration,
    },
    /// No more is sent; what is outstanding is waited for, members leave, and what the run made is deleted.
    Finish,
}

/// Watches a run, on the thread that called it. Every method does nothing unless it is given.
pub trait Observer {
    /// A stage begins.
    fn stage(&mut self, stage: Stage) {
        let _ = stage;
    }

    /// An interval is over: its row, and what it is made of, merged over all executors.
    fn interval(&mut self, row: &IntervalRow, merged: &Interval) {
        let _ = (row, merged);
    }

    /// The run is over.
    fn finished(&mut self, result: &RunResult) {
        let _ = result;
    }

    /// One run of a search is over and was judged; only the last one is told as [`finished`](Observer::finished), too.
    fn probe(&mut self, probe: &Probe) {
        let _ = probe;
    }
}

/// Watches nothing.
impl Observer for () {}

/// Both watch.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn stage(&mut self, stage: Stage) {
        self.0.stage(stage);
        self.1.stage(stage);
    }

    fn interval(&mut self, row: &IntervalRow, merged: &Interval) {
        self.0.interval(row, merged);
        self.1.interval(row, merged);
    }

    fn finished(&mut self, result: &RunResult) {
        self.0.finished(result);
        self.1.finished(result);
    }

    fn probe(&mut self, probe: &Probe) {
        self.0.probe(probe);
        self.1.probe(probe);
    }
}
