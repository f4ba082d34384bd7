//! A member of a classic group: what it asks its coordinator.

use std::time::{Duration, Instant};

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use ringgate_client::{CallError, Connection, Target};

use crate::limits::RETRY_PAUSE;
use crate::scenario::fleet::Assignor;
use crate::scenario::fleet::assignor::{assigned, assignment, subscription};
use crate::scenario::fleet::codes::{ILLEGAL_GENERATION, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID};

/// The versions from which on JoinGroup names a rebalance timeout, OffsetFetch several groups, and LeaveGroup several
/// members.
const REBALANCE_TIMEOUT: i16 = 1;
const SEVERAL_GROUPS: i16 = 8;
const SEVERAL_MEMBERS: i16 = 3;
/// The last versions of OffsetCommit and OffsetFetch that name topics by their names.
const BY_NAME: i16 = 9;

/// A member, of the group with this id; partitions are numbered over all topics, `per_topic` of each.
pub(super) struct Membership {
    target: Target,
    group: GroupId,
    topics: Vec<StrBytes>,
    per_topic: usize,
    session: Duration,
    connection: Option<Connection>,
    id: StrBytes,
    generation: i32,
}

impl Membership {
    /// Not a member yet.
    pub(super) fn new(target: Target, group: &str, topics: Vec<StrBytes>, per_topic: usize, session: Duration) -> Self {
        let group = GroupId(StrBytes::from_string(group.into()));
        let (id, connection) = (StrBytes::default(), None);
        Membership { target, group, topics, per_topic, session, connection, id, generation: -1 }
    }

    fn version(&self, api: ApiKey) -> Result<i16, CallError> {
        self.target.version_up_to(
            api,
            if api == ApiKey::OffsetCommit || api == ApiKey::OffsetFetch { BY_NAME } else { i16::MAX },
        )
    }

