//! What the listener serves. A command is looked up by its operation or, where the header names none, by its code;
//! [`serve`] checks who asks, and hands it to the file of its group.

mod change;
mod cluster;
mod groups;
mod offsets;
mod options;
mod poll;
mod read;
mod resolve;
mod room;
mod send;
mod sign_in;
mod stats;
mod streams;
mod topics;

use std::rc::Rc;

use bytes::Bytes;
use iggy_binary_protocol::codes::*;
use iggy_binary_protocol::{Operation, lookup_by_operation, lookup_command};
use ringgate_shards::ShardHandle;
use ringgate_shards::iggy_code::IggyCode;

use super::frames::{Answer, Eviction, Request};
use super::limits::LISTED_HERE;
use super::link::Link;
use super::sessions::Identity;

/// Carries a request out.
pub async fn serve(link: &Rc<Link>, request: Request) -> Answer {
    let operation = request.header.operation;
    if operation == Operation::NonReplicated {
        let code = request.code();
        // Only known codes are counted apart: there are four billion others.
        let known = lookup_command(code).is_some();
        link.front.count(if known { code } else { 0 });
        return match code {
            PING_CODE => Answer::Read(Vec::new()),
            BIND_SESSION_CODE => sign_in::bind_session(link, &request),
            _ if !is_of_session(link, &request) => Answer::Refused(IggyCode::UNAUTHENTICATED),
            _ if is_ahead(link, &request) => Answer::Refused(IggyCode::TRANSIENT_NOT_ACCEPTED),
            _ => read(link, code, &request).await.unwrap_or_else(Answer::Refused),
        };
    }
    link.front.count(lookup_by_operation(operation).map_or(0, |command| command.code));
    match operation {
        Operation::Register => sign_in::register(link, &request).await,
        _ if !is_of_session(link, &request) => Answer::Evicted(Eviction::NoSession),
        Operation::Logout => sign_in::logout(link),
        _ if is_ahead(link, &request) => Answer::Refused(IggyCode::TRANSIENT_NOT_ACCEPTED),
        _ => write(link, operation, &request).await.unwrap_or_else(Answer::Refused),
    }
}

/// What changes nothing but what a poll commits.
async fn read(link: &Link, code: u32, request: &Request) -> Result<Answer, IggyCode> {
    match code {
        GET_CLUSTER_METADATA_CODE => Ok(cluster::metadata(link)),
        GET_ME_CODE => Ok(cluster::me(link)),
        GET_STREAM_CODE => streams::get(link, request).await,
        GET_STREAMS_CODE => streams::list(link).await,
        GET_TOPIC_CODE => topics::get(link, request).await,
        GET_TOPICS_CODE => topics::list(link, request).await,
        GET_CONSUMER_GROUP_CODE => groups::get(link, request),
        GET_CONSUMER_GROUPS_CODE => groups::list(link, request).await,
        GET_CONSUMER_OFFSET_CODE => offsets::get(link, request).await,
        GET_PARTITION_ROUTE_CODE => send::route(link, request),
        POLL_MESSAGES_CODE => poll::poll(link, request).await,
        POLL_MESSAGES_DEFERRED_CODE => poll::deferred(link, request).await,
        FETCH_MESSAGES_CODE => poll::fetch(link, request).await,
        CANCEL_DEFERRED_REQUEST_CODE => {
            link.cancel(request.header.request);
            Ok(Answer::Silent)
        }
        _ if lookup_command(code).is_some() => Err(IggyCode::FEATURE_UNAVAILABLE),
        _ => Err(IggyCode::INVALID_COMMAND),
    }
}

async fn write(link: &Link, operation: Operation, request: &Request) -> Result<Answer, IggyCode> {
    match operation {
        Operation::SendMessages => send::send(link, request).await,
        Operation::StoreConsumerOffset => offsets::store(link, request).await,
        Operation::DeleteConsumerOffset => offsets::delete(link, request).await,
        Operation::CreateStream => streams::create(link, request).await,
        Operation::DeleteStream => streams::delete(link, request).await,
        Operation::CreateTopic => topics::create(link, request).await,
        Operation::UpdateResource => topics::update(link, request).await,
        Operation::DeleteTopic => topics::delete(link, request).await,
        Operation::CreatePartitions => topics::create_partitions(link, request).await,
        Operation::DeleteSegments => topics::delete_segments(link, request).await,
        Operation::CreateConsumerGroup => groups::create(link, request).await,
        Operation::DeleteConsumerGroup => groups::delete(link, request).await,
        _ if lookup_by_operation(operation).is_some() => Err(IggyCode::FEATURE_UNAVAILABLE),
        // Those that only servers send to each other.
        _ => Err(IggyCode::INVALID_COMMAND),
    }
}

/// Writes a list of so many entries: away from the shard when they are many.
async fn list_of(
    shard: &ShardHandle,
    entries: usize,
    write: impl FnOnce() -> Result<Bytes, IggyCode> + Send + 'static,
) -> Result<Bytes, IggyCode> {
    if entries <= LISTED_HERE { write() } else { shard.elsewhere(write).await }
}

/// Whether the request is one of the session that the link is bound to.
fn is_of_session(link: &Link, request: &Request) -> bool {
    let header = &request.header;
    link.bound() == Some(Identity { client: header.client, session: header.session })
}

/// Whether the client knows of changes that are not to be: of another data directory.
fn is_ahead(link: &Link, request: &Request) -> bool {
    request.header.minimum_metadata_op > link.shard.ops().current()
}
