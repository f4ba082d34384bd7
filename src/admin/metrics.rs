//! Metric families and their text in Prometheus' exposition format, version 0.0.4.

use std::fmt::Write;

use ringgate_group::Histogram;

/// A value: whole numbers keep all their digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Counts and bytes.
    Whole(u64),
    /// Seconds and ratios.
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Number::Whole(value)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Number::Whole(value as u64)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Number::Real(value)
    }
}

/// What a family's values mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process starts again; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, sum and count.
    Histogram,
}

impl Kind {
    /// As Prometheus has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Metrics of one name that differ in their labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: Vec<Sample>,
}

/// One line of the text.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    /// What follows the family's name.
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
    value: Number,
}

impl Family {
    /// No values yet. `name` is `[a-zA-Z_:][a-zA-Z0-9_:]*`.
    pub fn new(kind: Kind, name: &'static str, help: &'static str) -> Family {
        debug_assert!(valid_name(name), "{name}");
        debug_assert!(kind != Kind::Counter || name.ends_with("_total"), "{name}");
        Family { name, help, kind, samples: Vec::new() }
    }

    /// A counter without values yet; `name` ends in `_total`.
    pub fn counter(name: &'static str, help: &'static str) -> Family {
        Family::new(Kind::Counter, name, help)
    }

    /// A histogram without values yet.
    pub fn histogram(name: &'static str, help: &'static str) -> Family {
        Family::new(Kind::Histogram, name, help)
    }

    /// A gauge without values yet.
    pub fn gauge(name: &'static str, help: &'static str) -> Family {
        Family::new(Kind::Gauge, name, help)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it means.
    pub fn help(&self) -> &'static str {
        self.help
    }

