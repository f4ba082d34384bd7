//! From a request's bytes to its handler.

use std::pin::Pin;

use bytes::Bytes;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Decodable;
use ringgate_wire::counts::{self, CountError};
use ringgate_wire::versions::{Served, served};

use super::*;
use crate::net::limit_hits::Limit;

/// What is to be done with a request before its body is decoded.
#[derive(Debug)]
enum Admission {
    /// Decode and serve it.
    Serve(&'static Served),
    /// Tell which versions of ApiVersions there are.
    UnsupportedApiVersions,
    /// Close the connection, for this reason.
    Refuse(String),
    /// Close the connection: the request would decode to too much.
    TooLarge(String),
}

/// An API or version that is not served closes the connection, as in Kafka, except that ApiVersions answers
/// which versions there are. A body whose counts could not be true closes it as well.
fn admit(key: i16, version: i16, body: &Bytes, max_decoded_bytes: usize) -> Admission {
    let Some(api) = served(key) else {
        return Admission::Refuse(format!("API {key} version {version} is not served"));
    };
    if !api.versions.contains(&version) {
        if key == ApiKey::ApiVersions as i16 {
            return Admission::UnsupportedApiVersions;
        }
        let (first, last) = (api.versions.start(), api.versions.end());
        return Admission::Refuse(format!("{} version {version} is not served, only {first} to {last}", api.name));
    }
    match counts::check(key, version, body, max_decoded_bytes) {
        Ok(_) => Admission::Serve(api),
        Err(error) => {
            let reason = format!("{} version {version}: {error}", api.name);
            match error {
                CountError::TooLarge { .. } => Admission::TooLarge(reason),
                _ => Admission::Refuse(reason),
            }
        }
    }
}

macro_rules! handlers {
    ($($key:literal => $handler:path, $request:ty;)*) => {
        #[cfg(test)]
        const HANDLED: &[i16] = &[$($key),*];

        /// An empty request's bytes, and whether bytes are decoded as [`serve`] does it.
        #[cfg(test)]
        const CODECS: &[(fn(i16) -> Bytes, fn(Bytes, i16) -> bool)] = &[$((
            |version| {
                let mut bytes = bytes::BytesMut::new();
                let empty = <$request>::default();
                kafka_protocol::protocol::Encodable::encode(&empty, &mut bytes, version).expect("an empty request");
                bytes.freeze()
            },
            |mut body, version| <$request>::decode(&mut body, version).is_ok(),
        )),*];

        /// What serving a request of each API takes, in bytes.
        #[cfg(test)]
        fn sizes() -> Vec<(i16, usize)> {
            fn of<H, F>(_: impl FnOnce(RequestContext, Bytes, H) -> F, _: H) -> usize {
                size_of::<F>()
            }
            vec![$(($key, of(serve::<$request, _>, $handler))),*]
        }

        /// Begins to serve a request: it runs when it is polled.
        pub fn dispatch(ctx: RequestContext, body: Bytes) -> Serving {
            match ctx.api_key {
                $($key => Box::pin(serve::<$request, _>(ctx, body, $handler)),)*
                _ => Box::pin(async move {
                    match admitted(&ctx, &body).await {
                        Ok(api) => Outcome::Close(format!("{} has no handler", api.name)),
                        Err(outcome) => outcome,
                    }
                }),
            }
        }
    };
}

handlers! {
    0 => produce::handle, ProduceRequest;
    1 => fetch::handle, FetchRequest;
    2 => list_offsets::handle, ListOffsetsRequest;
    3 => metadata::handle, MetadataRequest;
    8 => offset_commit::handle, OffsetCommitRequest;
    9 => offset_fetch::handle, OffsetFetchRequest;
    10 => find_coordinator::handle, FindCoordinatorRequest;
    11 => join_group::handle, JoinGroupRequest;
    12 => heartbeat::handle, HeartbeatRequest;
    13 => leave_group::handle, LeaveGroupRequest;
    14 => sync_group::handle, SyncGroupRequest;
    15 => describe_groups::handle, DescribeGroupsRequest;
    16 => list_groups::handle, ListGroupsRequest;
    18 => api_versions::handle, ApiVersionsRequest;
    19 => create_topics::handle, CreateTopicsRequest;
    20 => delete_topics::handle, DeleteTopicsRequest;
    21 => delete_records::handle, DeleteRecordsRequest;
    22 => init_producer_id::handle, InitProducerIdRequest;
    23 => offset_for_leader_epoch::handle, OffsetForLeaderEpochRequest;
    32 => describe_configs::handle, DescribeConfigsRequest;
    33 => alter_configs::handle, AlterConfigsRequest;
    37 => create_partitions::handle, CreatePartitionsRequest;
    42 => delete_groups::handle, DeleteGroupsRequest;
    44 => incremental_alter_configs::handle, IncrementalAlterConfigsRequest;
    47 => offset_delete::handle, OffsetDeleteRequest;
    60 => describe_cluster::handle, DescribeClusterRequest;
    61 => describe_producers::handle, DescribeProducersRequest;
    68 => consumer_group_heartbeat::handle, ConsumerGroupHeartbeatRequest;
    69 => consumer_group_describe::handle, ConsumerGroupDescribeRequest;
    75 => describe_topic_partitions::handle, DescribeTopicPartitionsRequest;
}

/// A request that is served, in a block as large as its own API needs: one for all of them would give a Heartbeat, and a
/// Fetch that waits, several times that.
pub type Serving = Pin<Box<dyn Future<Output = Outcome>>>;

/// Checks, decodes and serves. Bytes behind the request are ignored: some clients send fields that their version does not
/// have.
#[expect(clippy::manual_async_fn, reason = "an async function keeps its arguments beside what it makes of them")]
fn serve<R, H>(ctx: RequestContext, body: Bytes, handle: H) -> impl Future<Output = Outcome>
where
    R: Decodable + Send + 'static,
    H: AsyncFnOnce(&RequestContext, R) -> Outcome + 'static,
{
    async move {
        let api = match admitted(&ctx, &body).await {
            Ok(api) => api,
            Err(outcome) => return outcome,
        };
        match ctx.decode::<R>(body).await {
            Ok(request) => handle(&ctx, request).await,
            Err(error) => Outcome::Close(format!("{} version {}: {error}", api.name, ctx.api_version)),
        }
    }
}

/// Checks a request before it is decoded; what becomes of it otherwise.
async fn admitted(ctx: &RequestContext, body: &Bytes) -> Result<&'static Served, Outcome> {
    let (key, version, most) = (ctx.api_key, ctx.api_version, ctx.connection.settings.max_decoded_bytes);
    let admission = if ctx.decodes_here(body.len()) {
        admit(key, version, body, most)
    } else {
        let body = body.clone();
        ctx.shard().elsewhere(move || admit(key, version, &body, most)).await
    };
    Err(match admission {
        Admission::Serve(api) => return Ok(api),
        Admission::UnsupportedApiVersions => api_versions::unsupported(ctx),
        Admission::Refuse(reason) => Outcome::Close(reason),
        Admission::TooLarge(reason) => Outcome::CloseAtLimit(Limit::MaxDecodedBytes, reason),
    })
}

