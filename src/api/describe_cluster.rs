//! DescribeCluster (API 60): the nodes, the controller and the cluster's id.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;

use super::groups::OPERATIONS_NOT_ASKED;
use super::topics::CLUSTER_OPERATIONS;
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The first version that tells of brokers or of controllers (KIP-919).
const ENDPOINT_TYPE_SINCE: i16 = 1;
/// Kafka's number for brokers.
const BROKERS: i8 = 1;
/// Kafka's number for controllers, of which a broker does not tell.
const CONTROLLERS: i8 = 2;

/// Serves a DescribeCluster.
pub async fn handle(ctx: &RequestContext, request: DescribeClusterRequest) -> Outcome {
    ctx.respond(&response(&ctx.view(), &request))
}

fn response(view: &View<'_>, request: &DescribeClusterRequest) -> DescribeClusterResponse {
    if view.version >= ENDPOINT_TYPE_SINCE && request.endpoint_type != BROKERS {
        let why = format!("endpoint_type = {}; allowed is 1, brokers", request.endpoint_type);
        let error = match request.endpoint_type {
            CONTROLLERS => ErrorCode::MISMATCHED_ENDPOINT_TYPE,
            _ => ErrorCode::UNSUPPORTED_ENDPOINT_TYPE,
        };
        return DescribeClusterResponse::default()
            .with_error_code(error.0)
            .with_error_message(Some(StrBytes::from_string(why)));
    }
    let brokers = view.advertised.nodes(view.local).into_iter().map(|node| {
        DescribeClusterBroker::default()
            .with_broker_id(BrokerId(node.id))
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
    });
    let told = request.include_cluster_authorized_operations && view.allowed(Operation::Describe, Resource::Cluster);
    DescribeClusterResponse::default()
        .with_cluster_id(StrBytes::from_string(view.settings.cluster_id.clone()))
        .with_controller_id(BrokerId(view.advertised.controller(view.local).id))
        .with_brokers(brokers.collect())
        .with_cluster_authorized_operations(if told { CLUSTER_OPERATIONS } else { OPERATIONS_NOT_ASKED })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::testing::{World, as_read, versions};

    #[test]
    fn every_version_names_every_node_and_the_controller() {
        let world = World::with(&[]);
        for version in versions(60) {
            let view = world.view(version);
            let mut request = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
            if version >= ENDPOINT_TYPE_SINCE {
                request = request.with_endpoint_type(BROKERS);
            }
            let read = as_read(version, &response(&view, &request));
            assert_eq!((read.error_code, read.brokers.len(), read.controller_id.0), (0, 2, 1000));
            assert_eq!(read.cluster_authorized_operations, CLUSTER_OPERATIONS);
        }
    }

    #[test]
    fn controllers_are_not_told_of() {
        let world = World::with(&[]);
        for (endpoint_type, error) in [(2, 114), (0, 115), (3, 115)] {
            let request = DescribeClusterRequest::default().with_endpoint_type(endpoint_type);
            let read = as_read(1, &response(&world.view(1), &request));
            assert_eq!((read.error_code, read.brokers.len()), (error, 0));
        }
    }
}
