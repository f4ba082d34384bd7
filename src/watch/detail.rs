//! One group or topic, looked at for somebody who asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringgate_group::request::DescribeGroupRequest;
use ringgate_group::{
    ConnectionId, Request, Response, SurveyCursor, SurveyedGroup, SurveyedOffset, Text, assigned_partitions,
};
use ringgate_shards::call::{GroupAnswered, GroupCall};
use ringgate_shards::catalogue::{Catalogue, Topic};
use ringgate_shards::watching::PartitionSeen;

use super::asking::{self, Known};
use super::census::{Ends, Gathering, GroupSeen};
use super::{Watch, now_ms};
use crate::limits::DETAIL_TOPICS_ASKED;

/// A shard that was asked is not there any more, as while the gateway stops.
#[derive(Debug)]
pub struct Unanswered;

/// A group with its members and what it has committed.
pub struct GroupDetail {
    /// The shard that coordinates it.
    pub shard: u16,
    /// Its state and numbers; its offsets are among the partitions.
    pub group: SurveyedGroup,
    /// Its members in join order.
    pub members: Vec<MemberSeen>,
    /// By topic and partition: what is committed, and what a member has.
    pub partitions: BTreeMap<(Text, i32), PartitionOfGroup>,
}

/// A member.
pub struct MemberSeen {
    /// Its id.
    pub member: Text,
    /// Set for static members.
    pub instance: Option<Text>,
    /// As it calls itself.
    pub client: Text,
    /// Where it connects from.
    pub host: Text,
    /// What it has.
    pub assigned: Vec<(Text, Vec<i32>)>,
}

/// A partition as a group sees it.
#[derive(Default)]
pub struct PartitionOfGroup {
    /// What is committed, if anything is.
    pub committed: Option<SurveyedOffset>,
    /// The end, where it is known.
    pub end: Option<i64>,
    /// The place of the member that has it.
    pub member: Option<usize>,
}

impl PartitionOfGroup {
    /// Records from what is committed to the end; `None` where one of them is not known. Below 0 nothing is committed.
    pub fn lag(&self) -> Option<u64> {
        let committed = self.committed.as_ref().map(|committed| committed.offset).filter(|offset| *offset >= 0)?;
        Some(u64::try_from(self.end?.saturating_sub(committed)).unwrap_or(0))
    }
}

impl Watch {
    /// The group of this name, now; `None` where there is none.
    ///
    /// # Errors
    /// Its shard does not answer.
    pub async fn group(&self, name: &str) -> Result<Option<GroupDetail>, Unanswered> {
        let known = asking::known(self.desks()).await.ok_or(Unanswered)?;
        let shard = known.route.group(name).0;
        let name = Text::from(name);
        let Some((group, offsets)) = self.survey(usize::from(shard), &name).await? else { return Ok(None) };
        let Some(members) = self.members(usize::from(shard), &name, &known.catalogue, &group).await? else {
            return Ok(None);
        };
        let mut partitions: BTreeMap<(Text, i32), PartitionOfGroup> = BTreeMap::new();
        for committed in offsets {
            let Some(topic) = known.catalogue.topic(committed.topic.as_str()) else { continue };
            let is_same = committed.topic_id == 0 || committed.topic_id == topic.id.as_u128();
            if is_same && topic.partition(committed.partition).is_some() {
                let key = (committed.topic.clone(), committed.partition);
                partitions.entry(key).or_default().committed = Some(committed);
            }
        }
        for (at, member) in members.iter().enumerate() {
            for (topic, numbers) in &member.assigned {
                for number in numbers {
                    partitions.entry((topic.clone(), *number)).or_default().member = Some(at);
                }
            }
        }
        self.find_ends(&known, &mut partitions).await;
        Ok(Some(GroupDetail { shard, group, members, partitions }))
    }

    /// All of a group that a survey sees, page by page.
    async fn survey(
        &self,
        shard: usize,
        name: &Text,
    ) -> Result<Option<(SurveyedGroup, Vec<SurveyedOffset>)>, Unanswered> {
        let mut offsets = Vec::new();
        let mut from = SurveyCursor::default();
        loop {
            let asked = name.clone();
            let page = self.desks().ask(shard, move |here| async move { here.front.shard.survey_group(&asked, from) });
            let Some(page) = page.await.map_err(|_| Unanswered)? else { return Ok(None) };
            let Some(mut group) = page.groups.into_iter().next() else { return Ok(None) };
            if group.is_begin {
                offsets.clear();
            }
            offsets.append(&mut group.offsets);
            match page.next {
                Some(next) => from = next,
                None => return Ok(Some((group, offsets))),
            }
        }
    }

