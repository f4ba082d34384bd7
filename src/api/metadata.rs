//! Metadata (API 3): nodes, topics and who leads each partition: the node of the owning shard, so that
//! clients walk to the owning core by themselves. Makes missing topics when that is asked and allowed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::call::{CreateTopicsCall, TopicResult};
use ringgate_shards::catalogue::{Catalogue, NewTopic, Topic};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::turn::Turn;
use uuid::Uuid;

use super::groups::OPERATIONS_NOT_ASKED;
use super::topics::{CLUSTER_OPERATIONS, TOPIC_OPERATIONS, name_error, topic_name};
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The first version with a controller.
const CONTROLLER_SINCE: i16 = 1;
/// The first version with a cluster id.
const CLUSTER_ID_SINCE: i16 = 2;
/// The first version that says whether topics may be made; before, they may.
const AUTO_CREATE_SINCE: i16 = 4;
/// The first version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 7;
/// The first version with authorized operations (KIP-430).
const OPERATIONS_SINCE: i16 = 8;
/// The last version with the cluster's authorized operations (KIP-700).
const CLUSTER_OPERATIONS_UNTIL: i16 = 10;
/// The first version with topic ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 10;

/// The first version in which an unknown id's name is null.
const NULL_NAMES_SINCE: i16 = 12;

/// One topic of the answer.
#[derive(Debug, Clone)]
enum Told {
    Topic(Arc<Topic>),
    Not { error: ErrorCode, name: Option<StrBytes>, id: Uuid },
}

impl Told {
    /// How much of an answer it makes, in partitions.
    fn weight(&self) -> usize {
        match self {
            Told::Topic(topic) => 1 + usize::try_from(topic.partitions).unwrap_or(0),
            Told::Not { .. } => 1,
        }
    }
}

/// Serves a Metadata.
pub async fn handle(ctx: &RequestContext, request: MetadataRequest) -> Outcome {
    let Plan { mut told, missing } = plan(&ctx.view(), &request).await;
    if !missing.is_empty() {
        let names: Vec<Arc<str>> = missing.iter().map(|m| m.name.clone()).collect();
        let call = CreateTopicsCall { topics: missing, validate_only: false };
        let results = ctx.shard().submit_to(CONTROLLER, call).await.0;
        created(&ctx.shard().catalogue(), names, results, &mut told);
    }
    let partitions = told.iter().map(Told::weight).sum();
    ctx.respond_to_many(partitions, response(&ctx.view(), &request, told).await).await
}

#[derive(Debug)]
struct Plan {
    told: Vec<Told>,
    /// Topics to be made before the answer.
    missing: Vec<NewTopic>,
}

async fn plan(view: &View<'_>, request: &MetadataRequest) -> Plan {
    let topics = match &request.topics {
        // Version 0 cannot say null.
        Some(topics) if view.version > 0 || !topics.is_empty() => topics,
        _ => return Plan { told: all(view), missing: Vec::new() },
    };
    let may_create = view.version < AUTO_CREATE_SINCE || request.allow_auto_topic_creation;
    let mut plan = Plan { told: Vec::with_capacity(topics.len()), missing: Vec::new() };
    let mut seen = HashSet::new();
    let mut turn = Turn::default();
    for topic in topics {
        turn.partition().await;
        // Kafka's own client says "" where it knows the id only.
        let name = topic.name.as_ref().filter(|name| !name.is_empty() || topic.topic_id.is_nil());
        // A topic that is named twice is told once, as in Kafka.
        let id = if name.is_some() { Uuid::nil() } else { topic.topic_id };
        if !seen.insert((name, id)) {
            continue;
        }
        match name {
            None => plan.told.push(by_id(view, topic.topic_id)),
            Some(name) => {
                let told = by_name(view, name);
                let is_missing = matches!(told, Told::Not { error: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, .. });
                if is_missing && may_create && may_be_made(view, name) {
                    plan.missing.push(NewTopic {
                        name: name.as_str().into(),
                        partitions: view.settings.num_partitions,
                        config: Default::default(),
                    });
                }
                plan.told.push(told);
            }
        }
    }
    let mut names = HashSet::new();
    plan.missing.retain(|new| names.insert(new.name.clone()));
    plan
}

