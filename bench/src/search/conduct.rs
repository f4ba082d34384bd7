//! Carrying a search out.

use super::{Plan, Steps};
use crate::engine::{self, Finished, Observer, RunError, RunOptions, Stage};
use crate::gate::Judged;
use crate::limits::{SEARCH_CONFIRMATIONS_MAX, SEARCH_REPEATS};
use crate::measure::Interval;
use crate::plan::{Common, Load, UsageError};
use crate::result::{IntervalRow, Probe, RunResult, Search, Unit, Value};
use crate::scenario::Scenario;

/// A search that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A rate that the scenario cannot have.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// A probe that never began.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Why no more is probed.
enum End {
    /// The two sides are close enough, or there is nothing to find.
    Found,
    /// The generator's fault, with the probe that shows it.
    Generator(Box<Finished>),
    /// It was told to end.
    Interrupted(Box<Finished>),
}

/// Searches, and ends as the run that confirms what was found, with every probe in its result. `plan_of` makes the
/// scenario's plan of a probe.
///
/// # Errors
/// A probe never began.
pub fn run<S: Scenario>(
    common: &Common,
    plan_of: &dyn Fn(&Common) -> Result<S::Plan, UsageError>,
    how: &RunOptions,
    search: &Plan,
    observer: &mut dyn Observer,
) -> Result<Finished, SearchError> {
    let mut search = Conduct {
        common,
        search,
        probes: Vec::new(),
        steps: Steps::new(search.from, search.to, search.precision),
        late_in_a_row: 0,
    };
    let mut last = None;
    let end = loop {
        let Some(rate) = search.steps.next() else { break End::Found };
        let finished = search.probe::<S>(rate, false, plan_of, how, observer)?;
        match search.take(rate, false, &finished.result, observer) {
            Taken::Counts => last = Some(finished),
            Taken::Again => {}
            Taken::Generator => break End::Generator(Box::new(finished)),
            Taken::Interrupted => break End::Interrupted(Box::new(finished)),
        }
    };
    let finished = match end {
        End::Interrupted(finished) => search.close(*finished, None, "it was interrupted".into()),
        End::Generator(finished) => search.end_at_the_generator(*finished),
        End::Found => search.confirm::<S>(last, plan_of, how, observer)?,
    };
    observer.finished(&finished.result);
    Ok(finished)
}

/// Lets a probe be watched, but not end as the result.
struct OneOfMany<'a>(&'a mut dyn Observer);

impl Observer for OneOfMany<'_> {
    fn stage(&mut self, stage: Stage) {
        self.0.stage(stage);
    }

    fn interval(&mut self, row: &IntervalRow, merged: &Interval) {
        self.0.interval(row, merged);
    }
}

/// What a probe means for the search.
enum Taken {
    Counts,
    /// Invalid for once: the same rate is tried again.
    Again,
    Generator,
    Interrupted,
}

struct Conduct<'a> {
    common: &'a Common,
    search: &'a Plan,
    probes: Vec<Probe>,
    steps: Steps,
    /// Probes of the same rate that were invalid.
    late_in_a_row: u32,
}

