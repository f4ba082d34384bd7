//! What one scrape read.

use std::collections::BTreeMap;
use std::fmt;

/// The chosen series of one scrape.
pub type Scrape = BTreeMap<Series, Reading>;

/// A family's series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    pub family: String,
    /// Without `le` and `shard`.
    pub labels: BTreeMap<String, String>,
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        match labels.as_slice() {
            [] => f.write_str(&self.family),
            labels => write!(f, "{}{{{}}}", self.family, labels.join(",")),
        }
    }
}

/// What it was.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    Counter(f64),
    Gauge(f64),
    Histogram(Histogram),
}

/// Values by what they were at most.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Bounds, ascending, each with how many values were at most that.
    pub buckets: Vec<(f64, f64)>,
    pub sum: f64,
    pub count: f64,
}

/// What a counter grew by. One that is smaller than before began again at 0.
pub fn grown(before: f64, now: f64) -> f64 {
    if now < before { now } else { now - before }
}

impl Histogram {
    /// Adds to a bucket.
    pub fn bucket(&mut self, bound: f64, count: f64) {
        match self.buckets.binary_search_by(|(of, _)| of.total_cmp(&bound)) {
            Ok(at) => self.buckets[at].1 += count,
            Err(at) => self.buckets.insert(at, (bound, count)),
        }
    }

    /// What came since an earlier reading; all of it where it began again, or has other buckets.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let bounds = |histogram: &Histogram| histogram.buckets.iter().map(|(bound, _)| *bound).collect::<Vec<_>>();
        if self.count < before.count || bounds(self) != bounds(before) {
            return self.clone();
        }
        let buckets = self.buckets.iter().zip(&before.buckets);
        Histogram {
            buckets: buckets.map(|((bound, now), (_, before))| (*bound, (now - before).max(0.0))).collect(),
            sum: self.sum - before.sum,
            count: self.count - before.count,
        }
    }

    /// Adds another.
    pub fn add(&mut self, other: &Histogram) {
        for (bound, count) in &other.buckets {
            self.bucket(*bound, *count);
        }
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Values over the largest bound that is a number: of these no more is known.
    pub fn beyond(&self) -> f64 {
        let within = self.finite().last().map_or(0.0, |(_, count)| count);
        (self.count - within).max(0.0)
    }

    /// The value below which a share of all lie, taken as evenly spread within a bucket; the largest finite bound where it
    /// lies over that. `None` without values or bounds.
    pub fn at(&self, share: f64) -> Option<f64> {
        if self.count <= 0.0 {
            return None;
        }
        let rank = share * self.count;
        let (mut below, mut passed) = (None, 0.0);
        for (bound, count) in self.finite() {
            if count >= rank && count > passed {
                // Values of what is measured are over 0, unless a bound says otherwise.
                let from = below.unwrap_or(if bound > 0.0 { 0.0 } else { bound });
                return Some(from + (bound - from) * ((rank - passed) / (count - passed)).clamp(0.0, 1.0));
            }
            (below, passed) = (Some(bound), count.max(passed));
        }
        below
    }

    /// The mean, if there are values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    fn finite(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.buckets.iter().copied().filter(|(bound, _)| bound.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: [f64; 4], sum: f64) -> Histogram {
        let bounds = [0.001, 0.01, 0.1, f64::INFINITY];
        Histogram { buckets: bounds.into_iter().zip(counts).collect(), sum, count: counts[3] }
    }

    #[test]
    fn percentiles_lie_within_their_bucket_and_those_over_all_bounds_at_the_largest() {
        let all = histogram([50.0, 90.0, 98.0, 100.0], 1.5);
        let near = |share: f64, expected: f64| {
            let found = all.at(share).unwrap();
            assert!((found - expected).abs() < 1e-12, "{share}: {found}, not {expected}");
        };
        near(0.5, 0.001);
        near(0.25, 0.000_5);
        near(0.9, 0.01);
        near(0.94, 0.055);
        near(0.98, 0.1);
        near(0.99, 0.1);
        assert_eq!((all.beyond(), all.mean()), (2.0, Some(0.015)));
        assert_eq!((Histogram::default().at(0.5), Histogram::default().mean()), (None, None));
        // An empty bucket holds no percentile.
        let late = histogram([0.0, 0.0, 10.0, 10.0], 0.5);
        assert!((late.at(0.5).unwrap() - 0.055).abs() < 1e-12, "{:?}", late.at(0.5));
    }

    #[test]
    fn what_came_since_is_told_from_what_was_there_and_a_restart_is_seen() {
        let (before, now) = (histogram([5.0, 9.0, 9.0, 10.0], 1.0), histogram([5.0, 10.0, 12.0, 14.0], 1.5));
        assert_eq!(now.since(&before), histogram([0.0, 1.0, 3.0, 4.0], 0.5));
        assert_eq!(before.since(&now), before, "began again");
        let mut both = before.since(&Histogram::default());
        both.add(&now.since(&before));
        assert_eq!(both, now);
        assert_eq!((grown(3.0, 5.0), grown(5.0, 3.0)), (2.0, 3.0));
    }
}