/// A Heartbeat was read behind a waiting request: its member's session goes on if it is right. It is
/// answered at its turn.
pub fn heartbeat_seen(ctx: &RequestContext, body: &Bytes) {
    let admission = admit(ctx.api_key, ctx.api_version, body, ctx.connection.settings.max_decoded_bytes);
    if let Admission::Serve(_) = admission
        && let Ok(request) = HeartbeatRequest::decode(&mut body.clone(), ctx.api_version)
    {
        heartbeat::seen(ctx, &request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringgate_wire::versions::SERVED;

    const ROOM: usize = 1 << 20;

    #[test]
    fn everything_that_is_served_has_a_handler_and_nothing_else_has() {
        assert_eq!(HANDLED, SERVED.iter().map(|api| api.api_key).collect::<Vec<_>>());
    }

    #[test]
    fn a_request_takes_what_its_own_api_needs_and_a_heartbeat_less_than_others() {
        for (key, bytes) in sizes() {
            let most = if key == ApiKey::Heartbeat as i16 { 1_024 } else { 2_560 };
            assert!(bytes <= most, "API {key}: {bytes} bytes");
        }
    }

    #[test]
    fn what_is_not_served_is_refused_by_key_and_version() {
        for (key, version) in [(9999, 0), (-1, 0), (3, 99), (3, -1), (0, 2), (21, 3), (23, 1), (24, 0), (68, 2)] {
            let Admission::Refuse(reason) = admit(key, version, &Bytes::new(), ROOM) else {
                panic!("API {key} version {version} was taken");
            };
            assert!(reason.contains(&version.to_string()), "{reason}");
        }
    }

    #[test]
    fn an_unknown_version_of_api_versions_is_answered_whatever_its_body_is() {
        for version in [-1, 5, 99, i16::MAX] {
            let admission = admit(18, version, &Bytes::from_static(b"\xff\xff\xff"), ROOM);
            assert!(matches!(admission, Admission::UnsupportedApiVersions), "version {version}: {admission:?}");
        }
    }

    #[test]
    fn a_count_that_cannot_be_true_is_refused_before_it_is_decoded() {
        let hostile = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff]);
        let Admission::Refuse(reason) = admit(3, 0, &hostile, ROOM) else { panic!("it was taken") };
        assert!(reason.starts_with("Metadata version 0"), "{reason}");
        let none = Bytes::from_static(&[0, 0, 0, 0]);
        assert!(matches!(admit(3, 0, &none, ROOM), Admission::Serve(api) if api.name == "Metadata"));
    }

    #[test]
    fn every_version_of_an_empty_request_is_taken_also_with_bytes_behind_it() {
        for (api, (empty, decodes)) in SERVED.iter().zip(CODECS) {
            for version in api.versions.clone() {
                let mut body = empty(version).to_vec();
                for _ in 0..2 {
                    let bytes = Bytes::from(body.clone());
                    let admission = admit(api.api_key, version, &bytes, ROOM);
                    assert!(matches!(admission, Admission::Serve(_)), "{} {version}: {admission:?}", api.name);
                    assert!(decodes(bytes, version), "{} {version}", api.name);
                    body.extend([0xff; 3]);
                }
            }
        }
    }

    #[test]
    fn a_null_where_none_may_be_closes_the_connection_or_is_served_and_never_panics() {
        // Wherever an empty array, string or field of a request lies, null and "too many" are tried in its
        // place, and the request cut off there.
        for (api, (empty, decodes)) in SERVED.iter().zip(CODECS) {
            for version in api.versions.clone() {
                let body = empty(version);
                for at in 0..body.len() {
                    for wrong in [&[][..], &[0x00], &[0xff; 1], &[0xff; 2], &[0xff; 4], &[0x7f, 0xff, 0xff, 0xff]] {
                        let mut bytes = body[..at].to_vec();
                        bytes.extend(wrong);
                        if !wrong.is_empty() {
                            bytes.extend(body.iter().skip(at + wrong.len()));
                        }
                        let bytes = Bytes::from(bytes);
                        if let Admission::Serve(_) = admit(api.api_key, version, &bytes, ROOM) {
                            decodes(bytes, version);
                        }
                    }
                }
            }
        }
    }
}