    /// What its values are.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The names of its labels, without a histogram's `le`, as far as it has a value.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> + '_ {
        let labels = self.samples.first().into_iter().flat_map(|sample| &sample.labels);
        labels.map(|(name, _)| *name).filter(|name| *name != "le")
    }

    /// The values that a label has, each once for each series.
    pub fn values_of(&self, label: &str) -> impl Iterator<Item = &str> {
        let labels = self.samples.iter().flat_map(|sample| &sample.labels);
        labels.filter(move |(name, _)| *name == label).map(|(_, value)| value.as_str())
    }

    /// Adds the value of one combination of labels, which must not have been added before.
    pub fn push(&mut self, labels: &[(&'static str, &str)], value: impl Into<Number>) {
        self.sample("", labels, None, value.into());
    }

    /// [`push`](Family::push) for building in one expression.
    pub fn with(mut self, labels: &[(&'static str, &str)], value: impl Into<Number>) -> Family {
        self.push(labels, value);
        self
    }

    /// Adds a histogram: upper bounds with the count at or below each, growing, without the infinite one;
    /// the sum of all values, and their count.
    pub fn push_histogram(&mut self, labels: &[(&'static str, &str)], buckets: &[(f64, u64)], sum: f64, count: u64) {
        debug_assert_eq!(self.kind, Kind::Histogram);
        debug_assert!(buckets.is_sorted() && buckets.last().is_none_or(|&(_, below)| below <= count));
        for &(bound, at_most) in buckets {
            self.sample("_bucket", labels, Some(number_text(Number::Real(bound))), at_most.into());
        }
        self.sample("_bucket", labels, Some("+Inf".into()), count.into());
        self.sample("_sum", labels, None, sum.into());
        self.sample("_count", labels, None, count.into());
    }

    /// As [`push_histogram`](Family::push_histogram), from what was recorded.
    pub fn push_recorded(&mut self, labels: &[(&'static str, &str)], recorded: &Histogram) {
        self.push_histogram(labels, &recorded.buckets(), recorded.sum(), recorded.count());
    }

    fn sample(&mut self, suffix: &'static str, labels: &[(&'static str, &str)], bound: Option<String>, value: Number) {
        debug_assert!(labels.iter().all(|(name, _)| valid_name(name) && !name.contains(':')));
        let labels = labels.iter().map(|&(name, text)| (name, text.to_owned())).chain(bound.map(|le| ("le", le)));
        self.samples.push(Sample { suffix, labels: labels.collect(), value });
    }
}

/// The content type of [`exposition`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families as Prometheus reads them. A family without values is left out.
pub fn exposition(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = family.kind.name();
        let _ = writeln!(out, "# HELP {} {}", family.name, escaped(family.help, false));
        let _ = writeln!(out, "# TYPE {} {kind}", family.name);
        for Sample { suffix, labels, value } in &family.samples {
            let _ = write!(out, "{}{suffix}", family.name);
            for (nth, (name, text)) in labels.iter().enumerate() {
                let opens = if nth == 0 { '{' } else { ',' };
                let _ = write!(out, "{opens}{name}=\"{}\"", escaped(text, true));
            }
            let closes = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(out, "{closes} {}", number_text(*value));
        }
    }
    out
}

fn number_text(number: Number) -> String {
    match number {
        Number::Whole(value) => value.to_string(),
        Number::Real(value) if value.is_nan() => "NaN".into(),
        Number::Real(value) if value.is_infinite() => if value > 0.0 { "+Inf" } else { "-Inf" }.into(),
        Number::Real(value) => value.to_string(),
    }
}

/// Backslash and line feed are escaped everywhere, the double quote in label values.
fn escaped(text: &str, label: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if label => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

fn valid_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_help_type_and_a_line_for_each_combination_of_labels() {
        let requests = Family::counter("ringgate_requests_total", "Requests answered.")
            .with(&[("api", "Produce"), ("shard", "0")], 7u64)
            .with(&[("api", "Fetch"), ("shard", "1")], u64::MAX);
        let lag = Family::gauge("ringgate_lag_seconds", "Loop lag.").with(&[], 0.25);
        let expected = "# HELP ringgate_requests_total Requests answered.\n\
                        # TYPE ringgate_requests_total counter\n\
                        ringgate_requests_total{api=\"Produce\",shard=\"0\"} 7\n\
                        ringgate_requests_total{api=\"Fetch\",shard=\"1\"} 18446744073709551615\n\
                        # HELP ringgate_lag_seconds Loop lag.\n\
                        # TYPE ringgate_lag_seconds gauge\n\
                        ringgate_lag_seconds 0.25\n";
        assert_eq!(exposition(&[requests, lag]), expected);
    }

    #[test]
    fn help_and_label_values_are_escaped_as_the_format_says() {
        let family = Family::gauge("g", "a \"b\" \\ c\nd").with(&[("group", "a\"b\\c\nd")], 1u64);
        let expected = "# HELP g a \"b\" \\\\ c\\nd\n# TYPE g gauge\ng{group=\"a\\\"b\\\\c\\nd\"} 1\n";
        assert_eq!(exposition(&[family]), expected);
    }

    #[test]
    fn a_histogram_has_cumulative_buckets_sum_and_count() {
        let mut family = Family::new(Kind::Histogram, "h_seconds", "H.");
        family.push_histogram(&[("shard", "0")], &[(0.001, 2), (0.5, 3)], 1.75, 4);
        let expected = "# HELP h_seconds H.\n# TYPE h_seconds histogram\n\
                        h_seconds_bucket{shard=\"0\",le=\"0.001\"} 2\n\
                        h_seconds_bucket{shard=\"0\",le=\"0.5\"} 3\n\
                        h_seconds_bucket{shard=\"0\",le=\"+Inf\"} 4\n\
                        h_seconds_sum{shard=\"0\"} 1.75\n\
                        h_seconds_count{shard=\"0\"} 4\n";
        assert_eq!(exposition(&[family]), expected);
    }

    #[test]
    fn numbers_that_are_none_have_their_own_spelling_and_empty_families_are_left_out() {
        let family = Family::gauge("g", "G.").with(&[("n", "1")], f64::NAN).with(&[("n", "2")], f64::NEG_INFINITY);
        let text = exposition(&[Family::gauge("empty", "E."), family]);
        assert!(text.contains("g{n=\"1\"} NaN\n") && text.contains("g{n=\"2\"} -Inf\n"), "{text}");
        assert!(!text.contains("empty"), "{text}");
    }
}
