//! Random choices that a seed decides, the same in every version.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, fast, and fixed by its paper, so that a seed means the same
/// schedule for ever.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The choices of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least 0, below 1.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what an f64 holds.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `bound`, all as likely; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: off by less than bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// A seed of its own for one of many parts (an executor, a connection, a purpose) of what has a seed.
pub fn derive(seed: u64, part: u64) -> u64 {
    let mut random = Random::new(seed ^ part.wrapping_mul(0xd1b5_4a32_d192_ed03));
    random.next_u64();
    random.next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_choices_for_ever() {
        // The published first values of seed 1234567.
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it_and_no_more() {
        let mut random = Random::new(3);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[usize::try_from(random.below(10)).unwrap()] += 1;
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn parts_of_one_seed_differ() {
        let derived: std::collections::BTreeSet<u64> = (0..1_000).map(|part| derive(7, part)).collect();
        assert_eq!(derived.len(), 1_000);
    }
}
