//! Asking shards for a census, in slices: a shard is asked for the next page when the one before has come, so that it
//! serves its clients in between.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use ringgate_group::SurveyCursor;
use ringgate_group::route::Route;
use ringgate_shards::call::TopicPartition;
use ringgate_shards::catalogue::{Catalogue, Topic};
use ringgate_shards::watching::PartitionSeen;
use uuid::Uuid;

use super::census::{Ends, Gathering};
use crate::desks::{Desks, Here};
use crate::limits::{CENSUS_ASKED_AT_ONCE, CENSUS_TOPICS_ASKED};

/// What the whole gateway is, as every shard knows it.
pub struct Known {
    /// The topics that clients see.
    pub catalogue: Arc<Catalogue>,
    /// Who owns what.
    pub route: Route,
    /// Records are kept here, and not in Iggy.
    pub keeps_records: bool,
    /// The epoch of every partition's leader in this run.
    pub leader_epoch: i32,
}

/// What shard 0 knows; `None` when it is not there.
pub async fn known(desks: &Desks) -> Option<Known> {
    let known = |here: Rc<Here>| async move {
        let shard = &here.front.shard;
        Known {
            catalogue: shard.catalogue(),
            route: shard.route(),
            keeps_records: shard.keeps_records(),
            leader_epoch: shard.leader_epoch(),
        }
    };
    desks.ask(0, known).await.ok()
}

/// Every group of every shard, page by page; `None` when a shard is not there any more.
pub async fn groups(desks: &Desks, gathering: &mut Gathering) -> Option<()> {
    for shard in 0..desks.len() {
        let mut cursor = Some(SurveyCursor::default());
        while let Some(from) = cursor {
            let page = desks.ask(shard, move |here| async move { here.front.shard.survey_groups(from) }).await.ok()?;
            cursor = page.next;
            gathering.take(u16::try_from(shard).ok()?, page);
        }
    }
    Some(())
}

/// The ends of all partitions of these topics, each from its owner.
pub async fn ends(desks: &Desks, route: Route, topics: &[Arc<Topic>]) -> Ends {
    let mut ends: Ends =
        topics.iter().map(|topic| vec![None; usize::try_from(topic.partitions).unwrap_or(0)]).collect();
    let mut owned: Vec<Vec<(usize, TopicPartition)>> = vec![Vec::new(); desks.len()];
    for (place, topic) in topics.iter().enumerate() {
        for partition in 0..topic.partitions {
            let owner = usize::from(topic.owner(route, partition).0);
            owned[owner].push((place, TopicPartition { topic: topic.id, partition }));
            if owned[owner].len() == CENSUS_ASKED_AT_ONCE {
                measure(desks, owner, &mut owned[owner], &mut ends).await;
            }
        }
    }
    for (owner, owned) in owned.iter_mut().enumerate() {
        measure(desks, owner, owned, &mut ends).await;
    }
    ends
}

/// Asks one owner. Who does not answer knows of none.
async fn measure(desks: &Desks, owner: usize, owned: &mut Vec<(usize, TopicPartition)>, ends: &mut Ends) {
    if owned.is_empty() {
        return;
    }
    let asked: Vec<TopicPartition> = owned.iter().map(|(_, at)| *at).collect();
    let seen = desks.ask(owner, move |here| async move { here.front.shard.measure(asked).await }).await;
    for ((place, at), seen) in owned.drain(..).zip(seen.unwrap_or_default()) {
        ends[place][at.partition as usize] = seen;
    }
}

/// What Iggy has told of the ends of partitions, topic by topic.
#[derive(Debug, Default)]
pub struct IggyEnds {
    /// What it said last, and the turn in which it did.
    told: HashMap<Uuid, (u64, Vec<Option<PartitionSeen>>)>,
    turn: u64,
}

impl IggyEnds {
    /// The ends of all topics, as far as they are known: of these `wanted` places the [`CENSUS_TOPICS_ASKED`] that Iggy was
    /// not asked for longest are asked for now, a request each, and where clients have read or written further since, that
    /// counts. Topics that nobody wants are not asked for.
    pub async fn look(&mut self, desks: &Desks, known: &Known, topics: &[Arc<Topic>], wanted: Vec<u32>) -> Ends {
        self.turn += 1;
        let mut asked: Vec<&Arc<Topic>> = wanted.iter().map(|place| &topics[*place as usize]).collect();
        asked.sort_by_key(|topic| self.told.get(&topic.id).map_or(0, |(turn, _)| *turn));
        for topic in asked.into_iter().take(CENSUS_TOPICS_ASKED) {
            if let Some(seen) = measure_topic(desks, known.route, topic).await {
                self.told.insert(topic.id, (self.turn, seen));
            }
        }
        self.told.retain(|id, _| known.catalogue.topic_by_id(*id).is_some());
        let wanted: Vec<Arc<Topic>> = wanted.into_iter().map(|place| topics[place as usize].clone()).collect();
        let served: HashMap<Uuid, Vec<Option<PartitionSeen>>> =
            wanted.iter().map(|topic| topic.id).zip(ends(desks, known.route, &wanted).await).collect();
        topics
            .iter()
            .map(|topic| joined(topic, self.told.get(&topic.id).map(|(_, t)| t), served.get(&topic.id)))
            .collect()
    }
}

/// What Iggy says that a topic's partitions hold.
pub async fn measure_topic(desks: &Desks, route: Route, topic: &Arc<Topic>) -> Option<Vec<Option<PartitionSeen>>> {
    let (owner, topic) = (usize::from(topic.owner(route, 0).0), topic.clone());
    desks.ask(owner, move |here| async move { here.front.shard.measure_topic(&topic).await }).await.ok()?
}

/// What Iggy told, moved on to where this gateway's clients have been since.
fn joined(
    topic: &Topic,
    told: Option<&Vec<Option<PartitionSeen>>>,
    served: Option<&Vec<Option<PartitionSeen>>>,
) -> Vec<Option<PartitionSeen>> {
    let at = |all: Option<&Vec<Option<PartitionSeen>>>, nth: usize| all.and_then(|all| all.get(nth).copied()).flatten();
    let join = |nth: usize| match (at(told, nth), at(served, nth)) {
        (Some(told), Some(served)) => {
            Some(PartitionSeen { high_watermark: told.high_watermark.max(served.high_watermark), ..told })
        }
        // What a partition is opened with, before anybody has read or written, is no end.
        (None, Some(served)) => Some(served).filter(|served| served.high_watermark > 0),
        (told, None) => told,
    };
    (0..usize::try_from(topic.partitions).unwrap_or(0)).map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(high_watermark: i64) -> Option<PartitionSeen> {
        Some(PartitionSeen { log_start_offset: None, high_watermark, bytes: None, is_closed: false })
    }

    #[test]
    fn an_end_is_the_furthest_that_iggy_told_or_clients_have_seen() {
        let topic = Topic::new(Uuid::from_u128(1), 0, (0, "kafka"), "t".into());
        let topic = Topic { partitions: 5, ..topic };
        let told = vec![seen(5), seen(7), seen(3), None, None];
        let served = vec![seen(6), seen(4), None, seen(9), seen(0)];
        let ends = joined(&topic, Some(&told), Some(&served));
        let ends: Vec<_> = ends.iter().map(|seen| seen.map(|seen| seen.high_watermark)).collect();
        assert_eq!(ends, [Some(6), Some(7), Some(3), Some(9), None]);
    }
}
