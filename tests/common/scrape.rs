//! A scrape as Prometheus takes it in: text format 0.0.4, with nothing forgiven.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::gateway::Gateway;
use super::metrics::exposition;

/// A series' labels, without `le`.
pub type Labels = BTreeMap<String, String>;

/// A family.
#[derive(Debug, Default)]
pub struct Family {
    pub help: String,
    pub kind: String,
    /// Values of counters and gauges.
    pub values: Vec<(Labels, f64)>,
    pub histograms: Vec<(Labels, Histogram)>,
}

/// A histogram of one series.
#[derive(Debug, Default)]
pub struct Histogram {
    pub buckets: Vec<(f64, u64)>,
    pub sum: Option<f64>,
    pub count: Option<u64>,
}

/// All families by name.
pub struct Scrape(pub BTreeMap<String, Family>);

impl Scrape {
    /// Of this gateway, started with `admin-listen`.
    pub fn of(gateway: &Gateway) -> Scrape {
        Scrape::parsed(&exposition(gateway))
    }

    /// # Panics
    /// Anything about the text is not as the format has it.
    pub fn parsed(text: &str) -> Scrape {
        assert!(text.ends_with('\n'), "the last line ends");
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut series = HashSet::new();
        let mut current = String::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect("a help text");
                current = name.to_owned();
                let family = Family { help: help.to_owned(), ..Family::default() };
                assert!(families.insert(current.clone(), family).is_none(), "{name} is there twice");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a type");
                assert_eq!(name, current, "the type follows the help");
                let family = families.get_mut(name).expect("the family");
                assert!(family.kind.is_empty() && family.values.is_empty(), "{name} has two types");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                family.kind = kind.to_owned();
            } else {
                let (name, labels, value) = sample(line);
                assert!(series.insert((name.clone(), labels.clone())), "twice: {line}");
                let family = families.get_mut(&current).expect("a family before its samples");
                family.take(&current, &name, labels, value, line);
            }
        }
        for (name, family) in &families {
            family.check(name);
        }
        Scrape(families)
    }

    /// The sum over all series that have these labels; 0 where there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let Some(family) = self.0.get(name) else { return 0.0 };
        family.values.iter().filter(|(of, _)| has(of, labels)).map(|(_, value)| value).sum()
    }

    /// Count and sum over all histograms of a family that have these labels.
    pub fn histogram(&self, name: &str, labels: &[(&str, &str)]) -> (u64, f64) {
        let Some(family) = self.0.get(name) else { return (0, 0.0) };
        let of = family.histograms.iter().filter(|(of, _)| has(of, labels)).map(|(_, histogram)| histogram);
        of.fold((0, 0.0), |(count, sum), h| (count + h.count.expect("a count"), sum + h.sum.expect("a sum")))
    }
}

fn has(labels: &Labels, wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(name, value)| labels.get(*name).is_some_and(|is| is == value))
}

impl Family {
    fn take(&mut self, family: &str, name: &str, mut labels: Labels, value: f64, line: &str) {
        if self.kind != "histogram" {
            assert_eq!(name, family, "a sample of another family: {line}");
            assert!(!labels.contains_key("le"), "{line}");
            return self.values.push((labels, value));
        }
        let bound = labels.remove("le");
        let at = self.histograms.iter().position(|(of, _)| *of == labels).unwrap_or_else(|| {
            self.histograms.push((labels.clone(), Histogram::default()));
            self.histograms.len() - 1
        });
        let histogram = &mut self.histograms[at].1;
        match (name.strip_prefix(family), bound) {
            (Some("_bucket"), Some(bound)) => histogram.buckets.push((number(&bound), value as u64)),
            (Some("_sum"), None) => histogram.sum = Some(value),
            (Some("_count"), None) => histogram.count = Some(value as u64),
            _ => panic!("no line of histogram {family}: {line}"),
        }
    }

    fn check(&self, name: &str) {
        assert!(self.help.ends_with('.'), "{name}: {}", self.help);
        assert!(!self.kind.is_empty(), "{name} has no type");
        assert_eq!(self.kind == "counter", name.ends_with("_total"), "{name} is a {}", self.kind);
        assert!(name.starts_with("ringgate_") || name.starts_with("process_"), "{name}");
        assert!(!self.values.is_empty() || !self.histograms.is_empty(), "{name} is empty");
        let is_right = |value: f64| value.is_finite() && (self.kind != "counter" || value >= 0.0);
        assert!(self.values.iter().all(|(_, value)| is_right(*value)), "{name}: {:?}", self.values);
        let mut names: HashMap<&str, usize> = HashMap::new();
        let of_values = self.values.iter().map(|(labels, _)| labels);
        for labels in of_values.clone().chain(self.histograms.iter().map(|(labels, _)| labels)) {
            labels.keys().for_each(|label| *names.entry(label).or_default() += 1);
        }
        let all = self.values.len() + self.histograms.len();
        assert!(names.values().all(|count| *count == all), "{name}: series differ in their labels' names");
        for (labels, histogram) in &self.histograms {
            let count = histogram.count.unwrap_or_else(|| panic!("{name} {labels:?} has no count"));
            assert!(histogram.sum.is_some_and(|sum| sum >= 0.0), "{name} {labels:?}");
            assert!(histogram.buckets.len() <= 17, "{name} has too many buckets");
            assert!(histogram.buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {histogram:?}");
            assert_eq!(histogram.buckets.last(), Some(&(f64::INFINITY, count)), "{name} {labels:?}");
        }
    }
}

/// Name, labels and value of a line.
fn sample(line: &str) -> (String, Labels, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, Labels::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}').unwrap_or_else(|| panic!("no end: {line}")))),
    };
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    assert!(begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
    (name.to_owned(), labels, number(value))
}

fn labels(text: &str) -> Labels {
    let mut labels = Labels::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {rest}"));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{text}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("a label does not end: {text}")) {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, c @ ('"' | '\\'))) => c,
                    other => panic!("{other:?} is escaped: {text}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} twice: {text}");
        rest = &after[end..];
        if !rest.is_empty() {
            rest = rest.strip_prefix(',').unwrap_or_else(|| panic!("no comma: {text}"));
        }
    }
    labels
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        _ => text.parse().unwrap_or_else(|error| panic!("{text}: {error}")),
    }
}
