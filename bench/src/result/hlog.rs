//! `latency.hlog`: HdrHistogram's interval log, V1.3, as `HistogramLogProcessor` and others read it.
//!
//! One line per interval and series, measured window only, tagged with the series' name, so that the histograms
//! of a tag add up to the result's. Values are ns; the legend's maximum is in ms, as Java's writer has it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, LogIteratorError, Tag,
};

use super::latency::{decode, encode};
use crate::measure::{Interval, Latencies, Phase};

const LEGEND: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
/// ns to ms, for the legend's maximum.
const MAX_VALUE_DIVISOR: f64 = 1_000_000.0;

/// The log's lines so far. An interval is encoded as soon as it ends: a few KiB for each series, where its
/// histogram takes a few hundred.
#[derive(Debug, Clone, Default)]
pub struct Hlog {
    lines: Vec<u8>,
}

/// A log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HlogError {
    /// A line is neither a comment nor an interval.
    #[error("line {line}: no line of a histogram log")]
    Line {
        /// From 1.
        line: usize,
    },
    /// An interval's histogram.
    #[error("interval {interval}: {why}")]
    Histogram {
        /// From 1.
        interval: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl Hlog {
    /// No interval yet.
    pub fn new() -> Hlog {
        Hlog::default()
    }

    /// Adds an interval's measured latencies; `start` is its begin since the schedule's.
    pub fn interval(&mut self, start: Duration, length: Duration, interval: &Interval) {
        for ((phase, series), latencies) in &interval.latencies {
            if *phase == Phase::Measured {
                self.line(start, length, series, latencies);
            }
        }
    }

    /// Adds one series of one interval.
    pub fn line(&mut self, start: Duration, length: Duration, series: &str, latencies: &Latencies) {
        debug_assert!(Tag::new(series).is_some(), "no tag: {series}");
        let histogram = &latencies.histogram;
        let (start, length) = (start.as_secs_f64(), length.as_secs_f64());
        let max = histogram.max() as f64 / MAX_VALUE_DIVISOR;
        let line = format!("Tag={series},{start:.3},{length:.3},{max:.3},{}\n", encode(histogram));
        self.lines.extend_from_slice(line.as_bytes());
    }

    /// The whole log; `began` is when the schedule did.
    pub fn write(&self, began: SystemTime, comments: &[String], out: &mut impl Write) -> io::Result<()> {
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("[Histogram log format version 1.3]");
        for comment in comments {
            builder.add_comment(comment);
        }
        builder.with_start_time(began).with_base_time(began).begin_log_with(out, &mut serializer)?;
        out.write_all(LEGEND.as_bytes())?;
        out.write_all(&self.lines)
    }
}

/// Adds a log's histograms to those of their tags; lines without a tag go to "".
pub fn merge(log: &[u8], into: &mut BTreeMap<String, Latencies>) -> Result<usize, HlogError> {
    let mut intervals = 0;
    for entry in IntervalLogIterator::new(log) {
        let entry = entry.map_err(|error| unreadable(log, error))?;
        let LogEntry::Interval(line) = entry else { continue };
        intervals += 1;
        let bad = |why: String| HlogError::Histogram { interval: intervals, why };
        let histogram = decode(line.encoded_histogram()).map_err(bad)?;
        let series = line.tag().map_or("", |tag| tag.as_str()).to_owned();
        let latencies = into.entry(series).or_default();
        latencies.histogram.add(&histogram).map_err(|error| bad(error.to_string()))?;
    }
    Ok(intervals)
}

/// From when to when a log's intervals reach, `None` without any.
pub fn span(log: &[u8]) -> Result<Option<(SystemTime, SystemTime)>, HlogError> {
    let mut base = Duration::ZERO;
    let mut span: Option<(Duration, Duration)> = None;
    for entry in IntervalLogIterator::new(log) {
        match entry.map_err(|error| unreadable(log, error))? {
            LogEntry::BaseTime(time) => base = time,
            LogEntry::StartTime(_) => {}
            LogEntry::Interval(line) => {
                let from = base.saturating_add(line.start_timestamp());
                let to = from.saturating_add(line.duration());
                let (first, last) = span.unwrap_or((from, to));
                span = Some((first.min(from), last.max(to)));
            }
        }
    }
    let time = |since: Duration| UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH);
    Ok(span.map(|(from, to)| (time(from), time(to))))
}

fn unreadable(log: &[u8], error: LogIteratorError) -> HlogError {
    let LogIteratorError::ParseError { offset } = error;
    HlogError::Line { line: 1 + log[..offset].iter().filter(|byte| **byte == b'\n').count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(values_us: std::ops::Range<u64>) -> Latencies {
        let mut latencies = Latencies::new();
        values_us.for_each(|us| latencies.record(Duration::from_micros(us)));
        latencies
    }

    fn log() -> Vec<u8> {
        let mut log = Hlog::new();
        for second in 0..3_u64 {
            let mut interval = Interval::default();
            interval.latencies.insert((Phase::WarmUp, "produce.rt"), latencies(900_000..900_010));
            interval
                .latencies
                .insert((Phase::Measured, "produce.rt"), latencies(second * 1_000 + 1..second * 1_000 + 1_001));
            interval.latencies.insert((Phase::Measured, "produce.st"), latencies(1..11));
            log.interval(Duration::from_secs(second), Duration::from_secs(1), &interval);
        }
        let mut bytes = Vec::new();
        log.write(UNIX_EPOCH + Duration::from_secs(1_700_000_000), &["a comment".into()], &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_intervals_of_a_tag_add_up_to_the_whole_and_warm_up_is_not_among_them() {
        let mut merged = BTreeMap::new();
        assert_eq!(merge(&log(), &mut merged), Ok(6));
        assert_eq!(merged.keys().collect::<Vec<_>>(), ["produce.rt", "produce.st"]);
        assert_eq!(merged["produce.rt"].histogram, latencies(1..3_001).histogram);
        assert_eq!(merged["produce.st"].histogram.len(), 30);
        let began = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(span(&log()), Ok(Some((began, began + Duration::from_secs(3)))));
        assert_eq!(span(b"#nothing\n"), Ok(None));
    }

    #[test]
    fn the_head_is_as_javas_reader_wants_it() {
        let text = String::from_utf8(log()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..5],
            [
                "#[Histogram log format version 1.3]",
                "#a comment",
                "#[StartTime: 1700000000.000 (seconds since epoch)]",
                "#[BaseTime: 1700000000.000 (seconds since epoch)]",
                LEGEND.trim_end(),
            ]
        );
        assert!(lines[5].starts_with("Tag=produce.rt,0.000,1.000,1.000,HISTFAAAA"), "{}", lines[5]);
        assert_eq!(lines.len(), 11);
    }

    #[test]
    fn a_broken_log_is_refused_with_the_line() {
        let mut merged = BTreeMap::new();
        let mut broken = log();
        broken.extend_from_slice(b"Tag=x,1.0,nonsense\n");
        assert_eq!(merge(&broken, &mut merged), Err(HlogError::Line { line: 12 }));
        let error = merge(b"Tag=x,1.0,1.0,1.0,AAAA\n", &mut merged).unwrap_err();
        assert!(error.to_string().starts_with("interval 1: no HdrHistogram"), "{error}");
    }
}
