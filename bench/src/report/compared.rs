//! A comparison's verdict and table.

use super::markup::{Table, text};
use super::tables::none;
use crate::compare::{self, ComparedMetric, Comparison, Outcome};
use crate::quantity::show;
use crate::result::Value;

/// Width and height of the picture of a ratio, in px.
const PICTURE: (f64, f64) = (180.0, 22.0);
/// The pictures' axis reaches at least this factor to both sides, and at most [`FACTOR_MAX`].
const FACTOR_MIN: f64 = 1.1;
const FACTOR_MAX: f64 = 10.0;

/// Metrics that the sentence names for each side.
const NAMED: usize = 3;

/// What a manager reads: who is better, in what and by how much, or that nobody can be named.
pub fn sentence(comparison: &Comparison) -> String {
    let of = |outcome: Outcome, name: &str| {
        let better: Vec<_> = comparison.metrics.iter().filter(|metric| metric.outcome == outcome).collect();
        let named: Vec<_> =
            better.iter().take(NAMED).map(|metric| format!("{} {}", metric.name, effect(metric))).collect();
        let more = match better.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        (!better.is_empty()).then(|| format!("{name} is better: {}{more}", named.join(", ")))
    };
    let (a, b) = (&comparison.a.name, &comparison.b.name);
    let said: Vec<_> = [of(Outcome::A, a), of(Outcome::B, b)].into_iter().flatten().collect();
    let said =
        if said.is_empty() { format!("No difference between {a} and {b} can be claimed") } else { said.join("; ") };
    format!("{}{said}.", if comparison.complete { "" } else { "INCOMPLETE: " })
}

/// Whether anybody is better in anything.
pub fn decided(comparison: &Comparison) -> bool {
    comparison.metrics.iter().any(|metric| metric.outcome != Outcome::Undecided)
}

/// By how much, without who: that is said beside it.
fn effect(metric: &ComparedMetric) -> &str {
    metric.reason.split_once("is better: ").map_or(&metric.reason, |(_, effect)| effect)
}

/// Every metric: medians, ratio, interval, noise, who is better and why; what tells a reader little is folded.
pub fn table(comparison: &Comparison) -> String {
    let (shown, others): (Vec<_>, Vec<_>) = comparison.metrics.iter().partition(|metric| compare::is_shown(metric));
    let how = format!(
        "<p class=\"how\">{} pairs in the order {}, and {} pairs of A against itself, which give the noise. The ratio is the \
         median of the pairs' ratios, its interval a bootstrap over the pairs; a dot is the ratio, its bar the interval, the \
         grey patch the noise: nobody is better while the bar touches the grey. p is of \
         Wilcoxon's signed-rank test.</p>\n",
        comparison.pairs,
        text(&comparison.order),
        comparison.noise_pairs
    );
    let others = if others.is_empty() {
        String::new()
    } else {
        let others = rows(comparison, &others).html("The other metrics");
        format!("<details class=\"fold\"><summary>The other metrics</summary>\n{others}</details>\n")
    };
    rows(comparison, &shown).html("A and B, metric by metric") + &how + &others
}

fn rows(comparison: &Comparison, metrics: &[&ComparedMetric]) -> Table {
    let factor = factor(metrics);
    let a = format!("A: {}", comparison.a.name);
    let b = format!("B: {}", comparison.b.name);
    let interval = format!("{:.0} % interval", comparison.confidence * 100.0);
    let axis = format!("B/A, from {:.2} to {factor:.2}", 1.0 / factor);
    let mut table =
        Table::new("numbers compared", &["Metric", &a, &b, "Ratio B/A", &interval, &axis, "Noise", "p", "Better"]);
    for metric in metrics {
        let shown = |value: f64| show(Value { value, unit: metric.unit });
        let better = match metric.outcome {
            Outcome::A => format!("<i class=\"swatch c0\"></i> <b>A</b> {}", text(&comparison.a.name)),
            Outcome::B => format!("<i class=\"swatch c1\"></i> <b>B</b> {}", text(&comparison.b.name)),
            Outcome::Undecided => "<span class=\"few\">undecided</span>".into(),
        };
        table.row(&[
            format!("<code>{}</code>", text(&metric.name)),
            shown(metric.a_median),
            shown(metric.b_median),
            metric.ratio.map_or_else(none, |ratio| format!("{ratio:.3}")),
            metric.interval.map_or_else(none, |(low, high)| format!("{low:.3} – {high:.3}")),
            picture(metric, factor),
            metric.noise.map_or_else(none, |noise| format!("± {:.1} %", (noise - 1.0) * 100.0)),
            metric.p_wilcoxon.map_or_else(none, |p| if p < 0.001 { "&lt; 0.001".into() } else { format!("{p:.3}") }),
            format!("{better}<small>{}</small>", text(effect(metric))),
        ]);
    }
    table
}

/// How far the pictures' axis reaches, so that every interval fits as far as it can.
fn factor(metrics: &[&ComparedMetric]) -> f64 {
    let away = |ratio: f64| if ratio > 0.0 { ratio.max(1.0 / ratio) } else { FACTOR_MAX };
    let furthest = metrics
        .iter()
        .flat_map(|metric| {
            let (low, high) = metric.interval.unwrap_or((1.0, 1.0));
            [away(low), away(high), away(metric.ratio.unwrap_or(1.0))]
        })
        .fold(FACTOR_MIN, f64::max);
    (furthest * 1.05).min(FACTOR_MAX)
}

/// A ratio, its interval and the noise on a logarithmic axis around 1.
fn picture(metric: &ComparedMetric, factor: f64) -> String {
    let Some(ratio) = metric.ratio else { return none() };
    let (width, height) = PICTURE;
    let at = |ratio: f64| {
        let share = (ratio.max(1e-9).ln() / factor.ln()).clamp(-1.0, 1.0);
        width / 2.0 + share * (width / 2.0 - 4.0)
    };
    let middle = height / 2.0;
    let noise = metric.noise.map_or_else(String::new, |noise| {
        let (from, to) = (at(1.0 / noise), at(noise));
        format!(
            "<rect class=\"noise\" x=\"{from:.1}\" y=\"3\" width=\"{:.1}\" height=\"{}\"/>",
            to - from,
            height - 6.0
        )
    });
    let interval = metric.interval.map_or_else(String::new, |(low, high)| {
        format!(
            "<line class=\"interval\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>",
            at(low),
            at(high)
        )
    });
    let class = match metric.outcome {
        Outcome::A => "c0",
        Outcome::B => "c1",
        Outcome::Undecided => "undecided",
    };
    format!(
        "<svg class=\"ratio {class}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"ratio {ratio:.3}\">{noise}<line class=\"one\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"{height}\"/>\
         {interval}<circle cx=\"{1:.1}\" cy=\"{middle}\" r=\"4\"/></svg>",
        width / 2.0,
        at(ratio)
    )
}
