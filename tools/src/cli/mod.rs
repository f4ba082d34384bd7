//! What may be asked: flags, in the words of Kafka's own tools where those have one.

mod names;
mod selection;
mod time;

use std::path::PathBuf;
use std::time::Duration;

use ringgate_client::Options;
use ringgate_client::args::{SecurityArgs, UsageError};

pub use selection::TopicSelection;
pub use time::{Moment, duration};

use crate::limits::IN_FLIGHT;

/// The variable of the environment with the SASL password.
const PASSWORD: &str = "RINGGATE_SASL_PASSWORD";

/// What every request says it is from.
const CLIENT_ID: &str = "ringgate";

/// What help says of passwords.
const SECRETS: &str = "The SASL password may be the first line of --password-file, or RINGGATE_SASL_PASSWORD in the \
                       environment: on the command line every user of this machine sees it.";

/// A tool.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
pub enum Tool {
    /// List and describe consumer groups, set and delete their offsets; on any Kafka broker
    #[command(subcommand, arg_required_else_help = true, after_help = SECRETS)]
    Groups(Groups),
    /// List and describe topics; on any Kafka broker
    #[command(subcommand, arg_required_else_help = true, after_help = SECRETS)]
    Topics(Topics),
}

/// `ringgate groups`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
pub enum Groups {
    /// List the groups of all brokers
    #[command(after_help = LIST_EXAMPLES)]
    List(ListGroups),
    /// Show what groups have committed, how far behind they are, and who is in them
    #[command(after_help = DESCRIBE_EXAMPLES)]
    Describe(DescribeGroups),
    /// Set the committed offsets of a group that nobody is in; changes nothing without --execute
    #[command(after_help = RESET_EXAMPLES)]
    Reset(Reset),
    /// Delete groups that nobody is in, with their offsets; changes nothing without --execute
    Delete(DeleteGroups),
    /// Delete a group's committed offsets of topics that it does not subscribe to; changes nothing without --execute
    DeleteOffsets(DeleteOffsets),
}

/// `ringgate topics`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
pub enum Topics {
    /// List topics
    List(ListTopics),
    /// Show the partitions of topics, where they begin and end, settings, and who reads them
    #[command(after_help = TOPIC_EXAMPLES)]
    Describe(DescribeTopics),
}

const LIST_EXAMPLES: &str = "Examples:
  ringgate groups list
  ringgate groups list --state Stable,Empty --type consumer
  ringgate groups list --search billing --json";

const DESCRIBE_EXAMPLES: &str = "Examples:
  ringgate groups describe billing
  ringgate groups describe billing --members
  ringgate groups describe --all --state
  ringgate groups describe --all --min-lag 1000";

const RESET_EXAMPLES: &str = "Examples, each of which shows what would be and needs --execute to be carried out:
  ringgate groups reset billing --all-topics --to-earliest
  ringgate groups reset billing --topic orders --topic payments:0,3 --by-duration 2h
  ringgate groups reset billing --topic orders --to-datetime 2026-11-30T08:00:00Z
  ringgate groups reset billing --topic orders --shift-by -100
  ringgate groups reset billing --all-topics --to-current --export > offsets.csv
  ringgate groups reset billing --from-file offsets.csv --execute";

const TOPIC_EXAMPLES: &str = "Examples:
  ringgate topics describe orders
  ringgate topics describe orders --groups";

/// Where the cluster is, and how answers are shown.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Connect {
    /// Bootstrap servers
    #[arg(
        long,
        visible_alias = "bootstrap-server",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = "127.0.0.1:9092",
        help_heading = "Cluster"
    )]
    pub bootstrap: Vec<String>,
    /// How long an answer may take, and how long one that fails for a reason that passes is asked for again
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "TIME", help_heading = "Cluster")]
    pub timeout: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// `--tls`, `--sasl` and their own; the password may also be RINGGATE_SASL_PASSWORD in the environment.
    #[command(flatten)]
    pub security: SecurityArgs,
}

impl Connect {
    /// What the client is told.
    ///
    /// # Errors
    /// The first flag that cannot be.
    pub fn options(&self) -> Result<Options, UsageError> {
        for address in &self.bootstrap {
            if let Err(allowed) = address.parse::<ringgate_client::Address>() {
                return Err(UsageError { flag: "bootstrap", value: address.clone(), allowed });
            }
        }
        if self.timeout.is_zero() {
            return Err(UsageError { flag: "timeout", value: "0".into(), allowed: "more than 0".into() });
        }
        Ok(Options {
            bootstrap: self.bootstrap.clone(),
            client_id: CLIENT_ID,
            request_timeout: self.timeout,
            in_flight: IN_FLIGHT,
            security: self.security.security(PASSWORD)?,
            api_versions: Default::default(),
            source_ips: Vec::new(),
        })
    }
}

