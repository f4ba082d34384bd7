//! What records hold, and which partition each goes to.

use std::sync::Arc;
use std::time::Instant;

use crate::batch::{Keys, Pool, Stamp};

/// What values hold.
#[derive(Debug, Clone)]
pub enum Values {
    /// The pool's, one after the other.
    Plain,
    /// With a [`Stamp`] in front.
    Stamped {
        /// In every stamp.
        run: u64,
        /// This producer.
        producer: u32,
        /// What stamps' moments count from.
        epoch: Instant,
    },
}

/// The next records of one producer.
#[derive(Debug)]
pub struct Content {
    pool: Arc<Pool>,
    values: Values,
    keys: Keys,
    /// For each key its partition.
    of_key: Vec<u32>,
    /// Those that this producer sends to.
    partitions: Vec<usize>,
    /// The one in `partitions` that records without a key go to now.
    sticky: usize,
    /// Of plain values.
    next: u64,
    /// Of each partition.
    sequences: Vec<u64>,
}

/// A record that is to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// When.
    pub intended: Instant,
    /// A stamped record's sequence, a plain one's number in the pool.
    pub number: u64,
    /// Bytes of its value.
    pub value_bytes: u32,
    /// Its key's number.
    pub key: Option<u32>,
}

impl Content {
    /// Records for these of `all` partitions, at least one; `start` decides where it begins among them and in the pool.
    pub fn new(pool: Arc<Pool>, values: Values, keys: Keys, partitions: Vec<usize>, all: usize, start: u64) -> Content {
        let sticky = (start % partitions.len().max(1) as u64) as usize;
        let (of_key, sequences) = (keys.partitions(all), vec![0; all]);
        Content { pool, values, keys, of_key, partitions, sticky, next: start % (1 << 32), sequences }
    }

    /// Those that it sends to.
    pub fn partitions(&self) -> &[usize] {
        &self.partitions
    }

    /// Where the next record goes, and with which key: that of its key, or one partition until [`Content::move_on`].
    pub fn choose(&mut self) -> (usize, Option<u32>) {
        match self.keys.draw() {
            None => (self.partitions[self.sticky], None),
            Some(key) => (self.of_key[key as usize] as usize, Some(key)),
        }
    }

    /// Records without a key go to the next partition from now on, if they go to this one (KIP-480: a new one with each
    /// batch).
    pub fn move_on(&mut self, from: usize) {
        if self.partitions[self.sticky] == from {
            self.sticky = (self.sticky + 1) % self.partitions.len();
        }
    }

    /// Whether records have keys, so that nobody else says where they go.
    pub fn is_keyed(&self) -> bool {
        !self.of_key.is_empty()
    }

    /// The next record for a partition.
    pub fn next(&mut self, partition: usize, key: Option<u32>, intended: Instant) -> Due {
        let (number, value_bytes) = match &self.values {
            Values::Plain => {
                self.next += 1;
                (self.next, self.pool.value(self.next as usize).len())
            }
            Values::Stamped { producer, .. } => {
                let sequence = self.sequences[partition];
                self.sequences[partition] += 1;
                (sequence, Stamp::value_bytes(*producer, partition as u32, sequence, &self.pool))
            }
        };
        Due { intended, number, value_bytes: value_bytes as u32, key }
    }

    /// Hands the value over.
    pub fn with_value<T>(
        &self,
        partition: usize,
        due: &Due,
        sent: Instant,
        scratch: &mut Vec<u8>,
        use_it: impl FnOnce(&[u8]) -> T,
    ) -> T {
        match &self.values {
            Values::Plain => use_it(self.pool.value(due.number as usize)),
            Values::Stamped { run, producer, epoch } => {
                let since = |at: Instant| at.saturating_duration_since(*epoch).as_nanos() as u64;
                let stamp = Stamp {
                    run: *run,
                    producer: *producer,
                    partition: partition as u32,
                    sequence: due.number,
                    intended_ns: since(due.intended),
                    sent_ns: since(sent),
                };
                stamp.write_value(&self.pool, scratch);
                use_it(scratch)
            }
        }
    }

    /// The producer's number in stamps.
    pub fn stamped_producer(&self) -> Option<u32> {
        match &self.values {
            Values::Plain => None,
            Values::Stamped { producer, .. } => Some(*producer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{KeyChoice, Sizes};

    /// Partition, key and value of the first records of a producer with this seed.
    fn first(seed: u64) -> Vec<(usize, Option<u32>, Vec<u8>)> {
        let pool = Arc::new(Pool::make(&Sizes::Range(10..=100), 0.5, seed).unwrap());
        let keys = Keys::new(KeyChoice::Zipf { skew: 1.0 }, 50, 0).with_seed(seed);
        let mut content = Content::new(pool, Values::Plain, keys, (0..6).collect(), 6, seed);
        let now = Instant::now();
        let mut record = || {
            let (partition, key) = content.choose();
            let due = content.next(partition, key, now);
            let value = content.with_value(partition, &due, now, &mut Vec::new(), <[u8]>::to_vec);
            assert_eq!(value.len(), due.value_bytes as usize);
            (partition, key, value)
        };
        (0..200).map(|_| record()).collect()
    }

    #[test]
    fn the_same_seed_sends_the_same_records_to_the_same_partitions() {
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
    }

    #[test]
    fn a_key_always_goes_to_the_partition_that_kafkas_own_producer_has_for_it() {
        for (partition, key, _) in first(5) {
            let key = crate::batch::key_bytes(key.expect("all have keys"));
            assert_eq!(partition, crate::batch::partition_of(&key, 6));
        }
    }

    #[test]
    fn records_without_keys_stay_with_a_partition_until_it_has_a_batch_and_then_go_round() {
        let pool = Arc::new(Pool::make(&Sizes::Fixed(10), 0.5, 1).unwrap());
        let keys = Keys::new(KeyChoice::None, 1, 0);
        let mut content = Content::new(pool, Values::Plain, keys, vec![2, 4], 6, 0);
        assert_eq!((content.choose().0, content.choose().0), (2, 2));
        content.move_on(4);
        assert_eq!(content.choose().0, 2, "it was another one that has its batch");
        content.move_on(2);
        assert_eq!(content.choose().0, 4);
        content.move_on(4);
        assert_eq!(content.choose().0, 2);
    }
}
