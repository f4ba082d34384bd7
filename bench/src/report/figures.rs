//! The key figures at the top.

use super::markup::text;
use super::words::{errors, number, rate, span, value};
use crate::quantity::{show, show_ns};
use crate::result::{RunResult, Unit, Value};

/// Values and spans that a scenario is run for, where it has them.
const VALUES: [(&str, &str); 2] =
    [("rss_per_conn", "Server memory per connection"), ("server_bytes_per_member", "Server memory per member")];
const SPANS: [(&str, &str); 2] = [("stable", "Group stable within"), ("recovery", "Recovered within")];

/// A figure: what it is, the number, what to know beside it.
struct Figure {
    what: String,
    number: String,
    beside: String,
    bad: bool,
}

/// One run's figures.
pub fn html(run: &RunResult) -> String {
    let tiles: String = figures(run)
        .into_iter()
        .map(|figure| {
            format!(
                "<div class=\"figure{}\"><dt>{}</dt><dd><strong>{}</strong><span>{}</span></dd></div>\n",
                if figure.bad { " bad" } else { "" },
                text(&figure.what),
                text(&figure.number),
                text(&figure.beside),
            )
        })
        .collect();
    // What may not be believed is struck through, so that a picture of it cannot be taken for a result.
    let trusted = run.verdict.valid && run.verdict.aborted.is_none();
    format!("<dl class=\"figures{}\">\n{tiles}</dl>\n", if trusted { "" } else { " untrusted" })
}

fn figures(run: &RunResult) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut give = |what: &str, number: String, beside: String, bad: bool| {
        figures.push(Figure { what: what.into(), number, beside, bad });
    };
    let offered = match value(run, "offered_rate") {
        Some(offered) => format!("of {} /s offered", number(offered)),
        None if run.parameters.iter().any(|flag| flag.name == "closed") => {
            "closed loop: as fast as it was answered".into()
        }
        None => "no rate was set".into(),
    };
    give("Answered", format!("{} /s", number(rate(run))), offered, false);
    if let Some(latency) = run.latency("rt").filter(|latency| latency.count > 0) {
        let at = |percentile| show_ns(latency.percentile_ns(percentile).unwrap_or(latency.max_ns));
        give("Median", at("50"), format!("mean {}", show_ns(latency.mean_ns as u64)), false);
        give("99 of 100 within", at("99"), "99th percentile".into(), false);
        let slowest = format!("slowest {}", show_ns(latency.max_ns));
        give("999 of 1,000 within", at("99.9"), slowest, false);
    }
    for (series, what) in SPANS {
        if let Some(latency) = run.latencies.get(series).filter(|latency| latency.count > 0) {
            let median = latency.percentile_ns("50").unwrap_or(latency.max_ns);
            let beside = format!("the slowest of {}; median {}", number(latency.count as f64), show_ns(median));
            give(what, show_ns(latency.max_ns), beside, false);
        }
    }
    for (name, what) in VALUES {
        if let Some(value) = run.values.get(name) {
            give(what, show(*value), String::new(), false);
        }
    }
    let errors = errors(run);
    let of = value(run, "requests").map_or_else(String::new, |requests| format!("of {} requests", number(requests)));
    give("Errors", number(errors as f64), of, errors > 0);
    if !run.checks.violations.is_empty() {
        let wrong: u64 = run.checks.violations.values().sum();
        let checked = run.checks.violations.keys().map(|kind| kind.replace('_', " ")).collect::<Vec<_>>().join(", ");
        let found = if wrong == 0 { "all fine".into() } else { format!("{} wrong", number(wrong as f64)) };
        give("Checks", found, checked, wrong > 0);
    }
    if let Some(bytes) = value(run, "bytes_per_s").filter(|bytes| *bytes > 0.0) {
        let records = value(run, "records_per_s").map_or_else(String::new, |n| format!("{} records/s", number(n)));
        give("Throughput", show(Value { value: bytes, unit: Unit::BytesPerSecond }), records, false);
    }
    if let Some(server) = &run.server {
        if let Some(us) = server.cpu_us_per_request {
            let number = show(Value { value: us / 1e6, unit: Unit::Seconds });
            give("Server CPU per request", number, format!("{:.2} cores in all", server.cpu), false);
        } else {
            give("Server CPU", format!("{:.2} cores", server.cpu), String::new(), false);
        }
        let bytes = |bytes: u64| show(Value { value: bytes as f64, unit: Unit::Bytes });
        let from = format!("from {} to {}", bytes(server.rss_start_bytes), bytes(server.rss_end_bytes));
        give("Server memory, most", bytes(server.rss_max_bytes), from, false);
    }
    give("Measured for", span(run.measured_s), format!("after {} of warm-up", span(run.warmup_s)), false);
    figures
}

#[cfg(test)]
mod tests {
    use crate::result::{Unit, Value, example};

    #[test]
    fn what_a_scenario_is_run_for_is_among_the_figures() {
        let mut run = example::run();
        run.values.insert("rss_per_conn".into(), Value { value: 9_156.0, unit: Unit::Bytes });
        let page = super::html(&run);
        assert!(page.contains("Group stable within") && page.contains("the slowest of 10"), "{page}");
        assert!(page.contains("<dt>Server memory per connection</dt><dd><strong>8.94 KiB</strong>"), "{page}");
        assert!(!page.contains("Recovered within"));
    }

    #[test]
    fn figures_that_may_not_be_believed_are_marked() {
        let mut run = example::run();
        assert!(!super::html(&run).contains("untrusted"));
        run.verdict.valid = false;
        assert!(super::html(&run).contains("untrusted"));
    }
}
