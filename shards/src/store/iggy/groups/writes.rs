//! In which order the writes of one shard go out to Iggy.
//!
//! [`Writes::push`] takes what the coordinator wants kept. [`Writes::poll_op`] gives what may be started now, any number
//! at a time; report each with the `handle_*` of its kind; [`Writes::poll_decided`] says which writes that has
//! decided.
//!
//! Of a key one operation is out at a time, and the values that come meanwhile wait as one, the last of them, so
//! writes of a key reach Iggy in order; keys do not wait for each other. The same holds for each partition of the
//! side topic, whose messages go out in batches; what one write has to say there is in one batch. A write is decided
//! when all that it needs is done, and fails when any of it does; other writes are not touched by that.
//!
//! A commit with a metadata string is written to the side topic first and its offset is stored then: a crash in
//! between leaves a message whose offset Iggy does not have, which nobody reads. The other way round it would leave
//! an offset without its string.
//!
//! A deleted group is deleted when its tombstone is in the side topic; that its offsets go from Iggy is then only a
//! matter of time. Until they are gone its keys wait, so that nothing of the old group is taken for the new one's.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use ringgate_group::record::{OffsetKey, OffsetValue};
use ringgate_group::{PersistId, Record, StoreError, Text};

use super::replay::{COMMITS_PER_KEY, Commits};
use super::side_message::Kept;
use super::side_partition;

/// Operations on offsets that are out at a time; more wait their turn. A lane takes some ten thousand calls.
pub const OFFSET_OPS_MAX: usize = 2_048;

/// Bytes of a batch of messages before the next begins. One write is never split.
pub const SIDE_BATCH_BYTES: usize = 1 << 20;

/// Something to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Append these to a partition of the side topic, at once or not at all: [`Writes::handle_appended`].
    Append {
        /// The partition.
        partition: u16,
        /// In this order.
        messages: Vec<Kept>,
    },
    /// Store an offset, making its Iggy group where it is missing: [`Writes::handle_offset`].
    Store {
        /// Whose.
        key: OffsetKey,
        /// Not negative.
        offset: u64,
    },
    /// Delete an offset: [`Writes::handle_offset`]. One that is not there is deleted.
    Delete {
        /// Whose.
        key: OffsetKey,
    },
    /// Delete the group from every topic: [`Writes::handle_group_deleted`]. One that fails is given again at once.
    DeleteGroup {
        /// The Kafka group.
        group_id: Text,
    },
}

type Outcome = Result<(), StoreError>;

#[derive(Debug)]
enum Unit {
    /// A part of a write.
    Of(PersistId),
    /// The first half of what is to be done for a key.
    Key(OffsetKey),
    /// A write that deletes the group.
    Tombstone(PersistId, Text),
    /// The group is gone from Iggy.
    Deleted(Text),
}

