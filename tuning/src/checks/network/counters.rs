//! Counts of what should not happen.
//!
//! They count since the host was booted, or the container's network began: an old count is weak proof. So a live host
//! is looked at twice, and a count that rises meanwhile is told.

use std::thread;
use std::time::Duration;

use crate::check::{Found, Look, Verdict};
use crate::fix::Fix;

/// Between two looks: enough for a count that a busy host raises all the time, and not felt.
const BETWEEN: Duration = Duration::from_millis(200);

/// What was counted, by name.
pub(super) type Counted = Vec<(String, u64)>;

/// How to count.
pub(super) type Counting<'a> = &'a dyn Fn(Look<'_>) -> Result<Counted, Found>;

/// Two looks.
pub(super) struct Counts {
    /// At the second look.
    pub(super) counted: Counted,
    /// How many more than at the first, where there were two.
    pub(super) more: u64,
    since: String,
}

impl Counts {
    /// Counts; twice on a live host when anything was counted at all.
    pub(super) fn of(look: Look<'_>, counting: Counting<'_>) -> Result<Counts, Found> {
        let first = counting(look)?;
        let since = uptime(look).map_or(String::new(), |uptime| format!(" in {uptime} since the start"));
        if total(&first) == 0 || !look.host.is_live() {
            return Ok(Counts { counted: first, more: 0, since });
        }
        thread::sleep(BETWEEN);
        let second = counting(look)?;
        let more = total(&second).saturating_sub(total(&first));
        Ok(Counts { counted: second, more, since })
    }

    /// All together.
    pub(super) fn total(&self) -> u64 {
        total(&self.counted)
    }

    /// `3 rx_missed_errors, 1 rx_dropped in 2 days since the start; 2 more within 200 ms`.
    pub(super) fn read(&self) -> String {
        let some: Vec<String> = self
            .counted
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        let more = match self.more {
            0 => String::new(),
            more => format!("; {more} more within {BETWEEN:?}"),
        };
        match some.is_empty() {
            true => {
                let names: Vec<&str> = self.counted.iter().map(|(name, _)| name.as_str()).collect();
                format!("no {}{}", names.join(", "), self.since)
            }
            false => format!("{}{}{more}", some.join(", "), self.since),
        }
    }

    /// Fine with none, `of_old` with some, a warning when they become more.
    pub(super) fn found(&self, want: &str, of_old: Verdict, fixes: Vec<Fix>) -> Found {
        match (self.total(), self.more) {
            (0, _) => Found::fine(self.read(), want),
            (_, 0) => Found::wrong(of_old, self.read(), want, fixes),
            _ => Found::wrong(Verdict::Warning, self.read(), want, fixes),
        }
    }
}

fn total(counted: &Counted) -> u64 {
    counted.iter().fold(0, |total, (_, count)| total.saturating_add(*count))
}

/// How long the host has run, in its largest whole unit.
fn uptime(look: Look<'_>) -> Option<String> {
    let text = look.host.read("/proc/uptime");
    let seconds = text.text()?.split(['.', ' ']).next()?.parse::<u64>().ok()?;
    let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= 2 * size).unwrap_or((1, "seconds"));
    Some(format!("{} {unit}", seconds / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counted: &[(&str, u64)], more: u64) -> Counts {
        let counted = counted.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Counts { counted, more, since: " in 3 days since the start".into() }
    }

    #[test]
    fn old_counts_are_weak_proof_and_rising_ones_are_strong() {
        let none = counts(&[("drops", 0), ("overflows", 0)], 0).found("none", Verdict::Advice, Vec::new());
        assert_eq!(
            (none.verdict, none.read.as_str()),
            (Verdict::Fine, "no drops, overflows in 3 days since the start")
        );
        let old = counts(&[("drops", 7), ("overflows", 0)], 0).found("none", Verdict::Advice, Vec::new());
        assert_eq!((old.verdict, old.read.as_str()), (Verdict::Advice, "7 drops in 3 days since the start"));
        let rising = counts(&[("drops", 7)], 2).found("none", Verdict::Advice, Vec::new());
        assert_eq!(rising.verdict, Verdict::Warning);
        assert!(rising.read.ends_with("; 2 more within 200ms"), "{}", rising.read);
    }

    #[test]
    fn counts_that_are_out_of_all_bounds_do_not_overflow() {
        assert_eq!(counts(&[("a", u64::MAX), ("b", u64::MAX)], 0).total(), u64::MAX);
    }
}
