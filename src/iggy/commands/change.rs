//! Changes of metadata: each is carried out once, however often it is asked for, and also when nobody waits for it
//! any more.

use std::future::Future;

use bytes::Bytes;
use futures_channel::oneshot;
use ringgate_shards::ShardHandle;
use ringgate_shards::call::{IggyChange, IggyChangeCall, IggyChanged};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::iggy_code::IggyCode;
use ringgate_shards::request_window::Attempt;

use super::super::frames::{Answer, Eviction, Request};
use super::super::link::Link;
use super::super::sessions::Committed;
use crate::net::limit_hits::Limit;

/// Carries out a change, which answers with what follows the mark of success. An earlier attempt of the same request
/// is answered again.
pub async fn once<F>(link: &Link, request: &Request, change: impl FnOnce(ShardHandle) -> F) -> Answer
where
    F: Future<Output = Result<Bytes, IggyCode>> + 'static,
{
    let Some(identity) = link.bound() else { return Answer::Evicted(Eviction::NoSession) };
    let (session, number) = (identity.session, request.header.request);
    let gateway = link.front.gateway.clone();
    let begun = gateway.sessions().begin_change(session, number);
    match begun {
        None => return Answer::Evicted(Eviction::NoSession),
        Some(Attempt::Answered(Committed { operation, body })) => return Answer::Committed(operation, body),
        Some(Attempt::UnderWay) => return Answer::Refused(IggyCode::TRANSIENT_NOT_COMMITTED),
        Some(Attempt::Forgotten) => return Answer::Refused(IggyCode::REQUEST_TOO_OLD),
        Some(Attempt::First) => {}
    }
    let Some(operation) = link.shard.ops().next() else {
        gateway.sessions().end_change(session, number, None);
        link.limit_hits.count(Limit::IggyOperations);
        return Answer::Refused(IggyCode::TRANSIENT_NOT_ACCEPTED);
    };
    let change = change(link.shard.clone());
    let (answer, answered) = oneshot::channel();
    ringgate_runtime::spawn_as("iggy_change", async move {
        let body = match change.await {
            Ok(payload) => Answer::done_body(&payload),
            Err(code) => Answer::rejected_body(code),
        };
        gateway.sessions().end_change(session, number, Some(Committed { operation, body: body.clone() }));
        // The link may be gone.
        let _ = answer.send(body);
    })
    .detach();
    match answered.await {
        Ok(body) => Answer::Committed(operation, body),
        // The gateway ends.
        Err(oneshot::Canceled) => Answer::Silent,
    }
}

/// Asks the controller.
pub async fn ask(shard: &ShardHandle, change: IggyChange) -> Result<IggyChanged, IggyCode> {
    let changed = shard.submit_to(CONTROLLER, IggyChangeCall(change)).await.0;
    changed.map_err(|refusal| {
        tracing::debug!(
            code = refusal.code.0,
            why = refusal.message,
            "a change that an Iggy client asked for is refused"
        );
        refusal.code
    })
}
