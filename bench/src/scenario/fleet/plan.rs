//! What a fleet is made of.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::assignor::Assignor;
use crate::limits::{FLEET_GROUPS_MAX, FLEET_MEMBERS_MAX, FLEET_PARTITIONS_MAX};
use crate::plan::UsageError;
use crate::quantity;
use crate::result::{Parameter, Unit};

/// Which group protocol members speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// JoinGroup, SyncGroup, Heartbeat; the leader assigns.
    Classic,
    /// KIP-848: ConsumerGroupHeartbeat; the coordinator assigns.
    Consumer,
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Protocol, String> {
        match text {
            "classic" => Ok(Protocol::Classic),
            "consumer" => Ok(Protocol::Consumer),
            other => Err(format!("{other:?} is no group protocol: classic or consumer")),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Classic => "classic",
            Protocol::Consumer => "consumer",
        })
    }
}

/// Parameters of a fleet, as flags.
#[derive(Debug, Clone, PartialEq, Args)]
#[group(skip)]
pub struct Flags {
    /// Consumer groups.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub groups: u32,
    /// Members of each group.
    #[arg(long, value_name = "M", default_value_t = 10)]
    pub members: u32,
    /// Group protocol: classic, or consumer (KIP-848).
    #[arg(long, value_name = "NAME", default_value = "classic")]
    pub protocol: Protocol,
    /// Members are static (group.instance.id, KIP-345).
    #[arg(long = "static")]
    pub is_static: bool,
    /// Topics; every group subscribes to all.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub topics: u32,
    /// Partitions of each topic.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub partitions: u32,
    /// How leaders of classic groups assign: range or roundrobin.
    #[arg(long, value_name = "NAME", default_value = "range")]
    pub assignor: Assignor,
    /// Members that begin to join per second, group after group.
    #[arg(long, value_name = "RATE", default_value = "1000/s")]
    pub join_rate: String,
    /// Session timeout of classic members.
    #[arg(long, value_name = "TIME", default_value = "45s")]
    pub session_timeout: String,
    /// Rebalance timeout of members.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub rebalance_timeout: String,
    /// Between a member's heartbeats, for both protocols.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub hb_interval: String,
    /// By how much of it each interval is longer or shorter, at random.
    #[arg(long, value_name = "PERCENT", default_value = "10%")]
    pub hb_jitter: String,
    /// Between a member's commits; 0s for none.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub commit_interval: String,
    /// Partitions in a commit, as far as the member has as many.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub commit_partitions: u32,
    /// So many connections per broker and executor carry the heartbeats and commits of all its members, instead of one
    /// per member; joins have connections of their own as long as they last. 0 is one per member, as real clients have.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub shared_conn: u32,
    /// Members also fetch the tail of what they own: on, one waiting Fetch after the other; TIME, a Fetch each; or off.
    #[arg(long, value_name = "on|TIME", default_value = "off")]
    pub poll: String,
    /// Leave the topics and groups there.
    #[arg(long)]
    pub keep_topics: bool,
}

/// How members fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Between the moments of a member's fetches; `None` when one follows the answer to the last.
    pub interval: Option<Duration>,
    /// For how long each waits at the leader for records.
    pub max_wait: Duration,
}

/// For how long Kafka's consumer has its fetches wait, and how often those follow each other that must not.
const MAX_WAIT: Duration = Duration::from_millis(500);

impl Poll {
    /// Members that share connections cannot have their fetches wait: Kafka answers a connection's requests in their
    /// order. A fetch that is to be followed by one after an interval waits for half of it at most.
    fn parse(text: &str, shares: bool) -> Result<Option<Poll>, UsageError> {
        let interval = match text {
            "off" => return Ok(None),
            "on" if shares => Some(MAX_WAIT),
            "on" => None,
            text => {
                Some(above_zero("poll", text).map_err(|_| wrong("poll", text, "on, off, or a time of at least 1ms"))?)
            }
        };
        let max_wait = match interval {
            _ if shares => Duration::ZERO,
            Some(interval) => (interval / 2).min(MAX_WAIT),
            None => MAX_WAIT,
        };
        Ok(Some(Poll { interval, max_wait }))
    }
}

