//! Idempotent producers (KIP-98): the last batches of each, so that a batch that was sent again is known
//! and a gap is refused.
//!
//! Rules as in Kafka: five batches are remembered; a producer that is not known may begin at any
//! sequence; a newer epoch begins at 0; sequences wrap from 2^31 - 1 to 0. Iggy's are the same, except that one
//! that is not known has to begin at 0.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::AppendError;
use super::place::Claim;
use crate::call::ActiveProducer;
use crate::store::embedded::limits::PRODUCER_WINDOW;
use bytes::{Buf, BufMut};

/// The producers of a partition, bounded in number and in age.
#[derive(Debug)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
    /// Ids by their last use, oldest first.
    by_use: BTreeMap<u64, i64>,
    uses: u64,
    forgotten: u64,
    most: usize,
    expiration_ms: i64,
}

#[derive(Debug, Clone)]
struct Producer {
    epoch: i16,
    batches: VecDeque<Sequenced>,
    /// Key in `by_use`.
    used: u64,
    used_ms: i64,
}

/// A batch that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) first_sequence: i32,
    pub(crate) last_sequence: i32,
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    /// -1 unless the broker stamped the batch.
    pub(crate) log_append_time_ms: i64,
}

impl Producers {
    pub(crate) fn new(most: usize, expiration_ms: i64) -> Producers {
        Producers {
            by_id: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            forgotten: 0,
            most: most.max(1),
            expiration_ms,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Those of Kafka's, by id.
    pub(crate) fn active(&self) -> Vec<ActiveProducer> {
        let active = |(&producer_id, producer): (&i64, &Producer)| ActiveProducer {
            producer_id,
            producer_epoch: producer.epoch,
            last_sequence: producer.batches.back().map_or(-1, |batch| batch.last_sequence),
            last_timestamp: producer.used_ms,
        };
        let kafkas = self.by_id.iter().filter(|(id, _)| **id >= 0);
        let mut all: Vec<ActiveProducer> = kafkas.map(active).collect();
        all.sort_unstable_by_key(|producer| producer.producer_id);
        all
    }

    /// Whether this batch may be appended: `Some` is the batch that it repeats.
    pub(super) fn check(&mut self, claim: &Claim, now_ms: i64) -> Result<Option<Sequenced>, AppendError> {
        self.expire(now_ms);
        let (producer_id, first, last) = (claim.id_as_sent(), claim.first_sequence, last_sequence(claim));
        let Some(producer) = self.by_id.get(&claim.producer_id) else {
            if claim.is_iggys() && first != 0 {
                return Err(AppendError::UnknownProducer { producer_id, got: first });
            }
            return Ok(None);
        };
        if claim.epoch < producer.epoch {
            let (got, current) = (claim.epoch, producer.epoch);
            return Err(AppendError::InvalidProducerEpoch { producer_id, got, current });
        }
        let expected = if claim.epoch > producer.epoch {
            0
        } else {
            let known = producer.batches.iter().find(|b| (b.first_sequence, b.last_sequence) == (first, last));
            if let Some(known) = known.copied() {
                self.touch(claim.producer_id, now_ms);
                return Ok(Some(known));
            }
            match producer.batches.back() {
                Some(newest) => wrapping_add(newest.last_sequence, 1),
                None => first,
            }
        };
        if first != expected {
            return Err(AppendError::OutOfOrderSequence { producer_id, got: first, expected });
        }
        Ok(None)
    }

    /// Remembers a batch that was appended.
    pub(super) fn record(&mut self, claim: &Claim, base_offset: i64, log_append_time_ms: i64, now_ms: i64) {
        let id = claim.producer_id;
        let producer = self.by_id.entry(id).or_insert_with(|| Producer {
            epoch: claim.epoch,
            batches: VecDeque::new(),
            used: u64::MAX,
            used_ms: now_ms,
        });
        if producer.epoch != claim.epoch {
            producer.epoch = claim.epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == PRODUCER_WINDOW {
            producer.batches.pop_front();
        }
        producer.batches.push_back(Sequenced {
            first_sequence: claim.first_sequence,
            last_sequence: last_sequence(claim),
            base_offset,
            last_offset: base_offset + i64::from(claim.last_delta),
            log_append_time_ms,
        });
        self.touch(id, now_ms);
        while self.by_id.len() > self.most {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.by_id.remove(&oldest);
            self.forgotten += 1;
        }
    }

    /// How many were forgotten, since there were too many, after this was last asked.
    pub(super) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    fn touch(&mut self, id: i64, now_ms: i64) {
        if let Some(producer) = self.by_id.get_mut(&id) {
            self.by_use.remove(&producer.used);
            producer.used = self.uses;
            producer.used_ms = now_ms;
            self.by_use.insert(self.uses, id);
            self.uses += 1;
        }
    }

    /// Forgets those that were idle for too long; says how many.
    pub(crate) fn expire(&mut self, now_ms: i64) -> usize {
        let before = self.by_id.len();
        while let Some((use_, id)) = self.by_use.first_key_value().map(|(u, id)| (*u, *id)) {
            let idle = self.by_id.get(&id).map_or(i64::MAX, |p| now_ms.saturating_sub(p.used_ms));
            if idle <= self.expiration_ms {
                break;
            }
            self.by_use.remove(&use_);
            self.by_id.remove(&id);
        }
        before - self.by_id.len()
    }

    /// Writes all of them, least recently used first.
    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        out.put_u32_le(self.by_use.len() as u32);
        for id in self.by_use.values() {
            let Some(producer) = self.by_id.get(id) else { continue };
            out.put_i64_le(*id);
            out.put_i16_le(producer.epoch);
            out.put_i64_le(producer.used_ms);
            out.put_u8(producer.batches.len() as u8);
            for batch in &producer.batches {
                out.put_i32_le(batch.first_sequence);
                out.put_i32_le(batch.last_sequence);
                out.put_i64_le(batch.base_offset);
                out.put_i64_le(batch.last_offset);
                out.put_i64_le(batch.log_append_time_ms);
            }
        }
    }

    /// Reads what [`Producers::encode`] wrote; `None` when it is not that.
    pub(crate) fn decode(&mut self, from: &mut impl Buf) -> Option<()> {
        for _ in 0..from.try_get_u32_le().ok()? {
            let id = from.try_get_i64_le().ok()?;
            let epoch = from.try_get_i16_le().ok()?;
            let used_ms = from.try_get_i64_le().ok()?;
            let mut batches = VecDeque::new();
            for _ in 0..from.try_get_u8().ok()? {
                batches.push_back(Sequenced {
                    first_sequence: from.try_get_i32_le().ok()?,
                    last_sequence: from.try_get_i32_le().ok()?,
                    base_offset: from.try_get_i64_le().ok()?,
                    last_offset: from.try_get_i64_le().ok()?,
                    log_append_time_ms: from.try_get_i64_le().ok()?,
                });
            }
            self.by_id.insert(id, Producer { epoch, batches, used: u64::MAX, used_ms });
            self.touch(id, used_ms);
        }
        Some(())
    }
}

/// The sequence of a batch's last record.
fn last_sequence(claim: &Claim) -> i32 {
    wrapping_add(claim.first_sequence, claim.last_delta)
}

/// Sequences are 31 bits wide.
fn wrapping_add(sequence: i32, more: i32) -> i32 {
    ((i64::from(sequence) + i64::from(more)) & i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringgate_wire::iggy::IggyProducer;

    fn header(producer_id: i64, epoch: i16, first_sequence: i32, records: i32) -> Claim {
        Claim { producer_id, epoch, first_sequence, last_delta: records - 1 }
    }

    fn iggy(id: u64, epoch: u16, base_sequence: u32, messages: u32) -> Claim {
        Claim::of_iggy(IggyProducer { id, epoch, base_sequence }, messages).unwrap()
    }

    struct Case {
        producers: Producers,
        end: i64,
    }

    impl Case {
        fn new() -> Case {
            Case { producers: Producers::new(3, 1000), end: 0 }
        }

        fn append(&mut self, header: Claim, now_ms: i64) -> Result<i64, i16> {
            match self.producers.check(&header, now_ms) {
                Ok(Some(known)) => Ok(known.base_offset),
                Ok(None) => {
                    let base = self.end;
                    self.producers.record(&header, base, -1, now_ms);
                    self.end += i64::from(header.last_delta) + 1;
                    Ok(base)
                }
                Err(error) => Err(error.code().0),
            }
        }
    }

    #[test]
    fn a_batch_sent_again_gets_its_first_offset_while_it_is_one_of_the_last_five() {
        let mut case = Case::new();
        for nth in 0..6 {
            assert_eq!(case.append(header(1, 0, nth * 2, 2), 0), Ok(i64::from(nth) * 2));
        }
        for nth in 1..6 {
            assert_eq!(case.append(header(1, 0, nth * 2, 2), 0), Ok(i64::from(nth) * 2));
        }
        assert_eq!(case.append(header(1, 0, 0, 2), 0), Err(45), "too old to be known");
        assert_eq!(case.append(header(1, 0, 10, 1), 0), Err(45), "begins like a known one and is shorter");
        assert_eq!(case.end, 12);
    }

    #[test]
    fn gaps_and_old_epochs_are_refused_and_a_new_epoch_begins_at_0() {
        let mut case = Case::new();
        assert_eq!(case.append(header(1, 3, 7, 1), 0), Ok(0), "unknown: any sequence");
        assert_eq!(case.append(header(1, 3, 9, 1), 0), Err(45));
        assert_eq!(case.append(header(1, 2, 8, 1), 0), Err(47));
        assert_eq!(case.append(header(1, 4, 8, 1), 0), Err(45));
        assert_eq!(case.append(header(1, 4, 0, 1), 0), Ok(1));
        assert_eq!(case.append(header(1, 3, 8, 1), 0), Err(47));
        assert_eq!(case.append(header(1, 5, 0, 1), 0), Ok(2), "nor is it the batch of the epoch before");
        assert_eq!(case.append(header(1, 5, 0, 1), 0), Ok(2));
    }

    #[test]
    fn one_of_iggys_begins_at_0_and_is_none_of_kafkas_with_its_number() {
        let mut case = Case::new();
        assert_eq!(case.append(header(1, 0, 7, 1), 0), Ok(0));
        assert_eq!(case.append(iggy(1, 0, 8, 1), 0), Err(59), "not known: it has to begin at 0");
        assert_eq!(case.append(iggy(1, 0, 0, 2), 0), Ok(1));
        assert_eq!(case.append(iggy(1, 0, 0, 2), 0), Ok(1), "sent again");
        assert_eq!(case.append(iggy(1, 0, 0, 1), 0), Err(45), "the same sequence and another number of messages");
        assert_eq!(case.append(iggy(1, 0, 3, 1), 0), Err(45));
        assert_eq!(case.append(iggy(1, 1, 2, 1), 0), Err(45), "a newer epoch begins at 0");
        assert_eq!(case.append(iggy(1, 1, 0, 1), 0), Ok(3));
        assert_eq!(case.append(iggy(1, 0, 2, 1), 0), Err(47));
        assert_eq!(case.append(header(1, 0, 8, 1), 0), Ok(4));
        let seen: Vec<_> = case.producers.active().iter().map(|p| p.producer_id).collect();
        assert_eq!(seen, [1], "Kafka's clients are told of their own");
    }

    #[test]
    fn sequences_wrap_to_0_within_and_between_batches() {
        let mut case = Case::new();
        assert_eq!(case.append(header(1, 0, i32::MAX - 1, 3), 0), Ok(0));
        assert_eq!(case.append(header(1, 0, 1, 1), 0), Ok(3));
        assert_eq!(case.append(header(1, 0, i32::MAX - 1, 3), 0), Ok(0), "still known");
        assert_eq!(case.append(header(2, 0, i32::MAX, 1), 0), Ok(4));
        assert_eq!(case.append(header(2, 0, 0, 1), 0), Ok(5));
    }

    #[test]
    fn idle_producers_and_those_over_the_bound_are_forgotten() {
        let mut case = Case::new();
        case.append(header(1, 5, 0, 1), 0).unwrap();
        assert_eq!(case.append(header(1, 5, 9, 1), 1000), Err(45));
        assert_eq!(case.append(header(1, 0, 9, 1), 1001), Ok(1), "expired");
        for id in 2..4 {
            case.append(header(id, 0, 0, 1), 1001).unwrap();
        }
        case.append(header(1, 0, 10, 1), 1001).unwrap();
        case.append(header(4, 0, 0, 1), 1001).unwrap();
        assert_eq!(case.producers.len(), 3);
        assert_eq!(case.append(header(2, 0, 50, 1), 1001), Ok(6), "the least recently used went");
        assert_eq!(case.append(header(1, 0, 50, 1), 1001), Err(45), "this one was used since");
    }

    #[test]
    fn they_are_read_as_they_were_written_and_cut_bytes_are_refused() {
        let mut case = Case::new();
        for id in 0..3 {
            case.append(header(id, 1, i32::MAX, 2), id).unwrap();
        }
        let mut bytes = Vec::new();
        case.producers.encode(&mut bytes);
        let mut again = Producers::new(3, 1000);
        again.decode(&mut &bytes[..]).unwrap();
        let mut encoded = Vec::new();
        again.encode(&mut encoded);
        assert_eq!(bytes, encoded);
        for cut in 0..bytes.len() {
            assert_eq!(Producers::new(3, 1000).decode(&mut &bytes[..cut]), None);
        }
    }
}
