//! Prometheus' text format 0.0.4, and what of OpenMetrics comes in its place.

use std::collections::{BTreeMap, HashMap};

use super::reading::{Histogram, Reading, Scrape, Series};
use super::{Choice, Failed};

/// Told apart by it are a server's threads: their series are one here.
const SHARD: &str = "shard";

/// The chosen families of an exposition.
///
/// # Errors
/// Some line is none: nothing of such a text can be trusted.
pub fn read(text: &str, choice: &Choice) -> Result<Scrape, Failed> {
    let mut kinds: HashMap<&str, &str> = HashMap::new();
    let mut scrape = Scrape::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            if let Some((name, kind)) = comment.trim_start().strip_prefix("TYPE ").and_then(|rest| rest.split_once(' '))
            {
                kinds.insert(name, kind.trim());
            }
        } else if !line.is_empty() {
            let wrong = || Failed(format!("no metrics in Prometheus' text format: {line:.60}"));
            let sample = Sample::read(line).ok_or_else(wrong)?;
            take(&mut scrape, sample, &kinds, choice).ok_or_else(wrong)?;
        }
    }
    Ok(scrape)
}

/// A line with a value.
struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// What a sample is of its family.
enum Part {
    Counter,
    Gauge,
    Bucket,
    Sum,
    Count,
}

/// The family of a sample, and what it is there.
fn family<'a>(name: &'a str, kinds: &HashMap<&str, &str>) -> (&'a str, Part) {
    match kinds.get(name) {
        Some(&"counter") => return (name, Part::Counter),
        // Of a summary the quantiles; nobody can tell what time they are of.
        Some(&("gauge" | "summary")) => return (name, Part::Gauge),
        _ => {}
    }
    for (suffix, part) in [("_bucket", Part::Bucket), ("_sum", Part::Sum), ("_count", Part::Count)] {
        let Some(base) = name.strip_suffix(suffix) else { continue };
        match kinds.get(base) {
            Some(&"histogram") => return (base, part),
            Some(&"summary") => return (name, Part::Counter),
            _ => {}
        }
    }
    // OpenMetrics names a family without `_total`; others have no type for what plainly is a counter.
    (name, if name.ends_with("_total") { Part::Counter } else { Part::Gauge })
}

/// `None` for a bucket without its bound.
fn take(scrape: &mut Scrape, mut sample: Sample<'_>, kinds: &HashMap<&str, &str>, choice: &Choice) -> Option<()> {
    let (family, part) = family(sample.name, kinds);
    if !choice.has(family) {
        return Some(());
    }
    let bound = match part {
        Part::Bucket => Some(number(&sample.labels.remove("le")?)?),
        _ => None,
    };
    // "Nothing to tell" is not a number to count with.
    if sample.value.is_nan() {
        return Some(());
    }
    sample.labels.remove(SHARD);
    let value = sample.value;
    let is_largest = family.ends_with("_max");
    let series = Series { family: family.to_owned(), labels: sample.labels };
    let reading = scrape.entry(series).or_insert_with(|| match part {
        Part::Counter => Reading::Counter(0.0),
        Part::Gauge => Reading::Gauge(if is_largest { f64::NEG_INFINITY } else { 0.0 }),
        Part::Bucket | Part::Sum | Part::Count => Reading::Histogram(Histogram::default()),
    });
    match (reading, part, bound) {
        (Reading::Counter(sum), Part::Counter, _) => *sum += value,
        (Reading::Gauge(largest), Part::Gauge, _) if is_largest => *largest = largest.max(value),
        (Reading::Gauge(sum), Part::Gauge, _) => *sum += value,
        (Reading::Histogram(histogram), Part::Bucket, Some(bound)) => histogram.bucket(bound, value),
        (Reading::Histogram(histogram), Part::Sum, _) => histogram.sum += value,
        (Reading::Histogram(histogram), Part::Count, _) => histogram.count += value,
        // Its type changed within the text.
        _ => return None,
    }
    Some(())
}

