//! A finished run as a page of text: the verdict, latencies, and everything else that was measured.

use std::fmt::Write;

use super::paint::Paint;
use super::table::{Align, Table};
use crate::engine::LATENESS;
use crate::quantity::{show, show_ns};
use crate::result::{RunResult, Server, Unit, Value};

/// Percentiles of the table of latencies.
const SHOWN: [&str; 5] = ["50", "90", "99", "99.9", "99.99"];

/// Values that other lines say; a count of one operation (`produce.requests`) is its latencies' count.
const SAID: [&str; 6] = ["rate", "offered_rate", "errors", "error_share", "requests", "overflow"];

/// The page.
pub fn summary(run: &RunResult, paint: Paint) -> String {
    let mut page = String::new();
    let line = |page: &mut String, text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    line(&mut page, &head(run, paint));
    verdict(run, paint, &mut page);
    line(&mut page, "");
    if !run.latencies.is_empty() {
        line(&mut page, latencies(run).to_string().trim_end_matches('\n'));
        line(&mut page, "");
    }
    for (name, text) in facts(run, paint) {
        let _ = writeln!(page, "  {name:<15} {text}");
    }
    for note in &run.notes {
        let _ = writeln!(page, "  {:<16}{}", "note", note);
    }
    page
}

fn head(run: &RunResult, paint: Paint) -> String {
    let what = paint.bold(&format!("{} on {}", run.scenario, run.target.shown()));
    format!("{what}: {:.1} s measured after {:.1} s of warm-up", run.measured_s, run.warmup_s)
}

/// What a reader must know before the numbers.
fn verdict(run: &RunResult, paint: Paint, page: &mut String) {
    if !run.verdict.valid {
        let _ = writeln!(page, "\n{}", paint.bad("INVALID: these numbers describe the load generator, not the target"));
        for reason in &run.verdict.reasons {
            let _ = writeln!(page, "  - {reason}");
        }
    }
    if let Some(why) = &run.verdict.aborted {
        let _ = writeln!(page, "\n{} {why}", paint.bad("ABORTED:"));
    }
    if run.verdict.interrupted {
        let _ = writeln!(page, "\n{}", paint.warn("INTERRUPTED: the window is shorter than asked for"));
    }
}

fn latencies(run: &RunResult) -> Table {
    let mut table = Table::new([
        ("latency", Align::Left),
        ("count", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("p99.99", Align::Right),
        ("max", Align::Right),
    ]);
    // The primary operation's first, and response time before its parts.
    // How late slots were begun is the generator's line.
    let mut series: Vec<_> = run.latencies.iter().filter(|(name, _)| *name != LATENESS).collect();
    let primary = format!("{}.", run.primary);
    series.sort_by_key(|(name, _)| (!name.starts_with(&primary) && **name != run.primary, *name));
    for (name, latency) in series {
        let percentile = |name: &str| match (latency.percentiles_ns.get(name), name.parse::<f64>()) {
            // Of fewer values it would be the largest under another name.
            (Some(ns), Ok(percent)) if latency.count as f64 * (1.0 - percent / 100.0) >= 0.999_999 => show_ns(*ns),
            _ => "-".into(),
        };
        let [p50, p90, p99, p99_9, p99_99] = SHOWN.map(percentile);
        let count = show(Value { value: latency.count as f64, unit: Unit::Count });
        table.row([name.clone(), count, p50, p90, p99, p99_9, p99_99, show_ns(latency.max_ns)]);
    }
    table
}

/// Lines of a name and what there is to it.
fn facts(run: &RunResult, paint: Paint) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, text: String| facts.push((name.to_owned(), text));
    let value = |name: &str| run.values.get(name).copied();
    if let Some(rate) = value("rate") {
        let offered = value("offered_rate").map(|offered| format!(" of {} offered", show(offered))).unwrap_or_default();
        fact("rate", format!("{}{offered}", show(rate)));
    }
    if let Some(search) = &run.search {
        fact("search", format!("{}: {}", search.bounds.join(", "), search.ended));
    }
    for (name, value) in &run.values {
        if !SAID.contains(&name.as_str()) && !name.contains('.') {
            fact(name, show(*value));
        }
    }
    fact("errors", errors(run, paint));
    if !run.checks.violations.is_empty() {
        let wrong = |(kind, count): (&String, &u64)| {
            let text = format!("{kind} {count}");
            if *count > 0 { paint.bad(&text) } else { text }
        };
        fact("checks", run.checks.violations.iter().map(wrong).collect::<Vec<_>>().join(", "));
        for example in &run.checks.examples {
            fact("", paint.bad(example));
        }
    }
    if let Some(server) = &run.server {
        fact("server", of_server(server));
    }
    let health = &run.health;
    fact(
        "generator",
        format!(
            "late p99 {}, max {}; CPU {:.0} % of its busiest core; ready without a CPU {:.1} % of the time{}",
            show_ns(health.lateness_p99_ns),
            show_ns(health.lateness_max_ns),
            health.cpu_max * 100.0,
            health.run_delay_max * 100.0,
            match health.overflow {
                0 => String::new(),
                slots => format!("; {slots} slots waited for room in flight"),
            }
        ),
    );
    facts
}

