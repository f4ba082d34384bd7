//! A line per interval.

use crate::engine::{Observer, Stage};
use crate::measure::Interval;
use crate::result::IntervalRow;

/// Watches a run on standard error.
pub struct Lines;

impl Observer for Lines {
    fn stage(&mut self, stage: Stage) {
        match stage {
            Stage::Found => eprintln!("setting up"),
            Stage::Prepare => eprintln!("connecting"),
            Stage::WarmUp { length } => eprintln!("warming up for {}", humantime::format_duration(length)),
            Stage::Measure { length } => eprintln!("measuring for {}", humantime::format_duration(length)),
            Stage::Finish { .. } => eprintln!("waiting for what is outstanding"),
        }
    }

    fn interval(&mut self, row: &IntervalRow, _merged: &Interval) {
        let shown = row.latencies.iter().filter(|(series, _)| series.ends_with(".rt")).map(|(series, row)| {
            let ms = |ns: u64| ns as f64 / 1e6;
            format!(
                "{series} {} p50 {:.3} p99 {:.3} max {:.3} ms",
                row.count,
                ms(row.p50_ns),
                ms(row.p99_ns),
                ms(row.max_ns)
            )
        });
        eprintln!("{:7.1} s  {}  errors {}", row.at_s, shown.collect::<Vec<_>>().join("  "), row.errors);
    }
}
