//! The gate: bounds on a run's metrics, and how much worse than an earlier run it may be.

mod assertion;
mod baseline;
mod direction;

pub use assertion::{Assertion, Judged, Operator};
pub use baseline::{Allowance, Baseline, Difference, Regression, Row, Rows};
pub use direction::better;
