//! The tables of one run, and of several beside each other.

use std::collections::BTreeSet;

use super::Run;
use super::labels::{self, Label};
use super::markup::{Table, text};
use super::words::{errors, number, rate, span, value, verdict};
use crate::quantity::{show, show_ns};
use crate::result::{Environment, RunResult, Search, Unit, Value};

/// Percentiles of the latency table.
const PERCENTILES: [&str; 6] = ["50", "90", "99", "99.9", "99.99", "99.999"];

/// Latencies by series, and by run where there are several: the primary operation's, the others folded.
pub fn latencies(runs: &[Run<'_>], labels: &[Label]) -> String {
    let series: BTreeSet<&String> = runs.iter().flat_map(|run| run.result.latencies.keys()).collect();
    if series.is_empty() {
        return "<p>No latency was measured.</p>".into();
    }
    let caption = "Latencies of the measured window";
    if runs.len() == 1 {
        return latency_table(runs, labels, &series).html(caption);
    }
    let primary: BTreeSet<_> = runs.iter().map(|run| format!("{}.rt", run.result.primary)).collect();
    let (first, others): (BTreeSet<&String>, _) = series.into_iter().partition(|series| primary.contains(*series));
    let first = latency_table(runs, labels, &first).html(caption);
    if others.is_empty() {
        return first;
    }
    let others = latency_table(runs, labels, &others).html("Latencies of the other series");
    format!("{first}<details class=\"fold\"><summary>The other series</summary>\n{others}</details>\n")
}

fn latency_table(runs: &[Run<'_>], labels: &[Label], series: &BTreeSet<&String>) -> Table {
    let several = runs.len() > 1;
    let mut heads: Vec<String> =
        [if several { "Series, run" } else { "Series" }, "Count", "Smallest", "Mean"].map(String::from).into();
    heads.extend(PERCENTILES.map(|percentile| format!("{percentile} %")));
    heads.push("Largest".into());
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("numbers", &heads);
    for name in series {
        for (run, label) in runs.iter().zip(labels) {
            let Some(latency) = run.result.latencies.get(*name) else { continue };
            let mut head = format!("<code>{}</code>", text(name));
            if several {
                head = format!("{} {head} {}", swatch(label), text(&label.name));
            }
            let mut cells = vec![head, number(latency.count as f64), show_ns(latency.min_ns)];
            cells.push(show_ns(latency.mean_ns as u64));
            cells.extend(PERCENTILES.map(|percentile| {
                let ns = show_ns(latency.percentile_ns(percentile).unwrap_or(latency.max_ns));
                if enough(percentile, latency.count) {
                    ns
                } else {
                    format!("<span class=\"few\" title=\"too few values to tell it from the largest\">{ns}</span>")
                }
            }));
            let clipped = match latency.clipped {
                0 => String::new(),
                clipped => format!(" <span class=\"few\">({} over an hour)</span>", number(clipped as f64)),
            };
            cells.push(format!("{}{clipped}", show_ns(latency.max_ns)));
            table.row(&cells);
        }
    }
    table
}

/// Whether so many values tell a percentile from the largest.
fn enough(percentile: &str, count: u64) -> bool {
    let percentile: f64 = percentile.parse().expect("a constant number");
    count as f64 * (1.0 - percentile / 100.0) >= 0.999
}

/// Several runs beside each other: what a reader asks of each.
pub fn overview(runs: &[Run<'_>], labels: &[Label]) -> String {
    let heads =
        ["Run", "Answered", "Offered", "50 %", "99 %", "99.9 %", "Largest", "Errors", "CPU per request", "Verdict"];
    let mut table = Table::new("numbers", &heads);
    for (run, label) in runs.iter().zip(labels) {
        let result = run.result;
        let latency = result.latency("rt");
        let at =
            |percentile: &str| latency.and_then(|latency| latency.percentile_ns(percentile)).map_or_else(none, show_ns);
        let cpu = result.server.as_ref().and_then(|server| server.cpu_us_per_request);
        let verdict = if result.verdict.valid && result.verdict.aborted.is_none() {
            if result.verdict.interrupted { "interrupted" } else { "valid" }.into()
        } else {
            format!("<strong class=\"loud\">{}</strong>", if result.verdict.valid { "ABORTED" } else { "INVALID" })
        };
        table.row(&[
            format!("{} {}", swatch(label), text(&label.name)),
            format!("{} /s", number(rate(result))),
            value(result, "offered_rate").map_or_else(none, |offered| format!("{} /s", number(offered))),
            at("50"),
            at("99"),
            at("99.9"),
            latency.map_or_else(none, |latency| show_ns(latency.max_ns)),
            number(errors(result) as f64),
            cpu.map_or_else(none, |us| show(Value { value: us / 1e6, unit: Unit::Seconds })),
            verdict,
        ]);
    }
    table.html("The runs, by the primary operation's response time")
}

/// Each run's sentence.
pub fn sentences(runs: &[Run<'_>], labels: &[Label]) -> String {
    let items = runs.iter().zip(labels).map(|(run, label)| {
        format!("<li>{} <b>{}</b>: {}</li>\n", swatch(label), text(&label.name), text(&verdict(run.result).1))
    });
    format!("<ul class=\"sentences\">\n{}</ul>\n", items.collect::<String>())
}

/// A patch of the run's colour.
pub fn swatch(label: &Label) -> String {
    format!("<i class=\"swatch c{}\"></i>", label.colour % 8)
}

/// Errors by operation and code.
pub fn errors_by_code(run: &RunResult) -> String {
    if run.errors.is_empty() {
        return "<p>No request of the measured window failed.</p>".into();
    }
    let mut table = Table::new("numbers few-columns", &["Error", "Code", "Operation", "Count"]);
    let mut sorted: Vec<_> = run.errors.iter().collect();
    sorted.sort_by_key(|error| std::cmp::Reverse(error.count));
    for error in sorted {
        table.row(&[
            format!("<code>{}</code>", text(&error.name)),
            error.code.to_string(),
            text(&error.operation),
            number(error.count as f64),
        ]);
    }
    table.html("Errors of the measured window")
}

/// What the scenario checked, and what was wrong.
pub fn checks(run: &RunResult) -> String {
    if run.checks.violations.is_empty() {
        return "<p>This scenario moves nothing that could be checked.</p>".into();
    }
    let mut table = Table::new("numbers few-columns", &["Looked for", "Found", ""]);
    for (kind, count) in &run.checks.violations {
        let judged = if *count == 0 { "✓ fine" } else { "<strong class=\"loud\">✕ wrong</strong>" };
        table.row(&[text(&kind.replace('_', " ")), number(*count as f64), judged.into()]);
    }
    let examples: String = run.checks.examples.iter().map(|example| format!("<li>{}</li>\n", text(example))).collect();
    let examples = if examples.is_empty() {
        examples
    } else {
        format!("<p>Examples:</p><ul class=\"examples\">\n{examples}</ul>\n")
    };
    table.html("Checks of what was moved") + &examples
}

/// How well the generator kept its schedule.
pub fn health(run: &RunResult) -> String {
    let health = &run.health;
    let p50 = run.latency("rt").and_then(|latency| latency.percentile_ns("50")).filter(|p50| *p50 > 0);
    let of_p50 = p50.map_or_else(String::new, |p50| {
        format!("{:.1} % of the median response time", health.lateness_p99_ns as f64 / p50 as f64 * 100.0)
    });
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut table = Table::new("numbers wide-last", &["Generator", "", "What it means"]);
    for (what, value, means) in [
        ("Slots of the schedule", number(health.slots as f64), "requests that were due in the measured window".into()),
        (
            "Late by, half of them",
            show_ns(health.lateness_p50_ns),
            "from the intended moment to the actual send".into(),
        ),
        ("Late by, 99 of 100 at most", show_ns(health.lateness_p99_ns), of_p50),
        ("Late by, at most", show_ns(health.lateness_max_ns), String::new()),
        (
            "CPU of the busiest executor",
            percent(health.cpu_max),
            "100 % is a whole core; spinning on purpose is left out".into(),
        ),
        ("Ready and without CPU", percent(health.run_delay_max), "the worst executor's share of the time".into()),
        (
            "Overflow",
            number(health.overflow as f64),
            "slots that found the most outstanding requests allowed already out".into(),
        ),
    ] {
        table.row(&[text(what), value, text(&means)]);
    }
    table.html("Health of the generator")
}

/// What the server used.
pub fn server(run: &RunResult) -> String {
    let Some(server) = &run.server else {
        return "<p>The server was not sampled: give its process with <code>--server-pid</code>.</p>".into();
    };
    let bytes = |bytes: u64| show(Value { value: bytes as f64, unit: Unit::Bytes });
    let seconds = |seconds: f64| show(Value { value: seconds, unit: Unit::Seconds });
    let mut rows = vec![
        ("Command".to_owned(), format!("{} (pid {})", server.command, server.pid)),
        (
            "CPU".into(),
            format!("{:.2} cores: {} user, {} system", server.cpu, seconds(server.user_s), seconds(server.system_s)),
        ),
    ];
    let mut give = |what: &str, value: String| rows.push((what.to_owned(), value));
    if let Some(us) = server.cpu_us_per_request {
        give("CPU per request", seconds(us / 1e6));
    }
    if let Some(ms) = server.cpu_ms_per_mb {
        give("CPU per MB of records", seconds(ms / 1e3));
    }
    give(
        "Resident memory",
        format!(
            "{} at the start, {} at the end, {} at most",
            bytes(server.rss_start_bytes),
            bytes(server.rss_end_bytes),
            bytes(server.rss_max_bytes)
        ),
    );
    give("Open descriptors", number(server.descriptors as f64));
    give("Busiest thread over the mean", format!("{:.2}", server.thread_imbalance));
    give(
        "Context switches",
        format!(
            "{}, of these involuntary {}",
            number(server.context_switches as f64),
            number(server.involuntary_switches as f64)
        ),
    );
    give("Ready and without CPU", seconds(server.run_delay_s));
    if let (Some(periods), Some(throttled)) = (server.throttled_periods, server.throttled_s) {
        give("Throttled by its control group", format!("{} periods, {}", number(periods as f64), seconds(throttled)));
    }
    for (counter, count) in &server.kernel {
        give(&format!("Kernel: {counter}"), number(*count as f64));
    }
    if server.restarted {
        give("Restarted", "it ended or was replaced during the run".into());
    }
    let mut table = Table::new("facts", &["Server", ""]);
    for (what, value) in rows {
        table.row(&[text(&what), text(&value)]);
    }
    let mut threads = Table::new("numbers few-columns", &["Thread", "Id", "CPU time"]);
    for thread in &server.threads {
        threads.row(&[text(&thread.name), thread.id.to_string(), seconds(thread.cpu_s)]);
    }
    let threads = if threads.is_empty() { String::new() } else { threads.html("Its threads, busiest first") };
    table.html("What the server used in the measured window") + &threads
}

/// The search that the run ended: what it found, and every probe.
pub fn search(search: &Search) -> String {
    let bounds = search.bounds.join(", ");
    let rate = |rate: f64| format!("{} /s", number(rate));
    let found = match (search.confirmed_rate, search.missed_rate) {
        (Some(kept), Some(missed)) => {
            format!("The highest rate that kept {bounds} is {}; {} did not keep it", rate(kept), rate(missed))
        }
        (Some(kept), None) => format!("{} kept {bounds}, and no rate was found that did not", rate(kept)),
        (None, _) => format!("No rate was found that kept {bounds}"),
    };
    let mut table =
        Table::new("numbers compared", &["Probe", "Rate", "Answered", "Measured for", "Bounds", "What was found"]);
    for (at, probe) in search.probes.iter().enumerate() {
        let judged = match (probe.reasons.is_empty(), probe.kept) {
            (false, _) => "<strong class=\"loud\">INVALID</strong>",
            (true, true) => "✓ kept",
            (true, false) => "✕ missed",
        };
        let told = if probe.reasons.is_empty() { &probe.found } else { &probe.reasons };
        table.row(&[
            format!("{}{}", at + 1, if probe.confirms { " (full length)" } else { "" }),
            rate(probe.rate),
            rate(probe.answered_rate),
            span(probe.measured_s),
            judged.into(),
            text(&told.join("; ")),
        ]);
    }
    format!("<p><b>{}.</b> {}</p>\n", text(&found), text(&search.ended)) + &table.html("Every probe")
}

/// Everything else that was measured.
pub fn values(run: &RunResult) -> String {
    if run.values.is_empty() {
        return String::new();
    }
    let mut table = Table::new("numbers few-columns", &["Value", ""]);
    for (name, value) in &run.values {
        table.row(&[format!("<code>{}</code>", text(name)), show(*value)]);
    }
    table.html("Measured values, as --assert knows them")
}

/// Parameters, those that were given first; where there are several runs, a column each and those that differ first.
pub fn parameters(runs: &[Run<'_>], labels: &[Label]) -> String {
    let telling: BTreeSet<String> = labels::telling(runs).into_iter().collect();
    let of = |run: &Run<'_>, name: &str| run.result.parameters.iter().find(|of| of.name == name).cloned();
    let mut names: Vec<(bool, bool, String)> = Vec::new();
    for run in runs {
        for parameter in &run.result.parameters {
            if names.iter().any(|(_, _, name)| *name == parameter.name) {
                continue;
            }
            let everywhere = runs.iter().all(|run| of(run, &parameter.name).is_none_or(|of| of.default));
            names.push((!telling.contains(&parameter.name), everywhere, parameter.name.clone()));
        }
    }
    names.sort_by_key(|(same, default, _)| (*same, *default));
    let mut heads = vec!["Parameter"];
    if runs.len() == 1 {
        heads.push("Value")
    } else {
        heads.extend(labels.iter().map(|label| label.name.as_str()))
    }
    let mut table = Table::new("facts", &heads);
    for (_, default, name) in names {
        let mut cells = vec![format!("<code>--{}</code>", text(&name))];
        cells.extend(runs.iter().map(|run| match of(run, &name) {
            Some(of) if of.default => format!("<span class=\"few\">{} (default)</span>", text(&of.value)),
            Some(of) => format!("<b>{}</b>", text(&of.value)),
            None => none(),
        }));
        debug_assert!(!default || runs.len() == cells.len() - 1);
        table.row(&cells);
    }
    if table.is_empty() { String::new() } else { table.html("Parameters in force, those that were given first") }
}

/// Where it ran.
pub fn environment(environment: Option<&Environment>) -> String {
    let Some(environment) = environment.filter(|environment| !environment.facts.is_empty()) else {
        return "<p>It is not known where it ran: there is no <code>env.json</code>.</p>".into();
    };
    let mut table = Table::new("facts", &["Fact", ""]);
    for (name, fact) in &environment.facts {
        let fact = match fact {
            serde_json::Value::String(fact) => fact.clone(),
            fact => fact.to_string(),
        };
        table.row(&[text(&name.replace('_', " ")), text(&fact)]);
    }
    table.html("Where it ran")
}

/// What the target says it is.
pub fn target(run: &RunResult) -> String {
    let mut table = Table::new("facts", &["Target", ""]);
    table.row(&["Bootstrap".into(), text(&run.target.bootstrap)]);
    for (name, told) in &run.target.about {
        table.row(&[text(name), text(told)]);
    }
    table.html("What was loaded")
}

/// A cell without a value.
pub fn none() -> String {
    "<span class=\"few\">–</span>".into()
}
