//! What groups there are and what they have committed, for whoever watches: a slice at a time behind a cursor, and
//! nothing is changed by looking.

use super::Coordinator;
use super::ctx::Phase;
use super::group::{Group, State};
use super::offsets::Offsets;
use super::stats::Rebalances;
use crate::Text;
use crate::limits::SURVEY_SLICE;

/// Where a survey goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SurveyCursor {
    slot: usize,
    within: Option<Within>,
}

/// How far a survey is with the offsets of one group, and that they are still the same keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Within {
    uid: u64,
    keys: u64,
    topic: usize,
    partition: usize,
}

/// A slice of a survey.
#[derive(Debug, Clone, Default)]
pub struct SurveyPage {
    /// What was seen. A group with many offsets comes in several pages.
    pub groups: Vec<SurveyedGroup>,
    /// Where to go on; `None` at the end.
    pub next: Option<SurveyCursor>,
}

/// A group, and some of its offsets.
#[derive(Debug, Clone)]
pub struct SurveyedGroup {
    /// The group.
    pub group_id: Text,
    /// Its state.
    pub state: State,
    /// Since when, in ms since the epoch.
    pub state_since_ms: i64,
    /// A group of KIP-848.
    pub is_consumer: bool,
    /// `consumer`, `connect`, ...; "" for a group that only commits.
    pub protocol_type: Text,
    /// The assignor in use, if there is one.
    pub protocol: Option<Text>,
    /// The generation, or the epoch of a group of KIP-848.
    pub generation: i32,
    /// How many members.
    pub members: usize,
    /// The member that assigns; none in a group of KIP-848.
    pub leader: Option<Text>,
    /// What its rebalances came to.
    pub rebalances: Rebalances,
    /// All its offsets are in memory; a store that tells of them later may not have.
    pub knows_offsets: bool,
    /// The offsets begin here; else they go on from the page before. Where a group begins a second time, its keys have
    /// changed meanwhile, and what was seen of it before is to be forgotten.
    pub is_begin: bool,
    /// Further pages have more of its offsets.
    pub has_more: bool,
    /// Offsets that it has committed.
    pub offsets: Vec<SurveyedOffset>,
}

/// A committed offset.
#[derive(Debug, Clone)]
pub struct SurveyedOffset {
    /// The topic.
    pub topic: Text,
    /// The topic's id when it was committed; 0: unknown.
    pub topic_id: u128,
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
    /// Ms since the epoch.
    pub committed_at_ms: i64,
    /// The client's own; often "".
    pub metadata: Text,
}

impl Coordinator {
    /// A slice of all groups with their offsets, from the cursor on; [`SurveyCursor::default`] begins. A group that comes
    /// or goes meanwhile may be missed, or seen once more.
    pub fn survey(&self, from: SurveyCursor) -> SurveyPage {
        let mut page = SurveyPage::default();
        if self.ctx.phase == Phase::Loading {
            return page;
        }
        let mut cursor = from;
        let mut room = SURVEY_SLICE;
        while cursor.slot < self.groups.capacity() {
            if room == 0 {
                page.next = Some(cursor);
                break;
            }
            room -= 1;
            if let Some(group) = self.groups.get(cursor.slot) {
                let (seen, within) = group.surveyed(cursor.within, &mut room);
                page.groups.push(seen);
                if within.is_some() {
                    page.next = Some(SurveyCursor { slot: cursor.slot, within });
                    break;
                }
            }
            cursor = SurveyCursor { slot: cursor.slot + 1, within: None };
        }
        page
    }

    /// A slice of one group, from the cursor on; `None` where there is no such group.
    pub fn survey_group(&self, group_id: &Text, from: SurveyCursor) -> Option<SurveyPage> {
        let slot = *self.by_id.get(group_id)? as usize;
        let group = self.groups.get(slot)?;
        let within = if from.slot == slot { from.within } else { None };
        let (seen, within) = group.surveyed(within, &mut { SURVEY_SLICE });
        let next = within.map(|_| SurveyCursor { slot, within });
        Some(SurveyPage { groups: vec![seen], next })
    }
}

impl Group {
    /// What there is to see, and where to go on when the room did not last.
    fn surveyed(&self, from: Option<Within>, room: &mut usize) -> (SurveyedGroup, Option<Within>) {
        let keys = self.offsets.keys_changed;
        let from = from.filter(|from| from.uid == self.this.uid && from.keys == keys);
        let begin = (from.map_or(0, |from| from.topic), from.map_or(0, |from| from.partition));
        let (offsets, next) = self.offsets.surveyed(begin, room);
        let next = next.map(|(topic, partition)| Within { uid: self.this.uid, keys, topic, partition });
        let consumer = self.consumer.as_deref();
        let seen = SurveyedGroup {
            group_id: self.id.clone(),
            state: self.state,
            state_since_ms: self.state_timestamp_ms,
            is_consumer: consumer.is_some(),
            protocol_type: if consumer.is_some() { Text::from_static("consumer") } else { self.protocol_type.clone() },
            protocol: match consumer {
                Some(consumer) => Some(Text::from_static(consumer.assignor().name())),
                None => self.protocol_name.clone(),
            },
            generation: consumer.map_or(self.generation, |consumer| consumer.epoch()),
            members: consumer.map_or(self.members.len(), |consumer| consumer.member_count()),
            leader: self.leader.map(|slot| self.member(slot).member_id.clone()),
            rebalances: self.rebalances,
            knows_offsets: !self.offsets_missing,
            is_begin: from.is_none(),
            has_more: next.is_some(),
            offsets,
        };
        (seen, next)
    }
}

impl Offsets {
    /// Offsets from this (topic, partition) on, in the order of the maps, and where to go on.
    fn surveyed(&self, from: (usize, usize), room: &mut usize) -> (Vec<SurveyedOffset>, Option<(usize, usize)>) {
        let mut seen = Vec::new();
        let mut first = from.1;
        for (nth, (topic, partitions)) in self.topics.iter().enumerate().skip(from.0) {
            for (at, (partition, value)) in partitions.iter().enumerate().skip(std::mem::take(&mut first)) {
                if *room == 0 {
                    return (seen, Some((nth, at)));
                }
                *room -= 1;
                seen.push(SurveyedOffset {
                    topic: topic.clone(),
                    topic_id: value.topic_id,
                    partition: *partition,
                    offset: value.offset,
                    committed_at_ms: value.commit_timestamp_ms,
                    metadata: value.metadata.clone(),
                });
            }
        }
        (seen, None)
    }
}
