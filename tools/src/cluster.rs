//! Who is to be asked, and how often.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{ApiKey, MetadataRequest, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};
use ringgate_client::limits::CONTROL_PAUSE;
use ringgate_client::{Address, CallError, ClientError, Options, Permits, Pipeline, Target};
use uuid::Uuid;

use crate::limits::{GROUPS_ASKED, IN_FLIGHT, TOPICS_ASKED};

/// Codes that Kafka's clients retry, but that say here that something is not there.
const NOT_THERE: [ResponseError; 2] = [ResponseError::UnknownTopicOrPartition, ResponseError::UnknownTopicId];

/// Kafka's code of a partition that nobody leads.
pub const LEADER_NOT_AVAILABLE: i16 = 5;

/// A topic, as Metadata tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its id, where the broker has such.
    pub id: Option<Uuid>,
    /// Whether it is the cluster's own.
    pub internal: bool,
    /// Its partitions.
    pub partitions: BTreeMap<i32, Place>,
}

/// Who has a partition, by broker id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Who leads it, if anybody does.
    pub leader: Option<i32>,
    /// Who has a copy.
    pub replicas: Vec<i32>,
    /// Whose copy is up to date.
    pub isr: Vec<i32>,
}

/// A cluster; requests to its brokers go over one connection each.
pub struct Cluster {
    target: Target,
    timeout: Duration,
    links: RefCell<HashMap<Address, Rc<Link>>>,
    /// Who could not be reached for as long as was allowed, and is asked no more.
    given_up: RefCell<HashMap<Address, CallError>>,
    /// As far as they are known.
    brokers: RefCell<BTreeMap<i32, Address>>,
    coordinators: RefCell<HashMap<String, Address>>,
}

struct Link {
    connecting: Permits,
    pipeline: RefCell<Option<Rc<Pipeline>>>,
}

/// How long what passes is asked for again.
pub struct Patience(Instant);

impl Patience {
    /// Waits a moment; false when there is no time left.
    pub async fn pause(&self) -> bool {
        if Instant::now() + CONTROL_PAUSE > self.0 {
            return false;
        }
        ringgate_runtime::sleep(CONTROL_PAUSE).await;
        true
    }
}

/// An error of Kafka's in an answer about something.
pub fn refused(code: i16, what: impl Into<String>) -> CallError {
    CallError::Kafka { code, what: what.into() }
}

/// Whether asking again, perhaps somebody else, may bring another answer.
pub fn passes(error: &CallError) -> bool {
    match error {
        CallError::Kafka { code, .. } => {
            ResponseError::try_from_code(*code).is_some_and(|error| error.is_retriable() && !NOT_THERE.contains(&error))
        }
        error => is_lost(error),
    }
}

/// Whether what was asked for is not there.
pub fn is_not_there(error: &CallError) -> bool {
    matches!(error, CallError::Kafka { code, .. } if NOT_THERE.iter().any(|error| error.code() == *code))
}

/// Whether a broker is away, perhaps to be restarted.
fn is_lost(error: &CallError) -> bool {
    matches!(error, CallError::Disconnected | CallError::ConnectFailed(_))
}

impl Cluster {
    /// Reaches a cluster by its bootstrap servers. `timeout` bounds each request, and how long one that fails for a
    /// reason that passes is tried again.
    ///
    /// # Errors
    /// None of them answers; says of each why.
    pub async fn reach(options: &Options, timeout: Duration) -> Result<Cluster, ClientError> {
        let target = Target::reach(options).await?;
        let brokers = target.brokers().await.map_err(|error| ClientError(error.to_string()))?;
        Ok(Cluster {
            target,
            timeout,
            links: RefCell::default(),
            given_up: RefCell::default(),
            brokers: RefCell::new(brokers),
            coordinators: RefCell::default(),
        })
    }

    /// For one question.
    pub fn patience(&self) -> Patience {
        Patience(Instant::now() + self.timeout)
    }

    /// The version of an API that is used, at most `most`.
    ///
    /// # Errors
    /// The brokers do not have the API in a version that is known here.
    pub fn version(&self, api: ApiKey, most: i16) -> Result<i16, CallError> {
        self.target.version_up_to(api, most)
    }

    /// Whether the brokers have an API.
    pub fn has(&self, api: ApiKey) -> bool {
        self.target.has(api)
    }

    /// Asks some broker.
    ///
    /// # Errors
    /// None answers.
    pub async fn ask<R: Request>(&self, version: i16, request: &R) -> Result<R::Response, CallError> {
        self.target.ask(version, request).await
    }

