//! `rebalance-storm`: a fleet to which something is done on purpose, and how long its groups take to be stable again.
//!
//! `recovery` is from the disturbance to when every member that is to be in the group holds an assignment of one
//! generation, or is known to the coordinator again where no new generation is needed. A group that did not recover by
//! the end counts with the time until then.

mod plan;
mod weather;

pub use plan::{Cut, Flags, Kind, Plan};

use crate::measure::Window;
use crate::result::Parameter;
use crate::scenario::fleet::{Members, Shared, found};
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};
use weather::Weather;

/// One executor's part.
pub struct RebalanceStorm {
    fleet: Members,
    plan: Plan,
}

impl Scenario for RebalanceStorm {
    const NAME: &'static str = "rebalance-storm";
    const PRIMARY: &'static str = "heartbeat";
    type Plan = Plan;
    type Shared = Shared;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        plan.parameters()
    }

    async fn found(plan: &Plan, seat: &Seat) -> Result<Shared, SetupError> {
        found(&plan.fleet, seat).await
    }

    async fn prepare(plan: &Plan, shared: &Shared, seat: &Seat) -> Result<RebalanceStorm, SetupError> {
        let fleet = Members::prepare(&plan.fleet, shared, seat).await?;
        Ok(RebalanceStorm { fleet, plan: plan.clone() })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        self.fleet.start(window, seat.executors);
        let weather = Weather::new(&self.plan, seat.executor);
        weather.begin(&mut self.fleet, window);
        self.fleet.drive(window.end, Some(&seat.stop), |fleet| fleet.why_aborted().is_some()).await;
        self.fleet.give_up_recoveries();
        self.fleet.why_aborted().map_or(Ok(()), |why| Err(Aborted(why.into())))
    }

    async fn finish(self, seat: &Seat) -> Findings {
        self.fleet.finish(seat).await
    }
}
