//! What a run ends as. Everything that is shown, compared or judged is made of a [`RunResult`].

pub mod errors;
mod model;

pub use model::{
    Checks, Environment, ErrorCount, Health, IntervalRow, Latency, LatencyRow, Parameter, RunResult, SCHEMA, Server,
    ServerRow, Target, Thread, Unit, Value, Verdict,
};