impl<'a> Sample<'a> {
    /// `NAME[{LABELS}] VALUE [TIMESTAMP] [# EXEMPLAR]`.
    fn read(line: &'a str) -> Option<Sample<'a>> {
        let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')))?;
        let (name, rest) = line.split_at(end);
        if name.is_empty() {
            return None;
        }
        let mut labels = BTreeMap::new();
        let rest = match rest.strip_prefix('{') {
            Some(rest) => read_labels(rest, &mut labels)?,
            None => rest,
        };
        let value = number(rest.split_whitespace().next()?)?;
        Some(Sample { name, labels, value })
    }
}

/// What comes behind the closing brace.
fn read_labels<'a>(mut rest: &'a str, labels: &mut BTreeMap<String, String>) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([' ', ',', '\t']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some(behind);
        }
        let (name, behind) = rest.split_once('=')?;
        let behind = behind.trim_start().strip_prefix('"')?;
        let mut value = String::new();
        let mut letters = behind.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    letter => value.push(letter),
                },
                (_, letter) => value.push(letter),
            }
        };
        labels.insert(name.trim().to_owned(), value);
        rest = &behind[end..];
    }
}

fn number(text: &str) -> Option<f64> {
    // `+Inf` and `NaN` too.
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Choice {
        let prefixes = ('a'..='z').map(|letter| letter.to_string().parse().unwrap()).collect();
        Choice { prefixes }
    }

    fn shown(scrape: &Scrape) -> Vec<String> {
        scrape.iter().map(|(series, reading)| format!("{series} {reading:?}")).collect()
    }

    #[test]
    fn counters_and_gauges_are_read_with_their_labels_and_shards_are_added_up() {
        let text = "# HELP a_total Things.\n# TYPE a_total counter\n\
                    a_total{shard=\"0\",api=\"Join\"} 2\na_total{shard=\"1\",api=\"Join\"} 3 1700000000000\n\
                    a_total{api=\"say \\\"x\\\"\\\\, }\",} 1 # {trace=\"1\"} 1\n\
                    \n# TYPE g gauge\ng 1.5e3\n# TYPE g_max gauge\ng_max{shard=\"0\"} 7\ng_max{shard=\"1\"} 5\n\
                    # TYPE nothing gauge\nnothing NaN\nuntyped_total 4\nuntyped 5\n# EOF\n";
        let expected = [
            "a_total{api=\"Join\"} Counter(5.0)",
            "a_total{api=\"say \"x\"\\, }\"} Counter(1.0)",
            "g Gauge(1500.0)",
            "g_max Gauge(7.0)",
            "untyped Gauge(5.0)",
            "untyped_total Counter(4.0)",
        ];
        assert_eq!(shown(&read(text, &all()).unwrap()), expected);
    }

    #[test]
    fn a_histogram_is_one_reading_and_a_summary_is_several() {
        let text = "# TYPE h_seconds histogram\nh_seconds_bucket{shard=\"0\",le=\"0.1\"} 1\nh_seconds_bucket{shard=\"0\",le=\"+Inf\"} 2\n\
                    h_seconds_sum{shard=\"0\"} 3\nh_seconds_count{shard=\"0\"} 2\nh_seconds_bucket{shard=\"1\",le=\"0.1\"} 4\n\
                    h_seconds_bucket{shard=\"1\",le=\"+Inf\"} 4\nh_seconds_sum{shard=\"1\"} 0.5\nh_seconds_count{shard=\"1\"} 4\n\
                    # TYPE s summary\ns{quantile=\"0.5\"} 9\ns_sum 18\ns_count 2\n";
        let scrape = read(text, &all()).unwrap();
        let expected = [
            "h_seconds Histogram(Histogram { buckets: [(0.1, 5.0), (inf, 6.0)], sum: 3.5, count: 6.0 })",
            "s{quantile=\"0.5\"} Gauge(9.0)",
            "s_count Counter(2.0)",
            "s_sum Counter(18.0)",
        ];
        assert_eq!(shown(&scrape), expected);
    }

    #[test]
    fn what_is_not_chosen_is_left_and_what_is_no_exposition_is_refused() {
        let text = "# TYPE ringgate_groups gauge\nringgate_groups{state=\"Stable\"} 3\njvm_x 1\n";
        let scrape = read(text, &Choice::default()).unwrap();
        assert_eq!(shown(&scrape), ["ringgate_groups{state=\"Stable\"} Gauge(3.0)"]);
        for text in [
            "<!doctype html>\n",
            "a\n",
            "a b\n",
            "a{b=\"c\" 1\n",
            "a{b=c} 1\n",
            "{\"a\": 1}\n",
            "# TYPE h histogram\nh_bucket 1\n",
            "a 1\n# TYPE a counter\na 1\n",
        ] {
            let failed = read(text, &all()).map(|scrape| shown(&scrape)).unwrap_err();
            assert!(failed.to_string().contains("text format"), "{text}: {failed}");
        }
    }
}
