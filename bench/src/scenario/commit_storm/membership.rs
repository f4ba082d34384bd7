//! Joining a classic group, so that commits are those of its members.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, ConsumerProtocolAssignment, ConsumerProtocolSubscription, GroupId, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use ringgate_client::{CallError, Connection, Target};
use ringgate_runtime::{sleep, spawn_as};

use super::requests::Identity;
use crate::limits::{MEMBERSHIP_POLL, MEMBERSHIP_TIMEOUT};
use crate::scenario::SetupError;

/// Kafka's codes that a member answers by joining again.
const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

/// A group that is being formed, as all of its members see it.
pub struct Forming {
    pub target: Target,
    pub group: GroupId,
    pub topic: TopicName,
    /// Members that it is to have.
    pub members: u32,
    /// Partitions of each.
    pub partitions: u32,
    pub session: Duration,
    /// The newest generation, and how many hold an assignment of it.
    settled: Cell<(i32, u32)>,
    failed: RefCell<Option<String>>,
}

impl Forming {
    /// Nobody is a member yet.
    pub fn new(
        target: &Target,
        group: GroupId,
        topic: TopicName,
        members: u32,
        partitions: u32,
        session: Duration,
    ) -> Rc<Forming> {
        Rc::new(Forming {
            target: target.clone(),
            group,
            topic,
            members,
            partitions,
            session,
            settled: Cell::new((-1, 0)),
            failed: RefCell::default(),
        })
    }

    /// All join, until all hold an assignment of one generation; each with its connection to the coordinator.
    ///
    /// # Errors
    /// The target refuses, or they do not come to rest in time.
    pub async fn form(self: &Rc<Forming>) -> Result<Vec<(Connection, Identity)>, SetupError> {
        let failed = |why: String| SetupError(format!("group {}: {why}", self.group.0));
        let coordinator = self.target.coordinator(&self.group.0).await.map_err(|error| failed(error.to_string()))?;
        let joining: Vec<_> = (0..self.members)
            .map(|_| {
                let (forming, coordinator) = (self.clone(), coordinator.clone());
                spawn_as("join", async move {
                    let joined = async {
                        let connection = forming.target.connect(&coordinator).await?;
                        Joining::new(&forming, connection)?.until_all_are_there().await
                    };
                    let joined = joined.await;
                    if let Err(error) = &joined {
                        forming.failed.borrow_mut().get_or_insert_with(|| error.to_string());
                    }
                    joined
                })
            })
            .collect();
        let mut members = Vec::with_capacity(joining.len());
        for joined in joining {
            let joined = joined.await;
            if let Some(why) = self.failed.borrow().clone() {
                return Err(failed(why));
            }
            members.push(joined.map_err(|error| failed(error.to_string()))?);
        }
        Ok(members)
    }

    fn holds(&self, generation: i32) {
        let (newest, count) = self.settled.get();
        match generation.cmp(&newest) {
            std::cmp::Ordering::Greater => self.settled.set((generation, 1)),
            std::cmp::Ordering::Equal => self.settled.set((newest, count + 1)),
            std::cmp::Ordering::Less => {}
        }
    }

    fn all_hold(&self) -> bool {
        self.settled.get().1 == self.members
    }
}

/// One member on its way.
struct Joining<'a> {
    forming: &'a Forming,
    connection: Connection,
    versions: Versions,
    member: StrBytes,
    generation: i32,
    partitions: Vec<i32>,
}

#[derive(Clone, Copy)]
struct Versions {
    join: i16,
    sync: i16,
    heartbeat: i16,
}

