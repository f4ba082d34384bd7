//! Flags by which a run is judged.

use std::path::PathBuf;

use crate::gate::{Allowance, Assertion, Baseline, Gate};
use crate::plan::UsageError;
use crate::result;

/// See the module.
#[derive(Debug, Clone, clap::Args)]
pub struct GateArgs {
    /// Exit code 1 unless this holds of the result: 'rt.p99<5ms', 'errors==0', 'checks.lost==0'; may be given again
    #[arg(long, value_name = "METRIC OP BOUND", help_heading = "Gate")]
    pub assert: Vec<String>,
    /// An earlier run, its directory or result.json; exit code 1 if this one is worse than --max-regress allows
    #[arg(long, value_name = "FILE", requires = "max_regress", help_heading = "Gate")]
    pub baseline: Option<PathBuf>,
    /// How much worse than --baseline: 5% for what is judged unasked, METRIC=10% for one; may be given again
    #[arg(long, value_name = "[METRIC=]SHARE", requires = "baseline", help_heading = "Gate")]
    pub max_regress: Vec<String>,
    /// Compare with --baseline even if its load was another or it was invalid
    #[arg(long, requires = "baseline", help_heading = "Gate")]
    pub baseline_force: bool,
}

impl GateArgs {
    /// Reads them, and the baseline.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn gate(&self) -> Result<Gate, UsageError> {
        let assertions = self.assert.iter().map(|text| Assertion::parse(text)).collect::<Result<_, _>>()?;
        let Some(path) = &self.baseline else { return Ok(Gate { assertions, baseline: None }) };
        let allowances = self.max_regress.iter().map(|text| Allowance::parse(text)).collect::<Result<_, _>>()?;
        let bad = |allowed: String| UsageError { flag: "baseline", value: path.display().to_string(), allowed };
        let run = result::read(path).map_err(|error| bad(error.to_string()))?;
        let baseline = Baseline::of(run, allowances, self.baseline_force).map_err(bad)?;
        Ok(Gate { assertions, baseline: Some(baseline) })
    }
}
