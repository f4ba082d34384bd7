//! What the server said of itself, for a terminal.

use super::table::{Align, Table};
use crate::report::metrics::{KINDS, about, cell, columns};
use crate::result::{MetricKind, MetricSeries, ServerMetrics};

/// The page: a table for each kind of metric that moved.
pub fn page(metrics: &ServerMetrics) -> String {
    let (moved, still) = metrics.moved();
    let mut page = format!("{}\n", about(metrics, still));
    for (kind, word) in KINDS {
        let series: Vec<&MetricSeries> = moved.iter().copied().filter(|series| series.kind == kind).collect();
        if series.is_empty() {
            continue;
        }
        page.push('\n');
        page.push_str(&match kind {
            MetricKind::Counter => table::<3>(&series, kind, word),
            MetricKind::Gauge => table::<5>(&series, kind, word),
            MetricKind::Histogram => table::<7>(&series, kind, word),
        });
    }
    page.trim_end().to_owned()
}

/// A column for the name and one for each of the kind's values.
fn table<const N: usize>(series: &[&MetricSeries], kind: MetricKind, word: &str) -> String {
    let columns = columns(kind);
    debug_assert_eq!(columns.len() + 1, N);
    let heads = std::array::from_fn(|at| match at {
        0 => (word, Align::Left),
        at => (columns[at - 1].1, Align::Right),
    });
    let mut table = Table::new::<N>(heads);
    for series in series {
        table.row::<N>(std::array::from_fn(|at| match at {
            0 => series.whole_name(),
            at => cell(series, columns[at - 1].0),
        }));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example;

    #[test]
    fn a_terminal_has_the_same_tables() {
        let page = page(&example::server_metrics());
        for line in [
            "counter                    increase  rate\n  ringgate_rebalances_total        60  2 /s\n",
            "ringgate_groups{state=\"Stable\"}    9  9.50   10    10\n",
            "ringgate_request_seconds{api=\"JoinGroup\"}    100  3.33 /s  20.0 ms  10.0 ms  > 1.00 s  > 1.00 s",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
