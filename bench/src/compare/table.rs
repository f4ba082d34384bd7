//! A comparison as a page of text.

use std::fmt::Write;

use super::judge::deviation;
use super::model::{Better, ComparedMetric, Comparison, Outcome, Side};
use crate::gate::differences;
use crate::quantity::show;
use crate::result::{RunResult, Value, metric};
use crate::terminal::{Align, Paint, Table};

/// The page: who and how, a line per metric that can be better or worse, and what to mind.
pub fn page(comparison: &Comparison, paint: Paint) -> String {
    let mut page = String::new();
    let Comparison { a, b, .. } = comparison;
    let named = |side: &Side| {
        if side.name == side.bootstrap { side.name.clone() } else { format!("{} ({})", side.name, side.bootstrap) }
    };
    let _ = writeln!(page, "{}", paint.bold(&format!("{}: A is {}, B is {}", comparison.scenario, named(a), named(b))));
    let had = comparison.metrics.first().map_or((0, 0), |metric| (metric.a.len(), metric.noise_ratios.len()));
    let _ =
        writeln!(page, "pairs of A and B: {} ({}); of A and A, for the noise: {}\n", had.0, comparison.order, had.1);
    if !comparison.metrics.is_empty() {
        let _ = writeln!(page, "{}", table(comparison, paint));
    }
    if comparison.metrics.iter().all(|metric| metric.outcome == Outcome::Undecided) {
        let _ = writeln!(page, "{}", paint.warn("No metric tells A and B apart."));
    }
    for note in &comparison.notes {
        let _ = writeln!(page, "note: {note}");
    }
    page
}

fn table(comparison: &Comparison, paint: Paint) -> Table {
    let interval = format!("{} % interval", comparison.confidence * 100.0);
    let mut table = Table::new([
        ("metric", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("B/A", Align::Right),
        (&interval, Align::Right),
        ("A/A noise", Align::Right),
        ("p", Align::Right),
        ("", Align::Left),
    ]);
    for metric in comparison.metrics.iter().filter(|metric| is_shown(metric)) {
        let ComparedMetric { unit, .. } = *metric;
        let number =
            |number: Option<f64>, digits: usize| number.map_or_else(|| "-".into(), |n| format!("{n:.digits$}"));
        let verdict = match metric.outcome {
            Outcome::A => paint.good(&format!("A is better: {}", metric.reason)),
            Outcome::B => paint.good(&format!("B is better: {}", metric.reason)),
            Outcome::Undecided => paint.dim(&format!("- {}", metric.reason)),
        };
        table.row([
            metric.name.clone(),
            show(Value { value: metric.a_median, unit }),
            show(Value { value: metric.b_median, unit }),
            number(metric.ratio, 3),
            metric.interval.map_or_else(|| "-".into(), |(low, high)| format!("{low:.3} to {high:.3}")),
            metric.noise.map_or_else(|| "-".into(), deviation),
            number(metric.p_wilcoxon, 3),
            verdict,
        ]);
    }
    table
}

/// What a person is shown: what can be better or worse. The parts of response time, and what was 0 throughout, are in
/// `compare.json`; that nothing was wrong is worth a line, once.
pub(crate) fn is_shown(metric: &ComparedMetric) -> bool {
    let is_part = ["st.", "wt."].iter().any(|part| metric.name.contains(part));
    let is_nought = metric.a.iter().chain(&metric.b).all(|value| *value == 0.0);
    metric.better != Better::Neither && !is_part && (!is_nought || ["errors", "checks"].contains(&metric.name.as_str()))
}

/// Two finished runs side by side. One run each says nothing of chance, so nobody is called better.
pub fn side_by_side(a: &RunResult, b: &RunResult) -> String {
    let mut table =
        Table::new([("metric", Align::Left), ("A", Align::Right), ("B", Align::Right), ("B/A", Align::Right)]);
    for name in super::judge::names(a) {
        let (Some(first), Some(second)) = (metric(a, &name), metric(b, &name)) else { continue };
        let ratio = if first.value == 0.0 { "-".into() } else { format!("{:.3}", second.value / first.value) };
        table.row([name, show(first), show(second), ratio]);
    }
    let mut page = String::new();
    for (letter, run) in [("A", a), ("B", b)] {
        let mut ended = String::new();
        if !run.verdict.valid {
            ended.push_str(", INVALID");
        }
        if run.verdict.interrupted {
            ended.push_str(", interrupted");
        }
        if let Some(why) = &run.verdict.aborted {
            let _ = write!(ended, ", aborted: {why}");
        }
        let _ = writeln!(page, "{letter} is {} on {} at {}{ended}", run.scenario, run.target.name, run.started_at);
    }
    for difference in differences(a, b) {
        let _ = writeln!(page, "not the same load (A was, B is): {difference}");
    }
    let _ = writeln!(page, "\n{table}");
    page.push_str("One run each: nothing here tells a difference from chance. `compare --a ... --b ...` does.\n");
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example::run;

    #[test]
    fn two_runs_side_by_side_say_what_ended_them_and_in_what_their_loads_differ() {
        let same = side_by_side(&run(), &run());
        assert!(!same.contains("aborted") && !same.contains("interrupted") && !same.contains("not the same load"));
        let (mut a, mut b) = (run(), run());
        a.verdict.interrupted = true;
        b.verdict.aborted = Some("no local port is left".into());
        b.parameters[1].value = "2000".into();
        let page = side_by_side(&a, &b);
        for part in [
            "A is produce on one at 2026-01-01T00:00:00Z, interrupted\n",
            "B is produce on one at 2026-01-01T00:00:00Z, aborted: no local port is left\n",
            "not the same load (A was, B is): --rate was 1000, is 2000\n",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
