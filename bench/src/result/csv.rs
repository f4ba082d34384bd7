//! `series.csv`: one line per interval, warm-up too.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::model::{IntervalRow, RunResult};

/// Writes the head and the lines. Columns: `at_s` (the interval's end since the schedule's begin), `length_s`,
/// `warmup` (0 or 1), `errors`; for each series `<series>.count`, `.p50_ns`, `.p99_ns`, `.p99_9_ns`, `.max_ns`; each
/// counter by name, what was added; `server.cpu` (cores), `server.rss_bytes`, `server.descriptors`, and
/// `server.thread.<name>` (cores); `metrics.<series>.<rate, p99 or value>` of the server's own metrics. What an interval does not have is empty.
pub fn write(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let columns = Columns::of(&result.intervals);
    let metrics = metrics(result);
    line(columns.head().into_iter().chain(metrics.iter().map(|(name, _)| name.clone())).collect(), out)?;
    for (at, row) in result.intervals.iter().enumerate() {
        let values = metrics.iter().map(|(_, over_time)| over_time.get(at).copied().flatten());
        let values = values.map(|value| value.map_or_else(String::new, |value| value.to_string()));
        line(columns.cells(row).into_iter().chain(values).collect(), out)?;
    }
    Ok(())
}

/// A column for all that is known of the server's metrics over time.
fn metrics(result: &RunResult) -> Vec<(String, &[Option<f64>])> {
    let series = result.server_metrics.iter().flat_map(|metrics| &metrics.series);
    let columns = series.flat_map(|series| {
        let name = series.whole_name();
        series.over_time.iter().map(move |(what, values)| (format!("metrics.{name}.{what}"), values.as_slice()))
    });
    columns.collect()
}

struct Columns<'a> {
    series: BTreeSet<&'a str>,
    counters: BTreeSet<&'a str>,
    server: bool,
    threads: BTreeSet<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [IntervalRow]) -> Columns<'a> {
        let servers = || rows.iter().filter_map(|row| row.server.as_ref());
        Columns {
            series: rows.iter().flat_map(|row| row.latencies.keys()).map(String::as_str).collect(),
            counters: rows.iter().flat_map(|row| row.counters.keys()).map(String::as_str).collect(),
            server: servers().next().is_some(),
            threads: servers().flat_map(|server| server.threads.keys()).map(String::as_str).collect(),
        }
    }

    fn head(&self) -> Vec<String> {
        let mut head: Vec<String> = ["at_s", "length_s", "warmup", "errors"].map(String::from).into();
        for series in &self.series {
            head.extend(["count", "p50_ns", "p99_ns", "p99_9_ns", "max_ns"].map(|what| format!("{series}.{what}")));
        }
        head.extend(self.counters.iter().map(|name| (*name).to_owned()));
        if self.server {
            head.extend(["server.cpu", "server.rss_bytes", "server.descriptors"].map(String::from));
            head.extend(self.threads.iter().map(|name| format!("server.thread.{name}")));
        }
        head
    }

    fn cells(&self, row: &IntervalRow) -> Vec<String> {
        let mut cells = vec![
            format!("{:.3}", row.at_s),
            format!("{:.3}", row.length_s),
            u8::from(row.warmup).to_string(),
            row.errors.to_string(),
        ];
        for series in &self.series {
            match row.latencies.get(*series) {
                Some(of) => {
                    cells.extend([of.count, of.p50_ns, of.p99_ns, of.p99_9_ns, of.max_ns].map(|n| n.to_string()));
                }
                None => cells.extend(std::iter::repeat_n(String::new(), 5)),
            }
        }
        let optional = |value: Option<String>| value.unwrap_or_default();
        cells.extend(self.counters.iter().map(|name| optional(row.counters.get(*name).map(u64::to_string))));
        if self.server {
            let server = row.server.as_ref();
            cells.push(optional(server.map(|server| format!("{:.4}", server.cpu))));
            cells.push(optional(server.map(|server| server.rss_bytes.to_string())));
            cells.push(optional(server.map(|server| server.descriptors.to_string())));
            for name in &self.threads {
                let cpu = server.and_then(|server| server.threads.get(*name));
                cells.push(optional(cpu.map(|cpu| format!("{cpu:.4}"))));
            }
        }
        cells
    }
}

/// One line, RFC 4180.
fn line(cells: Vec<String>, out: &mut impl Write) -> io::Result<()> {
    let cells: Vec<_> =
        cells
            .into_iter()
            .map(|cell| {
                if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
            })
            .collect();
    writeln!(out, "{}", cells.join(","))
}