/// `groups list`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ListGroups {
    /// Only groups in these states: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Dead,
    /// NotReady
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = names::state)]
    pub state: Vec<String>,
    /// Only groups of these types: classic, consumer (KIP-848), share, streams
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = names::group_type)]
    pub types: Vec<String>,
    /// Only groups whose name has this in it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub search: Option<String>,
    /// Where to ask, and how to show it.
    #[command(flatten)]
    pub connect: Connect,
}

/// `groups describe`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(group = clap::ArgGroup::new("which").args(["groups", "all"]).required(true))]
pub struct DescribeGroups {
    /// The groups
    #[arg(value_name = "GROUP")]
    pub groups: Vec<String>,
    /// All groups that consume
    #[arg(long, visible_alias = "all-groups")]
    pub all: bool,
    /// Offsets and lag of each partition; this is what is shown when nothing else is asked for
    #[arg(long, group = "view")]
    pub offsets: bool,
    /// Members, and what is assigned to them
    #[arg(long, group = "view")]
    pub members: bool,
    /// One line per group: state, assignor, coordinator, members, lag
    #[arg(long, group = "view")]
    pub state: bool,
    /// Only partitions that are at least so many records behind, and only groups that have such
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..), conflicts_with = "members")]
    pub min_lag: Option<i64>,
    /// Where to ask, and how to show it.
    #[command(flatten)]
    pub connect: Connect,
}

/// `groups reset`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Reset {
    /// The group; one that is not there yet is made by its first committed offset
    #[arg(value_name = "GROUP")]
    pub group: String,
    /// A topic, or some partitions of it: orders, orders:0,3. May be given several times
    #[arg(long, value_name = "TOPIC[:0,1]", required_unless_present_any = ["all_topics", "from_file"])]
    pub topic: Vec<TopicSelection>,
    /// All topics of which the group has committed offsets
    #[arg(long, conflicts_with_all = ["topic", "from_file"])]
    pub all_topics: bool,
    /// Where offsets are to be.
    #[command(flatten)]
    pub to: ResetTo,
    /// Commit the new offsets; without it they are shown only
    #[arg(long)]
    pub execute: bool,
    /// Show the new offsets and commit nothing, which is the default
    #[arg(long, conflicts_with = "execute")]
    pub dry_run: bool,
    /// Print the new offsets as lines of TOPIC,PARTITION,OFFSET for --from-file, and commit nothing
    #[arg(long, conflicts_with_all = ["execute", "json"])]
    pub export: bool,
    /// Where to ask, and how to show it.
    #[command(flatten)]
    pub connect: Connect,
}

/// Where offsets are to be; exactly one of them.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[group(required = true, multiple = false)]
pub struct ResetTo {
    /// To the first record there is
    #[arg(long)]
    pub to_earliest: bool,
    /// To the end: only new records are read
    #[arg(long)]
    pub to_latest: bool,
    /// To this offset
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    pub to_offset: Option<i64>,
    /// By so many records on, or back with a minus
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub shift_by: Option<i64>,
    /// To the first record of this moment or later: 2026-11-30T08:00:00Z, 2026-11-30T09:00:00.000+01:00; UTC when no
    /// zone is said
    #[arg(long, value_name = "RFC3339")]
    pub to_datetime: Option<Moment>,
    /// To the first record of so long ago or later: 2h, 1d12h, PT2H
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub by_duration: Option<Duration>,
    /// To where they are, or to the end where nothing is committed: commits them anew
    #[arg(long)]
    pub to_current: bool,
    /// To those of a file with lines of TOPIC,PARTITION,OFFSET
    #[arg(long, value_name = "FILE", conflicts_with = "topic")]
    pub from_file: Option<PathBuf>,
}

/// `groups delete`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct DeleteGroups {
    /// The groups
    #[arg(value_name = "GROUP", required = true)]
    pub groups: Vec<String>,
    /// Delete them; without it, what would be deleted is shown only
    #[arg(long)]
    pub execute: bool,
    /// Where to ask, and how to show it.
    #[command(flatten)]
    pub connect: Connect,
}

