//! `churn`'s flags.

use super::ScenarioArgs;
use crate::plan::{Common, UsageError};
use crate::scenario::churn::{Churn, Close, Plan};

/// See the module.
#[derive(Debug, Clone, clap::Args)]
pub struct ChurnArgs {
    /// How connections end: fin, in order, which keeps a port of this host for a minute each; rst, by a reset
    #[arg(long, value_name = "HOW", value_enum, default_value = "fin")]
    pub close: CloseArg,
    /// Connections that begin at the same moment; --rate stays the number of connections per second
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub burst: u32,
}

/// `--close`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum CloseArg {
    /// In order
    Fin,
    /// By a reset
    Rst,
}

impl ScenarioArgs for ChurnArgs {
    type Scenario = Churn;
    const SHARES_CONNECTIONS: bool = false;

    fn plan(&self, common: &Common) -> Result<Plan, UsageError> {
        let close = match self.close {
            CloseArg::Fin => Close::Fin,
            CloseArg::Rst => Close::Rst,
        };
        Plan::new(common, close, self.burst)
    }
}
