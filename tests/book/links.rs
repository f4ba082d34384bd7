//! Every page of the book is in its table of contents, and every link to a file or an anchor leads there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::pages::{anchors, book, prose, read, root};

/// Pages outside of the book whose links are followed, too.
const BESIDE: [&str; 3] = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Where the links of a line lead: what stands in `](...)`.
fn targets(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// What is wrong with a link on a page, both from the root.
fn fault(page: &str, target: &str) -> Option<String> {
    if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (path, wanted) = target.split_once('#').map_or((target, None), |(path, wanted)| (path, Some(wanted)));
    let file = if path.is_empty() {
        root().join(page)
    } else {
        root().join(Path::new(page).parent().unwrap_or(Path::new(""))).join(path)
    };
    if !file.exists() {
        return Some(format!("there is no {path}"));
    }
    if page.starts_with("docs/") && path.starts_with("../") && path.ends_with(".md") {
        return Some("mdBook makes .html of .md, which is not there outside of the book".into());
    }
    let wanted = wanted?;
    let known = anchors(&read(&file));
    (!known.iter().any(|known| known == wanted)).then(|| format!("there is no heading #{wanted} in {path:?}"))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let in_book = book().into_iter().chain(["SUMMARY.md".into()]).map(|page| format!("docs/{page}"));
    let pages: Vec<String> = in_book.chain(BESIDE.map(str::to_owned)).collect();
    let mut faults = Vec::new();
    let mut followed = 0;
    for page in &pages {
        let text = read(&root().join(page));
        for (line, target) in prose(&text).flat_map(|(at, line)| targets(line).into_iter().map(move |to| (at, to))) {
            followed += 1;
            faults.extend(fault(page, target).map(|fault| format!("{page}:{line}: {target}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(followed > 100, "only {followed} links were found");
}

#[test]
fn the_table_of_contents_names_every_page_once() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let mut named = BTreeSet::new();
    for target in prose(&summary).flat_map(|(_, line)| targets(line)) {
        assert!(named.insert(target.to_owned()), "{target} is named twice");
    }
    let pages: BTreeSet<String> = book().into_iter().collect();
    let missing: Vec<_> = pages.difference(&named).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not name {missing:?}");
}

#[test]
fn a_link_to_nowhere_is_found() {
    assert_eq!(targets("a [b](c.md#d) and ![e](f.png)"), ["c.md#d", "f.png"]);
    assert_eq!(fault("README.md", "https://example.com/#x"), None);
    assert_eq!(fault("docs/iggy.md", "../Cargo.toml"), None);
    assert!(fault("docs/iggy.md", "../README.md").is_some());
    assert_eq!(
        fault("docs/iggy.md", "#apache-iggy-nowhere").as_deref(),
        Some("there is no heading #apache-iggy-nowhere in \"\"")
    );
    assert_eq!(fault("docs/iggy.md", "README-of-nobody.md").as_deref(), Some("there is no README-of-nobody.md"));
}
