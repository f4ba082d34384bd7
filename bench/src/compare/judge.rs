//! From runs to what may be said of two targets.
//!
//! Per metric and pair the ratio B / A is taken; its median, interval and test work on logarithms, so that swapping A
//! and B changes nothing but the direction. The noise floor is the same estimate made of A against itself.

use std::collections::BTreeSet;

use super::model::{Better, ComparedMetric, Outcome};
use crate::gate::better;
use crate::quantity::show;
use crate::random::derive;
use crate::result::{RunResult, Unit, Value, metric, metrics, told_apart};
use crate::stats::{median, median_interval, sign_test, wilcoxon_signed_rank};

/// What intervals are for.
pub const CONFIDENCE: f64 = 0.95;

/// Below this many pairs even wholly one-sided ones have a p over 1 - [`CONFIDENCE`].
pub const PAIRS_MIN: usize = 6;

/// A smaller effect is named by nobody, however sure: histograms tell 0.1 % apart, and a schedule's rounding is as large.
pub const EFFECT_MIN: f64 = 0.01;

/// Where one side fails a share of its requests that is larger by more than this, answers are not alike, and it is no merit
/// of theirs to be fast or cheap: one in a thousand is as much as the tail that is compared.
pub const ERROR_SHARE_APART: f64 = 0.001;

/// Compares pairs of A and B with pairs of A and A, metric by metric. `complete`: false where the comparison ended early,
/// and nobody is to be named.
pub fn judge(
    pairs: &[(RunResult, RunResult)],
    noise: &[(RunResult, RunResult)],
    complete: bool,
    seed: u64,
) -> Vec<ComparedMetric> {
    let all: Vec<&RunResult> = pairs.iter().chain(noise).flat_map(|(first, second)| [first, second]).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let failing = failing(pairs);
    let mut compared = Vec::new();
    for (at, name) in names(first).into_iter().enumerate() {
        let values = |runs: &[(RunResult, RunResult)]| -> Option<Vec<(f64, f64)>> {
            runs.iter().map(|(a, b)| Some((metric(a, &name)?.value, metric(b, &name)?.value))).collect()
        };
        // Of a metric that not every run has there are no pairs.
        let (Some(measured), Some(noise)) = (values(pairs), values(noise)) else { continue };
        let Some(Value { unit, .. }) = metric(first, &name) else { continue };
        let enough = all.iter().all(|run| told_apart(run, &name));
        let failing = failing.clone().filter(|_| !tells_of_failing(&name));
        let context = Context { complete, failing, enough, seed: derive(seed, at as u64) };
        compared.push(one(&name, unit, &measured, &noise, context));
    }
    compared
}

/// What decides besides the values.
struct Context {
    complete: bool,
    /// Why answers of A and B are not alike.
    failing: Option<String>,
    enough: bool,
    seed: u64,
}

/// Why the two sides' answers are not alike: wrong ones, or more that were errors.
fn failing(pairs: &[(RunResult, RunResult)]) -> Option<String> {
    let sides: [(&str, Vec<&RunResult>); 2] =
        [("A", pairs.iter().map(|(a, _)| a).collect()), ("B", pairs.iter().map(|(_, b)| b).collect())];
    for (side, runs) in &sides {
        let wrong: u64 = runs.iter().flat_map(|run| run.checks.violations.values()).sum();
        if wrong > 0 {
            return Some(format!("{side} failed its checks ({wrong} violations)"));
        }
    }
    let mean_share = |runs: &[&RunResult]| {
        let shares = runs.iter().filter_map(|run| metric(run, "error_share")).map(|share| share.value);
        shares.sum::<f64>() / runs.len().max(1) as f64
    };
    let [(_, of_a), (_, of_b)] = &sides;
    let (a, b) = (mean_share(of_a), mean_share(of_b));
    let side = if a > b { "A" } else { "B" };
    ((a - b).abs() > ERROR_SHARE_APART)
        .then(|| format!("{side} fails more: {} of A's requests, {} of B's", share(a), share(b)))
}

/// Metrics that say themselves what failed.
fn tells_of_failing(name: &str) -> bool {
    ["errors", "error_share", "checks"].contains(&name.split('.').next().unwrap_or(name))
}

