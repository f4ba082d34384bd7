//! Two targets under the same load: alternating runs, paired ratios, and no winner inside the noise.

mod model;

pub use model::{Better, ComparedMetric, ComparedRun, Comparison, Outcome, Purpose, SCHEMA, Side, Which};
