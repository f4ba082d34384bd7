//! What a run ends as. Everything that is shown, compared or judged is made of a [`RunResult`].
//!
//! [`write()`] leaves a run's directory, [`read()`] takes it up again. `docs/bench-results.md` describes the files.

mod csv;
#[cfg(test)]
pub(crate) mod example;
mod hgrm;
pub mod hlog;
mod latency;
mod metric;
mod model;
mod read;
#[cfg(test)]
mod schema;
mod server_metrics;
mod write;

pub use hlog::Hlog;
pub use latency::{HistogramError, PERCENTILES};
pub use metric::{UnknownMetric, known_metric, metric, metrics, told_apart};
pub use model::{
    Checks, Environment, ErrorCount, Health, IntervalRow, Latency, LatencyRow, Parameter, Probe, RunResult, SCHEMA,
    Search, Server, ServerRow, Target, Thread, Unit, Value, Verdict,
};
pub use read::{ReadError, read, read_environment};
pub use ringgate_client::errors;
pub use server_metrics::{MetricKind, MetricSeries, ServerMetrics};
pub use write::{whole, write};