fn one(name: &str, unit: Unit, pairs: &[(f64, f64)], noise: &[(f64, f64)], context: Context) -> ComparedMetric {
    let a: Vec<f64> = pairs.iter().map(|(a, _)| *a).collect();
    let b: Vec<f64> = pairs.iter().map(|(_, b)| *b).collect();
    let logarithms = logarithms(pairs);
    let noise_logarithms = self::logarithms(noise);
    let floor = median_interval(&noise_logarithms, CONFIDENCE, derive(context.seed, 1))
        .map(|(low, high)| low.abs().max(high.abs()).exp());
    // Of fewer, all that lies between them is no interval of that confidence.
    let enough_pairs = logarithms.len() >= PAIRS_MIN;
    let interval = enough_pairs.then(|| median_interval(&logarithms, CONFIDENCE, context.seed)).flatten();
    let above = logarithms.iter().filter(|logarithm| **logarithm > 0.0).count();
    let below = logarithms.iter().filter(|logarithm| **logarithm < 0.0).count();
    let mut compared = ComparedMetric {
        name: name.to_owned(),
        unit,
        better: better(name),
        a_median: median(&a).unwrap_or_default(),
        b_median: median(&b).unwrap_or_default(),
        a,
        b,
        ratios: logarithms.iter().map(|logarithm| logarithm.exp()).collect(),
        ratio: median(&logarithms).map(f64::exp),
        interval: interval.map(|(low, high)| (low.exp(), high.exp())),
        noise_ratios: noise_logarithms.iter().map(|logarithm| logarithm.exp()).collect(),
        noise: floor,
        p_wilcoxon: wilcoxon_signed_rank(&logarithms),
        p_sign: (above + below > 0).then(|| sign_test(above, below)),
        outcome: Outcome::Undecided,
        reason: String::new(),
    };
    (compared.outcome, compared.reason) = match doubt(&compared, &context) {
        Some(reason) => (Outcome::Undecided, reason),
        None => named(&compared),
    };
    compared
}

/// B / A by pair as logarithms; none where a value is 0, of which there is no ratio.
fn logarithms(pairs: &[(f64, f64)]) -> Vec<f64> {
    if pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0) {
        pairs.iter().map(|(a, b)| (b / a).ln()).collect()
    } else {
        Vec::new()
    }
}

/// Why nobody can be named.
fn doubt(compared: &ComparedMetric, context: &Context) -> Option<String> {
    if compared.better == Better::Neither {
        return Some("neither more nor less is better".into());
    }
    if !context.complete {
        return Some("the comparison ended early".into());
    }
    if context.failing.is_some() {
        return context.failing.clone();
    }
    let Some(ratio) = compared.ratio else {
        let same = compared.a == compared.b;
        return Some(if same { "alike in every pair".into() } else { "no ratio: it is 0 in some run".into() });
    };
    let Some((low, high)) = compared.interval else {
        return Some(format!("too few pairs: {PAIRS_MIN} are the least"));
    };
    if !context.enough {
        return Some("too few values".into());
    }
    if low <= 1.0 && 1.0 <= high {
        return Some("the interval spans 1".into());
    }
    let effect = if ratio > 1.0 { ratio } else { 1.0 / ratio };
    let Some(noise) = compared.noise else {
        return Some("the noise floor is not known".into());
    };
    if effect <= noise {
        return Some(format!("within the noise of A against itself ({})", deviation(noise)));
    }
    // An effect that may be as small as the noise is not named either.
    let least = if ratio > 1.0 { low } else { 1.0 / high };
    if least <= noise {
        return Some(format!("the interval reaches into the noise of A against itself ({})", deviation(noise)));
    }
    if effect <= 1.0 + EFFECT_MIN {
        return Some(format!("smaller than {} %", EFFECT_MIN * 100.0));
    }
    if compared.p_wilcoxon.is_none_or(|p| p >= 1.0 - CONFIDENCE) {
        return Some("pairs are not of one mind (signed-rank test)".into());
    }
    None
}

/// Who is better, and by how much.
fn named(compared: &ComparedMetric) -> (Outcome, String) {
    let ratio = compared.ratio.unwrap_or(1.0);
    let b_better = (ratio < 1.0) == (compared.better == Better::Lower);
    // Of the better side: B is ratio times A, A is 1/ratio times B.
    let (side, times) = if b_better { (Outcome::B, ratio) } else { (Outcome::A, 1.0 / ratio) };
    let way = if times < 1.0 { "lower" } else { "higher" };
    (side, format!("{} {way}", share((times - 1.0).abs())))
}

/// `±2.1 %` of a factor.
pub fn deviation(factor: f64) -> String {
    format!("±{}", share(factor - 1.0))
}

/// A share in percent with its unit.
fn share(share: f64) -> String {
    show(Value { value: share, unit: Unit::Ratio })
}

