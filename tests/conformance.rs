//! `docs/conformance.md` and the tests agree: every numbered behaviour has a test, and the page names all of them.
//!
//! A test is numbered by its name: `sNNN_<sentence>` is a scenario of the group protocol, `kNNN_<sentence>` the
//! absence of a fault that users reported of other systems. After a change of such names,
//! `CONFORMANCE_WRITE=1 cargo test --test conformance` writes the page anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/conformance.md";
/// This file has names of tests in texts.
const THIS: &str = "tests/conformance.rs";

const HEAD: &str = "\
# Conformance

Numbered behaviours, and the tests that show them. A test's name is the sentence that it shows; where the gateway
decides otherwise than Kafka, or a number asks for what it does not have, the comment of the test says so.
This page is written by `CONFORMANCE_WRITE=1 cargo test --test conformance`; without that variable the same
command, which CI runs, fails where a number has no test or this page is not what the sources say.

To run what belongs to a number: `cargo test --workspace s048_`.
";

/// Where tests are looked for.
const SOURCES: [&str; 5] = ["src", "tests", "shards/src", "shards/group", "shards/wire"];

/// Numbers that belong together.
struct Area {
    title: &'static str,
    numbers: std::ops::RangeInclusive<u16>,
    /// Why some of the numbers have no test yet.
    open: Option<&'static str>,
}

const fn area(title: &'static str, from: u16, to: u16) -> Area {
    Area { title, numbers: from..=to, open: None }
}

const fn open(title: &'static str, from: u16, to: u16, why: &'static str) -> Area {
    Area { title, numbers: from..=to, open: Some(why) }
}

const SCENARIOS: [Area; 14] = [
    area("Joining", 1, 16),
    area("The initial delay", 17, 22),
    area("Rebalances of known members", 23, 35),
    area("Ids that have not joined (KIP-394)", 36, 42),
    area("The size of a group", 43, 46),
    area("Static members (KIP-345, KIP-814)", 47, 60),
    area("Sync", 61, 75),
    area("Heartbeats", 76, 82),
    area("Leaving", 83, 89),
    area("Offsets", 90, 106),
    area("Administration", 107, 110),
    area("Restarts and stops", 111, 113),
    area("Consumer groups (KIP-848)", 114, 125),
    area("From classic to consumer groups and back", 126, 128),
];

const FAULTS: [Area; 12] = [
    area("ApiVersions and headers", 1, 10),
    area("Produce", 11, 26),
    area("Fetch", 27, 42),
    area("ListOffsets", 43, 50),
    area("Metadata", 51, 56),
    area("Group protocol", 57, 81),
    area("Offsets", 82, 93),
    area("Administration", 94, 102),
    open("SASL and TLS", 103, 108, "the gateway has neither yet"),
    area("Malformed and hostile input", 109, 120),
    area("Memory and shutdown", 121, 123),
    area("Apache Iggy", 124, 132),
];

/// The tests of a number: (path from the root, name).
type Tests = BTreeMap<u16, BTreeSet<(String, String)>>;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The names of the tests in a source that run: marked as tests, and not as ignored.
fn test_names(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in source.lines().map(str::trim_start) {
        let signature = line.strip_prefix("async ").unwrap_or(line);
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_ignored = true;
        } else if let Some(rest) = signature.strip_prefix("fn ") {
            if is_test && !is_ignored {
                names.extend(rest.split_once('(').map(|(name, _)| name));
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    names
}

/// The kind and the number that a name begins with.
fn numbered(name: &str) -> Option<(char, u16)> {
    let (number, sentence) = name.split_once('_')?;
    let kind = number.chars().next().filter(|kind| matches!(kind, 's' | 'k'))?;
    let digits = &number[1..];
    let is_number = digits.len() == 3 && digits.bytes().all(|digit| digit.is_ascii_digit()) && !sentence.is_empty();
    Some((kind, is_number.then(|| digits.parse().ok())??))
}

/// All numbered tests: the scenarios', the faults'.
fn numbered_tests() -> (Tests, Tests) {
    let root = root();
    let mut files = Vec::new();
    SOURCES.iter().for_each(|dir| rust_files(&root.join(dir), &mut files));
    let (mut scenarios, mut faults) = (Tests::new(), Tests::new());
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let path = file.strip_prefix(&root).expect("below the root").display().to_string();
        if path == THIS {
            continue;
        }
        for name in test_names(&source) {
            if let Some((kind, number)) = numbered(name) {
                let tests = if kind == 's' { &mut scenarios } else { &mut faults };
                tests.entry(number).or_default().insert((path.clone(), name.to_owned()));
            }
        }
    }
    (scenarios, faults)
}

fn render(page: &mut String, areas: &[Area], tests: &Tests) {
    for area in areas {
        let _ = write!(page, "\n### {}\n\n| Number | Test | File |\n| --- | --- | --- |\n", area.title);
        for number in area.numbers.clone() {
            match tests.get(&number) {
                Some(tests) => {
                    for (path, name) in tests {
                        let _ = writeln!(page, "| {number:03} | `{name}` | [{path}](../{path}) |");
                    }
                }
                None => {
                    let _ = writeln!(page, "| {number:03} | none: {} | |", area.open.unwrap_or("?"));
                }
            }
        }
    }
}

fn page(scenarios: &Tests, faults: &Tests) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n## Scenarios of the group protocol\n");
    render(&mut page, &SCENARIOS, scenarios);
    page.push_str("\n## Faults that users reported of Kafka-compatible systems\n");
    render(&mut page, &FAULTS, faults);
    page
}

