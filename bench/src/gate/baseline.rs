//! `--baseline FILE --max-regress 5%`: how much worse than an earlier run a run may be.

use std::fmt;

use serde::Serialize;

use super::direction::better;
use crate::compare::Better;
use crate::plan::UsageError;
use crate::quantity::{parse_percent, show};
use crate::result::{self, RunResult, Value, told_apart};
use crate::terminal::{Align, Table};

/// Parameters that two runs of the same load need not share: where the target is, and what is written where.
const NOT_THE_LOAD: [&str; 10] = [
    "bootstrap",
    "name",
    "out",
    "prefix",
    "server-pid",
    "server-metrics",
    "server-metric",
    "seed",
    "baseline",
    "max-regress",
];

/// How much worse a metric may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowance {
    /// The metric's name; `None` for all that are judged unasked.
    pub metric: Option<String>,
    /// As a share of the baseline's value.
    pub share: f64,
}

impl Allowance {
    /// Reads `5%` or `rt.p99=10%`.
    pub fn parse(text: &str) -> Result<Allowance, UsageError> {
        let bad = |allowed: String| UsageError { flag: "max-regress", value: format!("'{text}'"), allowed };
        let (metric, percent) = match text.split_once('=') {
            Some((metric, _)) if metric.trim().is_empty() => {
                return Err(bad("write 5%, or METRIC=5% for one metric".into()));
            }
            Some((metric, percent)) => (Some(metric.trim().to_owned()), percent),
            None => (None, text),
        };
        let share = parse_percent(percent).map_err(|not| bad(not.to_string()))?;
        Ok(Allowance { metric, share })
    }
}

/// An earlier run, and how much worse a new one may be.
#[derive(Debug, Clone)]
pub struct Baseline {
    run: RunResult,
    allowances: Vec<Allowance>,
    forced: bool,
}

/// Why two runs are not of the same load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not compared with the baseline: {}", .0.join("; "))]
pub struct Difference(pub Vec<String>);

/// How a metric did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Regression {
    /// Not worse than allowed.
    Held,
    /// Worse.
    Regressed,
    /// Not judged: see the row's note.
    NotJudged,
}

/// One metric, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub metric: String,
    /// The baseline's.
    pub before: Option<Value>,
    /// This run's.
    pub after: Option<Value>,
    /// By what share it grew; `None` where there is nothing to divide by.
    pub change: Option<f64>,
    /// How much worse it may be, as a share.
    pub allowed: f64,
    /// How it did.
    pub regression: Regression,
    /// Why, where the numbers do not say it.
    pub note: String,
}

/// All metrics that were held against the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows(pub Vec<Row>);

impl Baseline {
    /// An earlier run; the error says why it can be none. `forced`: even where load or verdict forbid it.
    pub fn of(run: RunResult, allowances: Vec<Allowance>, forced: bool) -> Result<Baseline, String> {
        if !forced && !run.verdict.valid {
            return Err(format!("that run is INVALID: {}", run.verdict.reasons.join("; ")));
        }
        if !forced && (run.verdict.interrupted || run.verdict.aborted.is_some()) {
            return Err("that run was interrupted or aborted".into());
        }
        for Allowance { metric, .. } in &allowances {
            if let Some(metric) = metric {
                result::known_metric(&run, metric).map_err(|unknown| unknown.to_string())?;
            }
        }
        Ok(Baseline { run, allowances, forced })
    }

    /// Holds a run against it.
    pub fn judge(&self, run: &RunResult) -> Result<Rows, Difference> {
        let differences = differences(&self.run, run);
        if !self.forced && !differences.is_empty() {
            return Err(Difference(differences));
        }
        let general = self.allowances.iter().rev().find(|allowance| allowance.metric.is_none());
        let mut rows: Vec<Row> = Vec::new();
        if let Some(general) = general {
            for metric in judged_unasked(&self.run) {
                rows.push(self.row(run, &metric, general.share, false));
            }
        }
        for Allowance { metric, share } in &self.allowances {
            let Some(metric) = metric else { continue };
            let row = self.row(run, metric, *share, true);
            match rows.iter_mut().find(|row| row.metric == *metric) {
                Some(unasked) => *unasked = row,
                None => rows.push(row),
            }
        }
        Ok(Rows(rows))
    }