    /// The group's members, as its coordinator describes them.
    async fn members(
        &self,
        shard: usize,
        name: &Text,
        catalogue: &Arc<Catalogue>,
        group: &SurveyedGroup,
    ) -> Result<Option<Vec<MemberSeen>>, Unanswered> {
        let request = match group.is_consumer {
            true => Request::ConsumerGroupDescribe(name.clone()),
            false => Request::DescribeGroup(DescribeGroupRequest { api_version: 5, group_id: name.clone() }),
        };
        let answer = self.desks().ask(shard, move |here| async move {
            let shard = &here.front.shard;
            // That of no client: nothing of a description is ever parked for long.
            let call = GroupCall { connection: ConnectionId(u64::MAX), request };
            let GroupAnswered(response) = shard.submit_to(shard.id(), call).await;
            response
        });
        Ok(match answer.await.map_err(|_| Unanswered)? {
            Response::DescribeGroup(described) => {
                let members = described.members.into_iter().map(|member| MemberSeen {
                    assigned: match described.protocol_type.as_str() {
                        "consumer" => assigned_partitions(&member.member_assignment).unwrap_or_default(),
                        _ => Vec::new(),
                    },
                    member: member.member_id,
                    instance: member.group_instance_id,
                    client: member.client_id,
                    host: member.client_host,
                });
                Some(members.collect())
            }
            Response::ConsumerGroupDescribe(described) => {
                let named =
                    |id: u128| catalogue.topic_by_id(uuid::Uuid::from_u128(id)).map(|topic| Text::from(&*topic.name));
                let members = described.members.into_iter().map(|member| MemberSeen {
                    assigned: member
                        .assignment
                        .by_topic()
                        .filter_map(|(id, partitions)| Some((named(id)?, partitions.collect())))
                        .collect(),
                    member: member.member_id,
                    instance: member.instance_id,
                    client: member.client_id,
                    host: member.client_host,
                });
                Some(members.collect())
            }
            _ => None,
        })
    }

    async fn find_ends(&self, known: &Known, partitions: &mut BTreeMap<(Text, i32), PartitionOfGroup>) {
        let mut topics: Vec<Arc<Topic>> =
            partitions.keys().filter_map(|(topic, _)| known.catalogue.topic(topic.as_str()).cloned()).collect();
        topics.dedup_by(|a, b| a.id == b.id);
        let ends = self.ends_of(known, &topics).await;
        let places: BTreeMap<&str, usize> = topics.iter().enumerate().map(|(at, topic)| (&*topic.name, at)).collect();
        for ((topic, partition), of) in partitions {
            let ends = places.get(topic.as_str()).map(|at| &ends[*at]);
            let end = ends.and_then(|ends| ends.get(usize::try_from(*partition).ok()?).copied().flatten());
            of.end = end.map(|seen| seen.high_watermark);
        }
    }

    /// What the partitions of topics hold now. On Iggy the first [`DETAIL_TOPICS_ASKED`] are asked for, and of the others
    /// what this gateway's clients have seen counts.
    async fn ends_of(&self, known: &Known, topics: &[Arc<Topic>]) -> Ends {
        let mut ends = asking::ends(self.desks(), known.route, topics).await;
        if !known.keeps_records {
            for (topic, ends) in topics.iter().zip(&mut ends).take(DETAIL_TOPICS_ASKED) {
                if let Some(told) = asking::measure_topic(self.desks(), known.route, topic).await {
                    *ends = told;
                }
            }
        }
        ends
    }

    /// The topic of this name with what its partitions hold, and the groups that have committed something for it.
    ///
    /// # Errors
    /// A shard does not answer.
    pub async fn topic(&self, name: &str) -> Result<Option<TopicDetail>, Unanswered> {
        let known = asking::known(self.desks()).await.ok_or(Unanswered)?;
        let Some(topic) = known.catalogue.topic(name).cloned() else { return Ok(None) };
        let partitions = self.ends_of(&known, std::slice::from_ref(&topic)).await.pop().unwrap_or_default();
        let shards = (0..topic.partitions).map(|partition| topic.owner(known.route, partition).0).collect();
        // All groups are gone through for this: one at a time.
        let _looking = self.looking.lock().await;
        let mut gathering = Gathering::new(&Catalogue::new(1, [topic.clone()]));
        asking::groups(self.desks(), &mut gathering).await.ok_or(Unanswered)?;
        let census = gathering.finish(&vec![partitions.clone()], None, now_ms(), 0);
        let mut groups: Vec<GroupSeen> = census.groups.into_iter().filter(|group| group.committed > 0).collect();
        groups.sort_by(|a, b| b.lag.cmp(&a.lag).then_with(|| a.group.cmp(&b.group)));
        Ok(Some(TopicDetail { topic, partitions, shards, groups, leader_epoch: known.leader_epoch }))
    }
}

/// A topic with its partitions and groups.
pub struct TopicDetail {
    /// The topic.
    pub topic: Arc<Topic>,
    /// What its partitions hold, by partition.
    pub partitions: Vec<Option<PartitionSeen>>,
    /// Who owns them, by partition.
    pub shards: Vec<u16>,
    /// The epoch of the leaders of its partitions.
    pub leader_epoch: i32,
    /// The groups that have committed something for it, the largest lag first.
    pub groups: Vec<GroupSeen>,
}
