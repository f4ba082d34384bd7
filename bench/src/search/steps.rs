//! Which rate is tried next.

use crate::limits::SEARCH_RATE_MIN;

/// Doubling, then bisection, as a value: ask for the [`next`](Steps::next) rate, tell what it [`came`](Steps::came) to.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    from: f64,
    to: f64,
    precision: f64,
    kept: Option<f64>,
    missed: Option<f64>,
}

impl Steps {
    /// From a first rate up to a highest one, until the two sides are as close as `precision` (0.05 is 5 %).
    pub fn new(from: f64, to: f64, precision: f64) -> Steps {
        Steps { from: from.min(to), to, precision, kept: None, missed: None }
    }

    /// The highest rate that kept the bounds, below all that did not.
    pub fn kept(&self) -> Option<f64> {
        self.kept
    }

    /// The lowest rate that did not keep them.
    pub fn missed(&self) -> Option<f64> {
        self.missed
    }

    /// The next rate; `None` when there is no more to find out.
    pub fn next(&self) -> Option<f64> {
        let next = match (self.kept, self.missed) {
            (None, None) => self.from,
            (Some(kept), None) if kept < self.to => (2.0 * kept).min(self.to),
            (Some(_), None) => return None,
            (None, Some(missed)) if missed > SEARCH_RATE_MIN => (missed / 2.0).max(SEARCH_RATE_MIN),
            (None, Some(_)) => return None,
            (Some(kept), Some(missed)) if missed / kept > 1.0 + self.precision => (kept * missed).sqrt(),
            (Some(_), Some(_)) => return None,
        };
        Some(round(next))
    }

    /// A rate kept the bounds, or did not. What contradicts earlier probes counts against the target: a rate that was
    /// kept before and is not now is not kept.
    pub fn came(&mut self, rate: f64, kept: bool) {
        if kept {
            self.kept = Some(self.kept.map_or(rate, |before| before.max(rate)));
        } else {
            self.missed = Some(self.missed.map_or(rate, |before| before.min(rate)));
            self.kept = self.kept.filter(|before| *before < rate);
        }
    }

    /// The rate to confirm after a confirmation at `rate` failed: one precision lower.
    pub fn below(&self, rate: f64) -> f64 {
        round(rate / (1.0 + self.precision)).max(SEARCH_RATE_MIN)
    }
}

/// To four digits: rates that people can say.
fn round(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.abs().log10().floor() - 3.0);
    if unit > 1e-9 { (rate / unit).round() * unit } else { rate }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a target that keeps its bounds up to a rate; how many probes that took.
    fn search(limit: f64, from: f64, to: f64) -> (Steps, usize) {
        let mut steps = Steps::new(from, to, 0.05);
        let mut probes = 0;
        while let Some(rate) = steps.next() {
            steps.came(rate, rate <= limit);
            probes += 1;
            assert!(probes < 100, "{steps:?}");
        }
        (steps, probes)
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above_to_the_precision() {
        for limit in [1.0, 37.0, 1_000.0, 123_456.0, 9_999_999.0] {
            for from in [10.0, 1_000.0, 1e6] {
                let (steps, probes) = search(limit, from, 1e7);
                let (kept, missed) = (steps.kept().unwrap(), steps.missed().unwrap());
                assert!(kept <= limit && limit < missed && missed / kept <= 1.06, "{limit} from {from}: {steps:?}");
                assert!(probes < 35, "{probes}");
            }
        }
    }

    #[test]
    fn the_search_ends_at_the_highest_rate_allowed_and_where_nothing_is_kept() {
        let (steps, _) = search(f64::MAX, 1_000.0, 5_000.0);
        assert_eq!((steps.kept(), steps.missed()), (Some(5_000.0), None));
        let (steps, _) = search(0.0, 1_000.0, 5_000.0);
        assert_eq!((steps.kept(), steps.missed()), (None, Some(SEARCH_RATE_MIN)));
    }

    #[test]
    fn a_rate_that_was_kept_once_and_then_missed_is_not_kept() {
        let mut steps = Steps::new(100.0, 1e6, 0.1);
        steps.came(100.0, true);
        steps.came(200.0, true);
        steps.came(200.0, false);
        assert_eq!((steps.kept(), steps.missed()), (None, Some(200.0)));
        assert_eq!(steps.below(200.0), 181.8);
    }

    #[test]
    fn rates_have_four_digits() {
        assert_eq!(round(12_345.678), 12_350.0);
        assert_eq!(round(1.234_56), 1.235);
    }
}