    fn row(&self, run: &RunResult, metric: &str, allowed: f64, asked: bool) -> Row {
        let before = result::metric(&self.run, metric);
        let after = result::metric(run, metric);
        let row = |change, regression, note: &str| Row {
            metric: metric.to_owned(),
            before,
            after,
            change,
            allowed,
            regression,
            note: note.to_owned(),
        };
        let (Some(old), Some(new)) = (before, after) else {
            return row(None, Regression::Regressed, "the baseline has it, this run does not");
        };
        let change = (old.value != 0.0).then(|| new.value / old.value - 1.0);
        if !asked && (!told_apart(&self.run, metric) || !told_apart(run, metric)) {
            return row(change, Regression::NotJudged, "too few values for this percentile");
        }
        let worse = match better(metric) {
            Better::Lower => new.value > old.value * (1.0 + allowed),
            Better::Higher => new.value < old.value * (1.0 - allowed),
            Better::Neither => (new.value - old.value).abs() > old.value.abs() * allowed,
        };
        row(change, if worse { Regression::Regressed } else { Regression::Held }, "")
    }
}

/// What is judged without being named: what the user of a target feels, and what it costs.
fn judged_unasked(run: &RunResult) -> Vec<String> {
    let fixed = ["rt.p50", "rt.p99", "rt.p99.9", "rate", "error_share"].map(String::from);
    let errors = (result::metric(run, "error_share").is_none()).then(|| "errors".to_owned());
    let cost = ["server.cpu_us_per_request", "server.rss_max"].map(String::from);
    let checks = run.checks.violations.keys().map(|kind| format!("checks.{kind}"));
    let per_client =
        run.values.keys().filter(|name| name.contains("_per_conn") || name.contains("_per_member")).cloned();
    fixed
        .into_iter()
        .chain(errors)
        .chain(checks)
        .chain(cost)
        .chain(per_client)
        .filter(|metric| result::metric(run, metric).is_some())
        .collect()
}

/// In what the runs' loads differ.
pub(crate) fn differences(before: &RunResult, after: &RunResult) -> Vec<String> {
    if before.scenario != after.scenario {
        return vec![format!("it is a {} run, this is {}", before.scenario, after.scenario)];
    }
    let value = |run: &RunResult, name: &str| {
        run.parameters.iter().find(|parameter| parameter.name == name).map(|parameter| parameter.value.clone())
    };
    let mut names: Vec<&String> = before.parameters.iter().chain(&after.parameters).map(|p| &p.name).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| !NOT_THE_LOAD.contains(&name.as_str()))
        .filter_map(|name| {
            let (old, new) = (value(before, name), value(after, name));
            let shown = |value: Option<String>| value.unwrap_or_else(|| "unset".into());
            (old != new).then(|| format!("--{name} was {}, is {}", shown(old), shown(new)))
        })
        .collect()
}

