//! A query, held against what gateways report.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::error::ResponseError;
use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector, token};

use crate::common::scrape::{Family, Labels};

/// Labels that Prometheus adds.
const OF_THE_TARGET: [&str; 2] = ["job", "instance"];

/// Metrics that Prometheus makes of a scrape.
const OF_PROMETHEUS: [&str; 1] = ["up"];

type Reported = BTreeMap<String, Family>;

/// The families that a query asks for, all of which there are; `of` says whose query it is.
///
/// # Panics
/// It asks for a metric, a label or a label's value that there is not; it sums a histogram's buckets without `le`, or
/// takes the rate of what is no counter.
pub fn check(of: &str, query: &str, reported: &Reported) -> BTreeSet<String> {
    let expr = parser::parse(query).unwrap_or_else(|error| panic!("{of}: {error}: {query}"));
    let mut walk = Walk { of, query, reported, asked: BTreeSet::new() };
    walk.expr(&expr, Within::Nothing);
    walk.asked
}

/// What a selector is an argument of.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Nothing,
    /// `rate` or `increase`.
    Rate,
}

struct Walk<'a> {
    of: &'a str,
    query: &'a str,
    reported: &'a Reported,
    asked: BTreeSet<String>,
}

/// What a selector selects.
struct Selected<'a> {
    family: &'a str,
    kind: &'a str,
    /// `_bucket`, `_sum`, `_count` of a histogram.
    part: &'a str,
    series: Vec<&'a Labels>,
}

impl<'a> Walk<'a> {
    /// Which labels the result has.
    fn expr(&mut self, expr: &Expr, within: Within) -> BTreeSet<String> {
        let at = format!("{}: {}", self.of, self.query);
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector, within),
            Expr::MatrixSelector(selector) => self.selector(&selector.vs, within),
            Expr::Paren(paren) => self.expr(&paren.expr, within),
            Expr::Unary(unary) => self.expr(&unary.expr, within),
            Expr::Subquery(subquery) => self.expr(&subquery.expr, Within::Nothing),
            Expr::Aggregate(aggregate) => {
                if let Some(param) = &aggregate.param {
                    self.expr(param, Within::Nothing);
                }
                let labels = self.expr(&aggregate.expr, Within::Nothing);
                let keeps_all = [token::T_TOPK, token::T_BOTTOMK].contains(&aggregate.op.id());
                match &aggregate.modifier {
                    None if keeps_all => labels,
                    None => BTreeSet::new(),
                    Some(LabelModifier::Include(by)) => {
                        for label in &by.labels {
                            assert!(labels.contains(label), "{at}: there is no label {label}");
                        }
                        by.labels.iter().cloned().collect()
                    }
                    Some(LabelModifier::Exclude(_)) => panic!("{at}: say which labels stay"),
                }
            }
            Expr::Binary(binary) => {
                let left = self.expr(&binary.lhs, Within::Nothing);
                let right = self.expr(&binary.rhs, Within::Nothing);
                let on = binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
                match on {
                    Some(LabelModifier::Include(on)) => {
                        for label in &on.labels {
                            assert!(left.contains(label) && right.contains(label), "{at}: not both have {label}");
                        }
                    }
                    Some(LabelModifier::Exclude(_)) => panic!("{at}: say which labels match"),
                    // A scalar matches everything; vectors match where all labels are equal.
                    None => assert!(
                        left.is_empty() || right.is_empty() || left == right,
                        "{at}: {left:?} never matches {right:?}"
                    ),
                }
                if left.is_empty() { right } else { left }
            }
            Expr::Call(call) => {
                let name = call.func.name;
                let within = if ["rate", "increase"].contains(&name) { Within::Rate } else { Within::Nothing };
                let mut labels = BTreeSet::new();
                for argument in &call.args.args {
                    labels.extend(self.expr(argument, within));
                }
                if name == "histogram_quantile" {
                    assert!(labels.remove("le"), "{at}: quantiles are of buckets by le");
                }
                if name == "scalar" { BTreeSet::new() } else { labels }
            }
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => BTreeSet::new(),
            Expr::Extension(_) => panic!("{at}: no parser makes that"),
        }
    }

    fn selector(&mut self, selector: &VectorSelector, within: Within) -> BTreeSet<String> {
        let (of, query) = (self.of, self.query);
        let name = selector.name.as_deref().unwrap_or_else(|| panic!("{of}: a selector without a name: {query}"));
        assert!(selector.matchers.or_matchers.is_empty(), "{of}: {query}");
        let matchers = &selector.matchers.matchers;
        let target = || OF_THE_TARGET.iter().map(|label| label.to_string());
        if OF_PROMETHEUS.contains(&name) {
            matchers.iter().for_each(|m| assert!(OF_THE_TARGET.contains(&m.name.as_str()), "{of}: {query}"));
            return target().collect();
        }
        let selected = self.find(name).unwrap_or_else(|| panic!("{of}: nobody reports {name}: {query}"));
        let counts = selected.kind == "counter" || !selected.part.is_empty();
        let rated = within == Within::Rate;
        assert!(counts == rated, "{of}: {name} is a {}: {query}", selected.kind);
        for matcher in matchers.iter().filter(|matcher| !OF_THE_TARGET.contains(&matcher.name.as_str())) {
            let values: Vec<&str> =
                selected.series.iter().filter_map(|labels| labels.get(&matcher.name).map(String::as_str)).collect();
            assert!(!values.is_empty(), "{of}: {name} has no label {}: {query}", matcher.name);
            for value in wanted(matcher) {
                let there = values.contains(&value) || is_error(matcher, value);
                assert!(there, "{of}: no {name} has {}={value}: {query}", matcher.name);
            }
        }
        let mut labels: BTreeSet<String> = selected.series.iter().flat_map(|labels| labels.keys().cloned()).collect();
        labels.extend(target());
        if selected.part == "_bucket" {
            labels.insert("le".into());
        }
        let family = selected.family.to_owned();
        self.asked.insert(family);
        labels
    }

    fn find(&self, name: &str) -> Option<Selected<'a>> {
        if let Some((family, known)) = self.reported.get_key_value(name)
            && known.kind != "histogram"
        {
            let series = known.values.iter().map(|(labels, _)| labels).collect();
            return Some(Selected { family, kind: &known.kind, part: "", series });
        }
        ["_bucket", "_sum", "_count"].into_iter().find_map(|part| {
            let (family, known) = self.reported.get_key_value(name.strip_suffix(part)?)?;
            let series = known.histograms.iter().map(|(labels, _)| labels).collect();
            (known.kind == "histogram").then_some(Selected { family, kind: &known.kind, part, series })
        })
    }
}

