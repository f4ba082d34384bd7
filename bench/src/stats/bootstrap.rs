//! How sure a median is, without assuming how values are spread.

use super::median_of;
use crate::random::Random;

/// Resamples: the ends of a 95 % interval then stand on 250 each.
const RESAMPLES: usize = 10_000;

/// The percentile bootstrap's interval of the median at `confidence` (0.95), `None` of no values. The same seed gives
/// the same interval. Of very few values it is all that there is between the smallest and the largest.
pub fn median_interval(values: &[f64], confidence: f64, seed: u64) -> Option<(f64, f64)> {
    resampled(values, confidence, RESAMPLES, seed)
}

fn resampled(values: &[f64], confidence: f64, resamples: usize, seed: u64) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let mut random = Random::new(seed);
    let mut sample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..resamples)
        .map(|_| {
            for slot in &mut sample {
                *slot = values[random.below(values.len() as u64) as usize];
            }
            median_of(&mut sample).expect("not empty")
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let beyond = (1.0 - confidence) / 2.0;
    let low = (beyond * resamples as f64).floor() as usize;
    Some((medians[low.min(resamples - 1)], medians[resamples - 1 - low.min(resamples - 1)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roughly normal: the sum of twelve.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn of_three_values_the_interval_is_all_between_them() {
        // A resample's median is the smallest of three with a chance of 7/27, far over 2.5 %.
        assert_eq!(median_interval(&[2.0, 1.0, 9.0], 0.95, 1), Some((1.0, 9.0)));
        assert_eq!(median_interval(&[4.0], 0.95, 1), Some((4.0, 4.0)));
        assert_eq!(median_interval(&[], 0.95, 1), None);
    }

    #[test]
    fn of_many_values_it_is_what_order_statistics_say() {
        // Binomial(101, 1/2) has 95 % between ranks 41 and 61.
        let values: Vec<f64> = (1..=101).map(f64::from).collect();
        let (low, high) = median_interval(&values, 0.95, 7).unwrap();
        assert!((39.0..=43.0).contains(&low) && (59.0..=63.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn a_seed_decides_it() {
        let values = [1.0, 1.5, 1.2, 0.9, 1.1, 1.3];
        assert_eq!(median_interval(&values, 0.95, 3), median_interval(&values, 0.95, 3));
    }

    #[test]
    fn it_covers_the_true_median_about_as_often_as_it_says() {
        let mut random = Random::new(11);
        let covered = (0..300)
            .filter(|&seed| {
                let values: Vec<f64> = (0..12).map(|_| normal(&mut random)).collect();
                let (low, high) = resampled(&values, 0.95, 1_000, seed).unwrap();
                low <= 0.0 && 0.0 <= high
            })
            .count();
        assert!((265..=298).contains(&covered), "{covered} of 300");
    }
}
