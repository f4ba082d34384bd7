//! A run in one sentence.

use crate::quantity::{show, show_ns};
use crate::result::{RunResult, Unit, Value};

/// How a run is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Believe it, nothing was wrong.
    Fine,
    /// Believe it; it decides nothing.
    Open,
    /// Believe it, and mind what it says: errors, violations, a shorter window.
    Mind,
    /// Do not believe it.
    Invalid,
}

/// Below this share of the offered rate a run says how much of it was answered.
const KEPT_UP: f64 = 0.995;

/// The sentence that a manager reads, and how it is meant.
pub fn verdict(run: &RunResult) -> (Mood, String) {
    let wrong: u64 = run.checks.violations.values().sum();
    let errors = errors(run);
    let mut sentence = format!("{}; {}", load_and_latency(run), errors_in_words(run, errors));
    if let Some(checks) = checks(run) {
        sentence.push_str(", ");
        sentence.push_str(&checks);
    }
    sentence.push('.');
    if let Some(why) = &run.verdict.aborted {
        return (Mood::Invalid, format!("ABORTED: {}. Until then: {sentence}", why.trim_end_matches('.')));
    }
    if !run.verdict.valid {
        return (Mood::Invalid, "INVALID: these numbers describe the generator, not the target.".into());
    }
    if run.verdict.interrupted {
        return (Mood::Mind, format!("Interrupted: {sentence}"));
    }
    let kept_up = value(run, "offered_rate").is_none_or(|offered| rate(run) >= offered * KEPT_UP);
    let mood = if errors == 0 && wrong == 0 && kept_up { Mood::Fine } else { Mood::Mind };
    (mood, sentence)
}

/// All errors of the measured window.
pub fn errors(run: &RunResult) -> u64 {
    run.errors.iter().map(|error| error.count).sum()
}

/// A value by name.
pub fn value(run: &RunResult, name: &str) -> Option<f64> {
    run.values.get(name).map(|value| value.value)
}

/// Answers of the primary operation per second.
pub fn rate(run: &RunResult) -> f64 {
    value(run, "rate").unwrap_or_else(|| {
        let answered = run.latency("rt").map_or(0, |latency| latency.count);
        if run.measured_s > 0.0 { answered as f64 / run.measured_s } else { 0.0 }
    })
}

/// A length of time that people choose: `60 s`, `2 min 30 s`, `1 h`.
pub fn span(seconds: f64) -> String {
    if seconds < 119.5 {
        let tenths = (seconds * 10.0).round() / 10.0;
        return format!("{tenths} s");
    }
    let whole = seconds.round() as u64;
    let parts = [(whole / 3_600, "h"), (whole / 60 % 60, "min"), (whole % 60, "s")];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}")).collect();
    parts.join(" ")
}

/// A rate without its unit: 10,000.
pub fn number(value: f64) -> String {
    let value = if value.abs() >= 100.0 { value.round() } else { value };
    show(Value { value, unit: Unit::Count })
}

fn load_and_latency(run: &RunResult) -> String {
    let rate = rate(run);
    let offered = match value(run, "offered_rate") {
        Some(offered) if rate < offered * KEPT_UP => format!("{} of {} offered", number(rate), number(offered)),
        _ => number(rate),
    };
    let load = format!("{offered} {} requests/s for {}", run.primary, span(run.measured_s));
    match run.latency("rt") {
        Some(latency) if latency.count > 0 => {
            let p99 = latency.percentile_ns("99").unwrap_or(latency.max_ns);
            format!("{load}: 99 of 100 answered within {}", show_ns(p99))
        }
        _ => format!("{load}: no answer was measured"),
    }
}

fn errors_in_words(run: &RunResult, errors: u64) -> String {
    match errors {
        0 => "no errors".into(),
        errors => {
            let requests = value(run, "requests").unwrap_or(rate(run) * run.measured_s);
            let share = if requests > 0.0 { errors as f64 / requests * 100.0 } else { 100.0 };
            let share = if share < 0.01 { "under 0.01 %".into() } else { format!("{share:.2} %") };
            let word = if errors == 1 { "error" } else { "errors" };
            format!("{} {word} ({share})", number(errors as f64))
        }
    }
}

fn checks(run: &RunResult) -> Option<String> {
    let violations = &run.checks.violations;
    let wrong: Vec<_> = violations
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{} {}", number(*count as f64), kind.replace('_', " ")))
        .collect();
    match wrong.as_slice() {
        [] if violations.is_empty() => None,
        [] if violations.contains_key("lost") => Some("nothing lost".into()),
        [] => Some("every check passed".into()),
        wrong => Some(format!("but {}", wrong.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example;

    fn fine() -> RunResult {
        let mut run = example::run();
        run.errors.clear();
        run.checks.violations = [("lost".into(), 0)].into();
        run
    }

    #[test]
    fn a_good_run_is_one_sentence() {
        let p99 = show_ns(fine().latency("rt").unwrap().percentile_ns("99").unwrap());
        let expected =
            format!("1,000 produce requests/s for 30 s: 99 of 100 answered within {p99}; no errors, nothing lost.");
        assert_eq!(verdict(&fine()), (Mood::Fine, expected));
    }

    #[test]
    fn what_was_wrong_is_said() {
        let mut run = example::run();
        run.values.insert("requests".into(), Value { value: 30_000.0, unit: Unit::Count });
        run.values.insert("offered_rate".into(), Value { value: 2_000.0, unit: Unit::PerSecond });
        run.checks.violations = [("lost".into(), 1_234), ("owned_twice".into(), 1)].into();
        let (mood, sentence) = verdict(&run);
        assert_eq!(mood, Mood::Mind);
        assert!(sentence.starts_with("1,000 of 2,000 offered produce requests/s"), "{sentence}");
        assert!(sentence.ends_with("; 7 errors (0.02 %), but 1,234 lost, 1 owned twice."), "{sentence}");
    }

    #[test]
    fn what_may_not_be_believed_is_loud() {
        let mut run = fine();
        run.verdict.valid = false;
        assert_eq!(verdict(&run).0, Mood::Invalid);
        assert!(verdict(&run).1.starts_with("INVALID"));
        run.verdict.aborted = Some("every request failed.".into());
        assert!(verdict(&run).1.starts_with("ABORTED: every request failed. Until then: 1,000"), "{}", verdict(&run).1);
        let mut run = fine();
        run.verdict.interrupted = true;
        run.measured_s = 3_661.0;
        assert!(verdict(&run).1.starts_with("Interrupted: 1,000 produce requests/s for 1 h 1 min 1 s"));
    }

    #[test]
    fn a_run_without_answers_says_so() {
        let mut run = fine();
        run.latencies.clear();
        assert!(verdict(&run).1.contains("no answer was measured"));
    }
}
