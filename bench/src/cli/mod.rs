//! The command line.
//!
//! [`Command`] has a line for each scenario and tool. A scenario's own flags are its [`ScenarioArgs`], beside those that
//! all have ([`CommonArgs`]); what they come to is checked once, before anything is connected to.

mod churn;
mod commit_storm;
mod common;
mod compare;
mod exit;
mod fleet;
mod floor;
mod gate;
mod idle;
mod list;
mod moving;
mod output;
mod parse;
mod records;
mod report;
mod scenario;
mod search;
mod show;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use churn::ChurnArgs;
pub use commit_storm::CommitStormArgs;
pub use common::CommonArgs;
pub use compare::{CompareArgs, compare};
pub use exit::Exit;
pub use floor::{FloorArgs, floor};
pub use gate::GateArgs;
pub use idle::IdleArgs;
pub use list::list;
pub use moving::{ConsumeArgs, EndToEndArgs, ProduceArgs};
pub use output::stamp;
pub use parse::{bytes, duration, rate, share};
pub use report::{MergeArgs, ReportArgs, merge, report};
pub use scenario::{Run, ScenarioArgs, run};
pub use search::SearchArgs;
pub use show::ShowArgs;

/// A load generator for systems that speak Kafka's protocol
#[derive(Debug, Parser)]
#[command(name = "ringgate-bench", version, disable_help_subcommand = true, max_term_width = 110)]
#[command(
    after_help = "Exit codes: 0 fine; 1 an assertion failed, or a regression; 2 wrong usage; 3 the target cannot \
    be reached or set up; 4 aborted, or too many errors; 5 invalid, the numbers describe the generator; 130 interrupted, \
    with what there was written."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the scenarios
    List,
    /// Draw a page of one run, or of several on shared axes
    Report(ReportArgs),
    /// Merge logs of histograms, which averages of percentiles cannot replace
    Merge(MergeArgs),
    /// Records into topics: response times of each record, from its own moment, and what one request takes
    Produce(Run<ProduceArgs>),
    /// Records out of topics: at the tail while they are produced, or a backlog that was made before
    Consume(Run<ConsumeArgs>),
    /// Records through topics, timed from the moment they were meant to be sent until they are consumed, and checked
    /// for loss, duplicates, order and corruption
    E2e(Run<EndToEndArgs>),
    /// Raw TCP echo of frames: what machine, kernel and generator take by themselves
    Floor(Box<Run<FloorArgs>>),
    /// OffsetCommit, and OffsetFetch among it, by many members
    CommitStorm(Box<Run<CommitStormArgs>>),
    /// Connections that come and go, each step timed apart
    Churn(Box<Run<ChurnArgs>>),
    /// Connections that are held: memory of each, and round trips meanwhile
    Idle(Box<Run<IdleArgs>>),
    /// Many consumer groups: joins, heartbeats, commits
    Fleet(Box<Run<crate::scenario::fleet::Flags>>),
    /// A fleet to which something is done: members vanish or leave, connections end, topics grow
    RebalanceStorm(Box<Run<crate::scenario::rebalance_storm::Flags>>),
    /// Compare two targets under the same load, or show two finished runs side by side
    Compare(Box<CompareArgs>),
}

impl Cli {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// Wrong usage, or a call for help: for `exit`.
    pub fn parse_from(command_line: &[String]) -> Result<Cli, clap::Error> {
        Cli::from_arg_matches(&Cli::command().try_get_matches_from(command_line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_has_two_flags_of_one_name() {
        Cli::command().debug_assert();
    }
}
