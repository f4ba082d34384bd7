//! DescribeConfigs (API 32): the settings of topics and of nodes.
//!
//! A node answers for every node of the gateway. The cluster-wide broker resource, whose name is empty, has no
//! settings: nothing of a gateway can be changed while it runs. Loggers, subscriptions to clients' metrics and
//! groups have no settings here either, and are answered `INVALID_REQUEST(42)`.

use std::collections::HashSet;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;

use super::config_entries::{self, ConfigEntry, resource};
use super::topics::name_error;
use super::{Operation, Outcome, RequestContext, Resource, View};
use crate::limits::DESCRIBED_RESOURCES_SLICE;

/// The first version with types and documentation (KIP-569).
const TYPES_SINCE: i16 = 3;

/// Serves a DescribeConfigs.
pub async fn handle(ctx: &RequestContext, request: DescribeConfigsRequest) -> Outcome {
    let results = results(&ctx.view(), &request).await;
    let settings: usize = results.iter().map(|result| result.configs.len()).sum();
    let told = results.len() + settings;
    ctx.respond_to_many(told, DescribeConfigsResponse::default().with_results(results)).await
}

/// What is told of each resource. One that stands there often is told once: an answer is many times as large as its
/// question.
async fn results(view: &View<'_>, request: &DescribeConfigsRequest) -> Vec<DescribeConfigsResult> {
    let mut seen = HashSet::new();
    let mut results = Vec::new();
    for (nth, resource) in request.resources.iter().enumerate() {
        if nth % DESCRIBED_RESOURCES_SLICE == DESCRIBED_RESOURCES_SLICE - 1 {
            ringgate_runtime::yield_now().await;
        }
        if seen.insert((resource.resource_type, resource.resource_name.as_str())) {
            results.push(described(view, request, resource));
        }
    }
    results
}

fn described(
    view: &View<'_>,
    request: &DescribeConfigsRequest,
    resource: &DescribeConfigsResource,
) -> DescribeConfigsResult {
    let response = DescribeConfigsResult::default()
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone());
    match entries(view, resource) {
        Ok(entries) => {
            // None and an empty list both ask for all, as in Kafka.
            let keys = resource.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
            let keys: Option<HashSet<&str>> = keys.map(|keys| keys.iter().map(StrBytes::as_str).collect());
            let asked = entries.into_iter().filter(|e| keys.as_ref().is_none_or(|keys| keys.contains(e.name)));
            response.with_error_message(None).with_configs(asked.map(|e| told(view.version, request, e)).collect())
        }
        Err((error, why)) => response.with_error_code(error.0).with_error_message(Some(StrBytes::from_string(why))),
    }
}

fn entries<'a>(
    view: &View<'a>,
    resource: &DescribeConfigsResource,
) -> Result<Vec<ConfigEntry<'a>>, (ErrorCode, String)> {
    let name = resource.resource_name.as_str();
    let refuse = |error: ErrorCode, why: &str| Err((error, why.to_string()));
    match resource.resource_type {
        resource::TOPIC => {
            if !view.allowed(Operation::DescribeConfigs, Resource::Topic(name)) {
                return refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed to see the topic's settings");
            }
            if let Some(why) = name_error(name) {
                return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, why));
            }
            let Some(topic) = view.catalogue.topic(name) else {
                return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic.");
            };
            Ok(config_entries::of_topic(&topic.config, view.settings).collect())
        }
        resource::BROKER => {
            if !view.allowed(Operation::DescribeConfigs, Resource::Cluster) {
                return refuse(ErrorCode::CLUSTER_AUTHORIZATION_FAILED, "not allowed to see the nodes' settings");
            }
            if name.is_empty() {
                return Ok(Vec::new());
            }
            let node = config_entries::node_of(view, name).map_err(|why| (ErrorCode::INVALID_REQUEST, why))?;
            Ok(config_entries::of_node(view, node))
        }
        resource::BROKER_LOGGER => refuse(ErrorCode::INVALID_REQUEST, "Log levels cannot be told; see log_level."),
        resource::CLIENT_METRICS => refuse(ErrorCode::INVALID_REQUEST, "Clients' metrics are not collected."),
        resource::GROUP => refuse(ErrorCode::INVALID_REQUEST, "Groups have no settings; the gateway's hold for all."),
        other => Err((ErrorCode::INVALID_REQUEST, format!("Unknown resource type {other}"))),
    }
}