impl<'a> Joining<'a> {
    fn new(forming: &'a Forming, connection: Connection) -> Result<Joining<'a>, CallError> {
        let version = |api| forming.target.version(api);
        let versions = Versions {
            join: version(ApiKey::JoinGroup)?,
            sync: version(ApiKey::SyncGroup)?,
            heartbeat: version(ApiKey::Heartbeat)?,
        };
        Ok(Joining {
            forming,
            connection,
            versions,
            member: StrBytes::default(),
            generation: -1,
            partitions: Vec::new(),
        })
    }

    /// A member that others rebalance learns so by its heartbeats: those go on until nobody has to join again.
    async fn until_all_are_there(mut self) -> Result<(Connection, Identity), CallError> {
        let due = Instant::now() + MEMBERSHIP_TIMEOUT;
        self.join().await?;
        while !self.forming.all_hold() {
            if Instant::now() > due || self.forming.failed.borrow().is_some() {
                let (generation, count) = self.forming.settled.get();
                return Err(CallError::BadResponse(format!(
                    "{count} of {} members hold an assignment of generation {generation}, and the others do not come to",
                    self.forming.members
                )));
            }
            sleep(MEMBERSHIP_POLL).await;
            let request = HeartbeatRequest::default()
                .with_group_id(self.forming.group.clone())
                .with_member_id(self.member.clone())
                .with_generation_id(self.generation);
            match self.connection.call(self.versions.heartbeat, &request).await?.error_code {
                0 => {}
                ILLEGAL_GENERATION | REBALANCE_IN_PROGRESS => self.join().await?,
                UNKNOWN_MEMBER_ID => {
                    self.member = StrBytes::default();
                    self.join().await?;
                }
                code => return Err(CallError::Kafka { code, what: "Heartbeat".into() }),
            }
        }
        let identity = Identity {
            group: self.forming.group.clone(),
            member: self.member,
            generation: self.generation,
            topic: self.forming.topic.clone(),
            partitions: self.partitions,
        };
        Ok((self.connection, identity))
    }

    /// JoinGroup and SyncGroup until there is an assignment.
    async fn join(&mut self) -> Result<(), CallError> {
        loop {
            let joined = self.connection.call(self.versions.join, &self.join_request()).await?;
            match joined.error_code {
                0 => {}
                MEMBER_ID_REQUIRED => {
                    self.member = joined.member_id;
                    continue;
                }
                UNKNOWN_MEMBER_ID => {
                    self.member = StrBytes::default();
                    continue;
                }
                REBALANCE_IN_PROGRESS => continue,
                code => return Err(CallError::Kafka { code, what: "JoinGroup".into() }),
            }
            self.member = joined.member_id.clone();
            self.generation = joined.generation_id;
            let request = self.sync_request(&joined)?;
            let synced = self.connection.call(self.versions.sync, &request).await?;
            match synced.error_code {
                0 => {
                    self.partitions = partitions_of(synced.assignment)?;
                    self.forming.holds(self.generation);
                    return Ok(());
                }
                ILLEGAL_GENERATION | REBALANCE_IN_PROGRESS => {}
                UNKNOWN_MEMBER_ID => self.member = StrBytes::default(),
                code => return Err(CallError::Kafka { code, what: "SyncGroup".into() }),
            }
        }
    }

    fn join_request(&self) -> JoinGroupRequest {
        let topics = vec![self.forming.topic.0.clone()];
        let subscription = versioned(&ConsumerProtocolSubscription::default().with_topics(topics));
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str("range"))
            .with_metadata(subscription);
        let ms = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        JoinGroupRequest::default()
            .with_group_id(self.forming.group.clone())
            .with_session_timeout_ms(ms(self.forming.session))
            .with_rebalance_timeout_ms(ms(MEMBERSHIP_TIMEOUT))
            .with_member_id(self.member.clone())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol])
    }

    /// The leader's has everybody's assignment: as many partitions to each, none to two.
    fn sync_request(&self, joined: &JoinGroupResponse) -> Result<SyncGroupRequest, CallError> {
        let request = SyncGroupRequest::default()
            .with_group_id(self.forming.group.clone())
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_protocol_type(Some(StrBytes::from_static_str("consumer")))
            .with_protocol_name(joined.protocol_name.clone());
        if joined.leader != joined.member_id {
            return Ok(request);
        }
        let each = i32::try_from(self.forming.partitions).unwrap_or(i32::MAX);
        let mut first = 0;
        let mut assignments = Vec::with_capacity(joined.members.len());
        for member in &joined.members {
            let own = TopicPartition::default()
                .with_topic(self.forming.topic.clone())
                .with_partitions((first..first + each).collect());
            first += each;
            let assignment = versioned(&ConsumerProtocolAssignment::default().with_assigned_partitions(vec![own]));
            assignments.push(
                SyncGroupRequestAssignment::default()
                    .with_member_id(member.member_id.clone())
                    .with_assignment(assignment),
            );
        }
        Ok(request.with_assignments(assignments))
    }
}

/// Version 0 of a message of the consumer protocol, its version first.
fn versioned(message: &impl Encodable) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    message.encode(&mut bytes, 0).expect("version 0 has all that is set");
    bytes.freeze()
}

fn partitions_of(mut assignment: Bytes) -> Result<Vec<i32>, CallError> {
    let wrong = |why: String| CallError::BadResponse(format!("an assignment that cannot be read: {why}"));
    if assignment.len() < 2 {
        return Err(wrong(format!("{} bytes", assignment.len())));
    }
    let _version = assignment.split_to(2);
    let assignment =
        ConsumerProtocolAssignment::decode(&mut assignment, 0).map_err(|error| wrong(error.to_string()))?;
    Ok(assignment.assigned_partitions.into_iter().flat_map(|topic| topic.partitions).collect())
}

/// Leaves, so that the group is empty at once and not when its sessions end.
pub async fn leave(target: &Target, connection: &mut Connection, who: &Identity) -> Result<(), CallError> {
    let version = target.version(ApiKey::LeaveGroup)?;
    let request = LeaveGroupRequest::default().with_group_id(who.group.clone());
    let request = if version >= 3 {
        request.with_members(vec![MemberIdentity::default().with_member_id(who.member.clone())])
    } else {
        request.with_member_id(who.member.clone())
    };
    connection.call(version, &request).await.map(|_| ())
}
