//! `produce`: records into topics, acknowledged.

use ringgate_client::Target;

use crate::consumer::Names;
use crate::measure::Window;
use crate::plan::{Common, UsageError};
use crate::producer::Values;
use crate::result::Parameter;
use crate::scenario::records::{Made, Making, Producers, RecordsPlan, mine, say, share};
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// Parameters of `produce`.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan(pub RecordsPlan);

impl Plan {
    /// Checks it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn new(records: RecordsPlan, common: &Common) -> Result<Plan, UsageError> {
        records.check(common).map(Plan)
    }
}

/// One executor's producers.
pub struct Produce {
    plan: Plan,
    made: Made,
    target: Target,
    producers: Producers,
}

impl Scenario for Produce {
    const NAME: &'static str = "produce";
    const PRIMARY: &'static str = "produce";
    type Plan = Plan;
    type Shared = Made;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        plan.0.parameters()
    }

    async fn found(plan: &Plan, seat: &Seat) -> Result<Made, SetupError> {
        Made::make(&plan.0, seat, &Target::reach(&seat.common.client()).await?).await
    }

    async fn prepare(plan: &Plan, made: &Made, seat: &Seat) -> Result<Produce, SetupError> {
        let target = Target::reach(&seat.common.client()).await?;
        let numbers: Vec<usize> = mine(seat, seat.common.connections).collect();
        let making = Making {
            plan: &plan.0,
            made,
            target: &target,
            primary: true,
            share: share(numbers.len(), seat.common.connections),
            numbers,
            partitions: (0..plan.0.all_partitions()).collect(),
            names: Names { records: "records", bytes: "bytes" },
            values: &|_| Values::Plain,
            delivery: None,
        };
        let producers = Producers::start(seat, making).await?;
        Ok(Produce { plan: plan.clone(), made: made.clone(), target, producers })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        self.producers.drive(seat, window).await;
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        let mut findings = Findings { about: self.target.about(), ..Findings::default() };
        let totals = self.producers.finish(seat).await;
        say(&self.plan.0, &self.made, &totals, &mut findings);
        self.made.done(&self.plan.0, Vec::new(), seat, &self.target, &mut findings).await;
        findings
    }
}
