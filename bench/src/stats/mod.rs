//! Statistics of few, paired values: pure functions.

mod bootstrap;
mod ranks;

pub use bootstrap::median_interval;
pub use ranks::{sign_test, wilcoxon_signed_rank};

/// The median; of an even number of values, the mean of the middle two. `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of(&mut values.to_vec())
}

/// As [`median`], of values that may be put in order.
fn median_of(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        length if length.is_multiple_of(2) => Some(f64::midpoint(values[half - 1], values[half])),
        _ => Some(values[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }
}
