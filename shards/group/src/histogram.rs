//! Counts of values by size: what took how long, and how many went together.
//!
//! A [`Histogram`] belongs to one thread and is a row of counters; to record is a search of a short table and three
//! additions. Its bounds are fine enough for a percentile within a quarter; a scrape is told only the few of
//! [`Histogram::buckets`].

use std::time::Duration;

/// Which bounds a histogram has.
#[derive(Debug)]
struct Scale {
    /// Upper bounds, inclusive, growing. What is above the last has a counter of its own.
    bounds: &'static [u64],
    /// Those of them that a scrape is told.
    told: &'static [u64],
    /// How many of a value are one of the base unit.
    per: f64,
}

const DECADE: [u64; 10] = [1000, 1250, 1600, 2000, 2500, 3200, 4000, 5000, 6300, 8000];
const DECADES: usize = 8;

/// Nanoseconds, from 1 us to 100 s in steps of a quarter.
const TIMES: [u64; DECADES * DECADE.len() + 1] = {
    let mut bounds = [0; DECADES * DECADE.len() + 1];
    let (mut nth, mut scale) = (0, 1);
    while nth < bounds.len() {
        bounds[nth] = DECADE[nth % DECADE.len()] * scale;
        nth += 1;
        if nth % DECADE.len() == 0 {
            scale *= 10;
        }
    }
    bounds
};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;

static SECONDS: Scale = Scale {
    bounds: &TIMES,
    told: &[
        50 * US,
        100 * US,
        250 * US,
        500 * US,
        MS,
        2_500 * US,
        5 * MS,
        10 * MS,
        25 * MS,
        50 * MS,
        100 * MS,
        250 * MS,
        500 * MS,
        S,
        5 * S,
        25 * S,
    ],
    per: 1e9,
};

const SIZES: [u64; 16] = {
    let mut bounds = [0; 16];
    let mut nth = 0;
    while nth < bounds.len() {
        bounds[nth] = 1 << nth;
        nth += 1;
    }
    bounds
};

static COUNTS: Scale = Scale { bounds: &SIZES, told: &SIZES, per: 1.0 };

/// How many values there were of each size.
#[derive(Debug, Clone)]
pub struct Histogram {
    scale: &'static Scale,
    /// One for each bound and one for what is above the last; none before the first value.
    counts: Vec<u64>,
    sum: u64,
    max: u64,
}

/// Of times.
impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::of_times()
    }
}

impl Histogram {
    /// Of times.
    pub const fn of_times() -> Histogram {
        Histogram { scale: &SECONDS, counts: Vec::new(), sum: 0, max: 0 }
    }

    /// Of how many there were of something.
    pub const fn of_counts() -> Histogram {
        Histogram { scale: &COUNTS, counts: Vec::new(), sum: 0, max: 0 }
    }

