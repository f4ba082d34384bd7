//! How a group's lag changes.

/// For how long a lag must have grown before somebody is told.
const GROWING_MS: i64 = 60_000;

/// What is remembered of a group's lag from one census to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trend {
    /// Since when it has been more than none, in ms since the epoch; since the first census at the earliest.
    pub lagging_since_ms: Option<i64>,
    /// By how much it grew in a second since the census before; less than 0 where it shrank.
    pub per_second: Option<f64>,
    last: Option<(u64, i64)>,
    /// The least since it last shrank for good, and when that was.
    low: Option<(u64, i64)>,
    /// The most since then.
    high: u64,
}

impl Trend {
    /// With what was found at this moment.
    pub fn after(self, lag: Option<u64>, at_ms: i64) -> Trend {
        let Some(lag) = lag else { return Trend::default() };
        let change = self.last.filter(|(_, last_ms)| at_ms > *last_ms);
        let per_second = change.map(|(last, last_ms)| (lag as f64 - last as f64) * 1000.0 / (at_ms - last_ms) as f64);
        let high = self.high.max(lag);
        // A tenth below the most is a group that catches up, whatever single steps did.
        let has_shrunk = lag < high - high / 10;
        let low = self.low.filter(|(low, _)| *low < lag && !has_shrunk);
        Trend {
            lagging_since_ms: self.lagging_since_ms.filter(|_| lag > 0).or((lag > 0).then_some(at_ms)),
            per_second,
            last: Some((lag, at_ms)),
            high: if low.is_some() { high } else { lag },
            low: Some(low.unwrap_or((lag, at_ms))),
        }
    }

    /// Since when it grows, in ms since the epoch, if that is for over a minute.
    pub fn growing_since_ms(&self) -> Option<i64> {
        let ((low, since_ms), (last, last_ms)) = self.low.zip(self.last)?;
        (last > low && last_ms - since_ms >= GROWING_MS).then_some(since_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lags: impl IntoIterator<Item = u64>) -> Trend {
        let steps = (0..).zip(lags);
        steps.fold(Trend::default(), |trend, (nth, lag)| trend.after(Some(lag), nth * 5_000))
    }

    #[test]
    fn a_lag_that_has_grown_for_a_minute_is_growing() {
        assert_eq!(after((0..12).map(|n| n * 100)).growing_since_ms(), None, "55 s");
        assert_eq!(after((0..13).map(|n| n * 100)).growing_since_ms(), Some(0));
    }

    #[test]
    fn a_lag_that_stays_or_comes_back_to_the_same_is_not_growing() {
        assert_eq!(after([500; 40]).growing_since_ms(), None);
        assert_eq!(after((0..40).map(|n| n % 3 * 100)).growing_since_ms(), None);
    }

    #[test]
    fn a_small_dip_is_no_end_of_growth_and_a_tenth_is() {
        let growing: Vec<u64> = (0..20).map(|n| n * 100).collect();
        assert!(after(growing.iter().copied().chain([1_850])).growing_since_ms().is_some());
        assert_eq!(after(growing.iter().copied().chain([1_600])).growing_since_ms(), None);
        assert_eq!(after(growing.iter().copied().chain([1_600, 1_700])).growing_since_ms(), None);
    }

    #[test]
    fn a_lag_that_is_not_known_any_more_has_no_past() {
        let trend = after([1, 2, 3]).after(None, 20_000);
        assert_eq!(trend, Trend::default());
        assert_eq!(trend.after(Some(4), 25_000).lagging_since_ms, Some(25_000));
    }
}
