//! Who leads, who coordinates.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Instant;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{ApiKey, FindCoordinatorRequest, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::{Address, CallError, Connection, Target};
use crate::limits::{CONTROL_PAUSE, COORDINATORS_ASKED};

/// Kafka's codes for what passes: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
/// COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_TOPIC_ID.
const UNKNOWN_TOPIC: i16 = 3;
const NO_LEADER: i16 = 5;
const COORDINATOR_COMING: [i16; 3] = [14, 15, 16];
const UNKNOWN_TOPIC_ID: i16 = 100;

/// A topic, as Metadata tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; nil where the target has none.
    pub id: Uuid,
    /// Who leads each partition.
    pub leaders: Vec<Address>,
}

impl Target {
    /// A topic, as it was when it was last asked for; see [`Target::forget_topic`]. Waits within the request
    /// timeout until every partition has a leader.
    ///
    /// # Errors
    /// It is not there, or has partitions without a leader.
    pub async fn topic(&self, name: &str) -> Result<Rc<Topic>, CallError> {
        if let Some(topic) = self.0.topics.borrow().get(name) {
            return Ok(topic.clone());
        }
        let until = Instant::now() + self.0.timeout;
        loop {
            let error = match self.ask_topic(name).await {
                Ok(topic) => {
                    let topic = Rc::new(topic);
                    self.0.topics.borrow_mut().insert(name.into(), topic.clone());
                    return Ok(topic);
                }
                Err(error) => error,
            };
            let passes = matches!(error, CallError::Kafka { code: UNKNOWN_TOPIC | NO_LEADER | UNKNOWN_TOPIC_ID, .. });
            if !passes || Instant::now() + CONTROL_PAUSE > until {
                return Err(error);
            }
            ringgate_runtime::sleep(CONTROL_PAUSE).await;
        }
    }

    /// The next [`Target::topic`] asks again: a partition has moved, or there are more.
    pub fn forget_topic(&self, name: &str) {
        self.0.topics.borrow_mut().remove(name);
    }

    /// Who leads each partition of a topic.
    ///
    /// # Errors
    /// As [`Target::topic`].
    pub async fn leaders(&self, topic: &str) -> Result<Vec<Address>, CallError> {
        self.topic(topic).await.map(|topic| topic.leaders.clone())
    }