fn told(version: i16, request: &DescribeConfigsRequest, entry: ConfigEntry<'_>) -> DescribeConfigsResourceResult {
    let mut response = DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_static_str(entry.name))
        .with_read_only(entry.read_only)
        .with_config_source(entry.source() as i8);
    if version >= TYPES_SINCE {
        let documentation =
            request.include_documentation.then(|| StrBytes::from_string(entry.documentation.to_string()));
        response = response.with_config_type(entry.config_type as i8).with_documentation(documentation);
    }
    if request.include_synonyms {
        let synonyms = entry.synonyms.into_iter().map(|synonym| {
            DescribeConfigsSynonym::default()
                .with_name(StrBytes::from_static_str(synonym.name))
                .with_value(Some(StrBytes::from_string(synonym.value)))
                .with_source(synonym.source as i8)
        });
        response = response.with_synonyms(synonyms.collect());
    }
    response.with_value(Some(StrBytes::from_string(entry.value)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rules, World, as_read, finish, versions};
    use super::*;
    use ringgate_shards::catalogue::{Catalogue, Topic};
    use std::sync::Arc;

    fn resource(resource_type: i8, name: &str) -> DescribeConfigsResource {
        DescribeConfigsResource::default()
            .with_resource_type(resource_type)
            .with_resource_name(StrBytes::from_string(name.into()))
            .with_configuration_keys(None)
    }

    fn served(world: &World, version: i16, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
        let view = world.view(version);
        let results = finish(results(&view, request));
        as_read(version, &DescribeConfigsResponse::default().with_results(results))
    }

    fn request(resources: Vec<DescribeConfigsResource>) -> DescribeConfigsRequest {
        DescribeConfigsRequest::default().with_resources(resources).with_include_synonyms(true)
    }

    fn world() -> World {
        let mut world = World::with(&[("plain", 1)]);
        let plain = world.catalogue.topic("plain").unwrap().clone();
        let config = [("retention.ms".to_string(), "1000".to_string())].into();
        let set = Topic { name: "set".into(), id: uuid::Uuid::from_u128(99), config, ..Topic::clone(&plain) };
        world.catalogue = Arc::new(Catalogue::new(2, [plain, Arc::new(set)]));
        world
    }

    fn named<'a>(result: &'a DescribeConfigsResult, name: &str) -> &'a DescribeConfigsResourceResult {
        result.configs.iter().find(|entry| entry.name.as_str() == name).unwrap_or_else(|| panic!("{name}"))
    }

    fn synonyms(entry: &DescribeConfigsResourceResult) -> Vec<(&str, &str, i8)> {
        entry.synonyms.iter().map(|s| (s.name.as_str(), s.value.as_ref().unwrap().as_str(), s.source)).collect()
    }

    #[test]
    fn every_version_tells_a_topics_settings_and_where_each_comes_from() {
        let world = world();
        for version in versions(32) {
            let mut asked = request(vec![resource(2, "set"), resource(2, "plain")]);
            asked.include_documentation = version >= TYPES_SINCE;
            let response = served(&world, version, &asked);
            let [set, plain] = &response.results[..] else { panic!("{response:?}") };
            assert_eq!((set.error_code, plain.error_code, set.configs.len()), (0, 0, plain.configs.len()));
            let retention = named(set, "retention.ms");
            assert_eq!((retention.value.as_deref(), retention.config_source), (Some("1000"), 1));
            assert!(!retention.read_only && !retention.is_sensitive);
            let default = ("log.retention.ms", "604800000", 5);
            assert_eq!(synonyms(retention), [("retention.ms", "1000", 1), default]);
            let retention = named(plain, "retention.ms");
            assert_eq!((retention.value.as_deref(), retention.config_source), (Some("604800000"), 5));
            assert_eq!(synonyms(retention), [default]);
            let documented = retention.documentation.as_ref().is_some_and(|text| !text.is_empty());
            let config_type = retention.config_type;
            assert_eq!((config_type, documented), if version >= 3 { (5, true) } else { (0, false) });
            assert!(named(plain, "min.insync.replicas").read_only);
        }
        let quiet = served(&world, 4, &request(vec![resource(2, "set")]).with_include_synonyms(false));
        assert!(quiet.results[0].configs.iter().all(|e| e.synonyms.is_empty() && e.documentation.is_none()));
        assert_eq!(named(&quiet.results[0], "retention.ms").config_source, 1);
    }

    #[test]
    fn only_the_settings_that_are_asked_for_are_told_and_an_empty_list_asks_for_all() {
        let world = world();
        let asks = |keys: &[&'static str]| {
            let keys = keys.iter().map(|key| StrBytes::from_static_str(key)).collect();
            served(&world, 4, &request(vec![resource(2, "set").with_configuration_keys(Some(keys))]))
        };
        let some = asks(&["retention.ms", "no.such", "cleanup.policy"]);
        let names: Vec<_> = some.results[0].configs.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["cleanup.policy", "retention.ms"]);
        assert!(asks(&["no.such"]).results[0].configs.is_empty());
        assert!(asks(&[]).results[0].configs.len() > 20);
    }

    #[test]
    fn a_node_tells_of_every_node_and_read_only() {
        let world = world();
        let response = served(&world, 4, &request(vec![resource(4, "1001"), resource(4, "")]));
        let node = &response.results[0];
        assert_eq!(node.error_code, 0);
        assert!(node.configs.iter().all(|entry| entry.read_only));
        assert!(node.configs.is_sorted_by_key(|entry| entry.name.clone()));
        assert_eq!(named(node, "node.id").value.as_deref(), Some("1001"));
        assert_eq!(named(node, "advertised.listeners").value.as_deref(), Some("PLAINTEXT://10.0.0.7:9094"));
        assert_eq!(named(node, "message.max.bytes").value.as_deref(), Some("1048588"));
        assert_eq!(named(node, "offsets.retention.minutes").config_source, 5);
        assert_eq!((response.results[1].error_code, response.results[1].configs.len()), (0, 0));
    }

    #[test]
    fn what_has_no_settings_is_answered_with_its_own_code_and_the_others_are_told() {
        let world = world();
        let strange = [
            (2, "nope"),
            (2, ""),
            (2, "a/b"),
            (4, "7"),
            (4, "x"),
            (4, "01000"),
            (4, "+1000"),
            (8, "1000"),
            (16, "m"),
            (32, "g"),
            (0, "u"),
        ];
        let mut resources: Vec<_> = strange.iter().map(|&(kind, name)| resource(kind, name)).collect();
        resources.push(resource(2, "set"));
        resources.push(resource(2, "set"));
        for version in versions(32) {
            let response = served(&world, version, &request(resources.clone()));
            let codes: Vec<_> = response.results.iter().map(|result| result.error_code).collect();
            assert_eq!(codes, [3, 17, 17, 42, 42, 42, 42, 42, 42, 42, 42, 0], "version {version}");
            assert!(response.results[..11].iter().all(|result| result.error_message.is_some()));
        }
    }

    #[test]
    fn who_may_not_see_settings_learns_not_whether_the_topic_exists() {
        let mut world = world();
        world.authorizer = Rules {
            denied_topic: Some((Operation::DescribeConfigs, "set")),
            cluster_denied: Some(Operation::DescribeConfigs),
            ..Rules::default()
        };
        let response = served(&world, 4, &request(vec![resource(2, "set"), resource(2, "plain"), resource(4, "1000")]));
        let codes: Vec<_> = response.results.iter().map(|result| result.error_code).collect();
        assert_eq!(codes, [29, 0, 31]);
    }
}
