//! A census: every group with what it has committed, held against the ends of partitions.
//!
//! [`Gathering`] takes in what shards tell, a page at a time, and [`Gathering::finish`] makes a [`Census`] of it: values
//! without clock or I/O. What a group has committed for a topic that is gone, or that was made anew since, is left out.

use std::collections::HashMap;
use std::sync::Arc;

use ringgate_group::{Rebalances, State, SurveyPage, SurveyedGroup, SurveyedOffset, Text};
use ringgate_shards::catalogue::{Catalogue, Topic};
use ringgate_shards::watching::PartitionSeen;

use super::trend::Trend;
use crate::limits::CENSUS_OFFSETS_MAX;

/// Everything that was seen in one go.
#[derive(Debug, Default)]
pub struct Census {
    /// When it was finished, in ms since the epoch.
    pub at_ms: i64,
    /// By name.
    pub groups: Vec<GroupSeen>,
    /// Kafka's topics by name.
    pub topics: Vec<TopicSeen>,
    /// Of all groups together, where it is known of any.
    pub lag: Option<u64>,
    /// Members of all groups.
    pub members: usize,
    /// Committed offsets that were not looked at, since there were more than [`CENSUS_OFFSETS_MAX`].
    pub offsets_left_out: usize,
    /// Groups by lag, the largest first, of those that have any.
    pub lagging: Vec<u32>,
    /// The largest lags of partitions, where they are wanted.
    pub partition_lags: Vec<PartitionLag>,
}

/// A group.
#[derive(Debug, Clone)]
pub struct GroupSeen {
    /// Its name.
    pub group: Text,
    /// The shard that coordinates it.
    pub shard: u16,
    /// Its state.
    pub state: State,
    /// Since when it has that state, in ms since the epoch.
    pub state_since_ms: i64,
    /// A group of KIP-848.
    pub is_consumer: bool,
    /// `consumer`, `connect`, ...
    pub protocol_type: Text,
    /// The assignor in use.
    pub protocol: Option<Text>,
    /// The generation, or the epoch of a group of KIP-848.
    pub generation: i32,
    /// How many members.
    pub members: usize,
    /// Partitions for which it has committed something.
    pub committed: usize,
    /// Records from what it has committed to the ends, of those partitions of which both are known; `None` where there
    /// is no such partition.
    pub lag: Option<u64>,
    /// How that has changed.
    pub trend: Trend,
}

/// A topic.
#[derive(Debug, Clone)]
pub struct TopicSeen {
    /// The topic.
    pub topic: Arc<Topic>,
    /// Records that are there, of those partitions of which it is known.
    pub records: Option<u64>,
    /// Bytes in the store, likewise.
    pub bytes: Option<u64>,
    /// The ends of its partitions together: records that ever came.
    pub end: Option<u64>,
    /// Records that came in a second since the census before.
    pub records_in: Option<f64>,
    /// Groups that have committed something for it.
    pub groups: usize,
    /// Partitions whose log a failed write has closed.
    pub closed: usize,
}

/// The lag of a group on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionLag {
    /// The place of the group in its census.
    pub group: u32,
    /// The place of the topic in its census.
    pub topic: u32,
    /// The partition.
    pub partition: i32,
    /// Records from what is committed to the end.
    pub lag: u64,
}

/// What partitions of the catalogue's topics hold: by the topic's place, then by partition.
pub type Ends = Vec<Vec<Option<PartitionSeen>>>;

/// A census that is being made.
#[derive(Debug)]
pub struct Gathering {
    topics: Vec<Arc<Topic>>,
    places: HashMap<Arc<str>, u32>,
    groups: Vec<Gathered>,
    by_name: HashMap<Text, usize>,
    offsets: usize,
    offsets_max: usize,
    left_out: usize,
}

#[derive(Debug)]
struct Gathered {
    seen: GroupSeen,
    offsets: Vec<Committed>,
    knows_offsets: bool,
}

#[derive(Debug, Clone, Copy)]
struct Committed {
    topic: u32,
    partition: i32,
    offset: i64,
}