    /// Asks the coordinator, over the connection that there is or a new one.
    async fn ask<R: Request>(
        &mut self,
        api: ApiKey,
        request: impl FnOnce(&Self, i16) -> R,
    ) -> Result<R::Response, CallError> {
        let version = self.version(api)?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let coordinator = self.target.coordinator(&self.group.0).await?;
                self.target.connect(&coordinator).await?
            }
        };
        let answer = connection.call(version, &request(self, version)).await?;
        self.connection = Some(connection);
        Ok(answer)
    }

    /// Joins, until there is an assignment: its partitions. What passes is tried again until `until`.
    pub(super) async fn join(&mut self, until: Instant) -> Result<Vec<usize>, CallError> {
        loop {
            let error = match self.join_once().await {
                Ok(Some(partitions)) => return Ok(partitions),
                Ok(None) => continue,
                Err(error) => error,
            };
            // A coordinator that has moved, or is loading, or was lost with its connection.
            let passes = matches!(error, CallError::Disconnected | CallError::Kafka { code: 14..=16, .. });
            if !passes || Instant::now() > until {
                return Err(error);
            }
            self.connection = None;
            ringgate_runtime::sleep(RETRY_PAUSE).await;
        }
    }

    async fn join_once(&mut self) -> Result<Option<Vec<usize>>, CallError> {
        let joined = self.ask(ApiKey::JoinGroup, Membership::join_request).await?;
        match joined.error_code {
            0 => {}
            MEMBER_ID_REQUIRED => {
                self.id = joined.member_id;
                return Ok(None);
            }
            UNKNOWN_MEMBER_ID => {
                self.id = StrBytes::default();
                return Ok(None);
            }
            REBALANCE_IN_PROGRESS => return Ok(None),
            code => return Err(CallError::Kafka { code, what: "JoinGroup".into() }),
        }
        self.id = joined.member_id.clone();
        self.generation = joined.generation_id;
        let synced = self.ask(ApiKey::SyncGroup, |member, _| member.sync_request(&joined)).await?;
        match synced.error_code {
            0 => {}
            UNKNOWN_MEMBER_ID => {
                self.id = StrBytes::default();
                return Ok(None);
            }
            ILLEGAL_GENERATION | REBALANCE_IN_PROGRESS => return Ok(None),
            code => return Err(CallError::Kafka { code, what: "SyncGroup".into() }),
        }
        let numbers = assigned(synced.assignment, &self.topics).map_err(CallError::BadResponse)?;
        let topics = self.topics.len();
        let mut partitions = Vec::with_capacity(numbers.len());
        for number in numbers {
            let (topic, index) = (number as usize % topics, number as usize / topics);
            if index >= self.per_topic {
                return Err(CallError::BadResponse("assigned is a partition that there is not".into()));
            }
            partitions.push(topic * self.per_topic + index);
        }
        partitions.sort_unstable();
        Ok(Some(partitions))
    }

    fn join_request(&self, version: i16) -> JoinGroupRequest {
        let session_ms = i32::try_from(self.session.as_millis()).unwrap_or(i32::MAX);
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(Assignor::Range.name()))
            .with_metadata(subscription(&self.topics));
        let mut request = JoinGroupRequest::default()
            .with_group_id(self.group.clone())
            .with_session_timeout_ms(session_ms)
            .with_member_id(self.id.clone())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol]);
        if version >= REBALANCE_TIMEOUT {
            request.rebalance_timeout_ms = session_ms;
        }
        request
    }

    /// With everybody's assignment, if this member is the leader.
    fn sync_request(&self, joined: &JoinGroupResponse) -> SyncGroupRequest {
        let request = SyncGroupRequest::default()
            .with_group_id(self.group.clone())
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_protocol_type(Some(StrBytes::from_static_str("consumer")))
            .with_protocol_name(joined.protocol_name.clone());
        if joined.leader != joined.member_id || joined.skip_assignment {
            return request;
        }
        let mut members: Vec<&StrBytes> = joined.members.iter().map(|member| &member.member_id).collect();
        members.sort_unstable();
        let shares = Assignor::Range.assign(members.len(), self.topics.len() as u32, self.per_topic as u32);
        let assignments = members.into_iter().zip(shares).map(|(member, share)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(member.clone())
                .with_assignment(assignment(&self.topics, &share))
        });
        request.with_assignments(assignments.collect())
    }

    /// Whether it is still in its generation; otherwise it has to join again.
    pub(super) async fn heartbeat(&mut self) -> Result<bool, CallError> {
        let answer = self
            .ask(ApiKey::Heartbeat, |member, _| {
                HeartbeatRequest::default()
                    .with_group_id(member.group.clone())
                    .with_member_id(member.id.clone())
                    .with_generation_id(member.generation)
            })
            .await?;
        match answer.error_code {
            0 => Ok(true),
            ILLEGAL_GENERATION | REBALANCE_IN_PROGRESS => Ok(false),
            UNKNOWN_MEMBER_ID => {
                self.id = StrBytes::default();
                Ok(false)
            }
            code => Err(CallError::Kafka { code, what: "Heartbeat".into() }),
        }
    }

    /// The group's offsets of these partitions; 0, their first, where it has none.
    pub(super) async fn committed(&mut self, partitions: &[usize]) -> Result<Vec<(usize, i64)>, CallError> {
        let version = self.version(ApiKey::OffsetFetch)?;
        let by_topic = self.by_topic(partitions.iter().map(|partition| (*partition, 0)));
        let answer = self
            .ask(ApiKey::OffsetFetch, |member, version| {
                let indexes = |of: &[(i32, i64)]| of.iter().map(|(index, _)| *index).collect();
                if version < SEVERAL_GROUPS {
                    let topics = by_topic.iter().map(|(name, of)| {
                        OffsetFetchRequestTopic::default().with_name(name.clone()).with_partition_indexes(indexes(of))
                    });
                    return OffsetFetchRequest::default()
                        .with_group_id(member.group.clone())
                        .with_topics(Some(topics.collect()));
                }
                let topics = by_topic.iter().map(|(name, of)| {
                    OffsetFetchRequestTopics::default().with_name(name.clone()).with_partition_indexes(indexes(of))
                });
                let group = OffsetFetchRequestGroup::default()
                    .with_group_id(member.group.clone())
                    .with_member_epoch(-1)
                    .with_topics(Some(topics.collect()));
                OffsetFetchRequest::default().with_groups(vec![group])
            })
            .await?;
        let mut found: Vec<(StrBytes, i32, i64, i16)> = Vec::new();
        let mut code = answer.error_code;
        if version < SEVERAL_GROUPS {
            for topic in &answer.topics {
                let of = topic.partitions.iter();
                found.extend(of.map(|p| (topic.name.0.clone(), p.partition_index, p.committed_offset, p.error_code)));
            }
        }
        for group in &answer.groups {
            code = if code == 0 { group.error_code } else { code };
            for topic in &group.topics {
                let of = topic.partitions.iter();
                found.extend(of.map(|p| (topic.name.0.clone(), p.partition_index, p.committed_offset, p.error_code)));
            }
        }
        code = found.iter().map(|(.., code)| *code).find(|other| *other != 0 && code == 0).unwrap_or(code);
        if code != 0 {
            return Err(CallError::Kafka { code, what: "OffsetFetch".into() });
        }
        let offset_of = |partition: usize| {
            let (topic, index) = (partition / self.per_topic, (partition % self.per_topic) as i32);
            let known = found.iter().find(|(name, at, ..)| *at == index && *name == self.topics[topic]);
            known.map_or(0, |(_, _, offset, _)| (*offset).max(0))
        };
        Ok(partitions.iter().map(|partition| (*partition, offset_of(*partition))).collect())
    }

    /// Commits; Kafka's code, 0 when every offset was taken.
    pub(super) async fn commit(&mut self, offsets: Vec<(usize, i64)>) -> Result<i16, CallError> {
        if offsets.is_empty() {
            return Ok(0);
        }
        let by_topic = self.by_topic(offsets);
        let answer = self
            .ask(ApiKey::OffsetCommit, |member, _| {
                let topics = by_topic.into_iter().map(|(name, of)| {
                    let partitions = of.into_iter().map(|(index, offset)| {
                        OffsetCommitRequestPartition::default()
                            .with_partition_index(index)
                            .with_committed_offset(offset)
                            .with_committed_metadata(Some(StrBytes::default()))
                    });
                    OffsetCommitRequestTopic::default().with_name(name).with_partitions(partitions.collect())
                });
                OffsetCommitRequest::default()
                    .with_group_id(member.group.clone())
                    .with_member_id(member.id.clone())
                    .with_generation_id_or_member_epoch(member.generation)
                    .with_topics(topics.collect())
            })
            .await?;
        let mut codes = answer.topics.iter().flat_map(|topic| &topic.partitions).map(|of| of.error_code);
        Ok(codes.find(|code| *code != 0).unwrap_or(0))
    }

    /// Leaves, so that others take over at once.
    pub(super) async fn leave(&mut self) -> Result<(), CallError> {
        self.ask(ApiKey::LeaveGroup, |member, version| {
            let request = LeaveGroupRequest::default().with_group_id(member.group.clone());
            if version >= SEVERAL_MEMBERS {
                request.with_members(vec![MemberIdentity::default().with_member_id(member.id.clone())])
            } else {
                request.with_member_id(member.id.clone())
            }
        })
        .await
        .map(|_| ())
    }

    fn by_topic(&self, offsets: impl IntoIterator<Item = (usize, i64)>) -> Vec<(TopicName, Vec<(i32, i64)>)> {
        let mut by_topic: Vec<(TopicName, Vec<(i32, i64)>)> =
            self.topics.iter().map(|name| (TopicName(name.clone()), Vec::new())).collect();
        for (partition, offset) in offsets {
            by_topic[partition / self.per_topic].1.push(((partition % self.per_topic) as i32, offset));
        }
        by_topic.retain(|(_, of)| !of.is_empty());
        by_topic
    }
}
