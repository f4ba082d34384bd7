//! `latency.hgrm`: a histogram's percentiles in the text that every HDR plotter takes, in ms.

use std::io::{self, Write};

use hdrhistogram::Histogram;

/// Lines per halving of the distance to 100 %, as HdrHistogram's own tools have by default.
const TICKS_PER_HALF_DISTANCE: u32 = 5;
/// Of a histogram of three significant digits.
const SUB_BUCKETS: u32 = 2_048;

/// Writes `Value Percentile TotalCount 1/(1-Percentile)` and the trailer, laid out as Java's
/// `outputPercentileDistribution` with the unit ratio 1,000,000 does.
pub fn write(histogram: &Histogram<u64>, out: &mut impl Write) -> io::Result<()> {
    let ms = |ns: f64| ns / 1e6;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    for step in steps(histogram) {
        let value = ms(step.value as f64);
        let quantile = step.percentile / 100.0;
        if quantile < 1.0 {
            writeln!(out, "{value:12.3} {quantile:2.12} {:10} {:14.2}", step.count, 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out, "{value:12.3} {quantile:2.12} {:10}", step.count)?;
        }
    }
    writeln!(out, "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]", ms(histogram.mean()), ms(histogram.stdev()))?;
    writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", ms(histogram.max() as f64), histogram.len())?;
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", histogram.buckets(), SUB_BUCKETS)
}

/// A line: so many values are at most this.
struct Step {
    value: u64,
    percentile: f64,
    count: u64,
}

/// The steps of Java's `PercentileIterator`, to the line: that of this crate is a value off where a percentile falls
/// exactly on one.
fn steps(histogram: &Histogram<u64>) -> Vec<Step> {
    let all = histogram.len();
    let mut steps = Vec::new();
    let mut level = 0.0;
    let mut count = 0;
    for bucket in histogram.iter_recorded() {
        let value = bucket.value_iterated_to();
        count += bucket.count_since_last_iteration();
        while 100.0 * count as f64 / all as f64 >= level {
            steps.push(Step { value, percentile: level, count });
            if count == all {
                steps.push(Step { value, percentile: 100.0, count });
                return steps;
            }
            let halvings = (100.0 / (100.0 - level)).log2().floor() + 1.0;
            level += 100.0 / (f64::from(TICKS_PER_HALF_DISTANCE) * halvings.exp2());
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::measure::Latencies;

    #[test]
    fn the_text_is_javas() {
        let mut latencies = Latencies::new();
        for us in 1..=1_000 {
            latencies.record(Duration::from_micros(us));
        }
        let mut text = Vec::new();
        super::write(&latencies.histogram, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[1], "");
        assert_eq!(lines[2], "       0.001 0.000000000000          1           1.00");
        let median = lines.iter().find(|line| line.contains(" 0.500000000000 ")).unwrap();
        assert_eq!(*median, "       0.500 0.500000000000        500           2.00");
        assert!(lines.contains(&"       0.650 0.650000000000        650           2.86"), "{text}");
        let last = lines.iter().rposition(|line| !line.starts_with('#')).unwrap();
        assert_eq!(lines[last], "       1.000 1.000000000000       1000");
        assert_eq!(lines[last + 1], "#[Mean    =        0.501, StdDeviation   =        0.289]");
        assert_eq!(lines[last + 2], "#[Max     =        1.000, Total count    =         1000]");
        assert!(
            lines[last + 3].starts_with("#[Buckets = ") && lines[last + 3].ends_with("SubBuckets     =         2048]")
        );
        assert_eq!(lines.len(), last + 4);
    }
}