impl Conduct<'_> {
    fn probe<S: Scenario>(
        &self,
        rate: f64,
        confirms: bool,
        plan_of: &dyn Fn(&Common) -> Result<S::Plan, UsageError>,
        how: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Finished, SearchError> {
        let mut common = self.common.clone();
        if let Load::Open { rate: slots, .. } = &mut common.load {
            *slots = rate;
        }
        if !confirms {
            (common.duration, common.warmup) = (self.search.window, self.search.warmup);
        }
        common.prefix = format!("{}-p{}", common.prefix, self.probes.len() + 1);
        let plan = plan_of(&common)?;
        Ok(engine::run::<S>(&common, &plan, how, &mut OneOfMany(observer))?)
    }

    /// Notes what a probe came to.
    fn take(&mut self, rate: f64, confirms: bool, result: &RunResult, observer: &mut dyn Observer) -> Taken {
        let judged: Vec<Judged> = self.search.bounds.iter().map(|bound| bound.judge(result)).collect();
        let count = |name: &str| result.values.get(name).map_or(0.0, |value| value.value);
        let verdict = &result.verdict;
        let mut found: Vec<String> = judged.iter().map(|judged| judged.found.clone()).collect();
        found.extend(verdict.aborted.clone());
        if count("errors") > 0.0 {
            found.push(format!("{} errors", count("errors")));
        }
        if count("unsent") > 0.0 {
            found.push(format!("{} slots never sent", count("unsent")));
        }
        let kept = judged.iter().all(|judged| judged.held)
            && verdict.aborted.is_none()
            && count("errors") == 0.0
            && count("unsent") == 0.0;
        let probe = Probe {
            rate,
            confirms,
            measured_s: result.measured_s,
            answered_rate: count("rate"),
            kept,
            reasons: verdict.reasons.clone(),
            found,
        };
        observer.probe(&probe);
        self.probes.push(probe);
        if verdict.interrupted {
            return Taken::Interrupted;
        }
        // A target that answers nothing makes no generator late.
        if !verdict.valid && verdict.aborted.is_none() && count("requests") > 0.0 {
            self.late_in_a_row += 1;
            return if self.late_in_a_row > SEARCH_REPEATS { Taken::Generator } else { Taken::Again };
        }
        self.late_in_a_row = 0;
        self.steps.came(rate, kept);
        Taken::Counts
    }

    /// Runs at the rate found for as long as was asked for; a little lower when that does not hold.
    fn confirm<S: Scenario>(
        mut self,
        last: Option<Finished>,
        plan_of: &dyn Fn(&Common) -> Result<S::Plan, UsageError>,
        how: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Finished, SearchError> {
        let mut rate = self.steps.kept();
        let mut last = last;
        let mut attempts = 0;
        while let Some(at) = rate.filter(|_| attempts < SEARCH_CONFIRMATIONS_MAX) {
            let finished = self.probe::<S>(at, true, plan_of, how, observer)?;
            match self.take(at, true, &finished.result, observer) {
                Taken::Interrupted => return Ok(self.close(finished, None, "it was interrupted".into())),
                Taken::Generator => return Ok(self.end_at_the_generator(finished)),
                Taken::Again => {}
                Taken::Counts if self.steps.kept() == Some(at) => {
                    let ended = match self.steps.missed() {
                        Some(missed) => format!("confirmed at {at}/s; {missed}/s did not keep the bounds"),
                        None => format!("{at}/s, the highest rate that was to be tried, kept the bounds"),
                    };
                    return Ok(self.close(finished, Some(at), ended));
                }
                Taken::Counts => {
                    attempts += 1;
                    rate = Some(self.steps.below(at));
                    last = Some(finished);
                }
            }
        }
        let ended = match rate {
            None => "no rate kept the bounds".to_string(),
            Some(_) => format!("no rate kept the bounds over the full length in {SEARCH_CONFIRMATIONS_MAX} attempts"),
        };
        match last {
            Some(finished) => Ok(self.close(finished, None, ended)),
            // There is always a first probe.
            None => Err(RunError::Interrupted.into()),
        }
    }

    fn end_at_the_generator(self, finished: Finished) -> Finished {
        let at = self.probes.last().map_or(0.0, |probe| probe.rate);
        let kept =
            self.steps.kept().map_or_else(String::new, |kept| format!("; up to {kept}/s the target kept the bounds"));
        self.close(finished, None, format!("the generator, not the target, was at its limit at {at}/s{kept}"))
    }

    fn close(self, mut finished: Finished, confirmed: Option<f64>, ended: String) -> Finished {
        let result = &mut finished.result;
        if let Some(rate) = confirmed {
            result.values.insert("search_rate".into(), Value { value: rate, unit: Unit::PerSecond });
        }
        result.notes.insert(0, format!("the search ended: {ended}"));
        result.search = Some(Search {
            bounds: self.search.bounds.iter().map(ToString::to_string).collect(),
            precision: self.search.precision,
            confirmed_rate: confirmed,
            missed_rate: self.steps.missed(),
            ended,
            probes: self.probes,
        });
        finished
    }
}
