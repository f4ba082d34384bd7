//! Histograms to [`Latency`] and back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::model::{Latency, RunResult};
use crate::measure::Latencies;

/// The percentiles that a result names.
pub const PERCENTILES: [&str; 8] = ["50", "75", "90", "95", "99", "99.9", "99.99", "99.999"];

/// A result's histogram cannot be read: it is no base64 or no HdrHistogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("histogram of {series}: {why}")]
pub struct HistogramError {
    /// Whose.
    pub series: String,
    /// What is wrong with it.
    pub why: String,
}

impl Latency {
    /// The figures of a histogram, and the histogram.
    pub fn of(latencies: &Latencies) -> Latency {
        let histogram = &latencies.histogram;
        let percentiles_ns = PERCENTILES
            .iter()
            .map(|name| {
                let percentile: f64 = name.parse().expect("a constant number");
                ((*name).to_owned(), histogram.value_at_percentile(percentile))
            })
            .collect();
        Latency {
            count: histogram.len(),
            clipped: latencies.clipped,
            min_ns: if histogram.is_empty() { 0 } else { histogram.min() },
            mean_ns: histogram.mean(),
            stddev_ns: histogram.stdev(),
            percentiles_ns,
            max_ns: histogram.max(),
            histogram: encode(histogram),
        }
    }

    /// The histogram back. `series` is for the error.
    pub fn latencies(&self, series: &str) -> Result<Latencies, HistogramError> {
        let histogram = decode(&self.histogram).map_err(|why| HistogramError { series: series.to_owned(), why })?;
        let mut latencies = Latencies::new();
        latencies
            .histogram
            .add(&histogram)
            .map_err(|error| HistogramError { series: series.to_owned(), why: error.to_string() })?;
        latencies.clipped = self.clipped;
        Ok(latencies)
    }

    /// A percentile in ns by name (`"99.9"`), if the result names it.
    pub fn percentile_ns(&self, name: &str) -> Option<u64> {
        self.percentiles_ns.get(name).copied()
    }
}

impl RunResult {
    /// A series' latencies: by its whole name, or `rt`, `st`, `wt` of the primary operation.
    pub fn latency(&self, series: &str) -> Option<&Latency> {
        self.latencies.get(series).or_else(|| self.latencies.get(&format!("{}.{series}", self.primary)))
    }
}

/// HdrHistogram V2 with deflate, base64.
pub fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a Vec takes every write");
    STANDARD.encode(bytes)
}

/// What [`encode`] or another tool of HdrHistogram wrote (V2, deflated or not).
pub fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text.trim()).map_err(|error| format!("no base64: {error}"))?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| format!("no HdrHistogram in V2 encoding: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_latency_keeps_its_histogram_so_that_it_can_be_merged_again() {
        let mut latencies = Latencies::new();
        for us in 1..=10_000 {
            latencies.record(Duration::from_micros(us));
        }
        latencies.record(Duration::from_secs(7_200));
        let latency = Latency::of(&latencies);
        assert_eq!((latency.count, latency.clipped, latency.min_ns), (10_001, 1, 1_000));
        let p99 = latency.percentile_ns("99").unwrap() as f64;
        assert!((p99 / 9_900_000.0 - 1.0).abs() < 0.001, "{p99}");
        let back = latency.latencies("x.rt").unwrap();
        assert_eq!(back.histogram, latencies.histogram);
        assert_eq!(Latency::of(&back), latency);
    }

    #[test]
    fn no_values_are_zeros() {
        let latency = Latency::of(&Latencies::new());
        assert_eq!((latency.count, latency.min_ns, latency.max_ns, latency.mean_ns), (0, 0, 0, 0.0));
        assert_eq!(latency.percentile_ns("99.9"), Some(0));
    }

    #[test]
    fn what_is_no_histogram_is_refused_with_the_series_name() {
        let mut latency = Latency::of(&Latencies::new());
        for (text, why) in [("%%%", "no base64"), ("AAAA", "no HdrHistogram")] {
            latency.histogram = text.into();
            let error = latency.latencies("produce.rt").unwrap_err().to_string();
            assert!(error.starts_with("histogram of produce.rt: ") && error.contains(why), "{error}");
        }
    }
}
