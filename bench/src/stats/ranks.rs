//! How likely differences this one-sided are, if there is none.

/// Two-sided p of the sign test: how likely so uneven a split of `above` and `below` is by chance.
pub fn sign_test(above: usize, below: usize) -> f64 {
    let tosses = above + below;
    // Probabilities of 0..=tosses heads, by adding one toss after the other.
    let mut chances = vec![1.0];
    for _ in 0..tosses {
        let mut next = vec![0.0; chances.len() + 1];
        for (heads, chance) in chances.iter().enumerate() {
            next[heads] += chance / 2.0;
            next[heads + 1] += chance / 2.0;
        }
        chances = next;
    }
    let tail: f64 = chances[..=above.min(below)].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Two-sided p of Wilcoxon's signed-rank test, exact for any number of differences and ties. Differences of 0 are left
/// out, as Wilcoxon did; `None` when no other are left.
pub fn wilcoxon_signed_rank(differences: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the ranks, so that the middle rank of ties is whole.
    let mut ranks = vec![0usize; sorted.len()];
    let mut first = 0;
    while first < sorted.len() {
        let same = sorted[first..].iter().take_while(|other| other.abs() == sorted[first].abs()).count();
        // Ranks first+1 ..= first+same have the mean first + (same+1)/2.
        ranks[first..first + same].fill(2 * first + same + 1);
        first += same;
    }
    let above: usize = ranks.iter().zip(&sorted).filter(|(_, value)| **value > 0.0).map(|(rank, _)| rank).sum();
    let all: usize = ranks.iter().sum();
    // Chances of each sum of the ranks whose sign came out positive.
    let mut chances = vec![0.0; all + 1];
    chances[0] = 1.0;
    for rank in ranks {
        for sum in (0..=all).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = f64::midpoint(chances[sum], with);
        }
    }
    let tail: f64 = chances[..=above.min(all - above)].iter().sum();
    Some((2.0 * tail).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-12
    }

    #[test]
    fn the_sign_test_has_the_binomials_values() {
        assert!(near(sign_test(6, 0), 0.031_25));
        assert!(near(sign_test(0, 5), 0.062_5));
        assert!(near(sign_test(8, 2), 0.109_375));
        assert!(near(sign_test(3, 3), 1.0));
        assert!(near(sign_test(0, 0), 1.0));
    }

    #[test]
    fn wilcoxons_test_has_published_values() {
        // Hollander and Wolfe (1973), depression scale: V = 40, two-sided p = 0.03906.
        let differences = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];
        assert!(near(wilcoxon_signed_rank(&differences).unwrap(), 0.039_062_5));
        // Darwin's cross- and self-fertilised maize: T = 24, p = 0.04126.
        let maize = [6.0, 8.0, 14.0, 16.0, 23.0, 24.0, 28.0, 29.0, 41.0, -48.0, 49.0, 56.0, 60.0, -67.0, 75.0];
        assert!(near(wilcoxon_signed_rank(&maize).unwrap(), 0.041_259_765_625));
    }

    #[test]
    fn ties_share_their_ranks_and_zeros_are_left_out() {
        // Every |d| is alike: the test is the sign test.
        assert!(near(wilcoxon_signed_rank(&[1.0; 6]).unwrap(), sign_test(6, 0)));
        assert!(near(wilcoxon_signed_rank(&[2.0, -2.0, 2.0, 2.0]).unwrap(), sign_test(3, 1)));
        assert_eq!(wilcoxon_signed_rank(&[0.0, 0.0]), None);
        assert_eq!(wilcoxon_signed_rank(&[0.0, 1.0, -2.0, 3.0]), wilcoxon_signed_rank(&[1.0, -2.0, 3.0]));
    }
}
