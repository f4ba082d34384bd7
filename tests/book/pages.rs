//! The pages: Markdown files, and what their tests look for in them.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A file's text.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages of the book, by their paths from `docs/`, the table of contents not among them.
pub fn book() -> Vec<String> {
    let docs = root().join("docs");
    let (mut pages, mut directories) = (Vec::new(), vec![docs.clone()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(&docs).expect("below docs").display().to_string());
            }
        }
    }
    pages.retain(|page| page != "SUMMARY.md");
    pages.sort();
    pages
}

/// The lines of a page that are prose, with a number: no line of a fenced block.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// The fenced blocks of a page: language, text.
pub fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            if !fenced {
                blocks.push((language.trim().to_owned(), String::new()));
            }
            fenced = !fenced;
        } else if let Some((_, block)) = blocks.last_mut().filter(|_| fenced) {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

/// What a heading is called in a link, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The anchors of a page; of headings of the same text the second is followed by `-1`.
pub fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let hashes = line.len() - line.trim_start_matches('#').len();
        if (1..=6).contains(&hashes) && line[hashes..].starts_with(' ') {
            let first = anchor(&line[hashes..]);
            let again = anchors.iter().filter(|seen| **seen == first).count();
            anchors.push(if again == 0 { first } else { format!("{first}-{again}") });
        }
    }
    anchors
}

#[test]
fn headings_become_anchors() {
    let page = "# A `code_word`, and more\n```sh\n# no heading\n```\n## Twice\n#hashtag\n## Twice\n";
    assert_eq!(anchors(page), ["a-code_word-and-more", "twice", "twice-1"]);
}

#[test]
fn blocks_and_prose_are_told_apart() {
    let page = "before\n```sh\necho 1\necho 2\n```\nafter\n  ```text\nx\n  ```\n";
    assert_eq!(blocks(page), [("sh".into(), "echo 1\necho 2\n".into()), ("text".into(), "x\n".into())]);
    assert_eq!(prose(page).collect::<Vec<_>>(), [(1, "before"), (6, "after")]);
}