/// `groups delete-offsets`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct DeleteOffsets {
    /// The group
    #[arg(value_name = "GROUP")]
    pub group: String,
    /// A topic, or some partitions of it: orders, orders:0,3. May be given several times
    #[arg(long, value_name = "TOPIC[:0,1]", required = true)]
    pub topic: Vec<TopicSelection>,
    /// Delete them; without it, what would be deleted is shown only
    #[arg(long)]
    pub execute: bool,
    /// Where to ask, and how to show it.
    #[command(flatten)]
    pub connect: Connect,
}

/// `topics list`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ListTopics {
    /// Only topics whose name has this in it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub search: Option<String>,
    /// The cluster's own topics, too
    #[arg(long)]
    pub internal: bool,
    /// Where to ask, and how to show it.
    #[command(flatten)]
    pub connect: Connect,
}

/// `topics describe`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct DescribeTopics {
    /// The topics
    #[arg(value_name = "TOPIC", required = true)]
    pub topics: Vec<String>,
    /// Which groups have committed offsets of it, and how far behind they are; asks for the offsets of every group
    #[arg(long)]
    pub groups: bool,
    /// Where to ask, and how to show it.
    #[command(flatten)]
    pub connect: Connect,
}

#[cfg(test)]
mod tests {
    use clap::{Parser, Subcommand};

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(subcommand)]
        tool: Tool,
    }

    fn parsed(line: &str) -> Result<Tool, clap::Error> {
        Program::try_parse_from(std::iter::once("ringgate").chain(line.split(' '))).map(|program| program.tool)
    }

    #[test]
    fn the_command_line_is_sound() {
        Tool::augment_subcommands(clap::Command::new("ringgate")).debug_assert();
    }

    #[test]
    fn a_reset_says_where_to_exactly_once_and_of_what() {
        let Ok(Tool::Groups(Groups::Reset(reset))) = parsed("groups reset g --topic a:0,2 --topic b --shift-by -5")
        else {
            panic!("a reset");
        };
        assert_eq!(reset.to.shift_by, Some(-5));
        assert_eq!(reset.topic[0].partitions, Some([0, 2].into()));
        assert_eq!((reset.topic[1].topic.as_str(), &reset.topic[1].partitions), ("b", &None));
        assert!(!reset.execute);
        for wrong in [
            "groups reset g --topic a",
            "groups reset g --topic a --to-latest --to-earliest",
            "groups reset g --to-latest",
            "groups reset g --topic a --all-topics --to-latest",
            "groups reset g --topic a --from-file f",
            "groups reset g --topic a --to-latest --execute --dry-run",
            "groups reset g --topic a --to-offset -1",
            "groups reset g --topic a:x --to-latest",
            "groups reset g --topic a --to-datetime yesterday",
            "groups describe",
            "groups describe g --all",
            "groups describe g --members --state",
            "groups delete",
            "groups list --state Nosuch",
            "groups list --state Stable,",
            "groups list --type kafka",
        ] {
            assert_eq!(parsed(wrong).expect_err(wrong).exit_code(), 2, "{wrong}");
        }
        assert!(parsed("groups reset g --from-file f").is_ok());
        assert!(parsed("groups reset g --all-topics --by-duration 1d12h").is_ok());
    }

    #[test]
    fn a_describe_of_nothing_is_told_of_both_ways() {
        let refused = parsed("groups describe").expect_err("of which?").to_string();
        assert!(refused.contains("GROUP") && refused.contains("--all"), "{refused}");
    }

    #[test]
    fn states_and_types_are_those_that_kafka_has_in_any_case_of_letters() {
        let Ok(Tool::Groups(Groups::List(list))) = parsed("groups list --state stable,EMPTY --type Consumer") else {
            panic!("a list");
        };
        assert_eq!((list.state, list.types), (vec!["Stable".into(), "Empty".into()], vec!["consumer".to_string()]));
        let refused = parsed("groups list --state Nosuch").expect_err("there is none").to_string();
        assert!(refused.contains("'Nosuch'") && refused.contains("allowed are Stable, Empty,"), "{refused}");
    }

    #[test]
    fn an_address_that_cannot_be_is_refused_by_name() {
        let Ok(Tool::Topics(Topics::List(list))) = parsed("topics list --bootstrap a:1,b") else { panic!("a list") };
        let refused = list.connect.options().expect_err("b has no port");
        assert_eq!((refused.flag, refused.value.as_str()), ("bootstrap", "b"));
    }
}
