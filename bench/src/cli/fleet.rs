//! `fleet`'s and `rebalance-storm`'s flags are the scenarios' own.

use super::ScenarioArgs;
use super::scenario::{enough_descriptors, one_for_each};
use crate::plan::{Common, Load, UsageError};
use crate::scenario::fleet::{Flags, Fleet, Plan};
use crate::scenario::rebalance_storm::{self, RebalanceStorm};

impl ScenarioArgs for Flags {
    type Scenario = Fleet;
    const PACED: bool = false;

    fn plan(&self, common: &Common) -> Result<Plan, UsageError> {
        if matches!(common.load, Load::Closed) {
            return Plan::new(self.clone()).map(Plan::in_a_closed_loop);
        }
        paced_by_itself(common)?;
        Plan::new(self.clone())
    }

    fn fits(plan: &Plan, _: &Common, threads: u16) -> Result<(), UsageError> {
        groups_fit(plan, threads)
    }
}

impl ScenarioArgs for rebalance_storm::Flags {
    type Scenario = RebalanceStorm;
    const PACED: bool = false;

    fn plan(&self, common: &Common) -> Result<rebalance_storm::Plan, UsageError> {
        paced_by_itself(common)?;
        rebalance_storm::Plan::new(self.clone())
    }

    fn fits(plan: &rebalance_storm::Plan, _: &Common, threads: u16) -> Result<(), UsageError> {
        groups_fit(&plan.fleet, threads)
    }
}

/// Executors share groups; what connections there are is for `--members` or `--shared-conn` to say.
fn groups_fit(plan: &Plan, threads: u16) -> Result<(), UsageError> {
    one_for_each("groups", plan.groups.into(), threads)?;
    // Members that fetch have a second one, at least.
    let each = if plan.poll.is_some() { 2 } else { 1 };
    if plan.shared_conn == 0 {
        enough_descriptors("members", plan.members.into(), each * u64::from(plan.all_members()))
    } else {
        let connections = each * u64::from(plan.shared_conn) * u64::from(threads);
        enough_descriptors("shared-conn", plan.shared_conn.into(), connections)
    }
}

/// Refuses a rate: what members send follows from their number and intervals.
fn paced_by_itself(common: &Common) -> Result<(), UsageError> {
    match common.load {
        Load::Own => Ok(()),
        Load::Open { rate, .. } => {
            let allowed =
                "none here: the load is --groups times --members, each by --hb-interval and --commit-interval";
            Err(UsageError { flag: "rate", value: rate.to_string(), allowed: allowed.into() })
        }
        Load::Closed => {
            let allowed = "not here: members keep a schedule".into();
            Err(UsageError { flag: "closed", value: String::new(), allowed })
        }
    }
}