#[derive(Debug, Default)]
struct Filling {
    messages: Vec<Kept>,
    at: HashMap<Bytes, usize>,
    units: Vec<Unit>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct SideLane {
    in_flight: Option<Vec<Unit>>,
    full: VecDeque<Filling>,
    filling: Filling,
}

#[derive(Debug)]
struct Change {
    /// `None`: the key is to be deleted.
    value: Option<OffsetValue>,
    ids: Vec<PersistId>,
}

#[derive(Debug)]
struct KeyLane {
    current: Change,
    /// The side topic knows of it.
    is_announced: bool,
    next: Option<Change>,
}

/// A group on its way out.
#[derive(Debug, Default)]
struct Deleting {
    /// Tombstones that are being written.
    tombstones: usize,
    /// One was written, and nothing was deleted since.
    is_decided: bool,
    /// The group is being deleted, or that it was is being written.
    is_out: bool,
    /// Keys of the next group of that name.
    waiting: Vec<OffsetKey>,
}

#[derive(Debug)]
struct Waiting {
    parts: usize,
    outcome: Outcome,
}

/// The writes of one shard.
#[derive(Debug, Default)]
pub struct Writes {
    sides: BTreeMap<u16, SideLane>,
    keys: HashMap<OffsetKey, KeyLane>,
    /// Keys whose lane may go on, and groups to be deleted.
    ready: VecDeque<Op>,
    offset_ops: usize,
    waiting: HashMap<PersistId, Waiting>,
    decided: VecDeque<(PersistId, Outcome)>,
    /// What the side topic holds of each group's keys: offsets that were committed with a metadata string.
    commits: HashMap<Text, HashMap<(Text, i32), Vec<i64>>>,
    /// Deleted groups whose offsets are not known to be gone from Iggy.
    deleting: HashMap<Text, Deleting>,
}

impl Writes {
    /// With what the side topic holds. Unfinished deletes are gone on with.
    pub fn new(commits: &[(OffsetKey, Commits)], unfinished: Vec<Text>) -> Writes {
        let mut writes = Writes::default();
        for (key, values) in commits {
            let offsets = values.iter().map(|value| value.offset).collect();
            writes.commits.entry(key.group_id.clone()).or_default().insert(of_group(key), offsets);
        }
        for group_id in unfinished {
            writes.deleting.insert(group_id.clone(), Deleting { is_decided: true, ..Deleting::default() });
            writes.go_on_deleting(&group_id);
        }
        writes
    }

    /// Whether the group was deleted and still has offsets in Iggy, which are none any more.
    pub fn is_deleting(&self, group_id: &Text) -> bool {
        self.deleting.contains_key(group_id)
    }

    /// Whether nothing is out and nothing waits, but for groups that are deleted already and go from Iggy.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.decided.is_empty()
    }

    /// Takes a write. All its records are of one group.
    pub fn push(&mut self, id: PersistId, records: Vec<Record>) {
        let deleted = records.iter().find_map(|record| match record {
            Record::GroupTombstone { group_id } => Some(group_id.clone()),
            _ => None,
        });
        let mut messages = Vec::new();
        let mut parts = 0;
        for record in records {
            match record {
                // They go with their group.
                Record::OffsetTombstone { .. } if deleted.is_some() => {}
                Record::OffsetTombstone { key } => {
                    parts += 1;
                    self.change(id, key, None);
                }
                Record::Offset { key, value } => {
                    parts += 1;
                    self.change(id, key, Some(value));
                }
                Record::Group(_)
                | Record::GroupTombstone { .. }
                | Record::ConsumerGroup(_)
                | Record::ConsumerMember { .. }
                | Record::ConsumerMemberTombstone { .. } => messages.push(Kept::Record(record)),
            }
        }
        if let Some(group_id) = messages.first().map(|first| first.group_id().clone()) {
            parts += 1;
            let unit = match deleted {
                Some(group_id) => {
                    self.deleting.entry(group_id.clone()).or_default().tombstones += 1;
                    Unit::Tombstone(id, group_id)
                }
                None => Unit::Of(id),
            };
            self.say(&group_id, messages, unit);
        }
        if parts == 0 {
            self.decided.push_back((id, Ok(())));
        } else {
            self.waiting.insert(id, Waiting { parts, outcome: Ok(()) });
        }
    }

    fn change(&mut self, id: PersistId, key: OffsetKey, value: Option<OffsetValue>) {
        // A negative offset is none.
        let value = value.filter(|value| value.offset >= 0);
        if let Some(lane) = self.keys.get_mut(&key) {
            match &mut lane.next {
                Some(next) => {
                    next.value = value;
                    next.ids.push(id);
                }
                None => lane.next = Some(Change { value, ids: vec![id] }),
            }
            return;
        }
        self.start(key, Change { value, ids: vec![id] });
    }

    /// The lane of the key is empty: begins with this.
    fn start(&mut self, key: OffsetKey, change: Change) {
        let lane = KeyLane { current: change, is_announced: false, next: None };
        self.keys.insert(key.clone(), lane);
        match self.deleting.get_mut(&key.group_id) {
            Some(deleting) => deleting.waiting.push(key),
            None => self.announce(key),
        }
    }