    async fn ask_topic(&self, name: &str) -> Result<Topic, CallError> {
        let topic = TopicName(StrBytes::from_string(name.into()));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![MetadataRequestTopic::default().with_name(Some(topic))]))
            .with_allow_auto_topic_creation(false);
        let answer = self.ask(self.version(ApiKey::Metadata)?, &request).await?;
        let brokers = brokers(&answer);
        let failed = |code| CallError::Kafka { code, what: format!("topic {name}") };
        let topic = answer.topics.into_iter().next().ok_or_else(|| failed(UNKNOWN_TOPIC))?;
        if topic.error_code != 0 {
            return Err(failed(topic.error_code));
        }
        let mut leaders = vec![None; topic.partitions.len()];
        for partition in &topic.partitions {
            let index = usize::try_from(partition.partition_index).ok();
            let place = index.and_then(|index| leaders.get_mut(index));
            let place =
                place.ok_or_else(|| CallError::BadResponse(format!("topic {name} has a gap in its partitions")))?;
            *place = brokers.get(&partition.leader_id.0).cloned();
        }
        let leaders: Option<Vec<Address>> = leaders.into_iter().collect();
        Ok(Topic { name: name.into(), id: topic.topic_id, leaders: leaders.ok_or_else(|| failed(NO_LEADER))? })
    }

    /// Who coordinates a group. Waits within the request timeout while there is nobody.
    ///
    /// # Errors
    /// There is nobody, or the target refuses.
    pub async fn coordinator(&self, group: &str) -> Result<Address, CallError> {
        let until = Instant::now() + self.0.timeout;
        loop {
            let error = match self.ask_coordinator(group).await {
                Ok(address) => return Ok(address),
                Err(error) => error,
            };
            let passes = match &error {
                CallError::Kafka { code, .. } => COORDINATOR_COMING.contains(code),
                // It is being restarted.
                CallError::Disconnected | CallError::ConnectFailed(_) => true,
                _ => false,
            };
            if !passes || Instant::now() + CONTROL_PAUSE > until {
                return Err(error);
            }
            ringgate_runtime::sleep(CONTROL_PAUSE).await;
        }
    }

    /// As [`Target::coordinator`], for many groups.
    ///
    /// # Errors
    /// As there.
    pub async fn coordinators(&self, groups: &[String]) -> Result<Vec<Address>, CallError> {
        let found = self.find_coordinators(groups).await?;
        let mut all = Vec::with_capacity(groups.len());
        for (group, found) in groups.iter().zip(found) {
            all.push(match found {
                Ok(address) => address,
                Err(_) => self.coordinator(group).await?,
            });
        }
        Ok(all)
    }

    /// Asks once who coordinates these groups, and says of each what the answer was.
    ///
    /// # Errors
    /// No broker answers.
    pub async fn find_coordinators(&self, groups: &[String]) -> Result<Vec<Result<Address, CallError>>, CallError> {
        let version = self.version(ApiKey::FindCoordinator)?;
        let mut all = Vec::with_capacity(groups.len());
        for part in groups.chunks(COORDINATORS_ASKED) {
            // Before version 4 a request has one.
            if version < 4 || part.len() == 1 {
                for group in part {
                    all.push(self.ask_coordinator(group).await);
                }
                continue;
            }
            let keys = part.iter().map(|group| StrBytes::from_string(group.clone())).collect();
            let request = FindCoordinatorRequest::default().with_coordinator_keys(keys);
            let answer = self.ask(version, &request).await?;
            let mut found: HashMap<_, _> =
                answer.coordinators.into_iter().map(|found| (found.key.clone(), found)).collect();
            all.extend(part.iter().map(|group| match found.remove(group.as_bytes()) {
                Some(found) if found.error_code == 0 => address(&found.host, found.port),
                Some(found) => Err(no_coordinator(found.error_code, group)),
                None => Err(CallError::BadResponse(format!("FindCoordinator says nothing of group {group}"))),
            }));
        }
        Ok(all)
    }

    async fn ask_coordinator(&self, group: &str) -> Result<Address, CallError> {
        let version = self.version(ApiKey::FindCoordinator)?;
        let key = StrBytes::from_string(group.into());
        let request = FindCoordinatorRequest::default();
        let request = if version >= 4 { request.with_coordinator_keys(vec![key]) } else { request.with_key(key) };
        let answer = self.ask(version, &request).await?;
        let (code, host, port) = if version >= 4 {
            let found = answer.coordinators.into_iter().next();
            let found = found.ok_or_else(|| CallError::BadResponse("FindCoordinator names nobody".into()))?;
            (found.error_code, found.host, found.port)
        } else {
            (answer.error_code, answer.host, answer.port)
        };
        if code != 0 {
            return Err(no_coordinator(code, group));
        }
        address(&host, port)
    }

    /// Who is there, by id.
    ///
    /// # Errors
    /// No broker answers.
    pub async fn brokers(&self) -> Result<BTreeMap<i32, Address>, CallError> {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        let answer = self.ask(self.version(ApiKey::Metadata)?, &request).await?;
        Ok(brokers(&answer).into_iter().collect())
    }

    /// Learns who is there.
    pub(super) async fn describe_cluster(&self, connection: &mut Connection) -> Result<(), CallError> {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        let version = self.version(ApiKey::Metadata)?;
        // Before version 1 no topics meant all; those brokers are ten years old.
        let answer = connection.call(version, &request).await?;
        let mut about = self.0.about.borrow_mut();
        if let Some(cluster) = &answer.cluster_id {
            about.insert("cluster_id".into(), cluster.to_string());
        }
        let mut all: Vec<_> = brokers(&answer).into_iter().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        let all: Vec<String> = all.iter().map(|(id, address)| format!("{id}@{address}")).collect();
        about.insert("brokers".into(), all.join(", "));
        Ok(())
    }

    /// Where the controller is, when the target has one that clients can reach.
    pub(super) async fn controller(&self) -> Result<Option<Address>, CallError> {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        let answer = self.ask(self.version(ApiKey::Metadata)?, &request).await?;
        Ok(brokers(&answer).remove(&answer.controller_id.0))
    }
}

fn no_coordinator(code: i16, group: &str) -> CallError {
    CallError::Kafka { code, what: format!("the coordinator of group {group}") }
}

/// Brokers by id; one whose address cannot be is left out.
pub fn brokers(answer: &MetadataResponse) -> HashMap<i32, Address> {
    let broker = |broker: &kafka_protocol::messages::metadata_response::MetadataResponseBroker| {
        Some((broker.node_id.0, address(&broker.host, broker.port).ok()?))
    };
    answer.brokers.iter().filter_map(broker).collect()
}

fn address(host: &str, port: i32) -> Result<Address, CallError> {
    match u16::try_from(port) {
        Ok(port) if port > 0 && !host.is_empty() => Ok(Address { host: host.into(), port }),
        _ => Err(CallError::BadResponse(format!("{host:?}:{port} is no broker's address"))),
    }
}
