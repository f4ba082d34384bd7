//! Record keys, and the partition that a key goes to.

use crate::random::Random;

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyChoice {
    /// Records have none.
    None,
    /// One after the other.
    RoundRobin,
    /// The key of rank r as often as 1/r^s, decided by the seed.
    Zipf {
        /// s: 0 is even, 1 is what words of a language have.
        skew: f64,
    },
}

/// The keys of one producer: decimal numbers of ten digits.
#[derive(Debug, Clone)]
pub struct Keys {
    choice: KeyChoice,
    count: usize,
    next: usize,
    random: Random,
    /// Under Zipf: the share of all records that keys up to this rank get.
    up_to: std::sync::Arc<[f64]>,
}

impl Keys {
    /// Chooses among `count` keys, at least one.
    pub fn new(choice: KeyChoice, count: usize, seed: u64) -> Keys {
        let count = count.max(1);
        let up_to = match choice {
            KeyChoice::Zipf { skew } => cumulated(count, skew).into(),
            _ => [].into(),
        };
        Keys { choice, count, next: 0, random: Random::new(seed), up_to }
    }

    /// The same choice with the random numbers of another seed; shares the table.
    pub fn with_seed(&self, seed: u64) -> Keys {
        let mut random = Random::new(seed);
        // Producers do not walk the keys in step.
        let next = random.below(self.count as u64) as usize;
        Keys { next, random, ..self.clone() }
    }

    /// The number of the next record's key; `None` when records have none.
    pub fn draw(&mut self) -> Option<u32> {
        match self.choice {
            KeyChoice::None => None,
            KeyChoice::RoundRobin => {
                let key = self.next;
                self.next = (self.next + 1) % self.count;
                Some(key as u32)
            }
            KeyChoice::Zipf { .. } => {
                let at = self.random.unit();
                Some(self.up_to.partition_point(|share| *share <= at).min(self.count - 1) as u32)
            }
        }
    }

    /// How many different keys there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// For each key its partition, as Kafka's own producer has it.
    pub fn partitions(&self, partitions: usize) -> Vec<u32> {
        match self.choice {
            KeyChoice::None => Vec::new(),
            _ => (0..self.count as u32).map(|key| partition_of(&key_bytes(key), partitions) as u32).collect(),
        }
    }
}

/// The bytes of a key.
pub fn key_bytes(number: u32) -> [u8; 10] {
    let (mut digits, mut left) = ([b'0'; 10], number);
    for digit in digits.iter_mut().rev() {
        *digit += (left % 10) as u8;
        left /= 10;
    }
    digits
}

fn cumulated(count: usize, skew: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut up_to: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        })
        .collect();
    up_to.iter_mut().for_each(|share| *share /= sum);
    up_to
}

/// The partition of a key: `toPositive(murmur2(key)) % partitions`, Kafka's `BuiltInPartitioner`.
pub fn partition_of(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

/// Kafka's `Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word = (word ^ (word >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_kafkas_own_producer_has_it() {
        let known: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key) as i32, hash, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn round_robin_takes_every_key_before_any_twice() {
        let mut keys = Keys::new(KeyChoice::RoundRobin, 5, 0).with_seed(3);
        let mut drawn: Vec<u32> = (0..5).filter_map(|_| keys.draw()).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn zipf_gives_each_rank_its_share() {
        const DRAWS: usize = 200_000;
        let mut keys = Keys::new(KeyChoice::Zipf { skew: 1.0 }, 1_000, 4);
        let mut counts = vec![0; 1_000];
        for _ in 0..DRAWS {
            counts[keys.draw().unwrap() as usize] += 1;
        }
        let harmonic: f64 = (1..=1_000).map(|rank| 1.0 / rank as f64).sum();
        for rank in [1, 2, 10] {
            let (share, expected) = (counts[rank - 1] as f64 / DRAWS as f64, 1.0 / rank as f64 / harmonic);
            assert!((share / expected - 1.0).abs() < 0.1, "rank {rank}: {share} for {expected}");
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_keys() {
        let keys = Keys::new(KeyChoice::Zipf { skew: 0.9 }, 100, 0);
        let draw = |seed| {
            let mut keys = keys.with_seed(seed);
            (0..50).map(|_| keys.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn key_bytes_are_ten_digits_that_sort_as_the_numbers() {
        assert_eq!(&key_bytes(0), b"0000000000");
        assert_eq!(&key_bytes(u32::MAX), b"4294967295");
    }
}
