//! ApiVersions (API 18): what is served. The answer's header is always version 0 (KIP-511), so that any
//! client can read it.

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use ringgate_group::ErrorCode;
use ringgate_wire::versions::{SERVED, Served};

use super::{Outcome, RequestContext};

/// The first version that names the client's software (KIP-511).
const SOFTWARE_SINCE: i16 = 3;

/// Serves an ApiVersions.
pub async fn handle(ctx: &RequestContext, request: ApiVersionsRequest) -> Outcome {
    ctx.respond(&answer(ctx.api_version, &request))
}

fn answer(version: i16, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    let named = [&request.client_software_name, &request.client_software_version];
    if version >= SOFTWARE_SINCE && !named.iter().all(|name| is_software_name(name)) {
        return refusal();
    }
    ApiVersionsResponse::default().with_api_keys(SERVED.iter().map(offered).collect())
}

/// A version that is not served: the answer is in version 0, which every client reads, and names the
/// versions of ApiVersions itself, with which the client asks again (KIP-511).
pub(super) fn unsupported(ctx: &RequestContext) -> Outcome {
    match ringgate_wire::encode_response(ctx.api_key, 0, ctx.correlation_id, &unsupported_version()) {
        Ok(frame) => Outcome::Respond(vec![frame]),
        Err(error) => Outcome::Close(error.to_string()),
    }
}

fn unsupported_version() -> ApiVersionsResponse {
    let itself = SERVED.iter().filter(|api| api.api_key == ApiKey::ApiVersions as i16).map(offered);
    let code = ErrorCode::UNSUPPORTED_VERSION.0;
    ApiVersionsResponse::default().with_error_code(code).with_api_keys(itself.collect())
}

fn offered(api: &Served) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(api.api_key)
        // librdkafka compresses only for brokers that seem to know the oldest Produce, as Kafka 4 does.
        .with_min_version(if api.api_key == ApiKey::Produce as i16 { 0 } else { *api.versions.start() })
        .with_max_version(*api.versions.end())
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
    use super::super::testing::{as_read, versions};
    use super::*;
    use kafka_protocol::protocol::StrBytes;

    fn request(name: &str, version: &str) -> ApiVersionsRequest {
        ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_string(name.into()))
            .with_client_software_version(StrBytes::from_string(version.into()))
    }

    #[test]
    fn produce_is_offered_from_0_and_everything_else_as_it_is_served_in_every_version() {
        for version in versions(18) {
            let response = as_read(version, &answer(version, &request("librdkafka", "2.10.0")));
            assert_eq!((response.error_code, response.api_keys.len()), (0, SERVED.len()));
            assert_eq!(response.finalized_features_epoch, -1);
            for (offered, served) in response.api_keys.iter().zip(&SERVED) {
                let min = if served.api_key == 0 { 0 } else { *served.versions.start() };
                assert_eq!(
                    (offered.api_key, offered.min_version, offered.max_version),
                    (served.api_key, min, *served.versions.end())
                );
            }
        }
    }

    #[test]
    fn a_software_name_or_version_against_the_pattern_is_answered_42_from_version_3() {
        for version in versions(18) {
            for request in [request("My App", "1"), request("app", ""), request("_x", "1")] {
                let response = as_read(version, &answer(version, &request));
                assert_eq!(response.error_code, if version >= 3 { 42 } else { 0 }, "version {version}");
            }
        }
    }

    #[test]
    fn an_unknown_version_is_answered_35_with_the_versions_of_api_versions_alone() {
        let response = as_read(0, &unsupported_version());
        assert_eq!(response.error_code, 35);
        let keys: Vec<_> = response.api_keys.iter().map(|k| (k.api_key, k.min_version, k.max_version)).collect();
        assert_eq!(keys, [(18, *versions(18).start(), *versions(18).end())]);
    }

    #[test]
    fn software_names_follow_kafkas_pattern() {
        assert!(is_software_name("apache-kafka-java") && is_software_name("2.13.0"));
        for bad in ["", "My App", "_x", "-a", "a.", "ä"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }
}