impl Gathering {
    /// Nothing yet, of a gateway with these topics.
    pub fn new(catalogue: &Catalogue) -> Gathering {
        Gathering::with_room(catalogue, CENSUS_OFFSETS_MAX)
    }

    fn with_room(catalogue: &Catalogue, offsets_max: usize) -> Gathering {
        let topics: Vec<_> = catalogue.topics().cloned().collect();
        let places = topics.iter().enumerate().map(|(place, topic)| (topic.name.clone(), place as u32)).collect();
        Gathering { topics, places, groups: Vec::new(), by_name: HashMap::new(), offsets: 0, offsets_max, left_out: 0 }
    }

    /// The topics, in whose order the ends are wanted.
    pub fn topics(&self) -> &[Arc<Topic>] {
        &self.topics
    }

    /// The places of the topics that some group has committed for.
    pub fn committed_topics(&self) -> Vec<u32> {
        let mut is_committed = vec![false; self.topics.len()];
        for committed in self.groups.iter().flat_map(|group| &group.offsets) {
            is_committed[committed.topic as usize] = true;
        }
        (0..).zip(is_committed).filter(|(_, is)| *is).map(|(place, _)| place).collect()
    }

    /// What a shard tells of its groups.
    pub fn take(&mut self, shard: u16, page: SurveyPage) {
        for group in page.groups {
            let place = *self.by_name.entry(group.group_id.clone()).or_insert(self.groups.len());
            if place == self.groups.len() {
                self.groups.push(Gathered {
                    seen: GroupSeen {
                        group: group.group_id,
                        shard,
                        state: group.state,
                        state_since_ms: group.state_since_ms,
                        is_consumer: group.is_consumer,
                        protocol_type: group.protocol_type,
                        protocol: group.protocol,
                        generation: group.generation,
                        members: group.members,
                        committed: 0,
                        lag: None,
                        trend: Trend::default(),
                    },
                    offsets: Vec::new(),
                    knows_offsets: group.knows_offsets,
                });
            }
            let gathered = &mut self.groups[place];
            if group.is_begin {
                self.offsets -= gathered.offsets.len();
                gathered.offsets.clear();
            }
            for seen in group.offsets {
                let Some(place) = self.places.get(seen.topic.as_str()) else { continue };
                let topic = &self.topics[*place as usize];
                let is_same = seen.topic_id == 0 || seen.topic_id == topic.id.as_u128();
                if !is_same || topic.partition(seen.partition).is_none() {
                    continue;
                }
                if self.offsets == self.offsets_max {
                    self.left_out += 1;
                    // Part of a sum would look like a group that has caught up.
                    gathered.knows_offsets = false;
                    continue;
                }
                self.offsets += 1;
                let (partition, offset) = (seen.partition, seen.offset);
                gathered.offsets.push(Committed { topic: *place, partition, offset });
            }
        }
    }