fn errors(run: &RunResult, paint: Paint) -> String {
    let all: u64 = run.errors.iter().map(|error| error.count).sum();
    if all == 0 {
        return "none".into();
    }
    let mut most: Vec<_> = run.errors.iter().collect();
    most.sort_by_key(|error| std::cmp::Reverse(error.count));
    let named: Vec<String> =
        most.iter().map(|error| format!("{} {} {}", error.operation, error.name, error.count)).collect();
    let share = run.values.get("error_share").map(|share| format!(" ({})", show(*share))).unwrap_or_default();
    format!("{}{share}: {}", paint.bad(&all.to_string()), named.join(", "))
}

fn of_server(server: &Server) -> String {
    let mut text = format!("pid {}, {:.2} cores", server.pid, server.cpu);
    if let Some(us) = server.cpu_us_per_request {
        let _ = write!(text, ", {us:.1} µs of CPU per request");
    }
    if let Some(ms) = server.cpu_ms_per_mb {
        let _ = write!(text, ", {ms:.1} ms of CPU per MB");
    }
    let bytes = |bytes: u64| show(Value { value: bytes as f64, unit: Unit::Bytes });
    let _ = write!(text, "; RSS {} at most", bytes(server.rss_max_bytes));
    if server.thread_imbalance > 0.0 {
        let _ = write!(text, "; busiest thread {:.2} times the mean", server.thread_imbalance);
    }
    if let Some(periods) = server.throttled_periods.filter(|periods| *periods > 0) {
        let _ = write!(text, "; THROTTLED in {periods} periods");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example::run;

    #[test]
    fn the_page_has_what_was_measured() {
        let page = summary(&run(), Paint::PLAIN);
        for text in [
            "produce on one (127.0.0.1:9092): 30.0 s measured after 5.0 s of warm-up\n",
            "  latency      count      p50      p90      p99    p99.9   p99.99      max\n",
            "  produce.rt  30,000  1.00 ms  3.00 ms  5.00 ms  9.00 ms  9.00 ms  9.00 ms\n",
            "  stable          10   200 ms   600 ms        -        -        -   1.80 s\n",
            "  rate            1,000 /s\n",
            "  bytes_per_s     1.00 MB/s\n",
            "  errors          7: produce NOT_LEADER_OR_FOLLOWER 4, commit NOT_COORDINATOR 3\n",
            "  checks          duplicated 2, lost 0\n",
            "sequence 17 twice\n",
            "12.0 µs of CPU per request; RSS 4.00 KiB at most",
            "late p99 50.0 µs",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
        assert!(!page.contains("INVALID") && !page.contains('\x1b'), "{page}");
    }

    #[test]
    fn an_invalid_run_says_so_before_its_numbers() {
        let mut run = run();
        run.verdict.valid = false;
        run.verdict.reasons = vec!["slots were 3 ms late".into()];
        let page = summary(&run, Paint::PLAIN);
        let invalid = page.find("INVALID: these numbers describe the load generator").expect("says so");
        assert!(invalid < page.find("p99").unwrap() && page.contains("  - slots were 3 ms late\n"), "{page}");
    }
}
