//! What `ethtool` prints.

use crate::check::{Found, Look};
use crate::host::Reading;

/// Lines of `key: value`, in their order, without white space around either.
pub(super) struct Lines(Vec<(String, String)>);

/// What `ethtool FLAG CARD` prints.
///
/// # Errors
/// What a check says without it: not applicable where the driver has no such thing, unread otherwise.
pub(super) fn ask(look: Look<'_>, flag: &str, card: &str, want: &str) -> Result<Lines, Found> {
    match look.host.command(&["ethtool", flag, card]) {
        Reading::Text(text) => Ok(Lines::of(&text)),
        Reading::Absent => Err(Found::unread("ethtool is not installed", want)),
        Reading::Unread(why) if why.contains("not supported") => {
            Err(Found::not_applicable(format!("the driver of {card} has no such setting (ethtool {flag})")))
        }
        Reading::Unread(why) => Err(Found::unread(why, want)),
    }
}

impl Lines {
    pub(super) fn of(text: &str) -> Lines {
        let line = |line: &str| {
            let (key, value) = line.split_once(':')?;
            Some((key.trim().to_owned(), value.trim().to_owned()))
        };
        Lines(text.lines().filter_map(line).collect())
    }

    /// The first value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == key).map(|(_, value)| value.as_str())
    }

    /// The first number of a key; none for `n/a`.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// A number in force, of those lists (`-l`, `-g`) that tell the most that is possible first.
    pub(super) fn now(&self, key: &str) -> Option<u64> {
        let from = self.0.iter().position(|(one, _)| one == "Current hardware settings")?;
        self.0[from..].iter().find(|(one, _)| one == key)?.1.parse().ok()
    }

    /// All, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: &str = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\n\
                            Combined:\t63\nCurrent hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t8";

    #[test]
    fn of_channels_the_most_and_those_in_force_are_told_apart() {
        let lines = Lines::of(CHANNELS);
        assert_eq!((lines.number("Combined"), lines.now("Combined")), (Some(63), Some(8)));
        assert_eq!((lines.number("RX"), lines.now("RX")), (None, None));
    }

    #[test]
    fn two_settings_on_a_line_are_one_value() {
        let lines = Lines::of("Coalesce parameters for eth0:\nAdaptive RX: on  TX: off\nrx-usecs:\t8\nrx-frames:\t128");
        assert_eq!(lines.get("Adaptive RX"), Some("on  TX: off"));
        assert_eq!(lines.number("rx-usecs"), Some(8));
        assert_eq!(lines.now("rx-usecs"), None);
    }
}