    /// The census, with how it compares to the one before; `partition_lags_max` of the largest lags of partitions.
    pub fn finish(self, ends: &Ends, before: Option<&Census>, at_ms: i64, partition_lags_max: usize) -> Census {
        let end_of = |committed: &Committed| {
            let seen = ends.get(committed.topic as usize)?.get(usize::try_from(committed.partition).ok()?)?;
            seen.map(|seen| seen.high_watermark)
        };
        let mut groups = self.groups;
        groups.sort_unstable_by(|a, b| a.seen.group.cmp(&b.seen.group));
        let mut topic_groups = vec![0; self.topics.len()];
        let mut last_counted = vec![u32::MAX; self.topics.len()];
        let mut partition_lags = Vec::new();
        let mut earlier = before.map_or(&[][..], |before| &before.groups).iter().peekable();
        for (place, group) in (0u32..).zip(&mut groups) {
            let mut lag = None;
            for committed in &group.offsets {
                let topic = committed.topic as usize;
                if last_counted[topic] != place {
                    last_counted[topic] = place;
                    topic_groups[topic] += 1;
                }
                // Clients may commit a number below 0, which is read as if nothing was committed.
                let Some(end) = end_of(committed).filter(|_| committed.offset >= 0) else { continue };
                let behind = u64::try_from(end.saturating_sub(committed.offset)).unwrap_or(0);
                lag = Some(lag.unwrap_or(0u64).saturating_add(behind));
                if partition_lags_max > 0 {
                    let (topic, partition) = (committed.topic, committed.partition);
                    partition_lags.push(PartitionLag { group: place, topic, partition, lag: behind });
                }
            }
            group.seen.committed = group.offsets.len();
            group.seen.lag = lag.filter(|_| group.knows_offsets);
            while earlier.next_if(|earlier| earlier.group < group.seen.group).is_some() {}
            let same = earlier.next_if(|earlier| earlier.group == group.seen.group);
            group.seen.trend = same.map_or_else(Trend::default, |same| same.trend.clone()).after(group.seen.lag, at_ms);
        }
        let by_lag = |a: &PartitionLag, b: &PartitionLag| b.lag.cmp(&a.lag);
        if partition_lags.len() > partition_lags_max && partition_lags_max > 0 {
            partition_lags.select_nth_unstable_by(partition_lags_max - 1, by_lag);
            partition_lags.truncate(partition_lags_max);
        }
        let groups: Vec<GroupSeen> = groups.into_iter().map(|group| group.seen).collect();
        let mut lagging: Vec<u32> =
            (0u32..).zip(&groups).filter(|(_, group)| group.lag.is_some_and(|lag| lag > 0)).map(|(at, _)| at).collect();
        lagging.sort_unstable_by_key(|at| std::cmp::Reverse(groups[*at as usize].lag));
        let passed_ms = before.map(|before| at_ms - before.at_ms).filter(|passed| *passed > 0);
        let topics = self.topics.into_iter().enumerate();
        let topics = topics.map(|(place, topic)| {
            let seen: Vec<PartitionSeen> = ends.get(place).into_iter().flatten().flatten().copied().collect();
            let end = sum(&seen, |seen| u64::try_from(seen.high_watermark).ok());
            let earlier = before.and_then(|before| before.topic(&topic.name)).filter(|was| was.topic.id == topic.id);
            let came = end.zip(earlier.and_then(|was| was.end)).map(|(now, was)| now.saturating_sub(was));
            TopicSeen {
                records: sum(&seen, |seen| u64::try_from(seen.high_watermark - seen.log_start_offset?).ok()),
                bytes: sum(&seen, |seen| seen.bytes),
                end,
                records_in: came.zip(passed_ms).map(|(came, ms)| came as f64 * 1000.0 / ms as f64),
                groups: topic_groups[place],
                closed: seen.iter().filter(|seen| seen.is_closed).count(),
                topic,
            }
        });
        let lags = groups.iter().filter_map(|group| group.lag);
        Census {
            at_ms,
            topics: topics.collect(),
            lag: lags.fold(None, |sum, lag| Some(sum.unwrap_or(0u64).saturating_add(lag))),
            members: groups.iter().map(|group| group.members).sum(),
            offsets_left_out: self.left_out,
            lagging,
            partition_lags,
            groups,
        }
    }
}

/// The sum of what is known; `None` where nothing is.
fn sum(seen: &[PartitionSeen], of: impl Fn(&PartitionSeen) -> Option<u64>) -> Option<u64> {
    let known = seen.iter().filter_map(of);
    known.fold(None, |sum, one| Some(sum.unwrap_or(0u64).saturating_add(one)))
}