    /// Says in the side topic what is to be said there before the offset changes.
    fn announce(&mut self, key: OffsetKey) {
        let Some(lane) = self.keys.get(&key) else { return };
        let known = self.commits.get(&key.group_id).and_then(|of| of.get(&of_group(&key)));
        let record = match &lane.current.value {
            Some(value) if !value.metadata.is_empty() => Record::Offset { key: key.clone(), value: value.clone() },
            // Its string would be taken for this commit's.
            Some(value) if known.is_some_and(|known| known.contains(&value.offset)) => {
                Record::OffsetTombstone { key: key.clone() }
            }
            None if known.is_some() => Record::OffsetTombstone { key: key.clone() },
            Some(_) | None => return self.operate(&key),
        };
        let group_id = key.group_id.clone();
        self.say(&group_id, vec![Kept::Record(record)], Unit::Key(key));
    }

    fn operate(&mut self, key: &OffsetKey) {
        let Some(lane) = self.keys.get_mut(key) else { return };
        lane.is_announced = true;
        self.ready.push_back(match &lane.current.value {
            Some(value) => Op::Store { key: key.clone(), offset: value.offset.unsigned_abs() },
            None => Op::Delete { key: key.clone() },
        });
    }

    fn say(&mut self, group_id: &Text, messages: Vec<Kept>, unit: Unit) {
        let lane = self.sides.entry(side_partition(group_id.as_str())).or_default();
        let bytes: usize = messages.iter().map(Kept::size_hint).sum();
        if !lane.filling.units.is_empty() && lane.filling.bytes + bytes > SIDE_BATCH_BYTES {
            lane.full.push_back(std::mem::take(&mut lane.filling));
        }
        let filling = &mut lane.filling;
        filling.units.push(unit);
        filling.bytes += bytes;
        for message in messages {
            let end = filling.messages.len();
            match &message {
                Kept::Record(record @ Record::GroupTombstone { .. }) => {
                    // What was before it is of another group than what comes behind it.
                    filling.at.remove(&record.key());
                    filling.messages.push(message);
                }
                Kept::Record(record) => match *filling.at.entry(record.key()).or_insert(end) {
                    at if at == end => filling.messages.push(message),
                    at => filling.messages[at] = message,
                },
                Kept::Deleted { .. } => filling.messages.push(message),
            }
        }
    }

    /// The next thing to start, if any may be started now.
    pub fn poll_op(&mut self) -> Option<Op> {
        for (partition, lane) in &mut self.sides {
            if lane.in_flight.is_some() {
                continue;
            }
            let batch = match lane.full.pop_front() {
                Some(full) => full,
                None if lane.filling.units.is_empty() => continue,
                None => std::mem::take(&mut lane.filling),
            };
            lane.in_flight = Some(batch.units);
            return Some(Op::Append { partition: *partition, messages: batch.messages });
        }
        if self.offset_ops >= OFFSET_OPS_MAX {
            return None;
        }
        let op = self.ready.pop_front()?;
        self.offset_ops += 1;
        Some(op)
    }

    /// How the batch of a partition went.
    pub fn handle_appended(&mut self, partition: u16, outcome: Outcome) {
        let lane = self.sides.get_mut(&partition);
        let Some(units) = lane.and_then(|lane| lane.in_flight.take()) else {
            debug_assert!(false, "nothing of partition {partition} is out");
            return;
        };
        for unit in units {
            match unit {
                Unit::Of(id) => self.part_done(id, outcome),
                Unit::Key(key) => match outcome {
                    Ok(()) => {
                        self.announced(&key);
                        self.operate(&key);
                    }
                    Err(_) => self.key_done(key, outcome),
                },
                Unit::Tombstone(id, group_id) => {
                    let deleting = self.deleting.entry(group_id.clone()).or_default();
                    deleting.tombstones -= 1;
                    deleting.is_decided |= outcome.is_ok();
                    if outcome.is_ok() {
                        self.commits.remove(&group_id);
                    }
                    self.go_on_deleting(&group_id);
                    self.part_done(id, outcome);
                }
                // Until it is said, the next start deletes what it finds of the group: so it is said before the next
                // group of that name stores anything.
                Unit::Deleted(group_id) => self.deleted(group_id, outcome),
            }
        }
    }

