//! AlterConfigs (API 33): a resource's settings become these, and no others.

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_shards::topic_config::ConfigChange;
use ringgate_shards::turn::Turn;

use super::config_changes::{self, Asked, Refusal, each_once, null_value};
use super::{Outcome, RequestContext};

/// Serves an AlterConfigs.
pub async fn handle(ctx: &RequestContext, request: AlterConfigsRequest) -> Outcome {
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
    let config = resource.configs.iter().map(|setting| match &setting.value {
        Some(value) => Ok((setting.name.to_string(), value.to_string())),
        None => Err(null_value(&setting.name)),
    });
    config.collect::<Result<_, _>>().map(ConfigChange::Replace)
}

async fn response(request: &AlterConfigsRequest, answers: Vec<Result<(), Refusal>>) -> AlterConfigsResponse {
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
    AlterConfigsResponse::default().with_responses(responses)
}

#[cfg(test)]
mod tests {
    use super::super::config_changes::tests::altered;
    use super::super::testing::{World, as_read, finish, versions};
    use super::*;
    use kafka_protocol::messages::alter_configs_request::AlterableConfig;

    fn resource(name: &'static str, settings: &[(&'static str, Option<&'static str>)]) -> AlterConfigsResource {
        let configs = settings.iter().map(|&(name, value)| {
            AlterableConfig::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(value.map(StrBytes::from_static_str))
        });
        AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(StrBytes::from_static_str(name))
            .with_configs(configs.collect())
    }

    #[test]
    fn a_change_names_all_settings_each_once_and_with_a_value() {
        let config = [("retention.ms".to_string(), "1".to_string())].into();
        let right = change(&resource("a", &[("retention.ms", Some("1"))]));
        assert_eq!(right, Ok(ConfigChange::Replace(config)));
        for wrong in [&[("x", None)][..], &[("x", Some("1")), ("x", Some("2"))]] {
            assert_eq!(change(&resource("a", wrong)).unwrap_err().0.0, 42);
        }
    }

    #[test]
    fn every_version_answers_each_resource_in_its_place() {
        let world = World::with(&[("a", 1)]);
        let request =
            AlterConfigsRequest::default().with_resources(vec![resource("a", &[("x", None)]), resource("a2", &[])]);
        for version in versions(33) {
            let (answers, changed) = altered(&world, &request.resources, asked);
            assert!(changed.is_empty());
            let read = as_read(version, &finish(response(&request, answers)));
            let told: Vec<_> = read.responses.iter().map(|r| (r.resource_name.as_str(), r.error_code)).collect();
            assert_eq!(told, [("a", 42), ("a2", 3)]);
            assert!(read.responses[0].error_message.as_ref().is_some_and(|m| m.contains("x")));
        }
    }
}