impl Rows {
    /// Whether nothing is worse than allowed. Where nothing was judged, nothing was held.
    pub fn held(&self) -> bool {
        self.0.iter().all(|row| row.regression != Regression::Regressed)
            && self.0.iter().any(|row| row.regression == Regression::Held)
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            ("metric", Align::Left),
            ("baseline", Align::Right),
            ("now", Align::Right),
            ("change", Align::Right),
            ("allowed", Align::Right),
            ("", Align::Left),
        ]);
        for row in &self.0 {
            let value = |value: Option<Value>| value.map_or_else(|| "none".into(), show);
            let sign = match better(&row.metric) {
                Better::Lower => "+",
                Better::Higher => "-",
                Better::Neither => "±",
            };
            let word = match row.regression {
                Regression::Held => "ok",
                Regression::Regressed => "REGRESSED",
                Regression::NotJudged => "not judged",
            };
            let note = if row.note.is_empty() { word.to_owned() } else { format!("{word}: {}", row.note) };
            table.row([
                row.metric.clone(),
                value(row.before),
                value(row.after),
                row.change.map_or_else(|| "-".into(), |change| format!("{:+.1} %", change * 100.0)),
                format!("{sign}{} %", row.allowed * 100.0),
                note,
            ]);
        }
        if table.is_empty() {
            return writeln!(f, "  nothing to hold against the baseline: --max-regress names no metric");
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Unit;
    use crate::result::example::{latency, run};

    fn five_percent() -> Vec<Allowance> {
        vec![Allowance::parse("5%").unwrap()]
    }

    fn regressed(rows: &Rows) -> Vec<&str> {
        rows.0.iter().filter(|row| row.regression == Regression::Regressed).map(|row| row.metric.as_str()).collect()
    }

    #[test]
    fn the_same_run_holds() {
        let rows = Baseline::of(run(), five_percent(), false).unwrap().judge(&run()).unwrap();
        assert!(rows.held(), "{rows}");
        let judged: Vec<_> = rows.0.iter().map(|row| row.metric.as_str()).collect();
        assert_eq!(
            judged,
            [
                "rt.p50",
                "rt.p99",
                "rt.p99.9",
                "rate",
                "errors",
                "checks.duplicated",
                "checks.lost",
                "server.cpu_us_per_request",
                "server.rss_max"
            ]
        );
    }

    #[test]
    fn each_metric_is_worse_in_its_own_direction() {
        let mut after = run();
        after.latencies.insert("produce.rt".into(), latency(30_000, 1_060_000));
        after.values.insert("rate".into(), Value { value: 940.0, unit: Unit::PerSecond });
        after.checks.violations.insert("lost".into(), 1);
        let rows = Baseline::of(run(), five_percent(), false).unwrap().judge(&after).unwrap();
        assert_eq!(regressed(&rows), ["rt.p50", "rt.p99", "rt.p99.9", "rate", "checks.lost"], "{rows}");
        assert!(!rows.held());
        let shown = rows.to_string();
        assert!(shown.contains("+6.0 %") && shown.contains("-6.0 %") && shown.contains("REGRESSED"), "{shown}");

        // Better by as much is no regression.
        let rows = Baseline::of(after, five_percent(), false).unwrap().judge(&run()).unwrap();
        assert!(rows.held(), "{rows}");
    }

    #[test]
    fn a_metric_may_have_an_allowance_of_its_own_and_be_the_only_one() {
        let mut after = run();
        after.latencies.insert("produce.rt".into(), latency(30_000, 1_060_000));
        let mut allowances = five_percent();
        for metric in ["rt.p50=10%", "rt.p99=10%", "rt.p99.9=10%"] {
            allowances.push(Allowance::parse(metric).unwrap());
        }
        assert!(Baseline::of(run(), allowances, false).unwrap().judge(&after).unwrap().held());
        let only = vec![Allowance::parse("rt.max=5%").unwrap()];
        let rows = Baseline::of(run(), only, false).unwrap().judge(&after).unwrap();
        assert_eq!((rows.0.len(), regressed(&rows)), (1, vec!["rt.max"]));
    }

    #[test]
    fn percentiles_of_few_values_are_judged_only_when_asked_for() {
        let mut few = run();
        few.latencies.insert("produce.rt".into(), latency(5_000, 1_000_000));
        let mut slower = few.clone();
        slower.latencies.get_mut("produce.rt").unwrap().percentiles_ns.insert("99.9".into(), 90_000_000);
        let rows = Baseline::of(few.clone(), five_percent(), false).unwrap().judge(&slower).unwrap();
        assert!(rows.held() && rows.to_string().contains("not judged: too few values"), "{rows}");
        let asked = vec![Allowance::parse("rt.p99.9=5%").unwrap()];
        assert!(!Baseline::of(few, asked, false).unwrap().judge(&slower).unwrap().held());
    }

    #[test]
    fn what_the_run_lacks_or_nothing_at_all_is_no_pass() {
        let mut after = run();
        after.server = None;
        let rows = Baseline::of(run(), five_percent(), false).unwrap().judge(&after).unwrap();
        assert_eq!(regressed(&rows), ["server.cpu_us_per_request", "server.rss_max"]);
        assert!(!Baseline::of(run(), Vec::new(), false).unwrap().judge(&run()).unwrap().held());
    }

    #[test]
    fn another_load_is_not_compared_unless_forced() {
        let mut after = run();
        after.parameters[1].value = "2000".into();
        after.parameters[0].value = "elsewhere:9092".into();
        let difference = Baseline::of(run(), five_percent(), false).unwrap().judge(&after).unwrap_err();
        assert_eq!(difference.to_string(), "not compared with the baseline: --rate was 1000, is 2000");
        assert!(Baseline::of(run(), five_percent(), true).unwrap().judge(&after).is_ok());
        after.scenario = "fleet".into();
        let difference = Baseline::of(run(), five_percent(), false).unwrap().judge(&after).unwrap_err();
        assert_eq!(difference.0, ["it is a produce run, this is fleet"]);
    }

    #[test]
    fn a_baseline_that_cannot_be_believed_is_refused() {
        let mut invalid = run();
        invalid.verdict.valid = false;
        invalid.verdict.reasons = vec!["late".into()];
        assert_eq!(Baseline::of(invalid.clone(), five_percent(), false).unwrap_err(), "that run is INVALID: late");
        assert!(Baseline::of(invalid, five_percent(), true).is_ok());
        let unknown = vec![Allowance::parse("rt.p98=5%").unwrap()];
        assert!(Baseline::of(run(), unknown, false).unwrap_err().starts_with("no metric rt.p98"));
        for text in ["5", "x", "=5%", "-5%"] {
            assert!(Allowance::parse(text).is_err(), "{text}");
        }
    }
}
