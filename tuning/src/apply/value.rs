//! Values as the kernel shows and takes them.

use std::io::{self, Write};
use std::path::Path;

use crate::host::Host;
use crate::open;

/// What is in force of what a file shows: of `always [madvise] never` it is `madvise`.
pub fn in_force(shown: &str) -> &str {
    let shown = shown.trim();
    let chosen = shown.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(shown)
}

/// Whether two values are one to the kernel, which shows tabs between numbers and masks with zeros in front.
pub fn same(one: &str, other: &str) -> bool {
    let mut words = one.split_whitespace();
    let mut others = other.split_whitespace();
    loop {
        match (words.next(), others.next()) {
            (None, None) => return true,
            (Some(word), Some(other)) if word == other || digits(word).is_some_and(|d| Some(d) == digits(other)) => {}
            _ => return false,
        }
    }
}

/// The digits of a number or mask that matter: `00000000,000000ff` is `ff`.
fn digits(word: &str) -> Option<String> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b',');
    // Between the words of a mask are eight digits; a list of CPUs (`1,10`) is none.
    let is_mask = word.rsplit(',').rev().skip(1).all(|part| part.len() == 8);
    (is_number && is_mask).then(|| word.replace(',', "").trim_start_matches('0').to_ascii_lowercase())
}

/// Writes a value in one piece, as the kernel wants it.
///
/// Below another root, whose files are no kernel's, it leaves what a kernel would show.
///
/// # Errors
/// What the kernel says, or the file system.
pub fn put(host: &Host, path: &Path, value: &str) -> io::Result<()> {
    if !host.is_live() {
        return open::replace(host, path, |before| shown_after(before, value));
    }
    open::to_write(host, path)?.write_all(format!("{value}\n").as_bytes())
}

/// What a file that showed `before` shows when `value` has been written.
fn shown_after(before: &str, value: &str) -> String {
    let now = in_force(before);
    let chosen = format!("[{now}]");
    let words = before.split_whitespace();
    let end = if before.ends_with('\n') { "\n" } else { "" };
    if before.contains(&chosen) && words.into_iter().any(|word| word == value) {
        let words: Vec<String> = before
            .split_whitespace()
            .map(|word| match word {
                word if word == value => format!("[{word}]"),
                word if word == chosen => now.to_owned(),
                word => word.to_owned(),
            })
            .collect();
        return words.join(" ") + end;
    }
    format!("{value}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_in_force() {
        assert_eq!(in_force("always [madvise] never\n"), "madvise");
        assert_eq!(in_force("none [mq-deadline]"), "mq-deadline");
        assert_eq!(in_force(" 4096\t131072\t6291456\n"), "4096\t131072\t6291456");
        assert_eq!(in_force(""), "");
    }

    #[test]
    fn white_space_and_zeros_in_front_make_no_difference() {
        assert!(same("4096\t131072\t6291456", "4096 131072 6291456"));
        assert!(same("00000000,000000ff", "ff"));
        assert!(same("00", "0"));
        assert!(same("1,00000000", "00000001,00000000"));
        for (one, other) in
            [("1", "10"), ("4096 1", "4096"), ("", "0"), ("1,2", "12"), ("never", "always"), ("0-3", "3")]
        {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn a_tree_shows_what_a_kernel_would() {
        assert_eq!(shown_after("always [madvise] never\n", "never"), "always madvise [never]\n");
        assert_eq!(shown_after("60\n", "1"), "1\n");
        assert_eq!(shown_after("60", "1"), "1");
        assert_eq!(shown_after("[always] madvise never\n", "nonsense"), "nonsense\n");
    }
}
