//! Carrying a search out.

use super::{Plan, Steps};
use crate::engine::{self, Finished, Observer, RunError, RunOptions, Stage};
use crate::gate::Judged;
use crate::limits::{SEARCH_CONFIRMATIONS_MAX, SEARCH_REPEATS};
use crate::measure::Interval;
use crate::plan::{Common, Load, UsageError};
use crate::result::{IntervalRow, Probe, RunResult, Search, Unit, Value};
use crate::scenario::Scenario;

/// A search that came to nothing at all.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A rate that the scenario cannot have.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The first probe never began.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Makes a scenario's plan of what all scenarios have.
pub type PlanOf<'a, S> = &'a dyn Fn(&Common) -> Result<<S as Scenario>::Plan, UsageError>;

/// Searches, and ends as the run that confirms what was found, with every probe in its result; as the last probe when
/// nothing was confirmed.
///
/// # Errors
/// The first probe never began. What happens later is in the result.
pub fn run<S: Scenario>(
    common: &Common,
    plan_of: PlanOf<'_, S>,
    how: &RunOptions,
    search: &Plan,
    observer: &mut dyn Observer,
) -> Result<Finished, SearchError> {
    let mut conduct = Conduct::<S> {
        common,
        plan_of,
        how,
        search,
        observer,
        steps: Steps::new(search.from, search.to, search.precision),
        probes: Vec::new(),
        late_in_a_row: 0,
        last: None,
    };
    let ended = conduct.conduct()?;
    let finished = conduct.close(ended)?;
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

/// How a search ended.
struct Ended {
    confirmed: Option<f64>,
    why: String,
}

impl Ended {
    fn without_a_rate(why: impl Into<String>) -> Ended {
        Ended { confirmed: None, why: why.into() }
    }
}

struct Conduct<'a, S: Scenario> {
    common: &'a Common,
    plan_of: PlanOf<'a, S>,
    how: &'a RunOptions,
    search: &'a Plan,
    observer: &'a mut dyn Observer,
    steps: Steps,
    probes: Vec<Probe>,
    /// Probes of the same rate whose generator was late.
    late_in_a_row: u32,
    last: Option<Finished>,
}

