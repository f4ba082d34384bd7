//! Flags of `produce`, `consume` and `e2e`.

use std::time::Duration;

use super::parse::{bytes, duration};
use super::records::{FetchArgs, RecordArgs};
use super::scenario::ScenarioArgs;
use crate::plan::{Common, UsageError};
use crate::scenario::consume::{self, Consume, GroupPlan, check_fetch};
use crate::scenario::e2e::{self, EndToEnd};
use crate::scenario::produce::{self, Produce};

/// Flags of `produce`.
#[derive(Debug, Clone, clap::Args)]
pub struct ProduceArgs {
    /// Of records.
    #[command(flatten)]
    pub records: RecordArgs,
}

impl ScenarioArgs for ProduceArgs {
    type Scenario = Produce;

    fn rate(&self, text: &str) -> Result<f64, UsageError> {
        self.records.rate(text)
    }

    fn plan(&self, common: &Common) -> Result<produce::Plan, UsageError> {
        produce::Plan::new(self.records.plan(), common)
    }
}

/// Flags of `consume`.
#[derive(Debug, Clone, clap::Args)]
pub struct ConsumeArgs {
    /// Bytes of records that are produced before the first Fetch; the run ends early when they are consumed and
    /// neither --rate nor --closed produces more
    #[arg(long, value_parser = bytes, default_value = "0", value_name = "BYTES")]
    pub backlog: usize,
    /// Producers that make the backlog and feed the tail; consumers are as many as --connections
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub producers: usize,
    /// Consumers are members of one classic group, which decides who reads what
    #[arg(long, help_heading = "Consumers")]
    pub group: bool,
    /// After how long without a heartbeat a member of the group is out
    #[arg(long, value_parser = duration, default_value = "45s", value_name = "TIME", help_heading = "Consumers")]
    pub session_timeout: Duration,
    /// How often members of the group commit what they have read
    #[arg(long, value_parser = duration, default_value = "5s", value_name = "TIME", help_heading = "Consumers")]
    pub commit_interval: Duration,
    /// Of records.
    #[command(flatten)]
    pub records: RecordArgs,
    /// Of consumers.
    #[command(flatten)]
    pub fetch: FetchArgs,
}

impl ScenarioArgs for ConsumeArgs {
    type Scenario = Consume;
    const PACED: bool = false;

    fn rate(&self, text: &str) -> Result<f64, UsageError> {
        self.records.rate(text)
    }

    fn plan(&self, common: &Common) -> Result<consume::Plan, UsageError> {
        let plan = consume::Plan {
            records: self.records.plan(),
            fetch: self.fetch.settings()?,
            backlog: self.backlog as u64,
            producers: self.producers,
            group: self
                .group
                .then_some(GroupPlan { session_timeout: self.session_timeout, commit_interval: self.commit_interval }),
        };
        consume::Plan::new(plan, common)
    }
}

/// Flags of `e2e`.
#[derive(Debug, Clone, clap::Args)]
pub struct EndToEndArgs {
    /// Of records.
    #[command(flatten)]
    pub records: RecordArgs,
    /// Of consumers.
    #[command(flatten)]
    pub fetch: FetchArgs,
}

impl ScenarioArgs for EndToEndArgs {
    type Scenario = EndToEnd;

    fn rate(&self, text: &str) -> Result<f64, UsageError> {
        self.records.rate(text)
    }

    fn plan(&self, common: &Common) -> Result<e2e::Plan, UsageError> {
        let fetch = self.fetch.settings()?;
        check_fetch(&fetch, common)?;
        e2e::Plan::new(self.records.plan(), fetch, common)
    }
}
