//! What a run ends as. Everything that is shown, compared or judged is made of a [`RunResult`].

pub mod errors;
#[cfg(test)]
pub(crate) mod example;
mod metric;
mod model;

pub use metric::{UnknownMetric, known_metric, metric, metrics};
pub use model::{
    Checks, Environment, ErrorCount, Health, IntervalRow, Latency, LatencyRow, Parameter, RunResult, SCHEMA, Server,
    ServerRow, Target, Thread, Unit, Value, Verdict,
};
