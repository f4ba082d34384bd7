//! What the listener serves. A command is looked up by its operation or, where the header names none, by its code;
//! [`serve`] checks who asks, and hands it to the file of its group.

mod cluster;
mod sign_in;

use std::rc::Rc;

use iggy_binary_protocol::codes::{BIND_SESSION_CODE, GET_CLUSTER_METADATA_CODE, GET_ME_CODE, PING_CODE};
use iggy_binary_protocol::{Operation, lookup_by_operation, lookup_command};
use ringgate_shards::iggy_code::IggyCode;

use super::frames::{Answer, Eviction, Request};
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
            GET_CLUSTER_METADATA_CODE => cluster::metadata(link),
            GET_ME_CODE => cluster::me(link),
            _ if known => Answer::Refused(IggyCode::FEATURE_UNAVAILABLE),
            _ => Answer::Refused(IggyCode::INVALID_COMMAND),
        };
    }
    link.front.count(lookup_by_operation(operation).map_or(0, |command| command.code));
    match operation {
        Operation::Register => sign_in::register(link, &request).await,
        _ if !is_of_session(link, &request) => Answer::Evicted(Eviction::NoSession),
        Operation::Logout => sign_in::logout(link),
        _ if lookup_by_operation(operation).is_some() => Answer::Refused(IggyCode::FEATURE_UNAVAILABLE),
        // Those that only servers send to each other.
        _ => Answer::Refused(IggyCode::INVALID_COMMAND),
    }
}

/// Whether the request is one of the session that the link is bound to.
fn is_of_session(link: &Link, request: &Request) -> bool {
    let header = &request.header;
    link.bound() == Some(Identity { client: header.client, session: header.session })
}
