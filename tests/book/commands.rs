//! Every command line of `ringgate` and `ringgate-bench` that the book shows is one that the program takes.

use std::ffi::OsString;

use ringgate::cli;

use crate::pages::{blocks, book, read, root};

/// The programs whose command lines are looked at.
const PROGRAMS: [&str; 2] = ["ringgate", "ringgate-bench"];

/// The command lines of a shell block that run one of [`PROGRAMS`]: continued lines joined, comments, variables before the
/// name and what is behind a pipe or redirection left out.
fn command_lines(block: &str) -> Vec<Vec<String>> {
    let joined = block.replace("\\\n", " ").replace("$(pidof ringgate)", "1");
    let mut lines = Vec::new();
    for line in joined.lines() {
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        let program = |word: &&str| PROGRAMS.contains(&word.rsplit('/').next().unwrap_or(word));
        let Some(name) = words.iter().position(program) else {
            continue;
        };
        let before = &words[..name];
        if !before.iter().all(|word| word.contains('=') || ["$", "sudo", "exec", "time", "nohup"].contains(word)) {
            continue;
        }
        let ends = |word: &&&str| !["|", ">", "2>", "<", "&&", "&", ";", ">>", "||"].contains(*word);
        // It stands for a number.
        let unquoted = |word: &&str| match word.trim_end_matches(';').trim_matches(['"', '\'']) {
            "PID" => "1".to_owned(),
            word => word.to_owned(),
        };
        lines.push(words[name..].iter().take_while(ends).map(unquoted).collect());
    }
    lines
}

/// What the program says against a command line.
fn refusal(words: &[String]) -> Option<String> {
    let taken = if words[0].ends_with("ringgate-bench") {
        ringgate_bench::cli::Cli::parse_from(words).map(drop)
    } else {
        cli::parse(words.iter().map(OsString::from)).map(drop)
    };
    // Help and version are no mistakes.
    taken.err().filter(|error| error.exit_code() != 0).map(|error| error.to_string())
}

#[test]
fn every_command_line_of_the_book_is_taken() {
    let pages = book().into_iter().map(|page| format!("docs/{page}")).chain(["README.md".into()]);
    let (mut refused, mut seen) = (Vec::new(), 0);
    for page in pages {
        let shell = blocks(&read(&root().join(&page))).into_iter().filter(|(language, _)| language == "sh");
        for words in shell.flat_map(|(_, block)| command_lines(&block)) {
            seen += 1;
            refused.extend(refusal(&words).map(|why| format!("{page}: {}\n{why}", words.join(" "))));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(seen >= 30, "only {seen} command lines were found");
}

#[test]
fn command_lines_are_found_and_a_wrong_one_is_refused() {
    let block = "RINGGATE_IGGY_PASSWORD=... ringgate serve \\\n    --shards 2 # two\nringgate config --json | jq .\n\
                 echo ringgate serve\nkill $(pidof ringgate)\ntarget/release/ringgate-bench list\n";
    assert_eq!(
        command_lines(block),
        [
            vec!["ringgate", "serve", "--shards", "2"],
            vec!["ringgate", "config", "--json"],
            vec!["target/release/ringgate-bench", "list"]
        ]
    );
    assert_eq!(refusal(&["ringgate".into(), "serve".into()]), None);
    assert_eq!(refusal(&["ringgate".into(), "--help".into()]), None);
    assert_eq!(refusal(&["ringgate-bench".into(), "list".into()]), None);
    assert!(refusal(&["ringgate-bench".into(), "lists".into()]).is_some());
    assert!(refusal(&["ringgate".into(), "serve".into(), "--shard".into(), "2".into()]).is_some());
}
