//! What the book quotes of the gateway is what the gateway says: the refusals of a start in `errors.md`, and lines of its log
//! in `troubleshooting.md`.

use std::path::Path;

use crate::pages::{read, root};

/// Where the gateway's texts are.
const SOURCES: [&str; 4] = ["src", "shards/src", "shards/runtime/src", "shards/wire/src"];

/// What the system says, behind what the gateway says.
const OF_THE_SYSTEM: [&str; 2] = ["Address already in use", "Cannot assign requested address"];

/// Stand for a name or a number in a quotation.
const PLACEHOLDERS: [&str; 10] = ["NAME", "VALUE", "FILE", "ADDRESS", "DIR", "PATH", "N", "M", "X", "..."];

/// All sources, with texts that go on in the next line joined.
fn sources() -> String {
    fn gather(directory: &Path, into: &mut String) {
        for entry in std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                gather(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push_str(&read(&path));
            }
        }
    }
    let mut all = String::new();
    SOURCES.iter().for_each(|directory| gather(&root().join(directory), &mut all));
    let mut joined = String::with_capacity(all.len());
    let mut rest = all.as_str();
    while let Some((before, after)) = rest.split_once("\\\n") {
        joined.push_str(before);
        rest = after.trim_start();
    }
    joined + rest
}

/// The code spans of a text.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What of a quotation is literal, in runs of at least three words that a source must have.
fn literals(quotation: &str) -> Vec<String> {
    let mut runs: Vec<Vec<&str>> = vec![Vec::new()];
    for word in quotation.split_whitespace() {
        let bare = word.trim_matches(|c: char| c != '.' && !c.is_alphanumeric());
        let number = bare.starts_with(|c: char| c.is_ascii_digit());
        if PLACEHOLDERS.contains(&bare) || bare.starts_with("...") || number || word.contains(['=', '"', '-']) {
            runs.push(Vec::new());
        } else if let Some(run) = runs.last_mut() {
            run.push(word);
        }
    }
    let runs = runs.into_iter().filter(|run| run.len() >= 3).map(|run| run.join(" "));
    runs.flat_map(|run| run.split(": ").map(str::to_owned).collect::<Vec<_>>())
        .map(|run| run.trim_end_matches(['?', ',', ';', ':']).to_owned())
        .filter(|run| run.split(' ').count() >= 3 && !OF_THE_SYSTEM.contains(&run.as_str()))
        .collect()
}

#[test]
fn refusals_of_a_start_are_quoted_as_they_are() {
    let page = read(&root().join("docs/errors.md"));
    let table = page.split("| It says |").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the table");
    let sources = sources();
    let cells = table.lines().skip(2).filter_map(|line| line.split('|').nth(1));
    let quoted: Vec<String> = cells.flat_map(|cell| spans(cell).flat_map(literals).collect::<Vec<_>>()).collect();
    let unsaid: Vec<_> = quoted.iter().filter(|text| !sources.contains(text.as_str())).collect();
    assert!(unsaid.is_empty(), "no source has {unsaid:#?}");
    assert!(quoted.len() > 15, "only {quoted:?}");
}

#[test]
fn lines_of_the_log_are_quoted_as_they_are() {
    let page = read(&root().join("docs/troubleshooting.md"));
    let sources = sources();
    let behind = page.split("log: ").skip(1).filter_map(|rest| rest.strip_prefix('`')?.split('`').next());
    let quoted: Vec<String> = behind.flat_map(literals).collect();
    let unsaid: Vec<_> = quoted.iter().filter(|text| !sources.contains(text.as_str())).collect();
    assert!(unsaid.is_empty(), "no source has {unsaid:#?}");
    assert!(quoted.len() >= 4, "only {quoted:?}");
}

#[test]
fn literal_runs_are_found_between_placeholders() {
    assert_eq!(literals("cannot listen on ADDRESS: Address already in use"), ["cannot listen on"]);
    assert_eq!(literals("NAME in FILE is no setting; did you mean ...?"), ["is no setting; did you mean"]);
    assert_eq!(literals("`... is in use by another ringgate (process N)`"), ["is in use by another ringgate (process"]);
}
