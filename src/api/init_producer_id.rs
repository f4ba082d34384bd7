//! InitProducerId (API 22): an id under which a producer's batches are told apart from their repetitions.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use ringgate_group::ErrorCode;

use super::{Operation, Outcome, RequestContext, Resource, View};

/// Serves an InitProducerId. A producer without a transactional id always gets a new id, as in Kafka.
pub async fn handle(ctx: &RequestContext, request: InitProducerIdRequest) -> Outcome {
    if let Some(id) = &request.transactional_id {
        tracing::info!(transactional_id = %id.as_str(), peer = %ctx.connection.peer, "transactions are not supported");
    }
    let next_id = match check(&ctx.view(), &request) {
        Ok(()) => Ok(ctx.shard().next_producer_id().await),
        Err(error) => Err(error),
    };
    ctx.respond(&response(next_id))
}

/// Whether it gets an id at all.
fn check(view: &View<'_>, request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    if request.transactional_id.is_some() {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    if !view.allowed(Operation::IdempotentWrite, Resource::Cluster) {
        return Err(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
    }
    Ok(())
}

/// The answer with an id, which is -1 when there is none to be had.
fn response(next_id: Result<i64, ErrorCode>) -> InitProducerIdResponse {
    let refuse = |error: ErrorCode| {
        let nothing = InitProducerIdResponse::default().with_producer_epoch(-1).with_producer_id(ProducerId(-1));
        nothing.with_error_code(error.0)
    };
    let next_id = match next_id {
        Ok(id) => id,
        Err(error) => return refuse(error),
    };
    match next_id {
        -1 => refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        id => InitProducerIdResponse::default().with_producer_id(ProducerId(id)).with_producer_epoch(0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, versions};
    use super::*;
    use kafka_protocol::messages::TransactionalId;

    fn told(response: &InitProducerIdResponse) -> (i16, i64, i16) {
        (response.error_code, response.producer_id.0, response.producer_epoch)
    }

    #[test]
    fn every_version_hands_out_a_new_id_with_epoch_0() {
        let world = World::with(&[]);
        for version in versions(22) {
            // What a producer says of an earlier id of its own makes no difference without a transactional id.
            let mut request = InitProducerIdRequest::default().with_transactional_id(None);
            if version >= 3 {
                request = request.with_producer_id(ProducerId(5)).with_producer_epoch(3);
            }
            let fresh = as_read(version, &response(check(&world.view(version), &request).map(|()| 42)));
            assert_eq!(told(&fresh), (0, 42, 0), "version {version}");
            let none = as_read(version, &response(check(&world.view(version), &request).map(|()| -1)));
            assert_eq!(told(&none), (15, -1, -1), "version {version}");
        }
    }

    #[test]
    fn who_may_not_write_with_idempotence_is_answered_31() {
        let mut world = World::with(&[]);
        world.authorizer.cluster_denied = Some(Operation::IdempotentWrite);
        let request = InitProducerIdRequest::default().with_transactional_id(None);
        let refused = response(check(&world.view(4), &request).map(|()| panic!("an id was used up")));
        assert_eq!(told(&as_read(4, &refused)), (31, -1, -1));
    }

    #[test]
    fn s101_a_transactional_id_is_refused_and_uses_no_id_up() {
        let world = World::with(&[]);
        for id in ["t", ""] {
            let id = TransactionalId(id.to_string().into());
            let request = InitProducerIdRequest::default().with_transactional_id(Some(id));
            let refused = response(check(&world.view(4), &request).map(|()| panic!("an id was used up")));
            assert_eq!(told(&as_read(4, &refused)), (42, -1, -1));
        }
    }
}
