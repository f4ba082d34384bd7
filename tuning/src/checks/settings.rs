//! Reading settings of the kernel, and what checks say where there is none.

use crate::check::{Found, Look, Verdict};
use crate::host::Reading;
use crate::plan::Profile;

/// The text of a file; `absent` says what it means that there is none.
pub(super) fn text(look: Look<'_>, path: &str, absent: &str, want: &str) -> Result<String, Found> {
    match look.host.read(path) {
        Reading::Text(text) if text.is_empty() => Err(Found::unread(format!("{path} is empty"), want)),
        Reading::Text(text) => Ok(text),
        reading => Err(Found::without(&reading, absent, want)),
    }
}

/// The number that a file holds.
pub(super) fn number(look: Look<'_>, path: &str, absent: &str, want: &str) -> Result<u64, Found> {
    let text = text(look, path, absent, want)?;
    text.parse().map_err(|_| Found::unread(format!("{path} holds {}", shown(&text)), want))
}

/// The number of a setting by its name: `vm.swappiness`.
pub(super) fn sysctl(look: Look<'_>, name: &str, want: &str) -> Result<u64, Found> {
    number(look, &sysctl_path(name), &format!("this kernel, or this container, has no {name}"), want)
}

/// Where a setting is.
pub(super) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The word in brackets of a text like `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// A text of a file that is not what it should be, short enough for a line.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(MOST).collect();
    format!("{short:?}{}", if short.len() < text.len() { "..." } else { "" })
}

/// Nothing for a machine that has other users: what this check would change is everybody's.
pub(super) fn only_of_its_own(look: Look<'_>) -> Result<(), Found> {
    match look.plan.profile {
        Profile::Shared => Err(Found::not_applicable("it changes the whole machine, which has other users")),
        _ => Ok(()),
    }
}

/// Something only where the last percentiles come before all.
pub(super) fn only_for_latency(look: Look<'_>, why_not: &str) -> Result<(), Found> {
    match look.plan.profile {
        Profile::Latency => Ok(()),
        Profile::Throughput => Err(Found::not_applicable(why_not)),
        Profile::Shared => only_of_its_own(look),
    }
}

/// How bad it is what mostly costs latency.
pub(super) fn worst_for_latency(look: Look<'_>) -> Verdict {
    if look.plan.profile == Profile::Latency { Verdict::Warning } else { Verdict::Advice }
}

/// A check's outcome, however it came to it.
pub(super) fn settled(outcome: Result<Found, Found>) -> Found {
    outcome.unwrap_or_else(|found| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_is_the_one_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("[always] madvise never"), Some("always"));
        for text in ["", "madvise", "[madvise", "]["] {
            assert_eq!(chosen(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_of_a_file_is_one_short_line() {
        assert_eq!(shown("abc"), "\"abc\"");
        assert_eq!(shown("a\nb"), "\"a\"...");
        assert!(shown(&"\u{1}x".repeat(1000)).len() < 500);
    }
}
