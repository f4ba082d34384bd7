//! What the server said of itself, as rows of tables: one for each kind of metric.

use super::markup::{Table, text};
use crate::quantity::show;
use crate::result::{MetricKind, MetricSeries, RunResult, ServerMetrics, Value};

/// The kinds in the order in which they are shown, with what they are called.
pub const KINDS: [(MetricKind, &str); 3] =
    [(MetricKind::Counter, "counter"), (MetricKind::Gauge, "gauge"), (MetricKind::Histogram, "histogram")];

/// What is shown of a kind: the value's name and its heading.
pub fn columns(kind: MetricKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        MetricKind::Counter => &[("increase", "increase"), ("rate", "rate")],
        MetricKind::Gauge => &[("min", "min"), ("mean", "mean"), ("max", "max"), ("last", "last")],
        MetricKind::Histogram => &[
            ("count", "count"),
            ("rate", "rate"),
            ("mean", "mean"),
            ("p50", "p50"),
            ("p99", "p99"),
            ("p99.9", "p99.9"),
        ],
    }
}

/// One of these values; `>` before a percentile that lies over the largest bucket.
pub fn cell(series: &MetricSeries, name: &str) -> String {
    let Some(value) = series.value(name) else { return "-".into() };
    let share = name.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok()).map(|percent| percent / 100.0);
    let over = if share.is_some_and(|share| series.is_beyond(share)) { "> " } else { "" };
    format!("{over}{}", show(Value { value: (value.value * 1e6).round() / 1e6, ..value }))
}

/// The tables.
pub fn html(run: &RunResult) -> String {
    let Some(metrics) = &run.server_metrics else { return String::new() };
    let (moved, still) = metrics.moved();
    let tables: String = KINDS.into_iter().map(|(kind, word)| table(&moved, kind, word)).collect();
    format!("<p class=\"how\">{}</p>\n{tables}", text(&about(metrics, still)))
}

/// Where it is from and what it is of, in a sentence or two.
pub fn about(metrics: &ServerMetrics, still: usize) -> String {
    let failed: u64 = metrics.failed.values().sum();
    let failed = if failed > 0 { format!(", {failed} came to nothing") } else { String::new() };
    format!(
        "{}, scraped {} times{failed}: counters and histograms by what was added in {:.1} s of the measured window, \
         percentiles as if values lay evenly within their bucket. {still} more series were 0 throughout.",
        metrics.url, metrics.scrapes, metrics.covered_s
    )
}

fn table(series: &[&MetricSeries], kind: MetricKind, word: &str) -> String {
    let columns = columns(kind);
    let heads: Vec<&str> = [word].into_iter().chain(columns.iter().map(|(_, head)| *head)).collect();
    let mut table = Table::new("numbers", &heads);
    for series in series.iter().filter(|series| series.kind == kind) {
        let name = format!("<code>{}</code>", text(&series.whole_name()));
        let cells = columns.iter().map(|(name, _)| text(&cell(series, name)));
        table.row(&[name].into_iter().chain(cells).collect::<Vec<_>>());
    }
    let caption = format!("The server's own metrics: {word}s");
    if table.is_empty() { String::new() } else { table.html(&caption) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example;

    #[test]
    fn each_kind_has_its_table_and_what_was_0_is_counted() {
        let mut run = example::run();
        assert_eq!(html(&run), "");
        run.server_metrics = Some(example::server_metrics());
        let page = html(&run);
        for part in [
            "http://127.0.0.1:9644/metrics, scraped 36 times, 1 came to nothing: counters and histograms by what was added in 30.0 s",
            "1 more series were 0 throughout",
            "<code>ringgate_rebalances_total</code></th><td>60</td><td>2 /s</td>",
            "<code>ringgate_groups{state=&quot;Stable&quot;}</code></th><td>9</td><td>9.50</td><td>10</td><td>10</td>",
            "<td>100</td><td>3.33 /s</td><td>20.0 ms</td><td>10.0 ms</td><td>&gt; 1.00 s</td><td>&gt; 1.00 s</td>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("limit_hit"), "{page}");
    }
}
