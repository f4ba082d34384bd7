//! Codes of Kafka's that the book names have the numbers that it gives them.

use ringgate_group::error::ErrorCode;

use crate::pages::{book, read, root};

/// What a text has of `NAME_OF_A_CODE(number)`.
fn codes(text: &str) -> Vec<(&str, i16)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('(') {
        let before = &text[..at];
        let name = before.rsplit(|c: char| !(c.is_ascii_uppercase() || c == '_')).next().unwrap_or("");
        let digits = text[at + 1..].split(')').next().unwrap_or("");
        if name.contains('_')
            && let Ok(number) = digits.parse()
        {
            found.push((name, number));
        }
    }
    found
}

#[test]
fn every_code_has_its_number() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in book() {
        let text = read(&root().join("docs").join(&page));
        for (name, number) in codes(&text) {
            seen += 1;
            if ErrorCode(number).name() != name {
                wrong.push(format!("{page}: {name}({number}) is {}", ErrorCode(number).name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 20, "only {seen} codes were found");
}

#[test]
fn codes_are_found_by_name_and_number() {
    assert_eq!(
        codes("`INVALID_REQUEST(42)`, TooMany(7) and MESSAGE_TOO_LARGE(10); f(x)"),
        [("INVALID_REQUEST", 42), ("MESSAGE_TOO_LARGE", 10)]
    );
}