    /// The brokers that were last heard of, by id.
    pub fn brokers(&self) -> BTreeMap<i32, Address> {
        self.brokers.borrow().clone()
    }

    /// The id of a broker, when it is known.
    pub fn id_of(&self, broker: &Address) -> Option<i32> {
        self.brokers.borrow().iter().find(|(_, address)| *address == broker).map(|(id, _)| *id)
    }

    /// Sends a request to a broker.
    ///
    /// # Errors
    /// There is no answer, or none that can be read.
    pub async fn call<R: Request>(
        &self,
        broker: &Address,
        version: i16,
        request: &R,
    ) -> Result<R::Response, CallError> {
        if let Some(why) = self.given_up.borrow().get(broker) {
            return Err(why.clone());
        }
        let asked = async {
            let answer = self.pipeline(broker).await?.submit_request(version, request).await?.await?;
            Pipeline::decode::<R>(answer.body, version)
        };
        let came = asked.await;
        if let Err(error @ CallError::TimedOut) = &came {
            self.tried_in_vain(broker, error);
        }
        came
    }

    async fn pipeline(&self, broker: &Address) -> Result<Rc<Pipeline>, CallError> {
        let link = self.links.borrow_mut().entry(broker.clone()).or_insert_with(Link::new).clone();
        let _alone = link.connecting.take().await;
        if let Some(pipeline) = link.pipeline.borrow().as_ref().filter(|pipeline| pipeline.ended().is_none()) {
            return Ok(pipeline.clone());
        }
        let pipeline = Rc::new(self.target.connect(broker).await?.pipelined_up_to(IN_FLIGHT));
        *link.pipeline.borrow_mut() = Some(pipeline.clone());
        Ok(pipeline)
    }

    /// A broker that is away, or does not answer, for as long as was allowed is asked nothing more: it would hold up each
    /// of many questions.
    pub fn tried_in_vain(&self, broker: &Address, why: &CallError) {
        if is_lost(why) || *why == CallError::TimedOut {
            self.given_up.borrow_mut().insert(broker.clone(), why.clone());
        }
    }

    /// Whether a broker is asked nothing more.
    pub fn gave_up(&self, broker: &Address) -> bool {
        self.given_up.borrow().contains_key(broker)
    }

    /// Remembers that a broker coordinates a group.
    pub fn coordinates(&self, broker: &Address, group: &str) {
        self.coordinators.borrow_mut().insert(group.into(), broker.clone());
    }

    /// Who was last heard of to coordinate a group.
    pub fn coordinator(&self, group: &str) -> Option<Address> {
        self.coordinators.borrow().get(group).cloned()
    }

    /// Asks the coordinators of groups, up to `most` of them in one request; groups whose coordinator moves, loads or is
    /// away are asked for again. `ask` says of each group of a request what came of it; one that it leaves out has no
    /// answer.
    pub async fn per_group<T>(
        &self,
        groups: &[String],
        most: usize,
        ask: impl AsyncFn(&Address, &[String]) -> Result<Vec<(String, Result<T, CallError>)>, CallError>,
    ) -> HashMap<String, Result<T, CallError>> {
        let mut came = HashMap::new();
        let mut left: Vec<String> = groups.to_vec();
        let patience = self.patience();
        loop {
            let mut again: Vec<(String, Option<Address>, CallError)> = Vec::new();
            let mut parts: Vec<(Address, Vec<String>)> = Vec::new();
            for (broker, groups) in self.by_coordinator(&left, &mut again).await {
                parts.extend(groups.chunks(most.clamp(1, GROUPS_ASKED)).map(|part| (broker.clone(), part.to_vec())));
            }
            let answers = parts.iter().map(async |(broker, part)| (broker, part, ask(broker, part).await));
            // A connection bounds what is out on it.
            for (broker, part, answer) in join_all(answers).await {
                let answer = answer
                    .unwrap_or_else(|error| part.iter().map(|group| (group.clone(), Err(error.clone()))).collect());
                for (group, outcome) in answer {
                    match outcome {
                        Err(error) if passes(&error) => {
                            self.coordinators.borrow_mut().remove(&group);
                            again.push((group, Some(broker.clone()), error));
                        }
                        outcome => drop(came.insert(group, outcome)),
                    }
                }
            }
            let (passing, final_ones): (Vec<_>, Vec<_>) = again.into_iter().partition(|(_, broker, error)| {
                passes(error) && !broker.as_ref().is_some_and(|broker| self.gave_up(broker))
            });
            came.extend(final_ones.into_iter().map(|(group, _, error)| (group, Err(error))));
            if passing.is_empty() {
                break;
            }
            if !patience.pause().await {
                for (group, broker, error) in passing {
                    if let Some(broker) = broker {
                        self.tried_in_vain(&broker, &error);
                    }
                    came.insert(group, Err(error));
                }
                break;
            }
            left = passing.into_iter().map(|(group, ..)| group).collect();
        }
        for group in groups {
            came.entry(group.clone())
                .or_insert_with(|| Err(CallError::BadResponse(format!("the answer says nothing of group {group}"))));
        }
        came
    }

