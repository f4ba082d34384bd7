//! FindCoordinator (API 10): which node coordinates a group: its owner's, so that members walk to the
//! owning core by themselves.

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;

use super::{Operation, Outcome, RequestContext, Resource, View};
use crate::net::advertise::Node;

/// The first version with a message.
const MESSAGE_SINCE: i16 = 1;
/// The first version that asks for several.
const BATCH_SINCE: i16 = 4;
/// Kafka's number for a consumer group.
const GROUP: i8 = 0;
/// Kafka's number for a transactional id.
const TRANSACTION: i8 = 1;

/// Serves a FindCoordinator.
pub async fn handle(ctx: &RequestContext, request: FindCoordinatorRequest) -> Outcome {
    ctx.respond(&response(&ctx.view(), request))
}

fn response(view: &View<'_>, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    let key_type = request.key_type;
    if view.version >= BATCH_SINCE {
        let keys = request.coordinator_keys.into_iter();
        let coordinators = keys.map(|key| {
            let found = find(view, key_type, &key);
            batch_entry(key, found)
        });
        return FindCoordinatorResponse::default().with_coordinators(coordinators.collect());
    }
    let mut response = FindCoordinatorResponse::default();
    let message = match find(view, key_type, &request.key) {
        Ok(node) => {
            response.node_id = BrokerId(node.id);
            response.host = StrBytes::from_string(node.host);
            response.port = i32::from(node.port);
            "NONE".to_string()
        }
        Err((error, message)) => {
            response.error_code = error.0;
            response.node_id = BrokerId(-1);
            response.port = -1;
            message
        }
    };
    if view.version >= MESSAGE_SINCE {
        response.error_message = Some(StrBytes::from_string(message));
    }
    response
}

fn find(view: &View<'_>, key_type: i8, key: &str) -> Result<Node, (ErrorCode, String)> {
    match key_type {
        GROUP if !view.allowed(Operation::Describe, Resource::Group(key)) => {
            Err((ErrorCode::GROUP_AUTHORIZATION_FAILED, "not allowed to describe the group".into()))
        }
        GROUP => Ok(view.advertised.node_of(view.route.group(key), view.local)),
        TRANSACTION => Err((ErrorCode::INVALID_REQUEST, "transactions are not supported".into())),
        other => Err((ErrorCode::INVALID_REQUEST, format!("key type {other} is not known; allowed is 0, a group"))),
    }
}

fn batch_entry(key: StrBytes, found: Result<Node, (ErrorCode, String)>) -> Coordinator {
    let entry = Coordinator::default().with_key(key);
    match found {
        Ok(node) => entry
            .with_node_id(BrokerId(node.id))
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
            .with_error_message(Some(StrBytes::new())),
        Err((error, message)) => entry
            .with_node_id(BrokerId(-1))
            .with_port(-1)
            .with_error_code(error.0)
            .with_error_message(Some(StrBytes::from_string(message))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, versions};
    use super::*;
    use crate::net::advertise::Advertise;

    /// One key in whatever field the version has for it, and (error, node, port, message) of its answer.
    fn found(world: &World, version: i16, key_type: i8, key: &str) -> (i16, i32, i32, Option<String>) {
        let key = StrBytes::from_string(key.into());
        let request = if version >= BATCH_SINCE {
            FindCoordinatorRequest::default().with_coordinator_keys(vec![key])
        } else {
            FindCoordinatorRequest::default().with_key(key)
        };
        let response = as_read(version, &response(&world.view(version), request.with_key_type(key_type)));
        let text = |message: &Option<StrBytes>| message.as_ref().map(|m| m.to_string());
        if version >= BATCH_SINCE {
            let [c] = &response.coordinators[..] else { panic!("{response:?}") };
            (c.error_code, c.node_id.0, c.port, text(&c.error_message))
        } else {
            (response.error_code, response.node_id.0, response.port, text(&response.error_message))
        }
    }

    #[test]
    fn s110_every_version_names_the_owner_of_the_group_as_metadata_does() {
        let world = World::with(&[]);
        for version in versions(10) {
            for group in ["g1", "g2", "g3", "g4", ""] {
                let owner = world.view(version).route.group(group).0;
                let (error, node, port, message) = found(&world, version, GROUP, group);
                assert_eq!((error, node, port), (0, 1000 + i32::from(owner), 9093 + i32::from(owner)));
                let expected = match version {
                    0 => None,
                    ..BATCH_SINCE => Some("NONE"),
                    _ => Some(""),
                };
                assert_eq!(message.as_deref().filter(|m| version > 0 || !m.is_empty()), expected, "version {version}");
            }
        }
    }

    #[test]
    fn in_gateway_mode_the_one_node_coordinates_every_group() {
        let mut world = World::with(&[]);
        world.advertised.mode = Advertise::Gateway;
        for group in ["g1", "g2", "g3", "g4"] {
            let (error, node, port, _) = found(&world, 4, GROUP, group);
            assert_eq!((error, node, port), (0, 1000, 9092));
        }
    }

    #[test]
    fn s110_transactions_and_share_groups_have_no_coordinator_and_no_made_up_node() {
        let world = World::with(&[]);
        for version in 1..=6 {
            for (key_type, why) in [(TRANSACTION, "transactions are not supported"), (2, "2"), (-1, "-1")] {
                let (error, node, port, message) = found(&world, version, key_type, "k");
                assert_eq!((error, node, port), (42, -1, -1), "version {version}");
                assert!(message.is_some_and(|m| m.contains(why)), "version {version}");
            }
        }
    }

    #[test]
    fn s110_several_keys_are_answered_each_on_its_own_and_in_order() {
        let mut world = World::with(&[]);
        world.authorizer.denied_group = Some((Operation::Describe, "b"));
        for version in BATCH_SINCE..=6 {
            let keys = ["a", "b", "c"].map(StrBytes::from_static_str).to_vec();
            let request = FindCoordinatorRequest::default().with_coordinator_keys(keys);
            let response = as_read(version, &response(&world.view(version), request));
            let told: Vec<_> = response.coordinators.iter().map(|c| (c.key.as_str(), c.error_code)).collect();
            assert_eq!(told, [("a", 0), ("b", 30), ("c", 0)]);
            let none = as_read(version, &super::response(&world.view(version), FindCoordinatorRequest::default()));
            assert!(none.coordinators.is_empty());
        }
        assert_eq!(found(&world, 0, GROUP, "b").0, 30);
    }
}
