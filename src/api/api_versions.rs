//! ApiVersions (API 18): what is served. The answer's header is always version 0 (KIP-511), so that any
//! client can read it.

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ringgate_group::ErrorCode;
use ringgate_wire::versions::SERVED;

use super::{Outcome, RequestContext};

/// The first version that names the client's software (KIP-511).
const SOFTWARE_SINCE: i16 = 3;

/// Serves an ApiVersions.
pub async fn handle(ctx: &RequestContext, request: ApiVersionsRequest) -> Outcome {
    let named = |name: &str| is_software_name(name);
    let sound = ctx.api_version < SOFTWARE_SINCE
        || named(&request.client_software_name) && named(&request.client_software_version);
    ctx.respond(&if sound { response(ErrorCode::NONE) } else { refusal() })
}

/// A version that is not served: the answer is in version 0, which every client reads, and names the
/// versions that are.
pub(super) fn unsupported(ctx: &RequestContext) -> Outcome {
    match ringgate_wire::encode_response(ctx.api_key, 0, ctx.correlation_id, &response(ErrorCode::UNSUPPORTED_VERSION))
    {
        Ok(frame) => Outcome::Respond(vec![frame]),
        Err(error) => Outcome::Close(error.to_string()),
    }
}

fn response(error: ErrorCode) -> ApiVersionsResponse {
    let api_keys = SERVED.iter().map(|api| {
        ApiVersion::default()
            .with_api_key(api.api_key)
            // librdkafka compresses only for brokers that seem to know the oldest Produce, as Kafka 4 does.
            .with_min_version(if api.api_key == 0 { 0 } else { *api.versions.start() })
            .with_max_version(*api.versions.end())
    });
    ApiVersionsResponse::default().with_error_code(error.0).with_api_keys(api_keys.collect())
}

fn refusal() -> ApiVersionsResponse {
    ApiVersionsResponse::default().with_error_code(ErrorCode::INVALID_REQUEST.0)
}

/// Kafka's rule: letters, digits, dots and dashes, alphanumeric at both ends.
fn is_software_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let ends = [name.chars().next(), name.chars().next_back()];
    name.chars().all(inner) && ends.iter().all(|c| c.is_some_and(|c| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn produce_is_offered_from_0_and_everything_else_as_it_is_served() {
        let response = response(ErrorCode::NONE);
        assert_eq!(response.api_keys.len(), SERVED.len());
        for (offered, served) in response.api_keys.iter().zip(&SERVED) {
            let min = if served.api_key == 0 { 0 } else { *served.versions.start() };
            assert_eq!(
                (offered.api_key, offered.min_version, offered.max_version),
                (served.api_key, min, *served.versions.end())
            );
        }
    }

    #[test]
    fn software_names_follow_kafkas_pattern() {
        assert!(is_software_name("apache-kafka-java") && is_software_name("2.13.0"));
        for bad in ["", "My App", "_x", "-a", "a.", "ä"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }
}
