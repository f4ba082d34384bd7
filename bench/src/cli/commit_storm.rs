//! `commit-storm`'s flags.

use super::{ScenarioArgs, share};
use crate::plan::{Common, UsageError};
use crate::scenario::commit_storm::{CommitStorm, Membership, Plan};

/// See the module.
#[derive(Debug, Clone, clap::Args)]
pub struct CommitStormArgs {
    /// Groups
    #[arg(long, value_name = "N", default_value_t = Plan::GROUPS)]
    pub groups: u32,
    /// Members of each group, each with a connection of its own and one request out at a time
    #[arg(long, value_name = "M", default_value_t = Plan::MEMBERS)]
    pub members: u32,
    /// Partitions in each commit; every member has its own
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub commit_partitions: u32,
    /// Share of requests that are OffsetFetch
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0%")]
    pub fetch_share: f64,
    /// Share of requests that go to the first group [default: as many to each group]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub hot_share: Option<f64>,
    /// Who commits: joined, members by their ids and generation; standalone, nobody's members, generation -1
    #[arg(long, value_name = "WHO", value_enum, default_value = "joined")]
    pub membership: MembershipArg,
    /// Leave the topic and the groups there
    #[arg(long)]
    pub keep_topics: bool,
}

/// `--membership`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum MembershipArg {
    /// Members of a classic group
    Joined,
    /// Generation -1, no id
    Standalone,
}

impl ScenarioArgs for CommitStormArgs {
    type Scenario = CommitStorm;
    const SHARES_CONNECTIONS: bool = false;

    fn plan(&self, common: &Common) -> Result<Plan, UsageError> {
        let membership = match self.membership {
            MembershipArg::Joined => Membership::Joined,
            MembershipArg::Standalone => Membership::Standalone,
        };
        Plan {
            groups: self.groups,
            members: self.members,
            partitions: self.commit_partitions,
            fetch_share: self.fetch_share,
            hot_share: self.hot_share,
            membership,
            keep_topics: self.keep_topics,
        }
        .checked(common)
    }
}
