//! What the group APIs share: asking a group's owner, and the two kinds of strings.

use std::collections::HashSet;

use kafka_protocol::messages::GroupId;
use kafka_protocol::protocol::StrBytes;
use ringgate_group::route::ShardId;
use ringgate_group::{Request, Response, Text};
use ringgate_shards::Pending;
use ringgate_shards::call::{GroupAnswered, GroupCall};

use super::{Authorizer, Operation, RequestContext, Resource};

/// `authorized_operations` when nobody asked for them.
pub(super) const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// Everything that may be done to a group (KIP-430; the bits are Kafka's ACL operation codes: READ,
/// DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS).
pub(super) const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// Asks the owner of a group; the answer comes when that is awaited.
pub(super) fn submit(ctx: &RequestContext, group_id: &str, request: Request) -> Pending<GroupAnswered> {
    let owner = ctx.shard().route().group(group_id);
    ctx.shard().submit_to(owner, GroupCall { connection: ctx.connection.id, request })
}

/// Asks the owner of a group.
pub(super) async fn ask(ctx: &RequestContext, group_id: &str, request: Request) -> Response {
    submit(ctx, group_id, request).await.0
}

/// Asks a shard about its groups.
pub(super) async fn ask_shard(ctx: &RequestContext, owner: ShardId, request: Request) -> Response {
    ctx.shard().submit_to(owner, GroupCall { connection: ctx.connection.id, request }).await.0
}

/// Where a request comes from, as Kafka's coordinator prints it.
pub(super) fn client_host(ctx: &RequestContext) -> Text {
    Text::from(format!("/{}", ctx.connection.peer.ip().to_canonical()))
}

/// Each group once, where it was first named: a request must not be able to ask for a large group without
/// end.
pub(super) fn distinct(mut groups: Vec<GroupId>) -> Vec<GroupId> {
    let mut seen = HashSet::with_capacity(groups.len());
    groups.retain(|group| seen.insert(group.clone()));
    groups
}

/// Whether the client may read with this group.
pub(super) fn may_read(authorizer: &dyn Authorizer, group_id: &str) -> bool {
    authorizer.allowed(Operation::Read, Resource::Group(group_id))
}

/// Whether the client may look at this group.
pub(super) fn may_describe(authorizer: &dyn Authorizer, group_id: &str) -> bool {
    authorizer.allowed(Operation::Describe, Resource::Group(group_id))
}

/// The codec's string as the coordinator's; no bytes are copied.
pub(super) fn text(from: &StrBytes) -> Text {
    Text::from_utf8(from.clone().into_bytes()).unwrap_or(Text::EMPTY)
}

/// The coordinator's string as the codec's; no bytes are copied.
pub(super) fn string(from: &Text) -> StrBytes {
    StrBytes::from_utf8(from.clone().into_bytes()).unwrap_or_default()
}

/// An owner answers a request with its own kind of response.
pub(super) fn wrong_kind(response: &Response) -> ! {
    unreachable!("the coordinator answered another question: {response:?}")
}