/// Parameters of a fleet, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Consumer groups, at least one.
    pub groups: u32,
    /// Members of each, at least one.
    pub members: u32,
    /// What they speak.
    pub protocol: Protocol,
    /// Whether they are static.
    pub is_static: bool,
    /// Topics, at least one.
    pub topics: u32,
    /// Partitions of each, at least one.
    pub partitions: u32,
    /// How leaders of classic groups assign.
    pub assignor: Assignor,
    /// Members that begin to join per second, over all executors.
    pub join_rate: f64,
    /// Of classic members.
    pub session_timeout: Duration,
    /// Of members.
    pub rebalance_timeout: Duration,
    /// Between a member's heartbeats.
    pub hb_interval: Duration,
    /// The share of it by which intervals vary, 0 to 1.
    pub hb_jitter: f64,
    /// Between a member's commits, if it commits.
    pub commit_interval: Option<Duration>,
    /// Partitions in a commit.
    pub commit_partitions: u32,
    /// Connections per broker and executor that members share; 0 for one each.
    pub shared_conn: u32,
    /// How members fetch, if they do.
    pub poll: Option<Poll>,
    /// Heartbeats are a closed loop: a member's next one follows the answer to the last, whatever the interval.
    pub closed: bool,
    /// Topics and groups are left there.
    pub keep_topics: bool,
    /// As given, for who reads the result.
    flags: Flags,
}

impl Plan {
    /// Checks the flags.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(flags: Flags) -> Result<Plan, UsageError> {
        let within = |flag: &'static str, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                return Ok(value);
            }
            Err(UsageError { flag, value: value.to_string(), allowed: format!("from 1 to {most}") })
        };
        let groups = within("groups", flags.groups, FLEET_GROUPS_MAX)?;
        let members = within("members", flags.members, FLEET_MEMBERS_MAX)?;
        if u64::from(groups) * u64::from(members) > u64::from(FLEET_MEMBERS_MAX) {
            let allowed = format!("at most {FLEET_MEMBERS_MAX} members over all groups");
            return Err(UsageError { flag: "members", value: members.to_string(), allowed });
        }
        let topics = within("topics", flags.topics, FLEET_PARTITIONS_MAX)?;
        let partitions = within("partitions", flags.partitions, FLEET_PARTITIONS_MAX / topics)?;
        let hb_jitter = quantity::parse_percent(&flags.hb_jitter)
            .ok()
            .filter(|share| (0.0..=1.0).contains(share))
            .ok_or_else(|| wrong("hb-jitter", &flags.hb_jitter, "from 0% to 100%"))?;
        let join_rate = quantity::parse(&flags.join_rate, Unit::PerSecond)
            .or_else(|_| quantity::parse(&format!("{}/s", flags.join_rate), Unit::PerSecond))
            .ok()
            .filter(|rate| *rate > 0.0)
            .ok_or_else(|| wrong("join-rate", &flags.join_rate, "a rate above 0, such as 1000/s"))?;
        let commit_interval = time("commit-interval", &flags.commit_interval)?;
        Ok(Plan {
            groups,
            members,
            protocol: flags.protocol,
            is_static: flags.is_static,
            topics,
            partitions,
            assignor: flags.assignor,
            join_rate,
            session_timeout: above_zero("session-timeout", &flags.session_timeout)?,
            rebalance_timeout: above_zero("rebalance-timeout", &flags.rebalance_timeout)?,
            hb_interval: above_zero("hb-interval", &flags.hb_interval)?,
            hb_jitter,
            commit_interval: (!commit_interval.is_zero()).then_some(commit_interval),
            commit_partitions: within("commit-partitions", flags.commit_partitions, FLEET_PARTITIONS_MAX)?,
            shared_conn: flags.shared_conn,
            poll: Poll::parse(&flags.poll, flags.shared_conn > 0)?,
            closed: false,
            keep_topics: flags.keep_topics,
            flags,
        })
    }

    /// The same, but that each member sends its next heartbeat when the last one is answered.
    pub fn in_a_closed_loop(self) -> Plan {
        Plan { closed: true, ..self }
    }

    /// All members over all executors.
    pub fn all_members(&self) -> u32 {
        self.groups * self.members
    }

    /// As a reader would write them.
    pub fn parameters(&self) -> Vec<Parameter> {
        let default = Flags::default();
        let flags = &self.flags;
        let parameter = |name: &str, value: String, default: String| Parameter {
            name: name.into(),
            default: value == default,
            value,
        };
        vec![
            parameter("groups", flags.groups.to_string(), default.groups.to_string()),
            parameter("members", flags.members.to_string(), default.members.to_string()),
            parameter("protocol", flags.protocol.to_string(), default.protocol.to_string()),
            parameter("static", flags.is_static.to_string(), default.is_static.to_string()),
            parameter("topics", flags.topics.to_string(), default.topics.to_string()),
            parameter("partitions", flags.partitions.to_string(), default.partitions.to_string()),
            parameter("assignor", flags.assignor.to_string(), default.assignor.to_string()),
            parameter("join-rate", flags.join_rate.clone(), default.join_rate),
            parameter("session-timeout", flags.session_timeout.clone(), default.session_timeout),
            parameter("rebalance-timeout", flags.rebalance_timeout.clone(), default.rebalance_timeout),
            parameter("hb-interval", flags.hb_interval.clone(), default.hb_interval),
            parameter("hb-jitter", flags.hb_jitter.clone(), default.hb_jitter),
            parameter("commit-interval", flags.commit_interval.clone(), default.commit_interval),
            parameter("commit-partitions", flags.commit_partitions.to_string(), default.commit_partitions.to_string()),
            parameter("shared-conn", flags.shared_conn.to_string(), default.shared_conn.to_string()),
            parameter("poll", flags.poll.clone(), default.poll),
        ]
    }
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            groups: 10,
            members: 10,
            protocol: Protocol::Classic,
            is_static: false,
            topics: 1,
            partitions: 12,
            assignor: Assignor::Range,
            join_rate: "1000/s".into(),
            session_timeout: "45s".into(),
            rebalance_timeout: "60s".into(),
            hb_interval: "3s".into(),
            hb_jitter: "10%".into(),
            commit_interval: "0s".into(),
            commit_partitions: 1,
            shared_conn: 0,
            poll: "off".into(),
            keep_topics: false,
        }
    }
}