impl<S: Scenario> Conduct<'_, S> {
    fn conduct(&mut self) -> Result<Ended, SearchError> {
        while let Some(rate) = self.steps.next() {
            if let Some(ended) = self.probe(rate, false)? {
                return Ok(ended);
            }
        }
        self.confirm()
    }

    /// Runs at the rate found for as long as was asked for; a little lower when that does not hold.
    fn confirm(&mut self) -> Result<Ended, SearchError> {
        let Some(mut rate) = self.steps.kept() else {
            return Ok(Ended::without_a_rate("no rate kept the bounds"));
        };
        let mut missed = 0;
        while missed < SEARCH_CONFIRMATIONS_MAX {
            if let Some(ended) = self.probe(rate, true)? {
                return Ok(ended);
            }
            if self.late_in_a_row > 0 {
                continue;
            }
            if self.steps.kept() == Some(rate) {
                let why = match self.steps.missed() {
                    Some(missed) => format!("confirmed at {rate}/s; {missed}/s did not keep the bounds"),
                    None => format!("{rate}/s, the highest rate that was to be tried, kept the bounds"),
                };
                return Ok(Ended { confirmed: Some(rate), why });
            }
            missed += 1;
            rate = self.steps.below(rate);
        }
        Ok(Ended::without_a_rate(format!(
            "no rate kept the bounds over the full length in {SEARCH_CONFIRMATIONS_MAX} attempts"
        )))
    }

    /// One run. How the search ended, if it did with it.
    fn probe(&mut self, rate: f64, confirms: bool) -> Result<Option<Ended>, SearchError> {
        let mut common = self.common.clone();
        if let Load::Open { rate: slots, .. } = &mut common.load {
            *slots = rate;
        }
        if !confirms {
            (common.duration, common.warmup) = (self.search.window, self.search.warmup);
        }
        common.prefix = format!("{}-p{}", common.prefix, self.probes.len() + 1);
        let plan = (self.plan_of)(&common)?;
        let finished = match engine::run::<S>(&common, &plan, self.how, &mut OneOfMany(self.observer)) {
            Ok(finished) => finished,
            Err(error) => return self.never_began(rate, error).map(Some),
        };
        let probe = self.judge(rate, confirms, &finished.result);
        self.observer.probe(&probe);
        let verdict = &finished.result.verdict;
        // A target that answers nothing, or errors, makes no generator late.
        let late = !probe.reasons.is_empty() && verdict.aborted.is_none() && probe.answered_rate > 0.0;
        let (kept, interrupted) = (probe.kept, verdict.interrupted);
        let restarted = finished.result.server.as_ref().is_some_and(|server| server.restarted);
        self.probes.push(probe);
        self.last = Some(finished);
        if interrupted {
            return Ok(Some(Ended::without_a_rate("it was interrupted")));
        }
        if restarted {
            return Ok(Some(Ended::without_a_rate("the server's process ended or was replaced")));
        }
        if late {
            self.late_in_a_row += 1;
            return Ok((self.late_in_a_row > SEARCH_REPEATS).then(|| self.at_the_generator(rate)));
        }
        self.late_in_a_row = 0;
        self.steps.came(rate, kept);
        Ok(None)
    }

    /// Whether a run kept the bounds.
    fn judge(&self, rate: f64, confirms: bool, result: &RunResult) -> Probe {
        let judged: Vec<Judged> = self.search.bounds.iter().map(|bound| bound.judge(result)).collect();
        let count = |name: &str| result.values.get(name).map_or(0.0, |value| value.value);
        let verdict = &result.verdict;
        let mut wrong: Vec<String> = verdict.aborted.iter().cloned().collect();
        for (what, count) in [("errors", count("errors")), ("slots never sent", count("unsent"))] {
            if count > 0.0 {
                wrong.push(format!("{count} {what}"));
            }
        }
        Probe {
            rate,
            confirms,
            measured_s: result.measured_s,
            answered_rate: count("rate"),
            kept: judged.iter().all(|judged| judged.held) && wrong.is_empty(),
            reasons: verdict.reasons.clone(),
            found: judged.into_iter().map(|judged| judged.found).chain(wrong).collect(),
        }
    }

    /// A run that could not begin: what was found before it is kept.
    fn never_began(&mut self, rate: f64, error: RunError) -> Result<Ended, SearchError> {
        let Some(last) = &mut self.last else { return Err(error.into()) };
        match error {
            RunError::Interrupted => {
                last.result.verdict.interrupted = true;
                Ok(Ended::without_a_rate("it was interrupted"))
            }
            RunError::Setup(_) | RunError::Host(_) => {
                let why = format!("the run at {rate}/s could not begin: {error}");
                last.result.verdict.aborted = Some(why.clone());
                Ok(Ended::without_a_rate(why))
            }
        }
    }

    fn at_the_generator(&self, rate: f64) -> Ended {
        let kept = self.steps.kept().map(|kept| format!("; up to {kept}/s the target kept the bounds"));
        let kept = kept.unwrap_or_default();
        Ended::without_a_rate(format!("the generator, not the target, was at its limit at {rate}/s{kept}"))
    }

    /// The last run, with what the search was.
    fn close(self, ended: Ended) -> Result<Finished, SearchError> {
        // There is one whenever a search ended without an error.
        let mut finished = self.last.ok_or(RunError::Interrupted)?;
        let result = &mut finished.result;
        if let Some(rate) = ended.confirmed {
            result.values.insert("search_rate".into(), Value { value: rate, unit: Unit::PerSecond });
        }
        result.notes.insert(0, format!("the search ended: {}", ended.why));
        result.search = Some(Search {
            bounds: self.search.bounds.iter().map(ToString::to_string).collect(),
            precision: self.search.precision,
            confirmed_rate: ended.confirmed,
            missed_rate: self.steps.missed(),
            ended: ended.why,
            probes: self.probes,
        });
        Ok(finished)
    }
}