/// Numbers in areas that claim to be complete and are not, and tests whose number is in no area.
fn gaps(kind: char, areas: &[Area], tests: &Tests) -> Vec<String> {
    let mut gaps = Vec::new();
    for area in areas {
        let missing: Vec<u16> = area.numbers.clone().filter(|number| !tests.contains_key(number)).collect();
        match area.open {
            None => gaps.extend(missing.iter().map(|number| format!("{kind}{number:03} ({}) has no test", area.title))),
            Some(_) if missing.is_empty() => gaps.push(format!("{}: all have tests, so nothing is open", area.title)),
            Some(_) => {}
        }
    }
    let known = |number: &u16| areas.iter().any(|area| area.numbers.contains(number));
    gaps.extend(tests.keys().filter(|number| !known(number)).map(|number| format!("{kind}{number:03} is in no area")));
    gaps
}

#[test]
fn every_number_has_a_test_and_the_page_names_all_of_them() {
    let (scenarios, faults) = numbered_tests();
    let mut gaps_found = gaps('s', &SCENARIOS, &scenarios);
    gaps_found.extend(gaps('k', &FAULTS, &faults));
    let expected = page(&scenarios, &faults);
    let path = root().join(PAGE);
    if std::env::var_os("CONFORMANCE_WRITE").is_some() {
        std::fs::write(&path, &expected).expect("a writable page");
    }
    let written = std::fs::read_to_string(&path).expect("the page");
    assert!(gaps_found.is_empty(), "{}", gaps_found.join("\n"));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (has, should) = (lines(&written), lines(&expected));
    let missing: Vec<_> = should.difference(&has).collect();
    let stale: Vec<_> = has.difference(&should).collect();
    assert!(
        written == expected,
        "{PAGE} is not what the tests say. CONFORMANCE_WRITE=1 cargo test --test conformance writes it anew.\n\
         missing: {missing:#?}\nof tests that are not there: {stale:#?}"
    );
}

#[test]
fn only_tests_that_run_count() {
    let source = "\
#[test]
fn s001_runs() {}
#[tokio::test(flavor = \"multi_thread\")]
/// A comment between.
async fn k002_runs() {}
#[test]
#[ignore]
fn s003_does_not_run() {}
fn s004_is_no_test() {}
    #[test]
    fn s005_runs() {}
";
    assert_eq!(test_names(source), ["s001_runs", "k002_runs", "s005_runs"]);
}

#[test]
fn a_number_has_three_digits_and_a_sentence() {
    assert_eq!(numbered("s001_a_join"), Some(('s', 1)));
    assert_eq!(numbered("k123_a_stop"), Some(('k', 123)));
    for name in ["s01_a", "s0001_a", "s001_", "s001", "some_test", "x001_a", "s0a1_a"] {
        assert_eq!(numbered(name), None, "{name}");
    }
}

#[test]
fn a_gap_is_found() {
    let one = |number| Tests::from([(number, BTreeSet::from([("path".to_owned(), "name".to_owned())]))]);
    assert_eq!(gaps('s', &[area("A", 1, 1)], &one(1)), [""; 0]);
    assert_eq!(gaps('s', &[area("A", 1, 2)], &one(1)), ["s002 (A) has no test"]);
    assert_eq!(gaps('k', &[open("A", 1, 2, "not yet")], &one(1)), [""; 0]);
    assert_eq!(gaps('k', &[open("A", 1, 1, "not yet")], &one(1)), ["A: all have tests, so nothing is open"]);
    assert_eq!(
        gaps('k', &[area("A", 1, 1)], &Tests::from_iter(one(1).into_iter().chain(one(9)))),
        ["k009 is in no area"]
    );
}