    /// Groups by who coordinates them; `without` gets those whose coordinator is not told.
    async fn by_coordinator(
        &self,
        groups: &[String],
        without: &mut Vec<(String, Option<Address>, CallError)>,
    ) -> BTreeMap<Address, Vec<String>> {
        let unknown: Vec<String> =
            groups.iter().filter(|group| !self.coordinators.borrow().contains_key(*group)).cloned().collect();
        if !unknown.is_empty() {
            match self.target.find_coordinators(&unknown).await {
                Ok(found) => {
                    for (group, found) in unknown.into_iter().zip(found) {
                        match found {
                            Ok(broker) => self.coordinates(&broker, &group),
                            Err(error) => without.push((group, None, error)),
                        }
                    }
                }
                Err(error) => without.extend(unknown.into_iter().map(|group| (group, None, error.clone()))),
            }
        }
        let mut by_broker: BTreeMap<Address, Vec<String>> = BTreeMap::new();
        for group in groups {
            if let Some(broker) = self.coordinator(group) {
                by_broker.entry(broker).or_default().push(group.clone());
            }
        }
        by_broker
    }

    /// Topics by name; of one that cannot be had, why.
    ///
    /// # Errors
    /// No broker answers.
    pub async fn topics(&self, names: &[String]) -> Result<BTreeMap<String, Result<Topic, CallError>>, CallError> {
        let mut all = BTreeMap::new();
        let mut parts = stream::iter(names.chunks(TOPICS_ASKED).map(async |part| {
            let topic = |name: &String| {
                MetadataRequestTopic::default().with_name(Some(TopicName(StrBytes::from_string(name.clone()))))
            };
            self.ask_topics(Some(part.iter().map(topic).collect())).await
        }))
        .buffer_unordered(IN_FLIGHT);
        while let Some(part) = parts.next().await {
            all.extend(part?);
        }
        Ok(all)
    }

    /// All topics that the client may see.
    ///
    /// # Errors
    /// No broker answers.
    pub async fn all_topics(&self) -> Result<BTreeMap<String, Result<Topic, CallError>>, CallError> {
        self.ask_topics(None).await
    }

    async fn ask_topics(
        &self,
        topics: Option<Vec<MetadataRequestTopic>>,
    ) -> Result<BTreeMap<String, Result<Topic, CallError>>, CallError> {
        let version = self.version(ApiKey::Metadata, i16::MAX)?;
        let request = MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(false);
        let answer = self.ask(version, &request).await?;
        self.brokers.borrow_mut().extend(ringgate_client::brokers(&answer));
        Ok(answer
            .topics
            .into_iter()
            .map(|topic| {
                let name = topic.name.as_ref().map_or_else(String::new, |name| name.to_string());
                let told = match topic.error_code {
                    // The state of its partitions is told by each of them.
                    0 | LEADER_NOT_AVAILABLE => Ok(Topic::from(topic)),
                    code => Err(refused(code, format!("topic {name}"))),
                };
                (name, told)
            })
            .collect())
    }
}

impl Link {
    fn new() -> Rc<Link> {
        Rc::new(Link { connecting: Permits::new(1), pipeline: RefCell::new(None) })
    }
}

impl From<MetadataResponseTopic> for Topic {
    fn from(told: MetadataResponseTopic) -> Topic {
        let ids = |ids: Vec<kafka_protocol::messages::BrokerId>| ids.into_iter().map(|id| id.0).collect();
        let place = |partition: kafka_protocol::messages::metadata_response::MetadataResponsePartition| {
            let leader = Some(partition.leader_id.0).filter(|id| *id >= 0);
            let place = Place { leader, replicas: ids(partition.replica_nodes), isr: ids(partition.isr_nodes) };
            (partition.partition_index, place)
        };
        Topic {
            id: Some(told.topic_id).filter(|id| !id.is_nil()),
            internal: told.is_internal,
            partitions: told.partitions.into_iter().map(place).collect(),
        }
    }
}