/// The values that a matcher names one by one.
fn wanted(matcher: &Matcher) -> Vec<&str> {
    match &matcher.op {
        MatchOp::Equal => vec![&matcher.value],
        MatchOp::Re(_) if matcher.value != ".*" => matcher.value.split('|').collect(),
        _ => Vec::new(),
    }
}

/// Whether it is the name of an error of Kafka's, which need not have happened.
fn is_error(matcher: &Matcher, value: &str) -> bool {
    let names = (-1..200).filter_map(ResponseError::try_from_code).map(|error| format!("{error:?}"));
    matcher.name == "error" && names.map(|name| screaming(&name)).any(|name| name == value)
}

fn screaming(camel: &str) -> String {
    let mut name = String::new();
    for (at, c) in camel.char_indices() {
        if c.is_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

#[test]
#[should_panic(expected = "nobody reports ringgate_groups_total")]
fn a_metric_that_there_is_not_is_found() {
    check("panel", "sum(ringgate_groups_total)", &BTreeMap::new());
}

#[test]
#[should_panic(expected = "is a gauge")]
fn the_rate_of_a_gauge_is_found() {
    let family = Family { kind: "gauge".into(), values: vec![(Labels::new(), 1.0)], ..Family::default() };
    check("panel", "rate(ringgate_groups[1m])", &BTreeMap::from([("ringgate_groups".into(), family)]));
}

#[test]
#[should_panic(expected = "there is no label topic")]
fn a_label_that_there_is_not_is_found() {
    let labels = Labels::from([("shard".into(), "0".into())]);
    let family = Family { kind: "gauge".into(), values: vec![(labels, 1.0)], ..Family::default() };
    check("panel", "sum by (topic) (ringgate_groups)", &BTreeMap::from([("ringgate_groups".into(), family)]));
}
