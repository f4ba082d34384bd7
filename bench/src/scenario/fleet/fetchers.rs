//! Whom members fetch from, and from which offset on.
//!
//! A member has a fetcher for each leader of its partitions, as Kafka's own consumer has, and each has one Fetch out at a
//! time. What must stay true: a partition is in at most one fetcher of a member, and only while the member owns it.

use std::collections::BTreeMap;

use bytes::Bytes;
use ringgate_wire::records::{BatchHeader, next_batch};

use super::member::NONE;
use super::timers::Nanos;

/// How far a fetcher is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// There is nothing to fetch.
    Idle,
    /// Its timer is set.
    Set,
    /// To be sent as soon as there is a connection.
    Due,
    /// Sent, without an answer yet.
    Out,
}

/// Fetches what one broker leads of a member's partitions.
#[derive(Debug)]
pub(super) struct Fetcher {
    /// Tells it from all others, also from those that are gone.
    pub born: u32,
    /// The leader's number.
    pub broker: u32,
    /// The place of its connection, when it has one of its own.
    pub place: u32,
    pub turn: Turn,
    /// When the next Fetch is meant to be sent.
    pub next: Nanos,
    /// Partitions, and the offset to fetch each from.
    pub positions: Vec<(u32, i64)>,
}

/// Those of all members of an executor.
#[derive(Debug, Default)]
pub(super) struct Fetchers {
    members: Vec<Vec<Fetcher>>,
    /// Each partition's leader, and the end that was seen last: where somebody who gets it begins.
    partitions: Vec<(u32, i64)>,
    born: u32,
    /// Leaders are being looked up.
    pub finding: bool,
    /// A position was behind or before what the leader has.
    pub ends_unknown: bool,
}

impl Fetchers {
    /// Of members that own nothing.
    pub fn new(members: usize) -> Fetchers {
        Fetchers { members: (0..members).map(|_| Vec::new()).collect(), ..Fetchers::default() }
    }

    /// Partitions are led by these; an end is `None` where it was not asked for.
    pub fn are_led(&mut self, leaders: impl Iterator<Item = (u32, Option<i64>)>) {
        for (at, (leader, end)) in leaders.enumerate() {
            match self.partitions.get_mut(at) {
                Some(partition) => *partition = (leader, end.unwrap_or(partition.1)),
                None => self.partitions.push((leader, end.unwrap_or(0))),
            }
        }
    }

    /// A member owns these and nothing else. Whether all their leaders are known.
    pub fn own(&mut self, member: u32, partitions: &[u32]) -> bool {
        let fetchers = &mut self.members[member as usize];
        let held: BTreeMap<u32, i64> =
            fetchers.iter_mut().flat_map(|fetcher| std::mem::take(&mut fetcher.positions)).collect();
        let mut all_known = true;
        for partition in partitions {
            let Some((broker, end)) = self.partitions.get(*partition as usize).copied() else {
                all_known = false;
                continue;
            };
            let position = (*partition, held.get(partition).copied().unwrap_or(end));
            match fetchers.iter_mut().find(|fetcher| fetcher.broker == broker) {
                Some(fetcher) => fetcher.positions.push(position),
                None => {
                    self.born = self.born.wrapping_add(1);
                    let positions = vec![position];
                    let (born, place, turn, next) = (self.born, NONE, Turn::Idle, 0);
                    fetchers.push(Fetcher { born, broker, place, turn, next, positions });
                }
            }
        }
        all_known
    }

    /// A member's.
    pub fn of(&mut self, member: u32) -> &mut [Fetcher] {
        self.members.get_mut(member as usize).map_or(&mut [], Vec::as_mut_slice)
    }

    /// One of a member's, unless it is gone.
    pub fn one(&mut self, member: u32, born: u32) -> Option<&mut Fetcher> {
        self.of(member).iter_mut().find(|fetcher| fetcher.born == born)
    }