fn all(view: &View<'_>) -> Vec<Told> {
    let visible = view.catalogue.topics().filter(|t| view.allowed(Operation::Describe, Resource::Topic(&t.name)));
    visible.cloned().map(Told::Topic).collect()
}

fn by_id(view: &View<'_>, id: Uuid) -> Told {
    let not = |error| Told::Not { error, name: None, id };
    match view.catalogue.topic_by_id(id) {
        None => not(ErrorCode::UNKNOWN_TOPIC_ID),
        Some(topic) if !view.allowed(Operation::Describe, Resource::Topic(&topic.name)) => {
            not(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        }
        Some(topic) => Told::Topic(topic.clone()),
    }
}

fn by_name(view: &View<'_>, name: &TopicName) -> Told {
    let not = |error| Told::Not { error, name: Some(name.0.clone()), id: Uuid::nil() };
    if !view.allowed(Operation::Describe, Resource::Topic(name)) {
        return not(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    match view.catalogue.topic(name) {
        Some(topic) => Told::Topic(topic.clone()),
        None if name_error(name).is_some() => not(ErrorCode::INVALID_TOPIC_EXCEPTION),
        None => not(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}

fn may_be_made(view: &View<'_>, name: &str) -> bool {
    view.settings.auto_create_topics && view.allowed(Operation::Create, Resource::Topic(name))
}

/// Fills in what became of topics that were to be made. One that somebody else made meanwhile is fine.
fn created(catalogue: &Catalogue, names: Vec<Arc<str>>, results: Vec<TopicResult>, told: &mut [Told]) {
    let mut became: HashMap<Arc<str>, Result<Arc<Topic>, ErrorCode>> = HashMap::new();
    for (name, result) in names.into_iter().zip(results) {
        let topic = match (catalogue.topic(&name), result) {
            (Some(topic), _) => Ok(topic.clone()),
            (None, Ok(topic)) => Ok(topic),
            // It was there, and is gone again: the client asks once more.
            (None, Err((ErrorCode::TOPIC_ALREADY_EXISTS, _))) => Err(ErrorCode::LEADER_NOT_AVAILABLE),
            (None, Err((error, message))) => {
                tracing::warn!(topic = %name, %error, message, "a topic could not be made");
                Err(error)
            }
        };
        became.insert(name, topic);
    }
    for slot in told {
        let Told::Not { error: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, name: Some(name), id } = slot else { continue };
        match became.get(name.as_str()) {
            None => {}
            Some(Ok(topic)) => *slot = Told::Topic(topic.clone()),
            Some(Err(error)) => *slot = Told::Not { error: *error, name: Some(name.clone()), id: *id },
        }
    }
}

async fn response(view: &View<'_>, request: &MetadataRequest, told: Vec<Told>) -> MetadataResponse {
    let version = view.version;
    let brokers = view.advertised.nodes(view.local).into_iter().map(|node| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(node.id))
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
    });
    let operations_asked = request.include_topic_authorized_operations;
    let mut turn = Turn::default();
    let mut topics = Vec::with_capacity(told.len());
    for told in told {
        turn.partition().await;
        topics.push(topic_response(view, told, operations_asked, &mut turn).await);
    }
    let mut response = MetadataResponse::default().with_brokers(brokers.collect()).with_topics(topics);
    if version >= CONTROLLER_SINCE {
        response = response.with_controller_id(BrokerId(view.advertised.controller(view.local).id));
    }
    if version >= CLUSTER_ID_SINCE {
        response = response.with_cluster_id(Some(StrBytes::from_string(view.settings.cluster_id.clone())));
    }
    if (OPERATIONS_SINCE..=CLUSTER_OPERATIONS_UNTIL).contains(&version) {
        let told = request.include_cluster_authorized_operations;
        response =
            response.with_cluster_authorized_operations(if told { CLUSTER_OPERATIONS } else { OPERATIONS_NOT_ASKED });
    }
    response
}

async fn topic_response(view: &View<'_>, told: Told, operations_asked: bool, turn: &mut Turn) -> MetadataResponseTopic {
    let version = view.version;
    let mut response = match told {
        Told::Topic(topic) => {
            let mut partitions = Vec::new();
            for partition in 0..topic.partitions {
                turn.partition().await;
                partitions.push(partition_response(view, &topic, partition));
            }
            let response =
                MetadataResponseTopic::default().with_name(Some(topic_name(&topic.name))).with_partitions(partitions);
            if version >= TOPIC_IDS_SINCE { response.with_topic_id(topic.id) } else { response }
        }
        Told::Not { error, name, id } => {
            let name = match name {
                None if version >= NULL_NAMES_SINCE => None,
                name => Some(TopicName(name.unwrap_or_default())),
            };
            let response = MetadataResponseTopic::default().with_error_code(error.0).with_name(name);
            if version >= TOPIC_IDS_SINCE { response.with_topic_id(id) } else { response }
        }
    };
    if version >= OPERATIONS_SINCE {
        let told = operations_asked && response.error_code == 0;
        response =
            response.with_topic_authorized_operations(if told { TOPIC_OPERATIONS } else { OPERATIONS_NOT_ASKED });
    }
    response
}

fn partition_response(view: &View<'_>, topic: &Topic, partition: i32) -> MetadataResponsePartition {
    let leader = BrokerId(view.advertised.id_of(topic.owner(view.route, partition)));
    let response = MetadataResponsePartition::default()
        .with_partition_index(partition)
        .with_leader_id(leader)
        .with_replica_nodes(vec![leader])
        .with_isr_nodes(vec![leader]);
    if view.version >= LEADER_EPOCH_SINCE { response.with_leader_epoch(view.leader_epoch) } else { response }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, finish, id_of, turns, versions};
    use super::*;
    use crate::net::advertise::Advertise;
    use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

    fn named(names: &[&str]) -> MetadataRequest {
        let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
        MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false)
    }

    fn with_ids(ids: &[Uuid]) -> MetadataRequest {
        let topics = ids.iter().map(|id| MetadataRequestTopic::default().with_name(None).with_topic_id(*id));
        MetadataRequest::default().with_topics(Some(topics.collect()))
    }

    fn served(world: &World, version: i16, request: &MetadataRequest) -> MetadataResponse {
        let view = world.view(version);
        as_read(version, &finish(response(&view, request, finish(plan(&view, request)).told)))
    }

    fn names_and_codes(response: &MetadataResponse) -> Vec<(&str, i16)> {
        response.topics.iter().map(|t| (t.name.as_ref().map_or("<null>", |n| n.as_str()), t.error_code)).collect()
    }

    fn missing(world: &World, version: i16, request: &MetadataRequest) -> Vec<String> {
        finish(plan(&world.view(version), request)).missing.iter().map(|m| m.name.to_string()).collect()
    }

    #[test]
    fn every_version_tells_nodes_topics_and_leaders_as_far_as_it_has_words() {
        let world = World::with(&[("a", 6), ("b", 1)]);
        let request = named(&["b", "a"])
            .with_include_topic_authorized_operations(true)
            .with_include_cluster_authorized_operations(true);
        for version in versions(3) {
            let response = served(&world, version, &request);
            let brokers: Vec<_> = response.brokers.iter().map(|b| (b.node_id.0, b.host.as_str(), b.port)).collect();
            assert_eq!(brokers, [(1000, "10.0.0.7", 9093), (1001, "10.0.0.7", 9094)]);
            assert_eq!(response.controller_id.0, if version >= 1 { 1000 } else { -1 }, "version {version}");
            assert_eq!(response.cluster_id.as_deref(), (version >= 2).then_some("the-cluster"), "version {version}");
            let operations = if (8..=10).contains(&version) { CLUSTER_OPERATIONS } else { OPERATIONS_NOT_ASKED };
            assert_eq!(response.cluster_authorized_operations, operations, "version {version}");
            assert_eq!(names_and_codes(&response), [("b", 0), ("a", 0)]);
            let a = &response.topics[1];
            assert_eq!(a.topic_id, if version >= 10 { id_of(0) } else { Uuid::nil() }, "version {version}");
            let operations = if version >= 8 { TOPIC_OPERATIONS } else { OPERATIONS_NOT_ASKED };
            assert_eq!(a.topic_authorized_operations, operations, "version {version}");
            assert_eq!(a.partitions.len(), 6);
            for (partition, p) in (0..6).zip(&a.partitions) {
                let owner = world.catalogue.topic("a").unwrap().owner(world.view(version).route, partition);
                let leader = BrokerId(1000 + i32::from(owner.0));
                assert_eq!((p.partition_index, p.leader_id), (partition, leader));
                assert_eq!((&p.replica_nodes, &p.isr_nodes), (&vec![leader], &vec![leader]));
                assert_eq!(p.leader_epoch, if version >= 7 { 5 } else { -1 }, "version {version}");
            }
        }
    }

    #[test]
    fn in_gateway_mode_the_one_node_leads_everything() {
        let mut world = World::with(&[("a", 6)]);
        world.advertised.mode = Advertise::Gateway;
        let response = served(&world, 12, &named(&["a"]));
        assert_eq!(response.brokers.iter().map(|b| (b.node_id.0, b.port)).collect::<Vec<_>>(), [(1000, 9092)]);
        assert!(response.topics[0].partitions.iter().all(|p| p.leader_id.0 == 1000));
    }

    #[test]
    fn null_is_all_topics_and_an_empty_list_none_but_in_version_0() {
        let world = World::with(&[("a", 1), ("b", 1)]);
        let empty = named(&[]);
        assert_eq!(names_and_codes(&served(&world, 0, &empty)), [("a", 0), ("b", 0)]);
        for version in 1..=13 {
            let response = served(&world, version, &empty);
            assert!(response.topics.is_empty() && response.brokers.len() == 2, "version {version}");
            let all = MetadataRequest::default().with_topics(None);
            assert_eq!(names_and_codes(&served(&world, version, &all)), [("a", 0), ("b", 0)]);
            assert!(missing(&world, version, &all).is_empty(), "asking for all makes nothing");
        }
    }

    #[test]
    fn topics_are_found_by_id_and_an_unknown_id_is_answered_100() {
        let world = World::with(&[("a", 1)]);
        for (version, no_name) in [(10, ""), (11, ""), (12, "<null>"), (13, "<null>")] {
            let response = served(&world, version, &with_ids(&[id_of(0), id_of(7)]));
            assert_eq!(names_and_codes(&response), [("a", 0), (no_name, 100)]);
            assert_eq!(response.topics[1].topic_id, id_of(7));
            assert!(missing(&world, version, &with_ids(&[id_of(7)])).is_empty());
            let mut unnamed = with_ids(&[id_of(0)]);
            unnamed.topics.iter_mut().flatten().for_each(|topic| topic.name = Some(topic_name("")));
            assert_eq!(names_and_codes(&served(&world, version, &unnamed)), [("a", 0)], "an empty name is none");
        }
    }

    #[test]
    fn a_topic_that_is_named_often_is_told_once() {
        let world = World::with(&[("a", 1)]);
        let again = named(&["a", "no", "a", "no"]);
        assert_eq!(names_and_codes(&served(&world, 9, &again)), [("a", 0), ("no", 3)]);
        let ids = with_ids(&[id_of(0), id_of(7), id_of(0), id_of(7)]);
        assert_eq!(names_and_codes(&served(&world, 12, &ids)), [("a", 0), ("<null>", 100)]);
        let mut with_other_ids = named(&["a", "a", "a"]);
        for (nth, topic) in with_other_ids.topics.iter_mut().flatten().enumerate() {
            topic.topic_id = id_of(nth);
        }
        assert_eq!(names_and_codes(&served(&world, 12, &with_other_ids)), [("a", 0)]);
    }

    #[test]
    fn a_missing_topic_is_made_only_where_request_and_setting_allow_and_the_name_is_sound() {
        let mut world = World::with(&[("a", 1)]);
        let asks = named(&["a", "new", "b/d", "new"]);
        let allows = asks.clone().with_allow_auto_topic_creation(true);
        for version in versions(3) {
            let expected: &[&str] = if version < 4 { &["new"] } else { &[] };
            assert_eq!(missing(&world, version, &asks), expected, "version {version}");
            assert_eq!(missing(&world, version, &allows), ["new"], "version {version}");
            assert_eq!(names_and_codes(&served(&world, version, &allows)), [("a", 0), ("new", 3), ("b/d", 17)]);
        }
        world.authorizer.denied_topic = Some((Operation::Create, "new"));
        assert!(missing(&world, 9, &allows).is_empty());
        world.authorizer = Default::default();
        world.settings.auto_create_topics = false;
        assert!(missing(&world, 9, &allows).is_empty());
        world.settings.auto_create_topics = true;
        assert_eq!(finish(plan(&world.view(9), &allows)).missing[0].partitions, 3, "num_partitions");
    }

    #[test]
    fn what_was_made_is_told_also_when_somebody_else_was_first() {
        let world = World::with(&[]);
        let later = World::with(&[("raced", 2)]).catalogue;
        let made = World::with(&[("mine", 1)]).catalogue.topic("mine").unwrap().clone();
        let request = named(&["mine", "raced", "gone", "refused"]).with_allow_auto_topic_creation(true);
        let Plan { mut told, missing } = finish(plan(&world.view(9), &request));
        let exists = || Err((ErrorCode::TOPIC_ALREADY_EXISTS, String::new()));
        let results = vec![Ok(made), exists(), exists(), Err((ErrorCode::INVALID_PARTITIONS, String::new()))];
        created(&later, missing.into_iter().map(|m| m.name).collect(), results, &mut told);
        let response = as_read(9, &finish(response(&world.view(9), &request, told)));
        assert_eq!(names_and_codes(&response), [("mine", 0), ("raced", 0), ("gone", 5), ("refused", 37)]);
    }

    #[test]
    fn who_may_not_describe_learns_not_whether_the_topic_exists() {
        let mut world = World::with(&[("a", 1), ("b", 1)]);
        world.authorizer.denied_topic = Some((Operation::Describe, "a"));
        assert_eq!(names_and_codes(&served(&world, 9, &named(&["a", "b"]))), [("a", 29), ("b", 0)]);
        assert_eq!(names_and_codes(&served(&world, 12, &with_ids(&[id_of(0)]))), [("<null>", 29)]);
        assert_eq!(names_and_codes(&served(&world, 9, &MetadataRequest::default().with_topics(None))), [("b", 0)]);
        world.authorizer.denied_topic = Some((Operation::Describe, "no"));
        assert_eq!(names_and_codes(&served(&world, 9, &named(&["no"]))), [("no", 29)]);
    }

    #[test]
    fn a_request_of_many_partitions_lets_others_have_their_turn() {
        let world = World::with(&[("a", 10_000), ("b", 1)]);
        let view = world.view(12);
        let request = named(&["a", "b"]);
        let told = finish(plan(&view, &request)).told;
        assert_eq!(told.iter().map(Told::weight).sum::<usize>(), 10_003);
        let (turns, response) = turns(response(&view, &request, told));
        assert!(turns > 0);
        assert_eq!(response.topics.iter().map(|topic| topic.partitions.len()).collect::<Vec<_>>(), [10_000, 1]);
    }
}
