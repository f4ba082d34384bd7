//! Settings of topics and nodes, and more partitions, by frames in any version that is served.

use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResult;
use kafka_protocol::messages::incremental_alter_configs_request as incremental;
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::raw::{Raw, string, topic_name};

pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;

pub const SET: i8 = 0;
pub const DELETE: i8 = 1;
pub const APPEND: i8 = 2;
pub const SUBTRACT: i8 = 3;

/// Error code and message.
pub type Answer = (i16, String);

/// A resource, and of each setting its name and value.
pub type Replaced<'a> = (i8, &'a str, &'a [(&'a str, Option<&'a str>)]);

/// A resource, and of each setting its name, what is done to it, and a value.
pub type Edited<'a> = (i8, &'a str, &'a [(&'a str, i8, Option<&'a str>)]);

/// Asks for all settings of these resources, synonyms included.
pub fn describe(raw: &mut Raw, version: i16, resources: &[(i8, &str)]) -> Vec<DescribeConfigsResult> {
    let resources = resources.iter().map(|&(kind, name)| {
        DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(name))
            .with_configuration_keys(None)
    });
    let request = DescribeConfigsRequest::default().with_resources(resources.collect()).with_include_synonyms(true);
    raw.call(version, &request).results
}

/// A topic's setting: its value, and Kafka's number for where that comes from.
pub fn setting(raw: &mut Raw, topic: &str, name: &str) -> (String, i8) {
    let described = describe(raw, 4, &[(TOPIC, topic)]).remove(0);
    assert_eq!(described.error_code, 0, "{:?}", described.error_message);
    let entry = described.configs.into_iter().find(|entry| entry.name.as_str() == name).expect("the setting");
    (entry.value.expect("a value").to_string(), entry.config_source)
}

/// An AlterConfigs; what each resource is answered.
pub fn replace(raw: &mut Raw, version: i16, validate_only: bool, resources: &[Replaced<'_>]) -> Vec<Answer> {
    let resources = resources.iter().map(|&(kind, name, settings)| {
        let settings = settings
            .iter()
            .map(|&(name, value)| AlterableConfig::default().with_name(string(name)).with_value(value.map(string)));
        AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(name))
            .with_configs(settings.collect())
    });
    let request = AlterConfigsRequest::default().with_resources(resources.collect()).with_validate_only(validate_only);
    raw.call(version, &request).responses.into_iter().map(|r| (r.error_code, text(r.error_message))).collect()
}

/// An IncrementalAlterConfigs; what each resource is answered.
pub fn edit(raw: &mut Raw, version: i16, validate_only: bool, resources: &[Edited<'_>]) -> Vec<Answer> {
    let resources = resources.iter().map(|&(kind, name, settings)| {
        let settings = settings.iter().map(|&(name, operation, value)| {
            incremental::AlterableConfig::default()
                .with_name(string(name))
                .with_config_operation(operation)
                .with_value(value.map(string))
        });
        incremental::AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(name))
            .with_configs(settings.collect())
    });
    let request =
        IncrementalAlterConfigsRequest::default().with_resources(resources.collect()).with_validate_only(validate_only);
    raw.call(version, &request).responses.into_iter().map(|r| (r.error_code, text(r.error_message))).collect()
}

/// Changes one setting of a topic, which must be taken.
pub fn set(raw: &mut Raw, topic: &str, name: &str, value: &str) {
    assert_eq!(edit(raw, 1, false, &[(TOPIC, topic, &[(name, SET, Some(value))])]), [(0, String::new())]);
}

/// A CreatePartitions; what each topic is answered.
pub fn create_partitions(raw: &mut Raw, version: i16, validate_only: bool, topics: &[(&str, i32)]) -> Vec<Answer> {
    let topics = topics.iter().map(|&(name, count)| {
        CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(count).with_assignments(None)
    });
    let request = CreatePartitionsRequest::default()
        .with_topics(topics.collect())
        .with_timeout_ms(30_000)
        .with_validate_only(validate_only);
    raw.call(version, &request).results.into_iter().map(|r| (r.error_code, text(r.error_message))).collect()
}

/// The codes alone.
pub fn codes(answers: &[Answer]) -> Vec<i16> {
    answers.iter().map(|(code, _)| *code).collect()
}

fn text(message: Option<StrBytes>) -> String {
    message.map_or_else(String::new, |message| message.to_string())
}