/// The metrics that are compared, the most telling first.
pub(super) fn names(run: &RunResult) -> Vec<String> {
    let prefix = format!("{}.", run.primary);
    let short = |name: &str| match name.strip_prefix(&prefix) {
        Some(short) if ["rt.", "st.", "wt."].iter().any(|kind| short.starts_with(kind)) => short.to_owned(),
        _ => name.to_owned(),
    };
    let has: BTreeSet<String> = metrics(run).keys().map(|name| short(name)).collect();
    let statistics = ["p50", "p90", "p99", "p99.9", "p99.99", "max", "mean"];
    let response = if has.contains("rt.p50") { "rt" } else { &run.primary };
    let mut names: Vec<String> = statistics.map(|statistic| format!("{response}.{statistic}")).into();
    names.extend(["rate", "records_per_s", "bytes_per_s"].map(String::from));
    names.extend(["error_share", "errors", "checks"].map(String::from));
    names.extend(["cpu_us_per_request", "cpu_ms_per_mb", "cpu", "rss_max"].map(|name| format!("server.{name}")));
    names.extend(run.values.keys().cloned());
    for series in run.latencies.keys() {
        names.extend(["p50", "p99", "p99.9"].map(|statistic| short(&format!("{series}.{statistic}"))));
    }
    let mut told = BTreeSet::new();
    names.into_iter().filter(|name| has.contains(name) && told.insert(name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example::{latency, run};

    /// A run whose primary latencies are `factor` times the example's.
    fn slower(factor: f64) -> RunResult {
        let mut run = run();
        run.latencies.insert("produce.rt".into(), latency(30_000, (1_000_000.0 * factor) as u64));
        run.checks.violations.insert("duplicated".into(), 0);
        run
    }

    fn pairs(factors: &[(f64, f64)]) -> Vec<(RunResult, RunResult)> {
        factors.iter().map(|(a, b)| (slower(*a), slower(*b))).collect()
    }

    fn p99(compared: &[ComparedMetric]) -> &ComparedMetric {
        compared.iter().find(|metric| metric.name == "rt.p99").expect("is compared")
    }

    /// A against itself within 3 %.
    const NOISE: [(f64, f64); 3] = [(1.0, 1.02), (1.0, 0.99), (1.0, 1.03)];

    #[test]
    fn a_clear_difference_names_the_better_and_by_how_much() {
        let faster = [(1.0, 0.5), (1.02, 0.5), (0.99, 0.52), (1.0, 0.49), (1.01, 0.51), (1.0, 0.5)];
        let compared = judge(&pairs(&faster), &pairs(&NOISE), true, 1);
        assert_eq!(compared[0].name, "rt.p50");
        let metric = p99(&compared);
        assert_eq!((metric.outcome, metric.p_wilcoxon), (Outcome::B, Some(0.031_25)), "{metric:?}");
        assert!((0.49..0.51).contains(&metric.ratio.unwrap()));
        let (low, high) = metric.interval.unwrap();
        assert!(0.48 < low && low <= metric.ratio.unwrap() && metric.ratio.unwrap() <= high && high < 0.54);
        assert!((1.025..1.035).contains(&metric.noise.unwrap()), "{metric:?}");
        assert!(metric.reason.starts_with('5') && metric.reason.ends_with(" % lower"), "{}", metric.reason);

        // The other way round it is the other, by the same.
        let slower = faster.map(|(a, b)| (b, a));
        let swapped = judge(&pairs(&slower), &pairs(&NOISE), true, 1);
        assert_eq!(p99(&swapped).outcome, Outcome::A);
        assert!((p99(&swapped).ratio.unwrap() * metric.ratio.unwrap() - 1.0).abs() < 1e-3);
    }

    #[test]
    fn nobody_is_named_inside_the_noise() {
        let slightly = [(1.0, 0.98), (1.0, 0.979), (1.0, 0.981), (1.0, 0.978), (1.0, 0.98), (1.0, 0.982)];
        let metric = judge(&pairs(&slightly), &pairs(&NOISE), true, 1);
        let reason = &p99(&metric).reason;
        assert_eq!(p99(&metric).outcome, Outcome::Undecided);
        assert!(reason.starts_with("within the noise of A against itself (±3"), "{reason}");
        // One that is beyond it, but may not be, is not named.
        let perhaps = [(1.0, 0.98), (1.0, 0.94), (1.0, 0.93), (1.0, 0.95), (1.0, 0.979), (1.0, 0.94)];
        let reason = &p99(&judge(&pairs(&perhaps), &pairs(&NOISE), true, 1)).reason.clone();
        assert!(reason.starts_with("the interval reaches into the noise of A against itself"), "{reason}");
        // Where A is quieter than that, it is an effect.
        let quiet = [(1.0, 1.001), (1.0, 0.999), (1.0, 1.002)];
        assert_eq!(p99(&judge(&pairs(&slightly), &pairs(&quiet), true, 1)).outcome, Outcome::B);
        // An effect below one in a hundred is none.
        let tiny = slightly.map(|(a, b)| (a, 1.0 - (1.0 - b) / 4.0));
        assert!(p99(&judge(&pairs(&tiny), &pairs(&quiet), true, 1)).reason.starts_with("smaller than 1 %"));
    }

    #[test]
    fn nobody_is_named_when_pairs_disagree_are_few_or_ended_early() {
        let mixed = [(1.0, 0.5), (1.0, 1.5), (1.0, 0.6), (1.0, 1.4), (1.0, 0.7), (1.0, 1.3)];
        assert_eq!(p99(&judge(&pairs(&mixed), &pairs(&NOISE), true, 1)).reason, "the interval spans 1");
        let few = [(1.0, 0.5); 5];
        assert_eq!(p99(&judge(&pairs(&few), &pairs(&NOISE), true, 1)).reason, "too few pairs: 6 are the least");
        assert_eq!(p99(&judge(&pairs(&few), &pairs(&NOISE), true, 1)).interval, None, "five values have none of 95 %");
        let many = [(1.0, 0.5); 6];
        assert_eq!(p99(&judge(&pairs(&many), &pairs(&NOISE), false, 1)).reason, "the comparison ended early");
        assert_eq!(p99(&judge(&pairs(&many), &[], true, 1)).reason, "the noise floor is not known");
    }

    #[test]
    fn a_metric_that_is_nought_or_missing_has_no_ratio() {
        let mut a = pairs(&[(1.0, 1.0); 6]);
        a[0].1.checks.violations.insert("duplicated".into(), 1);
        a[3].0.server = None;
        let compared = judge(&a, &pairs(&NOISE), true, 1);
        let checks = compared.iter().find(|metric| metric.name == "checks").unwrap();
        assert_eq!((checks.ratio, checks.reason.as_str()), (None, "no ratio: it is 0 in some run"));
        assert!(!compared.iter().any(|metric| metric.name.starts_with("server.")), "one run has none");
    }

    /// B is twice as fast, and something about each of its runs is other than about A's.
    fn faster_but(change: impl Fn(&mut RunResult)) -> Vec<ComparedMetric> {
        let mut pairs = pairs(&[(1.0, 0.5); 6]);
        for (a, b) in &mut pairs {
            for run in [a, &mut *b] {
                run.values.insert("error_share".into(), Value { value: 0.002, unit: Unit::Ratio });
            }
            change(b);
        }
        let mut noise = self::pairs(&NOISE);
        for (first, second) in &mut noise {
            for run in [first, second] {
                run.values.insert("error_share".into(), Value { value: 0.002, unit: Unit::Ratio });
            }
        }
        judge(&pairs, &noise, true, 1)
    }

    fn with_errors(share: f64) -> impl Fn(&mut RunResult) {
        move |run| {
            run.values.insert("error_share".into(), Value { value: share, unit: Unit::Ratio });
        }
    }

    #[test]
    fn who_answers_by_failing_is_not_called_faster_or_cheaper() {
        assert_eq!(p99(&faster_but(|_| ())).outcome, Outcome::B);
        assert_eq!(p99(&faster_but(with_errors(0.0025))).outcome, Outcome::B, "as many errors, about");
        let compared = faster_but(with_errors(0.3));
        for metric in compared.iter().filter(|metric| !tells_of_failing(&metric.name)) {
            assert_eq!(metric.outcome, Outcome::Undecided, "{metric:?}");
        }
        assert_eq!(p99(&compared).reason, "B fails more: 0.20 % of A's requests, 30.0 % of B's");
        let errors = compared.iter().find(|metric| metric.name == "error_share").unwrap();
        assert_eq!(errors.outcome, Outcome::A, "that it fails more is what can be said: {errors:?}");

        let compared = faster_but(|run| *run.checks.violations.get_mut("lost").unwrap() = 3);
        assert_eq!(p99(&compared).reason, "B failed its checks (18 violations)");
    }

    /// A value around `mean` that deviates as runs do: by about 3 %.
    fn around(mean: f64, random: &mut crate::random::Random) -> f64 {
        let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        mean * (0.03 * normal).exp()
    }

    /// How many of fifty comparisons of targets whose true ratio is this name somebody.
    fn named_of_fifty(ratio: f64) -> usize {
        (0..50)
            .filter(|&seed| {
                let mut random = crate::random::Random::new(seed);
                let noise: Vec<_> = (0..3).map(|_| (around(1.0, &mut random), around(1.0, &mut random))).collect();
                let pairs: Vec<_> = (0..6).map(|_| (around(1.0, &mut random), around(ratio, &mut random))).collect();
                let context = Context { complete: true, failing: None, enough: true, seed };
                one("rt.p99", Unit::Seconds, &pairs, &noise, context).outcome != Outcome::Undecided
            })
            .count()
    }

    #[test]
    fn chance_is_rarely_taken_for_a_difference_and_a_clear_one_is_rarely_missed() {
        let by_chance = named_of_fifty(1.0);
        assert!(by_chance <= 3, "{by_chance} of 50 between equal targets");
        let found = named_of_fifty(0.8);
        assert!(found >= 45, "{found} of 50");
    }
}
