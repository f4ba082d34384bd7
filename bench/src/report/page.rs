//! The page, section by section.

use super::charts::Charts;
use super::labels::{Label, labels};
use super::markup::{json, text};
use super::words::{Mood, span, verdict};
use super::{Run, compared, figures, metrics, tables};
use crate::compare::Comparison;
use crate::result::{HistogramError, RunResult};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Nothing is loaded: everything is in the file.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

const TAIL_NOTE: &str = "Every request from the fastest to the slowest. Further right are fewer and slower ones: 99 % is one \
    of 100, 99.9 % one of 1,000. Time counts from the moment a request was meant to be sent.";
const BESIDE: &str = "<p class=\"how\">The seed decides every random choice: arrivals, keys, sizes, order. Beside this file lie \
    <code>result.json</code> (everything shown here), <code>series.csv</code>, <code>latency.hlog</code> and <code>latency.hgrm\
    </code> for tools of HdrHistogram, and <code>env.json</code>.</p>\n";

/// The whole file: of one run, of several on shared axes, or of a comparison's runs. At least one run.
pub fn html(runs: &[Run<'_>], comparison: Option<&Comparison>) -> Result<String, HistogramError> {
    let labels = labels(runs, comparison);
    let sides = comparison.map_or_else(Vec::new, |of| vec![format!("A {}", of.a.name), format!("B {}", of.b.name)]);
    let charts = Charts::of(runs, &labels, &sides)?;
    let title = title(runs, comparison);
    let mut body = head(&title, runs, &labels, comparison);
    let mut section = |id: &str, name: &str, content: String| {
        body.push_str(&format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-head\">\n<h2 id=\"{id}-head\">{name}</h2>\n{content}</section>\n"
        ));
    };
    if let [Run { result: RunResult { search: Some(search), .. }, .. }] = runs {
        section("search", "Search", tables::search(search));
    }
    section("latency", "Latency", controls() + &chart("tail", TAIL_NOTE) + &tables::latencies(runs, &labels));
    section("over-time", "Latency over time", chart("time", &over_time_note(&charts, runs)));
    section("throughput", "Throughput", chart("rate", "Answers per second; the dashed line is what was offered."));
    section("errors", "Errors", errors(runs));
    section("server", "Server", server(runs));
    match runs {
        [Run { result, environment }] => {
            section("checks", "Checks", tables::checks(result));
            section("generator", "Generator", tables::health(result));
            section("values", "Values", tables::values(result));
            section("parameters", "Parameters", tables::parameters(runs, &labels));
            section("environment", "Environment", tables::target(result) + &tables::environment(*environment));
            section("again", "How to reproduce", command(&result.command) + BESIDE);
        }
        runs => {
            section("parameters", "Parameters", tables::parameters(runs, &labels));
            section("each", "Run by run", run_by_run(runs, &labels));
            if let Some(comparison) = comparison {
                section("again", "How to reproduce", command(&comparison.command));
            }
        }
    }
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        text(&title),
        json(&charts)
    ))
}

