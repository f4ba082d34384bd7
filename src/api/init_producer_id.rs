//! InitProducerId (API 22): an id under which a producer's batches are told apart from their repetitions.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use ringgate_group::ErrorCode;

use super::{Operation, Outcome, RequestContext, Resource};

/// Serves an InitProducerId. A producer without a transactional id always gets a new id, as in Kafka.
pub async fn handle(ctx: &RequestContext, request: InitProducerIdRequest) -> Outcome {
    let refuse = |error: ErrorCode| {
        let response = InitProducerIdResponse::default().with_producer_epoch(-1).with_producer_id(ProducerId(-1));
        ctx.respond(&response.with_error_code(error.0))
    };
    if let Some(id) = &request.transactional_id {
        tracing::info!(transactional_id = %id.as_str(), peer = %ctx.connection.peer, "transactions are not supported");
        return refuse(ErrorCode::INVALID_REQUEST);
    }
    if !ctx.allowed(Operation::IdempotentWrite, Resource::Cluster) {
        return refuse(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
    }
    match ctx.shard().next_producer_id() {
        -1 => refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        id => ctx.respond(&InitProducerIdResponse::default().with_producer_id(ProducerId(id)).with_producer_epoch(0)),
    }
}
