//! `commit-storm`'s parameters.

use crate::host::connections_max;
use crate::plan::{Common, Load, UsageError};
use crate::result::Parameter;

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// Members of a group, by their ids and generation (JoinGroup, SyncGroup).
    Joined,
    /// Nobody's members: generation -1 and no id, as tools that set offsets do.
    Standalone,
}

impl Membership {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Membership::Joined => "joined",
            Membership::Standalone => "standalone",
        }
    }
}

/// Who commits what.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Groups over all executors.
    pub groups: u32,
    /// Members of each group, each with a connection of its own and one request out at a time.
    pub members: u32,
    /// Partitions in each commit; a member's are its own.
    pub partitions: u32,
    /// Share of requests that are OffsetFetch.
    pub fetch_share: f64,
    /// Share of requests that go to the first group; `None` for as many to each.
    pub hot_share: Option<f64>,
    /// Who commits.
    pub membership: Membership,
    /// Leaves topic and groups there.
    pub keep_topics: bool,
}

impl Plan {
    /// `--groups` by default.
    pub const GROUPS: u32 = 10;
    /// `--members` by default.
    pub const MEMBERS: u32 = 10;
    /// Partitions of the topic at most: what one broker makes within a request timeout.
    pub const PARTITIONS_MAX: u64 = 100_000;

    /// Checks them.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn checked(self, common: &Common) -> Result<Plan, UsageError> {
        let refuse = |flag, value: String, allowed: String| Err(UsageError { flag, value, allowed });
        for (flag, count) in
            [("groups", self.groups), ("members", self.members), ("commit-partitions", self.partitions)]
        {
            if count == 0 {
                return refuse(flag, "0".into(), "at least 1".into());
            }
        }
        if self.fetch_share >= 1.0 {
            return refuse("fetch-share", "100%".into(), "less than 100%: there is a commit to fetch".into());
        }
        if self.hot_share.is_some() && (self.groups < 2 || matches!(common.load, Load::Closed)) {
            let allowed = "two groups or more and a schedule (--rate): in a closed loop all members are always busy";
            let share = self.hot_share.unwrap_or_default();
            return refuse("hot-share", format!("{}%", share * 100.0), allowed.into());
        }
        let partitions = u64::from(self.members) * u64::from(self.partitions);
        if partitions > Plan::PARTITIONS_MAX {
            let allowed = format!(
                "at most {} times --members, since each member has partitions of its own",
                Plan::PARTITIONS_MAX / u64::from(self.members)
            );
            return refuse("commit-partitions", self.partitions.to_string(), allowed);
        }
        let (members, most) = (u64::from(self.groups) * u64::from(self.members), connections_max());
        if members > most {
            let allowed = format!(
                "at most {most} members in all groups, for a hard limit of open files keeps this process from holding \
                 more connections: raise it (ulimit -Hn as root, LimitNOFILE= in a unit, nofile in limits.conf)"
            );
            return refuse("members", self.members.to_string(), allowed);
        }
        Ok(self)
    }

    /// Which part of all requests goes to a group.
    pub fn weight(&self, group: u32) -> f64 {
        match self.hot_share {
            Some(hot) if group == 0 => hot,
            Some(hot) => (1.0 - hot) / f64::from(self.groups - 1),
            None => 1.0 / f64::from(self.groups),
        }
    }

    /// Partitions that the topic needs.
    pub fn topic_partitions(&self) -> i32 {
        i32::try_from(u64::from(self.members) * u64::from(self.partitions)).unwrap_or(i32::MAX)
    }

    /// As a reader would write them.
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name: &str, value: String, default: bool| Parameter { name: name.into(), value, default };
        let percent = |share: f64| format!("{}%", share * 100.0);
        let mut parameters = vec![
            parameter("groups", self.groups.to_string(), self.groups == Plan::GROUPS),
            parameter("members", self.members.to_string(), self.members == Plan::MEMBERS),
            parameter("commit-partitions", self.partitions.to_string(), self.partitions == 1),
            parameter("fetch-share", percent(self.fetch_share), self.fetch_share == 0.0),
            parameter("membership", self.membership.name().into(), self.membership == Membership::Joined),
        ];
        if let Some(share) = self.hot_share {
            parameters.push(parameter("hot-share", percent(share), false));
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(groups: u32, hot_share: Option<f64>) -> Plan {
        Plan {
            groups,
            members: 1,
            partitions: 1,
            fetch_share: 0.0,
            hot_share,
            membership: Membership::Joined,
            keep_topics: false,
        }
    }

    #[test]
    fn weights_are_even_or_leave_the_hot_group_its_share_and_add_up_to_all() {
        for (plan, first, second) in [(plan(4, None), 0.25, 0.25), (plan(5, Some(0.8)), 0.8, 0.05)] {
            assert!((plan.weight(0) - first).abs() < 1e-9);
            assert!((plan.weight(1) - second).abs() < 1e-9);
            let all: f64 = (0..plan.groups).map(|group| plan.weight(group)).sum();
            assert!((all - 1.0).abs() < 1e-9);
        }
    }
}
