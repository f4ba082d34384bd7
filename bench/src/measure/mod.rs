//! What an executor records while it drives load.
//!
//! A [`Recorder`] belongs to one executor and is cheap to clone there. It keeps a histogram per *series*
//! and phase for the interval under way; the engine takes the interval ([`Recorder::take`]) once a second and
//! merges it with those of the other executors. Whether a request counts is decided by the moment it was
//! *meant* to be sent, so a request that was due before the measured window and is answered in it is warm-up.
//!
//! Series are named `<operation>.<kind>`, kinds as in the HdrHistogram community: `rt` response time, from the
//! intended moment; `st` service time, from the actual send; `wt` waiting time, from intended to actual send.
//! Other names stand for spans of their own (`stable`: a group's time to stable).

mod recorder;

pub use recorder::{Counted, Interval, Latencies, Phase, Recorder, SeriesId, Window};