    fn announced(&mut self, key: &OffsetKey) {
        let Some(lane) = self.keys.get(key) else { return };
        let of_this_group = self.commits.entry(key.group_id.clone()).or_default();
        match &lane.current.value {
            Some(value) if !value.metadata.is_empty() => {
                let offsets = of_this_group.entry(of_group(key)).or_default();
                offsets.push(value.offset);
                let too_many = offsets.len().saturating_sub(COMMITS_PER_KEY);
                offsets.drain(..too_many);
            }
            Some(_) | None => {
                of_this_group.remove(&of_group(key));
                if of_this_group.is_empty() {
                    self.commits.remove(&key.group_id);
                }
            }
        }
    }

    /// How an [`Op::Store`] or [`Op::Delete`] went.
    pub fn handle_offset(&mut self, key: OffsetKey, outcome: Outcome) {
        self.offset_ops -= 1;
        debug_assert!(self.keys.get(&key).is_some_and(|lane| lane.is_announced), "nothing of {key:?} is out");
        self.key_done(key, outcome);
    }

    fn key_done(&mut self, key: OffsetKey, outcome: Outcome) {
        let Some(lane) = self.keys.remove(&key) else { return };
        for id in lane.current.ids {
            self.part_done(id, outcome);
        }
        if let Some(next) = lane.next {
            self.start(key, next);
        }
    }

    /// How an [`Op::DeleteGroup`] went.
    pub fn handle_group_deleted(&mut self, group_id: Text, outcome: Outcome) {
        self.offset_ops -= 1;
        match outcome {
            Ok(()) => {
                let message = Kept::Deleted { group_id: group_id.clone() };
                self.say(&group_id.clone(), vec![message], Unit::Deleted(group_id));
            }
            Err(_) => self.deleted(group_id, outcome),
        }
    }

    /// A group is gone from Iggy, and that is written; or it is not.
    fn deleted(&mut self, group_id: Text, outcome: Outcome) {
        let Some(deleting) = self.deleting.get_mut(&group_id) else { return };
        deleting.is_out = false;
        if let Err(error) = outcome {
            deleting.is_decided = true;
            // Nothing is kept waiting for ever.
            for key in std::mem::take(&mut deleting.waiting) {
                self.key_done(key, Err(error));
            }
        }
        self.go_on_deleting(&group_id);
    }

    fn go_on_deleting(&mut self, group_id: &Text) {
        let Some(deleting) = self.deleting.get_mut(group_id) else { return };
        if deleting.is_out || deleting.tombstones > 0 {
            return;
        }
        if deleting.is_decided {
            deleting.is_decided = false;
            deleting.is_out = true;
            return self.ready.push_back(Op::DeleteGroup { group_id: group_id.clone() });
        }
        for key in self.deleting.remove(group_id).map(|deleting| deleting.waiting).unwrap_or_default() {
            self.announce(key);
        }
    }

    fn part_done(&mut self, id: PersistId, outcome: Outcome) {
        let Some(waiting) = self.waiting.get_mut(&id) else { return };
        waiting.parts -= 1;
        waiting.outcome = waiting.outcome.and(outcome);
        if waiting.parts == 0 {
            let outcome = waiting.outcome;
            self.waiting.remove(&id);
            self.decided.push_back((id, outcome));
        }
    }

    /// A write that is decided, and how.
    pub fn poll_decided(&mut self) -> Option<(PersistId, Outcome)> {
        self.decided.pop_front()
    }
}

fn of_group(key: &OffsetKey) -> (Text, i32) {
    (key.topic.clone(), key.partition)
}

#[cfg(test)]
mod tests;
