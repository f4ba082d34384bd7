//! IncrementalAlterConfigs (API 44, KIP-339): some of a resource's settings change, and the others stay.

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::topic_config::{ConfigChange, ConfigEdit};
use ringgate_shards::turn::Turn;

use super::config_changes::{self, Asked, Refusal, each_once, null_value};
use super::{Outcome, RequestContext};

/// Kafka's numbers of what may be done to a setting.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Serves an IncrementalAlterConfigs.
pub async fn handle(ctx: &RequestContext, request: IncrementalAlterConfigsRequest) -> Outcome {
    let answers = config_changes::alter(ctx, &request.resources, asked, request.validate_only).await;
    ctx.respond_to_many(answers.len(), response(&request, answers).await).await
}

fn asked(resource: &AlterConfigsResource) -> Asked<'_> {
    Asked {
        resource_type: resource.resource_type,
        name: &resource.resource_name,
        settings: resource.configs.len(),
        change: change(resource),
    }
}

fn change(resource: &AlterConfigsResource) -> Result<ConfigChange, Refusal> {
    each_once(resource.configs.iter().map(|setting| setting.name.as_str()))?;
    let edits = resource.configs.iter().map(|setting| Ok((setting.name.to_string(), edit(setting)?)));
    edits.collect::<Result<_, _>>().map(ConfigChange::Edit)
}

fn edit(setting: &AlterableConfig) -> Result<ConfigEdit, Refusal> {
    let value = || setting.value.as_ref().map(StrBytes::to_string).ok_or_else(|| null_value(&setting.name));
    match setting.config_operation {
        SET => value().map(ConfigEdit::Set),
        DELETE => Ok(ConfigEdit::Delete),
        APPEND => value().map(ConfigEdit::Append),
        SUBTRACT => value().map(ConfigEdit::Subtract),
        other => {
            let why = format!("Unknown operation type {other}; allowed: 0 SET, 1 DELETE, 2 APPEND, 3 SUBTRACT");
            Err((ErrorCode::INVALID_REQUEST, why))
        }
    }
}

async fn response(
    request: &IncrementalAlterConfigsRequest,
    answers: Vec<Result<(), Refusal>>,
) -> IncrementalAlterConfigsResponse {
    let mut turn = Turn::default();
    let mut responses = Vec::with_capacity(answers.len());
    for (resource, answer) in request.resources.iter().zip(answers) {
        turn.partition().await;
        let response = AlterConfigsResourceResponse::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        responses.push(match answer {
            Ok(()) => response.with_error_message(None),
            Err((error, why)) => response.with_error_code(error.0).with_error_message(Some(StrBytes::from_string(why))),
        });
    }
    IncrementalAlterConfigsResponse::default().with_responses(responses)
}

#[cfg(test)]
mod tests {
    use super::super::config_changes::tests::altered;
    use super::super::testing::{World, as_read, finish, id_of, versions};
    use super::*;

    fn setting(name: &'static str, operation: i8, value: Option<&'static str>) -> AlterableConfig {
        AlterableConfig::default()
            .with_name(StrBytes::from_static_str(name))
            .with_config_operation(operation)
            .with_value(value.map(StrBytes::from_static_str))
    }

    fn resource(name: &'static str, configs: Vec<AlterableConfig>) -> AlterConfigsResource {
        AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(StrBytes::from_static_str(name))
            .with_configs(configs)
    }

    #[test]
    fn each_operation_is_understood_and_only_a_delete_needs_no_value() {
        let edits = [
            (SET, Some("v"), ConfigEdit::Set("v".into())),
            (DELETE, None, ConfigEdit::Delete),
            (DELETE, Some("v"), ConfigEdit::Delete),
            (APPEND, Some("v"), ConfigEdit::Append("v".into())),
            (SUBTRACT, Some("v"), ConfigEdit::Subtract("v".into())),
        ];
        for (operation, value, expected) in edits {
            assert_eq!(edit(&setting("x", operation, value)), Ok(expected));
        }
        for (operation, value) in [(SET, None), (APPEND, None), (SUBTRACT, None), (4, Some("v")), (-1, Some("v"))] {
            assert_eq!(edit(&setting("x", operation, value)).unwrap_err().0.0, 42);
        }
        let twice = vec![setting("x", SET, Some("1")), setting("x", DELETE, None)];
        assert_eq!(change(&resource("a", twice)).unwrap_err().0.0, 42);
    }

    #[test]
    fn every_version_answers_each_resource_in_its_place() {
        let world = World::with(&[("a", 1)]);
        let (right, wrong) = (setting("retention.ms", SET, Some("1")), setting("x", SET, None));
        let request = IncrementalAlterConfigsRequest::default()
            .with_resources(vec![resource("b", vec![wrong]), resource("a", vec![right])]);
        for version in versions(44) {
            let (answers, changed) = altered(&world, &request.resources, asked);
            assert_eq!(changed, [id_of(0)]);
            let read = as_read(version, &finish(response(&request, answers)));
            let told: Vec<_> = read.responses.iter().map(|r| (r.resource_name.as_str(), r.error_code)).collect();
            assert_eq!(told, [("b", 42), ("a", 0)]);
            assert_eq!(read.responses[1].error_message, None);
        }
    }
}