    /// One more value: a count, or nanoseconds.
    pub fn record(&mut self, value: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; self.scale.bounds.len() + 1];
        }
        self.counts[self.scale.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// As [`record`](Histogram::record), of a time.
    pub fn record_time(&mut self, took: Duration) {
        self.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Values in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All values together, in the base unit (seconds, of times).
    pub fn sum(&self) -> f64 {
        self.sum as f64 / self.scale.per
    }

    /// The largest value since the start, in the base unit; 0 without any.
    pub fn max(&self) -> f64 {
        self.max as f64 / self.scale.per
    }

    /// The value, in the base unit, that a part `q` (0 to 1) of all values does not exceed: the bound above it, at most
    /// a quarter too high, and the largest value where that is less. `None` without values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let count = self.count();
        let rank = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut at_most = 0;
        let bucket = self.counts.iter().position(|in_bucket| {
            at_most += in_bucket;
            at_most >= rank
        })?;
        let bound = self.scale.bounds.get(bucket).copied().unwrap_or(self.max);
        Some(bound.min(self.max) as f64 / self.scale.per)
    }

    /// Upper bounds in the base unit, each with the number of values at or below it: a few of those that are counted by.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let mut at_most = 0;
        let mut counts = self.scale.bounds.iter().zip(self.counts.iter().chain(std::iter::repeat(&0)));
        let up_to = |told: &u64| {
            for (bound, count) in counts.by_ref() {
                at_most += count;
                if bound == told {
                    break;
                }
            }
            (*told as f64 / self.scale.per, at_most)
        };
        self.scale.told.iter().map(up_to).collect()
    }

    /// Takes another's values in, too.
    ///
    /// # Panics
    /// One is of times and the other of counts.
    pub fn add(&mut self, other: &Histogram) {
        assert!(std::ptr::eq(self.scale, other.scale), "histograms of different things");
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// The values that came after this histogram was as `earlier`. Their largest is not known: it is the bound above
    /// it, or the largest of all.
    ///
    /// # Panics
    /// As [`add`](Histogram::add).
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        assert!(std::ptr::eq(self.scale, earlier.scale), "histograms of different things");
        let before = earlier.counts.iter().chain(std::iter::repeat(&0));
        let counts: Vec<u64> = self.counts.iter().zip(before).map(|(now, was)| now.saturating_sub(*was)).collect();
        let last = counts.iter().rposition(|count| *count > 0);
        let bound = last.map_or(0, |last| self.scale.bounds.get(last).copied().unwrap_or(u64::MAX));
        Histogram { scale: self.scale, counts, sum: self.sum.saturating_sub(earlier.sum), max: bound.min(self.max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scrape_is_told_are_bounds_that_values_are_counted_by() {
        for scale in [&SECONDS, &COUNTS] {
            assert!(scale.bounds.is_sorted_by(|a, b| a < b));
            assert!(scale.told.is_sorted_by(|a, b| a < b) && scale.told.len() <= 16);
            assert!(scale.told.iter().all(|told| scale.bounds.contains(told)));
        }
        assert_eq!((TIMES[0], TIMES[TIMES.len() - 1]), (US, 100 * S));
    }

    #[test]
    fn a_value_is_counted_by_the_first_bound_that_is_not_below_it() {
        let mut times = Histogram::of_times();
        for took in [Duration::ZERO, Duration::from_micros(50), Duration::from_nanos(50_001), Duration::from_secs(500)]
        {
            times.record_time(took);
        }
        let buckets = times.buckets();
        assert_eq!(buckets[..2], [(0.00005, 2), (0.0001, 3)]);
        assert_eq!(buckets.last(), Some(&(25.0, 3)), "one is above all bounds");
        assert_eq!((times.count(), times.max()), (4, 500.0));
        assert!((times.sum() - 500.000_100_001).abs() < 1e-6);
        let told: Vec<String> = buckets.iter().map(|(bound, _)| bound.to_string()).collect();
        assert_eq!(
            told.join(" "),
            "0.00005 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 5 25"
        );
    }

    #[test]
    fn a_percentile_is_at_most_a_quarter_too_high_and_never_above_the_largest_value() {
        let mut times = Histogram::of_times();
        assert_eq!(times.quantile(0.5), None);
        for ms in 1..=1000 {
            times.record(ms * MS);
        }
        for q in [0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let (told, exact) = (times.quantile(q).unwrap(), q);
            assert!(told >= exact - 1e-9 && told <= exact * 1.26, "{q}: {told}");
        }
        let mut one = Histogram::of_counts();
        one.record(3);
        assert_eq!((one.quantile(0.0), one.quantile(1.0)), (Some(3.0), Some(3.0)));
        one.record(1 << 40);
        assert_eq!(one.quantile(1.0), Some((1u64 << 40) as f64));
    }

    #[test]
    fn histograms_add_up_and_tell_what_came_since() {
        let (mut a, mut b) = (Histogram::of_counts(), Histogram::of_counts());
        (1..=3).for_each(|value| a.record(value));
        let before = a.clone();
        [9, 200].into_iter().for_each(|value| b.record(value));
        a.add(&b);
        assert_eq!((a.count(), a.sum(), a.max()), (5, 215.0, 200.0));
        let since = a.since(&before);
        assert_eq!((since.count(), since.sum(), since.buckets()), (2, 209.0, b.buckets()));
        assert_eq!((since.quantile(0.5), since.max()), (Some(16.0), 200.0));
        assert_eq!(before.since(&before).quantile(0.5), None);
        let mut none = Histogram::of_counts();
        none.add(&b);
        assert_eq!(none.since(&Histogram::of_counts()).buckets(), b.buckets());
    }
}