impl Census {
    /// One group that is three records behind on one partition.
    pub(super) fn example() -> Census {
        let topic = Topic::new(uuid::Uuid::from_u128(1), 0, (0, "kafka"), "orders".into());
        let mut gathering = Gathering::new(&Catalogue::new(1, [Arc::new(topic)]));
        let committed = SurveyedOffset {
            topic: "orders".into(),
            topic_id: 1,
            partition: 0,
            offset: 0,
            committed_at_ms: 0,
            metadata: Text::EMPTY,
        };
        let group = SurveyedGroup {
            group_id: "billing".into(),
            state: State::Empty,
            state_since_ms: 0,
            is_consumer: false,
            protocol_type: Text::EMPTY,
            protocol: None,
            generation: 0,
            members: 0,
            leader: None,
            rebalances: Rebalances::default(),
            knows_offsets: true,
            is_begin: true,
            has_more: false,
            offsets: vec![committed],
        };
        gathering.take(0, SurveyPage { groups: vec![group], next: None });
        let end = PartitionSeen { log_start_offset: Some(0), high_watermark: 3, bytes: None, is_closed: false };
        gathering.finish(&vec![vec![Some(end)]], None, 0, 1)
    }

    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&GroupSeen> {
        let at = self.groups.binary_search_by(|group| group.group.as_bytes().cmp(name.as_bytes()));
        at.ok().map(|at| &self.groups[at])
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<&TopicSeen> {
        let at = self.topics.binary_search_by(|seen| (*seen.topic.name).cmp(name));
        at.ok().map(|at| &self.topics[at])
    }

    /// Groups by lag, the largest first, of those that have any.
    pub fn by_lag(&self) -> impl Iterator<Item = &GroupSeen> {
        self.lagging.iter().map(|at| &self.groups[*at as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(topics: &[(&str, u128, i32)]) -> Catalogue {
        let topic = |(name, id, partitions): &(&str, u128, i32)| {
            let topic = Topic::new(uuid::Uuid::from_u128(*id), 0, (0, "kafka"), (*name).into());
            Arc::new(Topic { partitions: *partitions, ..topic })
        };
        Catalogue::new(1, topics.iter().map(topic))
    }

    fn offset(topic: &str, topic_id: u128, partition: i32, offset: i64) -> SurveyedOffset {
        let (committed_at_ms, metadata) = (0, Text::EMPTY);
        SurveyedOffset { topic: topic.into(), topic_id, partition, offset, committed_at_ms, metadata }
    }

    fn page(group: &str, is_begin: bool, offsets: Vec<SurveyedOffset>) -> SurveyPage {
        let group = SurveyedGroup {
            group_id: group.into(),
            state: State::Stable,
            state_since_ms: 0,
            is_consumer: false,
            protocol_type: "consumer".into(),
            protocol: None,
            generation: 1,
            members: 2,
            leader: None,
            rebalances: Rebalances::default(),
            knows_offsets: true,
            is_begin,
            has_more: false,
            offsets,
        };
        SurveyPage { groups: vec![group], next: None }
    }

    fn ends_at(ends: &[i64]) -> Vec<Option<PartitionSeen>> {
        let seen = |end: &i64| PartitionSeen {
            log_start_offset: Some(0),
            high_watermark: *end,
            bytes: Some(*end as u64 * 10),
            is_closed: false,
        };
        ends.iter().map(|end| (*end >= 0).then(|| seen(end))).collect()
    }

    #[test]
    fn the_lag_of_a_group_is_from_what_it_committed_to_the_ends() {
        let mut gathering = Gathering::new(&catalogue(&[("a", 1, 2), ("b", 2, 1)]));
        gathering.take(0, page("g", true, vec![offset("a", 1, 0, 4), offset("b", 0, 0, 9)]));
        gathering.take(1, page("done", true, vec![offset("a", 1, 0, 10)]));
        gathering.take(1, page("new", true, Vec::new()));
        assert_eq!(gathering.committed_topics(), [0, 1]);
        let census = gathering.finish(&vec![ends_at(&[10, 7]), ends_at(&[10])], None, 1_000, 0);
        assert_eq!(census.group("g").unwrap().lag, Some(7));
        assert_eq!(census.group("done").unwrap().lag, Some(0));
        assert_eq!(census.group("new").unwrap().lag, None, "it has committed nothing");
        assert_eq!((census.lag, census.members), (Some(7), 6));
        assert_eq!(census.by_lag().map(|group| group.group.as_str()).collect::<Vec<_>>(), ["g"]);
        let a = census.topic("a").unwrap();
        assert_eq!((a.records, a.bytes, a.groups, a.records_in), (Some(17), Some(170), 2, None));
    }

    #[test]
    fn what_is_committed_beyond_the_end_is_no_lag_and_what_is_unknown_does_not_count() {
        let mut gathering = Gathering::new(&catalogue(&[("a", 1, 3)]));
        gathering.take(0, page("g", true, vec![offset("a", 1, 0, 12), offset("a", 1, 1, 3), offset("a", 1, 2, 0)]));
        gathering.take(0, page("blind", true, vec![offset("a", 1, 1, 3)]));
        let census = gathering.finish(&vec![ends_at(&[10, -1, 5])], None, 1_000, 0);
        assert_eq!(census.group("g").unwrap().lag, Some(5));
        assert_eq!(census.group("blind").unwrap().lag, None);
    }

    #[test]
    fn a_number_below_0_is_no_commit_and_has_no_lag() {
        let mut gathering = Gathering::new(&catalogue(&[("a", 1, 2)]));
        gathering.take(0, page("g", true, vec![offset("a", 1, 0, i64::MIN), offset("a", 1, 1, 3)]));
        gathering.take(0, page("none", true, vec![offset("a", 1, 0, -1)]));
        let census = gathering.finish(&vec![ends_at(&[10, 5])], None, 1_000, 10);
        assert_eq!((census.group("g").unwrap().lag, census.group("none").unwrap().lag), (Some(2), None));
        assert_eq!((census.lag, census.partition_lags.len()), (Some(2), 1));
    }

    #[test]
    fn offsets_of_topics_that_are_gone_or_were_made_anew_are_left_out() {
        let mut gathering = Gathering::new(&catalogue(&[("a", 1, 1)]));
        let offsets = vec![offset("a", 99, 0, 4), offset("gone", 7, 0, 4), offset("a", 1, 5, 4)];
        gathering.take(0, page("g", true, offsets));
        let census = gathering.finish(&vec![ends_at(&[10])], None, 1_000, 0);
        assert_eq!(census.group("g").unwrap().lag, None);
        assert_eq!(census.topic("a").unwrap().groups, 0);
    }

    #[test]
    fn a_group_in_several_pages_is_summed_and_one_that_begins_again_is_not_counted_twice() {
        let mut gathering = Gathering::new(&catalogue(&[("a", 1, 2)]));
        gathering.take(0, page("g", true, vec![offset("a", 1, 0, 1)]));
        gathering.take(0, page("g", false, vec![offset("a", 1, 1, 2)]));
        gathering.take(0, page("h", true, vec![offset("a", 1, 0, 1)]));
        gathering.take(0, page("h", true, vec![offset("a", 1, 0, 3)]));
        let census = gathering.finish(&vec![ends_at(&[10, 10])], None, 1_000, 10);
        assert_eq!(census.group("g").unwrap().lag, Some(17));
        assert_eq!(census.group("h").unwrap().lag, Some(7));
        assert_eq!(census.partition_lags.len(), 3);
    }

    #[test]
    fn a_group_that_the_bound_on_offsets_cuts_has_no_lag_rather_than_a_part_of_it() {
        let mut gathering = Gathering::with_room(&catalogue(&[("a", 1, 3)]), 2);
        gathering.take(0, page("g", true, (0..3).map(|p| offset("a", 1, p, 0)).collect()));
        let census = gathering.finish(&vec![ends_at(&[10, 10, 10])], None, 1_000, 1);
        assert_eq!((census.group("g").unwrap().lag, census.offsets_left_out), (None, 1));
        assert_eq!(census.partition_lags.len(), 1);
    }

    #[test]
    fn rates_and_trends_go_from_one_census_to_the_next() {
        let catalogue = catalogue(&[("a", 1, 1)]);
        let census = |before: Option<&Census>, committed, end, at_ms| {
            let mut gathering = Gathering::new(&catalogue);
            gathering.take(0, page("g", true, vec![offset("a", 1, 0, committed)]));
            gathering.finish(&vec![ends_at(&[end])], before, at_ms, 0)
        };
        let first = census(None, 0, 10, 1_000);
        let second = census(Some(&first), 5, 110, 6_000);
        assert_eq!(second.topic("a").unwrap().records_in, Some(20.0));
        let trend = &second.group("g").unwrap().trend;
        assert_eq!((trend.lagging_since_ms, trend.per_second), (Some(1_000), Some(19.0)));
        let third = census(Some(&second), 110, 110, 11_000);
        assert_eq!(third.group("g").unwrap().trend.lagging_since_ms, None);
    }
}