    /// A member has none any more.
    pub fn end(&mut self, member: u32) -> Vec<Fetcher> {
        self.members.get_mut(member as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Takes in what came of a partition: so many records are new. What a member does not own any more is nobody's.
    pub fn take(&mut self, member: u32, born: u32, partition: u32, batches: Bytes) -> u64 {
        let fetcher = self.members.get_mut(member as usize);
        let fetcher = fetcher.and_then(|all| all.iter_mut().find(|fetcher| fetcher.born == born));
        let position = fetcher.and_then(|fetcher| fetcher.positions.iter_mut().find(|(held, _)| *held == partition));
        let Some((_, position)) = position else { return 0 };
        let (records, next) = read(batches, *position);
        *position = next;
        if let Some((_, end)) = self.partitions.get_mut(partition as usize) {
            *end = next.max(*end);
        }
        records
    }

    /// A position is none of the leader's: the partition is fetched from its end on once that is known.
    pub fn forget_position(&mut self, member: u32, born: u32, partition: u32) {
        self.ends_unknown = true;
        if let Some(fetcher) = self.one(member, born) {
            fetcher.positions.retain(|(held, _)| *held != partition);
        }
    }
}

/// Records of batches from an offset on, and the offset behind them.
fn read(mut batches: Bytes, from: i64) -> (u64, i64) {
    let (mut records, mut next) = (0, from);
    while let Some(batch) = next_batch(&mut batches) {
        let Some(header) = BatchHeader::parse(&batch) else { break };
        if header.last_offset() < next {
            continue;
        }
        if !header.is_control() {
            let before = (next - header.base_offset).max(0);
            records += (i64::from(header.records) - before).max(0) as u64;
        }
        next = header.last_offset().saturating_add(1);
    }
    (records, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partitions 0 to 3, of which broker 7 leads the even ones and broker 8 the others.
    fn fetchers() -> Fetchers {
        let mut fetchers = Fetchers::new(2);
        fetchers.are_led([(7, Some(10)), (8, Some(11)), (7, Some(12)), (8, Some(13))].into_iter());
        fetchers
    }

    fn positions(fetchers: &mut Fetchers, member: u32) -> Vec<(u32, Vec<(u32, i64)>)> {
        fetchers.of(member).iter().map(|fetcher| (fetcher.broker, fetcher.positions.clone())).collect()
    }

    /// A batch's header: records 0 to `last` from `base` on.
    fn batch(base: i64, last: i32) -> Bytes {
        let mut bytes = vec![0; 61];
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[8..12].copy_from_slice(&49i32.to_be_bytes());
        bytes[16] = 2;
        bytes[23..27].copy_from_slice(&last.to_be_bytes());
        bytes[57..61].copy_from_slice(&(last + 1).to_be_bytes());
        bytes.into()
    }

    #[test]
    fn each_leader_is_asked_for_what_it_leads_from_its_end_on() {
        let mut fetchers = fetchers();
        assert!(fetchers.own(0, &[0, 1, 2]));
        assert_eq!(positions(&mut fetchers, 0), [(7, vec![(0, 10), (2, 12)]), (8, vec![(1, 11)])]);
        assert_eq!(positions(&mut fetchers, 1), []);
    }

    #[test]
    fn what_is_revoked_is_fetched_no_more_and_what_is_kept_goes_on() {
        let mut fetchers = fetchers();
        fetchers.own(0, &[0, 2]);
        let born = fetchers.of(0)[0].born;
        assert_eq!(fetchers.take(0, born, 2, batch(12, 4)), 5);
        fetchers.own(0, &[2]);
        assert_eq!(positions(&mut fetchers, 0), [(7, vec![(2, 17)])]);
        assert_eq!(fetchers.take(0, born, 0, batch(10, 4)), 0, "an answer that was on its way");
        fetchers.own(0, &[]);
        assert_eq!(positions(&mut fetchers, 0), [(7, vec![])], "the connection is kept, as clients keep theirs");
        fetchers.own(1, &[2]);
        assert_eq!(positions(&mut fetchers, 1), [(7, vec![(2, 17)])], "from the end that was seen last");
    }

    #[test]
    fn records_count_once_also_when_a_batch_begins_before_them() {
        let mut fetchers = fetchers();
        fetchers.own(0, &[0]);
        let born = fetchers.of(0)[0].born;
        let both: Bytes = [batch(8, 3), batch(12, 0)].concat().into();
        assert_eq!(fetchers.take(0, born, 0, both.clone()), 3, "10, 11 and 12");
        assert_eq!(fetchers.take(0, born, 0, both), 0);
    }

    #[test]
    fn partitions_move_to_their_new_leaders_with_their_positions() {
        let mut fetchers = fetchers();
        fetchers.own(0, &[0, 1]);
        let born = fetchers.of(0)[0].born;
        fetchers.take(0, born, 0, batch(10, 0));
        fetchers.are_led([(8, None), (8, None), (8, None), (8, None)].into_iter());
        fetchers.own(0, &[0, 1]);
        assert_eq!(positions(&mut fetchers, 0), [(7, vec![]), (8, vec![(0, 11), (1, 11)])]);
        assert!(!fetchers.own(0, &[4]), "nobody is known to lead it");
    }

    #[test]
    fn a_position_that_the_leader_does_not_have_becomes_the_end() {
        let mut fetchers = fetchers();
        fetchers.own(0, &[0, 2]);
        let born = fetchers.of(0)[0].born;
        fetchers.forget_position(0, born, 0);
        assert!(fetchers.ends_unknown);
        assert_eq!(positions(&mut fetchers, 0), [(7, vec![(2, 12)])]);
        fetchers.are_led([(7, Some(3)), (8, Some(3)), (7, Some(3)), (8, Some(3))].into_iter());
        fetchers.own(0, &[0, 2]);
        assert_eq!(positions(&mut fetchers, 0), [(7, vec![(0, 3), (2, 12)])]);
    }
}
