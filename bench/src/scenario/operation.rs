//! What every operation records.

use std::time::Instant;

use crate::measure::{Recorder, SeriesId};
use crate::result::errors::TIMED_OUT;

/// The names under which an operation is recorded; made by `names!`.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// The operation's own.
    pub name: &'static str,
    /// Series of response times, from the intended moment.
    pub rt: &'static str,
    /// Series of service times, from the actual send.
    pub st: &'static str,
    /// Series of the times between those.
    pub wt: &'static str,
    /// Counter of requests.
    pub requests: &'static str,
}

/// The [`Names`] of an operation.
macro_rules! names {
    ($name:literal) => {
        $crate::scenario::operation::Names {
            name: $name,
            rt: concat!($name, ".rt"),
            st: concat!($name, ".st"),
            wt: concat!($name, ".wt"),
            requests: concat!($name, ".requests"),
        }
    };
}
pub(crate) use names;

/// Records one operation on one executor.
#[derive(Debug, Clone)]
pub struct Operation {
    recorder: Recorder,
    names: Names,
    rt: SeriesId,
    st: SeriesId,
    wt: SeriesId,
}

impl Operation {
    /// Recorded under these names.
    pub fn new(recorder: &Recorder, names: Names) -> Operation {
        Operation {
            rt: recorder.series(names.rt),
            st: recorder.series(names.st),
            wt: recorder.series(names.wt),
            recorder: recorder.clone(),
            names,
        }
    }

    /// The series of response times.
    pub fn rt(&self) -> SeriesId {
        self.rt
    }

    /// A request was answered now: without an error, or with the code of one.
    pub fn answered(&self, intended: Instant, sent: Instant, code: i16) {
        let now = Instant::now();
        self.recorder.record(self.rt, intended, now.saturating_duration_since(intended));
        self.sent(intended, sent, now);
        if code != 0 {
            self.recorder.error(self.names.name, code, intended);
        }
    }

    fn sent(&self, intended: Instant, sent: Instant, now: Instant) {
        self.recorder.record(self.st, intended, now.saturating_duration_since(sent));
        self.recorder.record(self.wt, intended, sent.saturating_duration_since(intended));
        self.recorder.count(self.names.requests, intended, 1);
    }

    /// A request has no answer, by a code of the generator's own. One that was waited for to the end of its time has a
    /// latency nevertheless, or the slowest would be left out.
    pub fn failed(&self, intended: Instant, sent: Instant, code: i16) {
        if code == TIMED_OUT {
            let now = Instant::now();
            self.recorder.record_unanswered(self.rt, intended, now.saturating_duration_since(intended));
            self.sent(intended, sent, now);
        } else {
            self.recorder.count(self.names.requests, intended, 1);
        }
        self.recorder.error(self.names.name, code, intended);
    }
}