fn wrong(flag: &'static str, value: &str, allowed: &str) -> UsageError {
    UsageError { flag, value: value.into(), allowed: allowed.into() }
}

/// A time, as all flags of times are written.
pub(in crate::scenario) fn time(flag: &'static str, text: &str) -> Result<Duration, UsageError> {
    humantime::parse_duration(text).map_err(|_| wrong(flag, text, "a time with its unit: 30s, 500ms, 1m30s"))
}

/// A time that must be one.
pub(in crate::scenario) fn above_zero(flag: &'static str, text: &str) -> Result<Duration, UsageError> {
    time(flag, text)?
        .checked_sub(Duration::from_millis(1))
        .map_or_else(|| Err(wrong(flag, text, "a time of at least 1ms")), |rest| Ok(rest + Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    #[test]
    fn the_defaults_of_the_command_line_are_those_of_the_result() {
        let matches = Flags::augment_args(Command::new("fleet")).get_matches_from(["fleet"]);
        let flags = Flags::from_arg_matches(&matches).expect("defaults");
        assert_eq!(flags, Flags::default());
        let plan = Plan::new(flags).expect("defaults can be");
        assert!(plan.parameters().iter().all(|parameter| parameter.default));
        assert_eq!((plan.hb_interval, plan.hb_jitter, plan.commit_interval), (Duration::from_secs(3), 0.1, None));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_flag() {
        let refused = |change: fn(&mut Flags)| {
            let mut flags = Flags::default();
            change(&mut flags);
            Plan::new(flags).expect_err("refused").flag
        };
        assert_eq!(refused(|flags| flags.groups = 0), "groups");
        assert_eq!(refused(|flags| flags.members = FLEET_MEMBERS_MAX), "members");
        assert_eq!(refused(|flags| flags.partitions = 0), "partitions");
        assert_eq!(refused(|flags| flags.hb_interval = "0s".into()), "hb-interval");
        assert_eq!(refused(|flags| flags.hb_interval = "soon".into()), "hb-interval");
        assert_eq!(refused(|flags| flags.hb_jitter = "200%".into()), "hb-jitter");
        assert_eq!(refused(|flags| flags.poll = "0s".into()), "poll");
        assert_eq!(refused(|flags| flags.poll = "yes".into()), "poll");
        assert_eq!(refused(|flags| flags.join_rate = "0/s".into()), "join-rate");
        assert_eq!(refused(|flags| flags.join_rate = "fast".into()), "join-rate");
    }

    #[test]
    fn fetches_wait_unless_others_would_wait_behind_them() {
        let poll = |text: &str, shared_conn| {
            let flags = Flags { poll: text.into(), shared_conn, ..Flags::default() };
            let poll = Plan::new(flags).expect("it can be").poll?;
            Some((poll.interval.map(|interval| interval.as_millis()), poll.max_wait.as_millis()))
        };
        assert_eq!(poll("off", 0), None);
        assert_eq!(poll("on", 0), Some((None, 500)));
        assert_eq!(poll("5s", 0), Some((Some(5_000), 500)));
        assert_eq!(poll("200ms", 0), Some((Some(200), 100)));
        assert_eq!(poll("on", 8), Some((Some(500), 0)));
        assert_eq!(poll("5s", 8), Some((Some(5_000), 0)));
    }

    #[test]
    fn times_and_rates_are_written_as_everywhere() {
        for (join_rate, rate) in [("2k/s", 2_000.0), ("2k", 2_000.0), ("1500", 1_500.0)] {
            let flags = Flags { hb_interval: "1m30s".into(), join_rate: join_rate.into(), ..Flags::default() };
            let plan = Plan::new(flags).expect("they can be");
            assert_eq!((plan.hb_interval, plan.join_rate), (Duration::from_secs(90), rate));
        }
    }
}
