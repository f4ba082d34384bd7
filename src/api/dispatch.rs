//! From a request's bytes to its handler.

use bytes::Bytes;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Decodable;
use ringgate_wire::counts;
use ringgate_wire::versions::served;

use super::*;

/// Checks, decodes and serves a request. An API or version that is not served closes the connection, as
/// in Kafka, except that ApiVersions answers which versions there are. Bytes behind the request are
/// ignored: some clients send fields that their version does not have.
pub async fn dispatch(ctx: &RequestContext, body: Bytes) -> Outcome {
    let (key, version) = (ctx.api_key, ctx.api_version);
    let Some(api) = served(key) else {
        return Outcome::Close(format!("API {key} version {version} is not served"));
    };
    if !api.versions.contains(&version) {
        if key == ApiKey::ApiVersions as i16 {
            return api_versions::unsupported(ctx);
        }
        return Outcome::Close(format!("{} version {version} is not served, only {:?}", api.name, api.versions));
    }
    if let Err(error) = counts::check(key, version, &body, ctx.connection.settings.max_decoded_bytes) {
        return Outcome::Close(format!("{} version {version}: {error}", api.name));
    }
    macro_rules! serve {
        ($handler:path, $request:ty) => {
            match <$request>::decode(&mut body.clone(), version) {
                Ok(request) => $handler(ctx, request).await,
                Err(error) => Outcome::Close(format!("{} version {version}: {error}", api.name)),
            }
        };
    }
    match key {
        0 => serve!(produce::handle, ProduceRequest),
        1 => serve!(fetch::handle, FetchRequest),
        2 => serve!(list_offsets::handle, ListOffsetsRequest),
        3 => serve!(metadata::handle, MetadataRequest),
        8 => serve!(offset_commit::handle, OffsetCommitRequest),
        9 => serve!(offset_fetch::handle, OffsetFetchRequest),
        10 => serve!(find_coordinator::handle, FindCoordinatorRequest),
        11 => serve!(join_group::handle, JoinGroupRequest),
        12 => serve!(heartbeat::handle, HeartbeatRequest),
        13 => serve!(leave_group::handle, LeaveGroupRequest),
        14 => serve!(sync_group::handle, SyncGroupRequest),
        15 => serve!(describe_groups::handle, DescribeGroupsRequest),
        16 => serve!(list_groups::handle, ListGroupsRequest),
        18 => serve!(api_versions::handle, ApiVersionsRequest),
        19 => serve!(create_topics::handle, CreateTopicsRequest),
        20 => serve!(delete_topics::handle, DeleteTopicsRequest),
        22 => serve!(init_producer_id::handle, InitProducerIdRequest),
        _ => Outcome::Close(format!("{} has no handler", api.name)),
    }
}

/// A Heartbeat was read behind a waiting request: its member's session goes on if it is right. It is
/// answered at its turn.
pub fn heartbeat_seen(ctx: &RequestContext, body: &Bytes) {
    let known = served(ctx.api_key).is_some_and(|api| api.versions.contains(&ctx.api_version));
    if known
        && counts::check(ctx.api_key, ctx.api_version, body, ctx.connection.settings.max_decoded_bytes).is_ok()
        && let Ok(request) = HeartbeatRequest::decode(&mut body.clone(), ctx.api_version)
    {
        heartbeat::seen(ctx, &request);
    }
}
