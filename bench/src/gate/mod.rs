//! The gate: bounds on a run's metrics, and how much worse than an earlier run it may be.
//!
//! All of it is read before the run ([`Gate`]), so that no hour is spent for a typing error. What must stay true: what
//! cannot be judged (an unknown metric, a unit that does not fit, another load) is a failure, never a pass.

mod assertion;
mod baseline;
mod direction;

pub use assertion::{Assertion, Judged, Operator};
pub(crate) use baseline::differences;
pub use baseline::{Allowance, Baseline, Difference, Regression, Row, Rows};
pub use direction::better;

use crate::result::RunResult;

/// Everything that a run is held against.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// Bounds.
    pub assertions: Vec<Assertion>,
    /// An earlier run.
    pub baseline: Option<Baseline>,
}

/// What the gate says of a run.
#[derive(Debug, Clone, Default)]
pub struct Sentence {
    /// By assertion.
    pub assertions: Vec<Judged>,
    /// Against the baseline, if there is one.
    pub baseline: Option<Result<Rows, Difference>>,
}

impl Gate {
    /// Judges a run.
    pub fn judge(&self, run: &RunResult) -> Sentence {
        Sentence {
            assertions: self.assertions.iter().map(|assertion| assertion.judge(run)).collect(),
            baseline: self.baseline.as_ref().map(|baseline| baseline.judge(run)),
        }
    }
}

impl Sentence {
    /// Whether all of it held.
    pub fn held(&self) -> bool {
        self.assertions.iter().all(|judged| judged.held)
            && self.baseline.as_ref().is_none_or(|rows| rows.as_ref().is_ok_and(Rows::held))
    }
}
