//! Names and colours of runs, so that a reader can tell them apart.

use std::collections::BTreeMap;

use super::Run;
use crate::compare::{Comparison, Which};
use crate::result::RunResult;

/// How a run is called and drawn.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Label {
    /// Told apart from every other of the page.
    pub name: String,
    /// Index of its colour; runs of one side of a comparison share one.
    pub colour: usize,
    /// 0 for A, 1 for B.
    pub side: Option<usize>,
}

/// One label for each run.
pub fn labels(runs: &[Run<'_>], comparison: Option<&Comparison>) -> Vec<Label> {
    if let Some(comparison) = comparison {
        return runs.iter().enumerate().map(|(at, run)| compared(at, run.result, comparison)).collect();
    }
    let plain: Vec<_> = runs.iter().map(|run| run.result.target.name.clone()).collect();
    let names = if distinct(&plain) {
        plain
    } else {
        let telling = telling(runs);
        let with: Vec<_> = plain
            .iter()
            .zip(runs)
            .map(|(name, run)| {
                let told: Vec<_> = telling.iter().filter_map(|flag| parameter(run.result, flag)).collect();
                [std::slice::from_ref(name), &told].concat().join(", ")
            })
            .collect();
        if distinct(&with) {
            with
        } else {
            with.iter().enumerate().map(|(at, name)| format!("{name}, run {}", at + 1)).collect()
        }
    };
    names.into_iter().enumerate().map(|(colour, name)| Label { name, colour, side: None }).collect()
}

fn compared(at: usize, result: &RunResult, comparison: &Comparison) -> Label {
    match comparison.runs.iter().find(|run| run.id == result.id) {
        Some(run) => {
            let (side, of) = match run.side {
                Which::A => (0, &comparison.a),
                Which::B => (1, &comparison.b),
            };
            let letter = ["A", "B"][side];
            Label { name: format!("{letter} {}, pair {}", of.name, run.pair), colour: side, side: Some(side) }
        }
        None => Label { name: result.target.name.clone(), colour: at, side: None },
    }
}

/// Flags whose values are not the same in all runs, except those that say only where or which run it was.
pub fn telling(runs: &[Run<'_>]) -> Vec<String> {
    let mut values: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        for parameter in &run.result.parameters {
            let of = values.entry(&parameter.name).or_insert_with(|| vec![None; runs.len()]);
            of[at] = Some(&parameter.value);
        }
    }
    values
        .into_iter()
        .filter(|(name, of)| {
            !["bootstrap", "name", "prefix", "seed", "out"].contains(name) && of.iter().any(|value| *value != of[0])
        })
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn parameter(result: &RunResult, flag: &str) -> Option<String> {
    let parameter = result.parameters.iter().find(|parameter| parameter.name == flag)?;
    Some(format!("{flag} {}", parameter.value))
}

fn distinct(names: &[String]) -> bool {
    names.iter().collect::<std::collections::BTreeSet<_>>().len() == names.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::example;

    fn names(runs: &[RunResult]) -> Vec<String> {
        let runs: Vec<_> = runs.iter().map(|result| Run { result, environment: None }).collect();
        labels(&runs, None).into_iter().map(|label| label.name).collect()
    }

    #[test]
    fn runs_are_named_by_their_targets_or_by_what_else_tells_them_apart() {
        let one = example::run();
        let mut other = one.clone();
        other.target.name = "two".into();
        assert_eq!(names(&[one.clone(), other]), ["one", "two"]);
        let mut faster = one.clone();
        faster.parameters.iter_mut().find(|parameter| parameter.name == "rate").unwrap().value = "2000".into();
        assert_eq!(names(&[one.clone(), faster]), ["one, rate 1000", "one, rate 2000"]);
        assert_eq!(names(&[one.clone(), one]), ["one, run 1", "one, run 2"]);
    }
}
