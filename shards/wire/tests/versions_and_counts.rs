//! Every served API in every version: the codec and our shapes agree, and hostile counts are refused.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message};
use ringgate_wire::counts::{CountError, check};
use ringgate_wire::versions::{SERVED, served};

const MOST: usize = 64 << 20;

macro_rules! for_api {
    ($key:expr, $macro:ident) => {
        match $key {
            0 => $macro!(ProduceRequest, ProduceResponse),
            1 => $macro!(FetchRequest, FetchResponse),
            2 => $macro!(ListOffsetsRequest, ListOffsetsResponse),
            3 => $macro!(MetadataRequest, MetadataResponse),
            8 => $macro!(OffsetCommitRequest, OffsetCommitResponse),
            9 => $macro!(OffsetFetchRequest, OffsetFetchResponse),
            10 => $macro!(FindCoordinatorRequest, FindCoordinatorResponse),
            11 => $macro!(JoinGroupRequest, JoinGroupResponse),
            12 => $macro!(HeartbeatRequest, HeartbeatResponse),
            13 => $macro!(LeaveGroupRequest, LeaveGroupResponse),
            14 => $macro!(SyncGroupRequest, SyncGroupResponse),
            15 => $macro!(DescribeGroupsRequest, DescribeGroupsResponse),
            16 => $macro!(ListGroupsRequest, ListGroupsResponse),
            18 => $macro!(ApiVersionsRequest, ApiVersionsResponse),
            19 => $macro!(CreateTopicsRequest, CreateTopicsResponse),
            20 => $macro!(DeleteTopicsRequest, DeleteTopicsResponse),
            22 => $macro!(InitProducerIdRequest, InitProducerIdResponse),
            other => panic!("no messages for API {other}"),
        }
    };
}

fn encoded<M: Encodable>(message: &M, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).unwrap();
    bytes.freeze()
}

/// Our own statement of each request's shape, filled with values: what the codec must make of it.
fn filled(api_key: i16, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    ringgate_wire::counts::testing::fill(api_key, version, &mut bytes);
    bytes.freeze()
}

#[test]
fn the_served_versions_are_those_that_request_and_response_share() {
    for api in &SERVED {
        macro_rules! shared {
            ($request:ty, $response:ty) => {{
                let (req, resp) = (<$request>::VERSIONS, <$response>::VERSIONS);
                (req.min.max(resp.min), req.max.min(resp.max))
            }};
        }
        let shared = for_api!(api.api_key, shared);
        assert_eq!((*api.versions.start(), *api.versions.end()), shared, "{}", api.name);
    }
}

#[test]
fn requests_and_responses_of_every_version_survive_encoding_and_decoding() {
    for api in &SERVED {
        for version in api.versions.clone() {
            macro_rules! both_ways {
                ($request:ty, $response:ty) => {{
                    let mut bytes = encoded(&<$request>::default(), version);
                    assert_eq!(check(api.api_key, version, &bytes, MOST), Ok(bytes.len()), "{} v{version}", api.name);
                    assert_eq!(<$request>::decode(&mut bytes, version).unwrap(), <$request>::default());
                    let mut bytes = encoded(&<$response>::default(), version);
                    assert_eq!(<$response>::decode(&mut bytes, version).unwrap(), <$response>::default());
                    assert!(bytes.is_empty());
                    let _ = (<$request>::header_version(version), <$response>::header_version(version));
                }};
            }
            for_api!(api.api_key, both_ways);
        }
    }
}

#[test]
fn the_codec_reads_a_full_request_of_our_shape_to_its_end_and_writes_it_the_same() {
    for api in &SERVED {
        for version in api.versions.clone() {
            let bytes = filled(api.api_key, version);
            assert_eq!(check(api.api_key, version, &bytes, MOST), Ok(bytes.len()), "{} v{version}", api.name);
            macro_rules! same {
                ($request:ty, $response:ty) => {{
                    let mut left = bytes.clone();
                    let request = <$request>::decode(&mut left, version)
                        .unwrap_or_else(|e| panic!("{} v{version}: {e}", api.name));
                    assert!(left.is_empty(), "{} v{version} leaves {} bytes", api.name, left.len());
                    assert_eq!(encoded(&request, version), bytes, "{} v{version}", api.name);
                }};
            }
            for_api!(api.api_key, same);
        }
    }
}

#[test]
fn a_request_cut_off_anywhere_is_refused() {
    for api in &SERVED {
        for version in api.versions.clone() {
            let bytes = filled(api.api_key, version);
            for end in 0..bytes.len() {
                assert!(check(api.api_key, version, &bytes[..end], MOST).is_err(), "{} v{version} at {end}", api.name);
            }
        }
    }
}

#[test]
fn the_largest_number_anywhere_is_never_believed() {
    for api in &SERVED {
        for version in api.versions.clone() {
            let bytes = filled(api.api_key, version);
            for at in 0..bytes.len() {
                for hostile in [&[0x7f, 0xff, 0xff, 0xff][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x80; 4]] {
                    let mut bytes = bytes.to_vec();
                    let end = (at + hostile.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&hostile[..end - at]);
                    // Some of these are still requests (a number that is no count); those the codec may see.
                    if check(api.api_key, version, &bytes, MOST).is_ok() {
                        macro_rules! decode {
                            ($request:ty, $response:ty) => {{
                                let _ = <$request>::decode(&mut Bytes::from(bytes), version);
                            }};
                        }
                        for_api!(api.api_key, decode);
                    }
                }
            }
        }
    }
}

#[test]
fn a_count_that_fits_the_bytes_but_not_the_bound_is_refused() {
    let mut bytes = BytesMut::new();
    bytes.put_i32(1_000_000);
    bytes.put_bytes(0, 2_000_000);
    bytes.put_u8(0);
    assert!(matches!(check(15, 3, &bytes, 1 << 20), Err(CountError::TooLarge { field: "groups", most: 1_048_576 })));
}

#[test]
fn an_api_that_is_not_served_has_no_versions() {
    assert!(served(17).is_none() && served(-1).is_none() && served(9999).is_none());
    assert_eq!(check(9999, 0, &[], MOST), Err(CountError::UnknownApi(9999)));
}
