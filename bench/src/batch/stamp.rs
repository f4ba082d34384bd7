//! What a checked record says of itself, at the start of its value.

use super::payload::Pool;

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 44;

/// Which record this is, and when it was meant to be sent.
///
/// Big-endian: run (8 bytes), producer (4), partition (4), sequence (8), intended (8), sent (8), CRC-32C of all before
/// it (4). Behind it the value goes on with the pool's bytes at the place of the same number, so that every byte of a
/// value can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Of this run only, so that records of others are told apart.
    pub run: u64,
    /// Who sent it.
    pub producer: u32,
    /// Where to.
    pub partition: u32,
    /// Counts what this producer sent to this partition, from 0.
    pub sequence: u64,
    /// When it was meant to be sent, in ns of the monotonic clock since the run was founded.
    pub intended_ns: u64,
    /// When it was sent, likewise.
    pub sent_ns: u64,
}

impl Stamp {
    /// Writes the record's value: the stamp, and behind it what the pool has for it. The pool's values are at least as
    /// long as a stamp.
    pub fn write_value(&self, pool: &Pool, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&self.run.to_be_bytes());
        value.extend_from_slice(&self.producer.to_be_bytes());
        value.extend_from_slice(&self.partition.to_be_bytes());
        value.extend_from_slice(&self.sequence.to_be_bytes());
        value.extend_from_slice(&self.intended_ns.to_be_bytes());
        value.extend_from_slice(&self.sent_ns.to_be_bytes());
        value.extend_from_slice(&crc32c::crc32c(value).to_be_bytes());
        value.extend_from_slice(self.body(pool));
    }

    /// Reads the stamp of a value; [`Stamp::is_whole`] checks the rest. `None` when it is none of any run.
    pub fn read(value: &[u8]) -> Option<Stamp> {
        let stamp: &[u8; STAMP_BYTES] = value.first_chunk()?;
        let (stamped, crc) = stamp.split_at(STAMP_BYTES - 4);
        if crc32c::crc32c(stamped).to_be_bytes() != crc {
            return None;
        }
        let long = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| stamp[at + byte]));
        let short = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| stamp[at + byte]));
        Some(Stamp {
            run: long(0),
            producer: short(8),
            partition: short(12),
            sequence: long(16),
            intended_ns: long(24),
            sent_ns: long(32),
        })
    }

    /// Whether what is behind the stamp is what was sent.
    pub fn is_whole(&self, value: &[u8], pool: &Pool) -> bool {
        value.get(STAMP_BYTES..) == Some(self.body(pool))
    }

    /// Which of the pool's values it has: neighbours of a batch have different ones.
    fn body<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        let start =
            (self.producer as usize).wrapping_mul(7_919).wrapping_add((self.partition as usize).wrapping_mul(31));
        pool.value(start.wrapping_add(self.sequence as usize)).get(STAMP_BYTES..).unwrap_or(&[])
    }

    /// Bytes of the value of the record with this sequence.
    pub fn value_bytes(producer: u32, partition: u32, sequence: u64, pool: &Pool) -> usize {
        let stamp = Stamp { run: 0, producer, partition, sequence, intended_ns: 0, sent_ns: 0 };
        STAMP_BYTES + stamp.body(pool).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Sizes;

    const STAMP: Stamp = Stamp {
        run: 0xfeed_beef_0123_4567,
        producer: 3,
        partition: 11,
        sequence: 77,
        intended_ns: 5_000,
        sent_ns: 6_000,
    };

    fn pool() -> Pool {
        Pool::make(&Sizes::Range(STAMP_BYTES..=300), 1.0, 5).unwrap()
    }

    #[test]
    fn a_stamp_comes_back_and_its_value_is_whole() {
        let (pool, mut value) = (pool(), Vec::new());
        STAMP.write_value(&pool, &mut value);
        assert_eq!(value.len(), Stamp::value_bytes(3, 11, 77, &pool));
        let read = Stamp::read(&value).unwrap();
        assert_eq!(read, STAMP);
        assert!(read.is_whole(&value, &pool));
    }

    #[test]
    fn any_altered_byte_is_found() {
        let (pool, mut value) = (pool(), Vec::new());
        STAMP.write_value(&pool, &mut value);
        for at in 0..value.len() {
            value[at] ^= 0x10;
            let found = Stamp::read(&value).is_none_or(|stamp| !stamp.is_whole(&value, &pool));
            assert!(found, "byte {at}");
            value[at] ^= 0x10;
        }
        assert!(!STAMP.is_whole(&value[..value.len() - 1], &pool));
        value.push(0);
        assert!(!STAMP.is_whole(&value, &pool));
        assert_eq!(Stamp::read(&value[..STAMP_BYTES - 1]), None);
    }
}
