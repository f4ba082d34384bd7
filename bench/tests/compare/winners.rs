//! Who is named, and who is not.

use std::path::Path;
use std::time::Duration;

use ringgate_bench::compare::{Outcome, Which};

use crate::common::undisturbed;
use crate::server::{Behaviour, Server};
use crate::{compare, comparison, directory, metric, text};

const LOAD: [&str; 10] =
    ["floor", "--closed", "--connections", "1", "--in-flight", "8", "--duration", "300ms", "--warmup", "0s"];

#[test]
fn of_two_servers_the_one_that_answers_in_half_the_time_is_named() {
    let slow = Server::echo(Behaviour::prompt().delay(Duration::from_millis(50)));
    let fast = Server::echo(Behaviour::prompt().delay(Duration::from_millis(25)));
    let targets = ["--a", &slow.address, "--b", &fast.address, "--a-name", "slow", "--b-name", "fast", "--seed", "7"];
    let runs = ["--noise-pairs", "1", "--cooldown", "0s", "--max-invalid", "20"];
    let run = || {
        let out = tempfile::tempdir().unwrap();
        let output = compare(&[&targets[..], &runs, &LOAD].concat(), out.path());
        (out, output)
    };
    // A machine that stands still in one of the runs lets nobody be named.
    let is_decided = |out: &Path| metric(&comparison(out), "rt.p50").outcome != Outcome::Undecided;
    let (out, output) = undisturbed(run, |(out, output)| output.status.code() == Some(0) && is_decided(out.path()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));

    let compared = comparison(out.path());
    let p50 = metric(&compared, "rt.p50");
    let ratio = p50.ratio.unwrap();
    assert!((0.3..0.8).contains(&ratio), "{p50:?}");
    assert_eq!(p50.outcome, Outcome::B, "{p50:?}");
    assert_eq!((p50.ratios.len(), p50.noise_ratios.len(), p50.p_wilcoxon), (6, 1, Some(0.031_25)));
    assert!(compared.complete);
    let made: Vec<_> = compared.runs.iter().filter(|run| run.counts).map(|run| run.side).collect();
    let (a, b) = (Which::A, Which::B);
    assert_eq!(made, [a, a, a, b, b, a, a, b, b, a, a, b, b, a], "noise first, then in turn");

    let stdout = String::from_utf8(output.stdout).unwrap();
    let row = stdout.lines().find(|line| line.trim_start().starts_with("rt.p50")).unwrap();
    assert!(row.contains("B is better: ") && row.ends_with("lower"), "{row}");
    assert_eq!(stdout.lines().last().unwrap(), directory(out.path()).to_str().unwrap());
    let page = std::fs::read_to_string(directory(out.path()).join("report.html")).unwrap();
    assert!(page.contains("fast") && page.contains("slow"));

    // Both runs of a pair have one seed and no others have it; no run meets another's topics.
    let parameter = |name: &str| -> Vec<String> {
        let of = |run: &ringgate_bench::compare::ComparedRun| {
            let result = crate::common::read(&directory(out.path()).join(&run.directory));
            result.parameters.iter().find(|parameter| parameter.name == name).unwrap().value.clone()
        };
        compared.runs.iter().filter(|run| run.counts).map(of).collect()
    };
    let seeds = parameter("seed");
    assert!(seeds.chunks(2).all(|pair| pair[0] == pair[1]), "{seeds:?}");
    assert_eq!(seeds.iter().collect::<std::collections::BTreeSet<_>>().len(), 7);
    assert_eq!(parameter("prefix").iter().collect::<std::collections::BTreeSet<_>>().len(), 14);
}

#[test]
fn a_server_is_no_better_than_itself() {
    let server = Server::echo(Behaviour::prompt().delay(Duration::from_millis(50)));
    let out = tempfile::tempdir().unwrap();
    let targets = ["--a", &server.address, "--b", &server.address];
    let runs = ["--noise-pairs", "1", "--cooldown", "0s", "--max-invalid", "20", "--json-lines"];
    let output = compare(&[&targets[..], &runs, &LOAD].concat(), out.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));

    let compared = comparison(out.path());
    let p50 = metric(&compared, "rt.p50");
    assert_eq!(p50.outcome, Outcome::Undecided, "{p50:?}");
    assert!(!p50.reason.is_empty());

    let events: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert!(count("run") >= 14, "{events:?}");
    assert_eq!((count("compared"), count("written")), (1, 1));
    assert_eq!(events.last().unwrap()["directory"], directory(out.path()).to_str().unwrap());
}