fn title(runs: &[Run<'_>], comparison: Option<&Comparison>) -> String {
    if let Some(comparison) = comparison {
        return format!("{}: {} against {}", comparison.scenario, comparison.a.name, comparison.b.name);
    }
    match runs {
        [run] => format!("{}: {}", run.result.scenario, run.result.target.name),
        runs => {
            let mut scenarios: Vec<_> = runs.iter().map(|run| run.result.scenario.as_str()).collect();
            scenarios.dedup();
            format!("{}: {} runs", scenarios.join(", "), runs.len())
        }
    }
}

fn head(title: &str, runs: &[Run<'_>], labels: &[Label], comparison: Option<&Comparison>) -> String {
    let (banner, below) = match (comparison, runs) {
        (Some(comparison), _) => {
            let mood = match compared::decided(comparison) {
                _ if !comparison.complete => Mood::Invalid,
                true => Mood::Fine,
                false => Mood::Open,
            };
            let notes = notes(&comparison.notes);
            (banner(mood, &compared::sentence(comparison), &[]) + &notes, compared::table(comparison))
        }
        (None, [run]) => {
            let (mood, sentence) = verdict(run.result);
            (
                banner(mood, &sentence, &run.result.verdict.reasons) + &notes(&run.result.notes),
                figures::html(run.result),
            )
        }
        (None, runs) => {
            let invalid = runs.iter().filter(|run| !run.result.verdict.valid).count();
            let warned = match invalid {
                0 => String::new(),
                n => banner(
                    Mood::Invalid,
                    &format!("INVALID: {n} of these {} runs may not be believed.", runs.len()),
                    &[],
                ),
            };
            (warned + &tables::sentences(runs, labels), String::new())
        }
    };
    let overview = if runs.len() > 1 { tables::overview(runs, labels) } else { String::new() };
    format!(
        "<a class=\"skip\" href=\"#main\">To the results</a>\n<header>\n<p class=\"kicker\">ringgate-bench</p>\n<h1>{}</h1>\n\
         <p class=\"when\">{}</p>\n</header>\n<main id=\"main\">\n{banner}{below}{overview}\
         <noscript><p class=\"how\">The charts need JavaScript; every number of theirs is in result.json and series.csv.</p></noscript>\n",
        text(title),
        when(runs)
    )
}

fn banner(mood: Mood, sentence: &str, reasons: &[String]) -> String {
    let (class, sign) = match mood {
        Mood::Fine => ("fine", "✓"),
        Mood::Open => ("open", "≈"),
        Mood::Mind => ("mind", "!"),
        Mood::Invalid => ("invalid", "✕"),
    };
    let reasons: String = reasons.iter().map(|reason| format!("<li>{}</li>", text(reason))).collect();
    let reasons = if reasons.is_empty() { reasons } else { format!("<ul>{reasons}</ul>") };
    format!(
        "<div class=\"verdict {class}\" role=\"note\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span><div><p>{}</p>{reasons}\
         </div></div>\n",
        text(sentence)
    )
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", text(note))).collect();
    format!("<ul class=\"notes\">{items}</ul>\n")
}

/// When, what, how long, with which seed.
fn when(runs: &[Run<'_>]) -> String {
    let of = |result: &RunResult| {
        format!("{} · <code>{}</code> · seed {}", text(&result.started_at), text(&result.id), result.seed)
    };
    match runs {
        [run] => of(run.result),
        runs => runs.first().map_or_else(String::new, |run| format!("first run {}", of(run.result))),
    }
}

fn controls() -> String {
    "<form class=\"controls\" aria-label=\"How the charts of latency are drawn\">\n\
     <fieldset><legend>Latency axis</legend><label><input type=\"radio\" name=\"scale\" value=\"log\" checked> logarithmic</label> \
     <label><input type=\"radio\" name=\"scale\" value=\"linear\"> linear</label></fieldset>\n\
     <label id=\"series-choice\">Series <select name=\"series\"></select></label>\n\
     <label id=\"percentile-choice\">Over time <select name=\"percentile\"><option value=\"p50\">50 %</option>\
     <option value=\"p99\" selected>99 %</option><option value=\"p999\">99.9 %</option><option value=\"max\">largest</option>\
     </select></label>\n</form>\n"
        .into()
}

/// A place for a chart, with its table for those who do not see it.
fn chart(id: &str, note: &str) -> String {
    format!(
        "<figure class=\"chart\" id=\"chart-{id}\" data-chart=\"{id}\"><figcaption>{}</figcaption><div class=\"legend\"></div>\
         <div class=\"plot\"></div><details class=\"data\"><summary>These numbers as a table</summary><div></div></details></figure>\n",
        text(note)
    )
}

fn over_time_note(charts: &Charts, runs: &[Run<'_>]) -> String {
    let joined = charts.joined();
    let length = runs.iter().flat_map(|run| &run.result.intervals).map(|row| row.length_s).next().unwrap_or(1.0);
    let mut note = format!("By interval of {}; the warm-up is shaded and counts in no figure.", span(length));
    if joined > 1 {
        note.push_str(&format!(
            " The run is long: a point stands for {joined} intervals and shows the worst of them; series.csv has them all."
        ));
    }
    note
}

fn errors(runs: &[Run<'_>]) -> String {
    let any = runs.iter().any(|run| run.result.intervals.iter().any(|row| row.errors > 0));
    let drawn = if any { chart("errors", "Failed requests by interval.") } else { String::new() };
    match runs {
        [run] => drawn + &tables::errors_by_code(run.result),
        _ if any => drawn,
        _ => "<p>No request of any run failed.</p>".into(),
    }
}

fn server(runs: &[Run<'_>]) -> String {
    let sampled = runs.iter().any(|run| run.result.server.is_some());
    let drawn = if sampled {
        let cpu = chart("cpu", "CPU time that the server used per second: 1 is a whole core.");
        let rss = chart("rss", "Memory of the server's process that is resident.");
        format!("<div class=\"pair\">{cpu}{rss}</div>")
    } else {
        String::new()
    };
    let scraped = match runs {
        [Run { result: RunResult { server_metrics: Some(of), .. }, .. }]
            if of.moved().0.iter().any(|of| !of.over_time.is_empty()) =>
        {
            chart(
                "metrics",
                "What the server counted itself, per second: the most active of its counters and histograms.",
            )
        }
        _ => String::new(),
    };
    match runs {
        [run] => drawn + &tables::server(run.result) + &scraped + &metrics::html(run.result),
        _ if sampled => drawn,
        runs => tables::server(runs[0].result),
    }
}

/// A fold for each of several runs, with all that a page of its own would tell.
fn run_by_run(runs: &[Run<'_>], labels: &[Label]) -> String {
    let folds = runs.iter().zip(labels).map(|(run, label)| {
        let result = run.result;
        let reasons: String = result.verdict.reasons.iter().map(|reason| format!("<li>{}</li>", text(reason))).collect();
        format!(
            "<details class=\"fold\"><summary>{} {}</summary>\n<p>{}</p><ul>{reasons}</ul>{}{}{}{}{}{}{}{}{}</details>\n",
            tables::swatch(label),
            text(&label.name),
            text(&verdict(result).1),
            notes(&result.notes),
            tables::errors_by_code(result),
            tables::checks(result),
            tables::health(result),
            tables::server(result) + &metrics::html(result),
            tables::values(result),
            tables::target(result),
            tables::environment(run.environment),
            command(&result.command),
        )
    });
    folds.collect()
}

fn command(command: &[String]) -> String {
    format!("<pre class=\"command\"><code>{}</code></pre>\n", text(&shell(command)))
}

/// A command as a shell takes it.
fn shell(command: &[String]) -> String {
    let plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c));
    let quoted = command
        .iter()
        .map(|word| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let command = ["ringgate-bench", "produce", "--assert", "rt.p99<5ms", "--name", "it's", ""].map(String::from);
        assert_eq!(super::shell(&command), r"ringgate-bench produce --assert 'rt.p99<5ms' --name 'it'\''s' ''");
    }
}
