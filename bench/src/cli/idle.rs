//! `idle`'s flags.

use super::{ScenarioArgs, rate};
use crate::plan::{Common, UsageError};
use crate::scenario::idle::{Idle, Kind, Plan};

/// See the module.
#[derive(Debug, Clone, clap::Args)]
pub struct IdleArgs {
    /// What the --connections that are held do: nothing; stop within a frame; leave their answers unread
    #[arg(long, value_name = "KIND", value_enum, default_value = "idle")]
    pub kind: KindArg,
    /// Equal steps of the measured window in which connections are made; memory is read at the end of each
    #[arg(long, value_name = "N", default_value_t = Plan::PLATEAUS)]
    pub plateaus: u32,
    /// New connections per second at most; --rate is that of the probe's round trips, 100 by default
    #[arg(long, value_name = "RATE", value_parser = rate, default_value_t = Plan::CONNECT_RATE)]
    pub connect_rate: f64,
    /// Answers that each slow reader leaves unread
    #[arg(long, value_name = "N", default_value_t = Plan::UNREAD)]
    pub unread: u32,
}

/// `--kind`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum KindArg {
    /// Nothing
    Idle,
    /// Stop within a frame
    HalfOpen,
    /// Leave answers unread
    SlowReader,
}

impl ScenarioArgs for IdleArgs {
    type Scenario = Idle;
    const PACED: bool = false;
    const SHARES_CONNECTIONS: bool = false;

    fn plan(&self, common: &Common) -> Result<Plan, UsageError> {
        let kind = match self.kind {
            KindArg::Idle => Kind::Idle,
            KindArg::HalfOpen => Kind::HalfOpen,
            KindArg::SlowReader => Kind::SlowReader,
        };
        Plan::new(common, kind, self.plateaus, self.unread, self.connect_rate)
    }
}
