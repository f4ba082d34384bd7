//! `--assert 'rt.p99<5ms'`.

use std::fmt;

use crate::plan::UsageError;
use crate::quantity;
use crate::result::{RunResult, Unit, known_metric};

/// How a metric is held against a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

/// In the order in which they are looked for: the longer first.
const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<", Operator::Less),
    (">", Operator::More),
];

impl Operator {
    /// Whether it holds.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Operator::Less => value < bound,
            Operator::AtMost => value <= bound,
            Operator::More => value > bound,
            Operator::AtLeast => value >= bound,
            Operator::Equal => value == bound,
            Operator::NotEqual => value != bound,
        }
    }
}

/// A bound on a metric; read before the run, judged after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    /// As written.
    text: String,
    /// The metric's name.
    pub metric: String,
    /// How.
    pub operator: Operator,
    /// The bound as written: its unit is read as the metric's, which only the run knows for sure.
    bound: String,
}

/// An assertion after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The assertion as written.
    pub assertion: String,
    /// Whether it held. A metric that the run does not have holds nothing.
    pub held: bool,
    /// What was found, for the reader.
    pub found: String,
}

impl Assertion {
    /// Reads `METRIC OPERATOR BOUND`.
    pub fn parse(text: &str) -> Result<Assertion, UsageError> {
        let bad = |allowed: String| UsageError { flag: "assert", value: format!("'{text}'"), allowed };
        let at = text
            .find(['<', '>', '=', '!'])
            .ok_or_else(|| bad("write METRIC, one of < <= > >= == !=, and a bound, as in 'rt.p99<5ms'".into()))?;
        let (symbol, operator) = OPERATORS
            .into_iter()
            .find(|(symbol, _)| text[at..].starts_with(symbol))
            .ok_or_else(|| bad("compare by one of < <= > >= == !=".into()))?;
        let metric = text[..at].trim();
        let bound = text[at + symbol.len()..].trim();
        let names = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | ',' | '(' | ')');
        if metric.is_empty() || !metric.chars().all(names) {
            return Err(bad("begin with a metric's name, as in 'rt.p99<5ms' or 'errors==0'".into()));
        }
        match unit_by_name(metric) {
            Some(unit) => {
                quantity::parse(bound, unit).map_err(|not| bad(format!("{metric}: {not}")))?;
            }
            None if !quantity::is_any(bound) => {
                return Err(bad("end with a bound: 5ms, 12KiB, 10MB/s, 10k, 3%".into()));
            }
            None => {}
        }
        Ok(Assertion { text: text.to_owned(), metric: metric.to_owned(), operator, bound: bound.to_owned() })
    }

    /// The bound in the metric's unit.
    pub fn bound(&self, unit: Unit) -> Result<f64, quantity::BadQuantity> {
        quantity::parse(&self.bound, unit)
    }

    /// Whether the run keeps it.
    pub fn judge(&self, run: &RunResult) -> Judged {
        let (held, found) = match known_metric(run, &self.metric) {
            Err(unknown) => (false, unknown.to_string()),
            Ok(value) => match self.bound(value.unit) {
                Err(bad) => (false, format!("{} is {}, and {bad}", self.metric, quantity::show(value))),
                Ok(bound) => {
                    (self.operator.holds(value.value, bound), format!("{} is {}", self.metric, quantity::show(value)))
                }
            },
        };
        Judged { assertion: self.text.clone(), held, found }
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.held { "ok" } else { "FAILED" };
        write!(f, "assert {}: {word}, {}", self.assertion, self.found)
    }
}

/// The unit of metrics whose name tells it, so that a bound in another is found before the run.
fn unit_by_name(metric: &str) -> Option<Unit> {
    let first = metric.split('.').next()?;
    if matches!(first, "errors" | "checks") {
        return Some(Unit::Count);
    }
    if matches!(first, "server" | "health" | "metrics") {
        return None;
    }
    if metric == "rate" || metric == "offered_rate" {
        return Some(Unit::PerSecond);
    }
    let (_, statistic) = metric.split_once('.')?;
    let statistic = ["rt.", "st.", "wt."].iter().find_map(|kind| statistic.strip_prefix(kind)).unwrap_or(statistic);
    let is_percentile = statistic.strip_prefix('p').is_some_and(|p| p.parse::<f64>().is_ok());
    match statistic {
        "min" | "mean" | "stddev" | "max" => Some(Unit::Seconds),
        "count" | "clipped" => Some(Unit::Count),
        _ if is_percentile => Some(Unit::Seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example::run;

    fn held(text: &str) -> bool {
        Assertion::parse(text).unwrap_or_else(|bad| panic!("{bad}")).judge(&run()).held
    }

    #[test]
    fn every_operator_holds_what_it_says() {
        // p99 is 5 ms.
        for (text, holds) in [
            ("rt.p99<5ms", false),
            ("rt.p99 <= 5ms", true),
            ("rt.p99<5.001ms", true),
            ("rt.p99>5ms", false),
            ("rt.p99>=5000us", true),
            ("produce.rt.p99==0.005s", true),
            ("rt.p99!=5ms", false),
            ("errors==7", true),
            ("errors.TIMED_OUT==0", true),
            ("checks.lost==0", true),
            ("checks.duplicated==0", false),
            ("rate>=1k", true),
            ("rate>1k/s", false),
            ("bytes_per_s>=1MB/s", true),
            ("server.rss_max<=4KiB", true),
            ("server.cpu<51%", true),
            ("server.cpu_us_per_request<12.5us", true),
            ("health.lateness_p99<1ms", true),
        ] {
            assert_eq!(held(text), holds, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_before_the_run() {
        for (text, says) in [
            ("rt.p99", "write METRIC"),
            ("rt.p99<", "nothing is not a time"),
            ("<5ms", "begin with a metric's name"),
            ("rt p99<5ms", "begin with a metric's name"),
            ("rt.p99=5ms", "compare by one of"),
            ("rt.p99<5", "5 is not a time with its unit"),
            ("rt.p99<5KiB", "5KiB is not a time with its unit"),
            ("produce.rt.p99.9<5", "5 is not a time"),
            ("stable.max<5", "5 is not a time"),
            ("errors<1ms", "1ms is not a number"),
            ("rss_per_conn<12Kib", "end with a bound"),
        ] {
            let bad = Assertion::parse(text).expect_err(text).to_string();
            assert!(bad.starts_with(&format!("--assert '{text}': ")), "{bad}");
            assert!(bad.contains(says), "{bad}");
        }
    }

    #[test]
    fn an_unknown_metric_or_a_unit_that_does_not_fit_fails_after_the_run() {
        let judged = Assertion::parse("rss_per_conn<12KiB").unwrap().judge(&run());
        assert!(!judged.held && judged.found.starts_with("no metric rss_per_conn"), "{judged}");
        let judged = Assertion::parse("rss_per_conn!=12KiB").unwrap().judge(&run());
        assert!(!judged.held, "{judged}");
        let judged = Assertion::parse("server.rss_max<5ms").unwrap().judge(&run());
        assert!(!judged.held && judged.found.contains("5ms is not bytes"), "{judged}");
    }
}
