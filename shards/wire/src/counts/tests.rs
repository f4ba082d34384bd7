//! Every API in every version: the codec and our shapes agree, and hostile counts are refused.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, Message, StrBytes};
use proptest::prelude::*;

use super::fill::{Fill, bare_request, full_request, message};
use super::responses::RESPONSES;
use super::*;
use crate::peak;
use crate::versions::{SERVED, Served, served};

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
            21 => $macro!(DeleteRecordsRequest, DeleteRecordsResponse),
            22 => $macro!(InitProducerIdRequest, InitProducerIdResponse),
            23 => $macro!(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
            32 => $macro!(DescribeConfigsRequest, DescribeConfigsResponse),
            33 => $macro!(AlterConfigsRequest, AlterConfigsResponse),
            37 => $macro!(CreatePartitionsRequest, CreatePartitionsResponse),
            42 => $macro!(DeleteGroupsRequest, DeleteGroupsResponse),
            44 => $macro!(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
            47 => $macro!(OffsetDeleteRequest, OffsetDeleteResponse),
            60 => $macro!(DescribeClusterRequest, DescribeClusterResponse),
            61 => $macro!(DescribeProducersRequest, DescribeProducersResponse),
            68 => $macro!(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
            69 => $macro!(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
            75 => $macro!(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
            other => panic!("no messages for API {other}"),
        }
    };
}

fn apis() -> impl Iterator<Item = &'static Served> {
    SERVED.iter()
}

fn encoded<M: Encodable>(message: &M, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).unwrap();
    bytes.freeze()
}

fn full(api_key: i16, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    full_request(api_key, version, &mut bytes);
    bytes.freeze()
}

fn full_response(api_key: i16, version: i16) -> Bytes {
    let (_, flexible_since, shape) = RESPONSES.iter().find(|response| response.0 == api_key).expect("a shape");
    let mut bytes = BytesMut::new();
    let flexible = version >= *flexible_since;
    message(shape, Fill { version, flexible, elements: 2, nulls: false }, &mut bytes);
    bytes.freeze()
}

/// Bytes that the codec takes of a request, when it can make sense of it.
fn decoded(api_key: i16, version: i16, body: &Bytes) -> Option<usize> {
    let mut left = body.clone();
    macro_rules! decode {
        ($request:ty, $response:ty) => {
            <$request>::decode(&mut left, version).is_ok()
        };
    }
    for_api!(api_key, decode).then(|| body.len() - left.len())
}

#[test]
fn the_versions_are_those_that_request_and_response_share() {
    for api in apis() {
        macro_rules! shared {
            ($request:ty, $response:ty) => {{
                let (req, resp) = (<$request>::VERSIONS, <$response>::VERSIONS);
                (req.min.max(resp.min), req.max.min(resp.max))
            }};
        }
        let shared = for_api!(api.api_key, shared);
        assert_eq!((*api.versions.start(), *api.versions.end()), shared, "{}", api.name);
    }
    assert_eq!(apis().count(), shapes::REQUESTS.len());
}

#[test]
fn default_requests_and_responses_of_every_version_survive_encoding_and_decoding() {
    for api in apis() {
        for version in api.versions.clone() {
            macro_rules! both_ways {
                ($request:ty, $response:ty) => {{
                    let mut bytes = encoded(&<$request>::default(), version);
                    assert_eq!(check(api.api_key, version, &bytes, MOST), Ok(bytes.len()), "{} v{version}", api.name);
                    assert_eq!(<$request>::decode(&mut bytes, version).unwrap(), <$request>::default());
                    assert!(bytes.is_empty());
                    let mut bytes = encoded(&<$response>::default(), version);
                    let checked = check_response(api.api_key, version, &bytes, MOST);
                    assert_eq!(checked, Ok(bytes.len()), "{} v{version}", api.name);
                    assert_eq!(<$response>::decode(&mut bytes, version).unwrap(), <$response>::default());
                    assert!(bytes.is_empty());
                }};
            }
            for_api!(api.api_key, both_ways);
        }
    }
}

#[test]
fn headers_are_those_that_the_codec_writes_and_reads() {
    for api in apis() {
        let key = ApiKey::try_from(api.api_key).unwrap();
        for version in api.versions.clone() {
            let header = kafka_protocol::messages::RequestHeader::default()
                .with_request_api_key(api.api_key)
                .with_request_api_version(version)
                .with_correlation_id(-5);
            let header_version = key.request_header_version(version);
            for client_id in [None, Some("a client")] {
                let mut header = header.clone().with_client_id(client_id.map(StrBytes::from_static_str));
                if header_version >= 2 {
                    header = header.with_unknown_tagged_fields([(300, Bytes::from_static(b"tag"))].into());
                }
                let frame = [&encoded(&header, header_version)[..], b"body"].concat();
                let read = crate::frame::RequestHeader::decode(Bytes::from(frame)).unwrap();
                assert_eq!((read.api_key, read.api_version, read.correlation_id), (api.api_key, version, -5));
                assert_eq!((read.client_id.as_deref(), &read.body[..]), (client_id, &b"body"[..]), "{}", api.name);
            }
            macro_rules! framed {
                ($request:ty, $response:ty) => {{
                    let response = <$response>::default();
                    (crate::encode_response(api.api_key, version, 77, &response).unwrap(), encoded(&response, version))
                }};
            }
            let (mut frame, body) = for_api!(api.api_key, framed);
            assert_eq!(frame.get_i32() as usize, frame.len());
            let header_version = if api.api_key == 18 { 0 } else { key.response_header_version(version) };
            let header = ResponseHeader::decode(&mut frame, header_version).unwrap();
            assert_eq!((header.correlation_id, frame), (77, body), "{} v{version}", api.name);
        }
    }
    assert!(crate::encode_response(9999, 0, 0, &HeartbeatResponse::default()).is_err());
    assert!(crate::encode_response(12, 99, 0, &HeartbeatResponse::default()).is_err());
}

#[test]
fn the_codec_reads_full_and_bare_requests_of_our_shape_to_their_end_and_writes_them_the_same() {
    for api in apis() {
        for version in api.versions.clone() {
            let mut bare = BytesMut::new();
            bare_request(api.api_key, version, &mut bare);
            for bytes in [full(api.api_key, version), bare.freeze()] {
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
}

#[test]
fn the_codec_reads_full_responses_to_their_end_and_writes_them_the_same() {
    for api in apis() {
        for version in api.versions.clone() {
            let bytes = full_response(api.api_key, version);
            assert_eq!(check_response(api.api_key, version, &bytes, MOST), Ok(bytes.len()), "{} v{version}", api.name);
            macro_rules! same {
                ($request:ty, $response:ty) => {{
                    let mut left = bytes.clone();
                    let response = <$response>::decode(&mut left, version)
                        .unwrap_or_else(|e| panic!("{} v{version}: {e}", api.name));
                    assert!(left.is_empty(), "{} v{version} leaves {} bytes", api.name, left.len());
                    assert_eq!(encoded(&response, version), bytes, "{} v{version}", api.name);
                }};
            }
            for_api!(api.api_key, same);
        }
    }
}

#[test]
fn a_request_cut_off_anywhere_is_refused() {
    for api in apis() {
        for version in api.versions.clone() {
            let bytes = full(api.api_key, version);
            for end in 0..bytes.len() {
                assert!(check(api.api_key, version, &bytes[..end], MOST).is_err(), "{} v{version} at {end}", api.name);
            }
        }
    }
}

/// What the codec may hold beyond the bytes of the frame, whatever a small frame says: its errors carry a
/// backtrace when the environment asks for one.
const SLACK: usize = 256 << 10;

#[test]
fn a_large_number_anywhere_is_never_believed() {
    let hostile: [&[u8]; 6] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0x00, 0x10, 0x00, 0x00],
        &[0x80; 4],
        &[0x7f, 0xff],
    ];
    for api in apis() {
        for version in api.versions.clone() {
            let bytes = full(api.api_key, version);
            for at in 0..bytes.len() {
                for hostile in hostile {
                    let mut bytes = bytes.to_vec();
                    let end = (at + hostile.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&hostile[..end - at]);
                    // Some of these are still requests (a number that is no count); those the codec may see.
                    agrees(api.api_key, version, Bytes::from(bytes));
                }
            }
        }
    }
}

/// A body that passes holds little once decoded, and the codec takes of it what the walk did.
fn agrees(api_key: i16, version: i16, body: Bytes) {
    let Ok(walked) = check(api_key, version, &body, MOST) else { return };
    let (taken, peak) = peak::of(|| decoded(api_key, version, &body));
    assert!(peak < SLACK, "API {api_key} v{version} holds {peak} bytes for {body:?}");
    if let Some(taken) = taken {
        assert_eq!(taken, walked, "API {api_key} v{version}: {body:?}");
    }
}

#[test]
fn a_large_number_anywhere_in_a_response_is_never_believed() {
    let hostile: [&[u8]; 3] = [&[0x7f, 0xff, 0xff, 0xff], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x00, 0x10, 0x00, 0x00]];
    for api in apis() {
        for version in api.versions.clone() {
            let good = full_response(api.api_key, version);
            for (at, hostile) in (0..good.len()).flat_map(|at| hostile.map(|hostile| (at, hostile))) {
                let mut bytes = good.to_vec();
                let end = (at + hostile.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&hostile[..end - at]);
                let body = Bytes::from(bytes);
                if check_response(api.api_key, version, &body, MOST).is_err() {
                    continue;
                }
                macro_rules! decode {
                    ($request:ty, $response:ty) => {
                        peak::of(|| <$response>::decode(&mut body.clone(), version).is_ok()).1
                    };
                }
                let peak = for_api!(api.api_key, decode);
                assert!(peak < SLACK, "{} v{version} holds {peak} bytes for {body:?}", api.name);
            }
        }
    }
}

#[test]
fn responses_of_sasl_are_those_of_the_codec() {
    let handshake = SaslHandshakeResponse::default().with_mechanisms(vec![StrBytes::from_static_str("PLAIN"); 3]);
    let done = SaslAuthenticateResponse::default().with_auth_bytes(Bytes::from_static(b"v=1"));
    for version in 0..=1 {
        let bytes = encoded(&handshake, version);
        assert_eq!(check_response(17, version, &bytes, MOST), Ok(bytes.len()));
    }
    for version in 0..=2 {
        let bytes = encoded(&done, version);
        assert_eq!(check_response(36, version, &bytes, MOST), Ok(bytes.len()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn walk_and_codec_agree_on_damaged_requests(
        api in 0..SERVED.len(), version in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let api = apis().nth(api).unwrap();
        let versions: Vec<i16> = api.versions.clone().collect();
        let version = versions[version.index(versions.len())];
        let mut bytes = full(api.api_key, version).to_vec();
        if !bytes.is_empty() {
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        agrees(api.api_key, version, Bytes::from(bytes));
    }

    #[test]
    fn no_bytes_panic(api_key in 0i16..80, version in 0i16..20, body in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = check(api_key, version, &body, MOST);
        let _ = check_subscription(&body, MOST);
        let _ = check_assignment(&body, MOST);
    }
}

#[test]
fn a_tagged_field_whose_size_is_not_its_types_is_refused() {
    // Fetch v17, tag 0 of a partition is a directory id: the codec would take 16 bytes whatever the size says,
    // and read the count of the next array somewhere else.
    let good = full(1, 17);
    let at = good.windows(3).position(|bytes| bytes == [1, 0, 16]).expect("one tag: number 0, of 16 bytes");
    for size in [0, 1, 15, 17] {
        let mut bytes = good.to_vec();
        bytes[at + 2] = size;
        assert!(check(1, 17, &bytes, MOST).is_err(), "size {size}");
    }
}

#[test]
fn a_null_is_refused_where_a_version_has_none() {
    let null = (-1i32).to_be_bytes();
    assert_eq!(check(3, 0, &null, MOST), Err(CountError::Null { field: "topics" }));
    assert_eq!(check(3, 1, &null, MOST), Ok(4));
    assert_eq!(check(15, 0, &null, MOST), Err(CountError::Null { field: "groups" }));
    assert_eq!(check(15, 0, &(-2i32).to_be_bytes(), MOST), Err(CountError::DoesNotFit { field: "groups" }));
    assert_eq!(check(15, 5, &[0, 0, 0], MOST), Err(CountError::Null { field: "groups" }));
}

#[test]
fn a_count_that_fits_the_bytes_but_not_the_bound_is_refused() {
    let mut bytes = BytesMut::new();
    bytes.put_i32(1_000_000);
    bytes.put_bytes(0, 2_000_000);
    bytes.put_u8(0);
    let too_large = |most| CountError::TooLarge { field: "groups", most };
    assert_eq!(check(15, 3, &bytes, 1 << 20), Err(too_large(1 << 20)));
    // At the bound it passes, and that is not less than what the codec then holds.
    let bound = 1_000_000 * DECODED_TEXT_BYTES;
    assert_eq!(check(15, 3, &bytes, bound - 1), Err(too_large(bound - 1)));
    assert_eq!(check(15, 3, &bytes, bound), Ok(bytes.len()));
    let body = bytes.freeze();
    let (request, peak) = peak::of(|| DescribeGroupsRequest::decode(&mut body.clone(), 3).unwrap());
    assert_eq!(request.groups.len(), 1_000_000);
    assert!(peak <= bound + SLACK, "{peak}");
}

#[test]
fn many_tagged_fields_count_for_what_the_codec_holds_of_them() {
    let mut body = BytesMut::new();
    // Two tags for a topic without a name is what costs most per byte.
    let topics = 20_000u32;
    body.put_slice(&[(topics + 1) as u8 | 0x80, ((topics + 1) >> 7) as u8 | 0x80, ((topics + 1) >> 14) as u8]);
    for _ in 0..topics {
        body.put_slice(&[1, 1, 0, 0]); // Metadata v9: an empty name, one tag, number 0, no bytes.
    }
    body.put_slice(&[0, 0, 0, 0]);
    let body = body.freeze();
    let bound = (1..).map(|n| n << 20).find(|&most| check(3, 9, &body, most).is_ok()).unwrap();
    let (request, peak) = peak::of(|| MetadataRequest::decode(&mut body.clone(), 9).unwrap());
    assert_eq!(request.topics.map(|t| t.len()), Some(topics as usize));
    assert!(peak <= bound && peak * 3 > bound, "{peak} bytes held, {bound} counted");
}

#[test]
fn no_struct_of_a_request_is_larger_than_counted() {
    macro_rules! sizes {
        ($($ty:ty),* $(,)?) => { [$((stringify!($ty), size_of::<$ty>())),*] };
    }
    let sizes = sizes![
        produce_request::TopicProduceData,
        produce_request::PartitionProduceData,
        fetch_request::FetchTopic,
        fetch_request::FetchPartition,
        fetch_request::ForgottenTopic,
        list_offsets_request::ListOffsetsTopic,
        list_offsets_request::ListOffsetsPartition,
        metadata_request::MetadataRequestTopic,
        offset_commit_request::OffsetCommitRequestTopic,
        offset_commit_request::OffsetCommitRequestPartition,
        offset_fetch_request::OffsetFetchRequestGroup,
        offset_fetch_request::OffsetFetchRequestTopic,
        offset_fetch_request::OffsetFetchRequestTopics,
        join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity,
        sync_group_request::SyncGroupRequestAssignment,
        create_topics_request::CreatableTopic,
        create_topics_request::CreatableReplicaAssignment,
        create_topics_request::CreatableTopicConfig,
        delete_topics_request::DeleteTopicState,
        delete_records_request::DeleteRecordsTopic,
        delete_records_request::DeleteRecordsPartition,
        offset_for_leader_epoch_request::OffsetForLeaderTopic,
        offset_for_leader_epoch_request::OffsetForLeaderPartition,
        describe_configs_request::DescribeConfigsResource,
        alter_configs_request::AlterConfigsResource,
        alter_configs_request::AlterableConfig,
        create_partitions_request::CreatePartitionsTopic,
        create_partitions_request::CreatePartitionsAssignment,
        incremental_alter_configs_request::AlterConfigsResource,
        incremental_alter_configs_request::AlterableConfig,
        offset_delete_request::OffsetDeleteRequestTopic,
        offset_delete_request::OffsetDeleteRequestPartition,
        describe_producers_request::TopicRequest,
        consumer_group_heartbeat_request::TopicPartitions,
        describe_topic_partitions_request::TopicRequest,
        consumer_protocol_subscription::TopicPartition,
        consumer_protocol_assignment::TopicPartition,
    ];
    for (name, size) in sizes {
        assert!(size <= DECODED_ELEMENT_BYTES, "{name} takes {size} bytes");
    }
    assert!(size_of::<GroupId>() <= DECODED_TEXT_BYTES);
}

#[test]
fn no_struct_of_a_response_is_larger_than_counted() {
    macro_rules! sizes {
        ($($ty:ty),* $(,)?) => { [$((stringify!($ty), size_of::<$ty>())),*] };
    }
    // Those with the most fields.
    let sizes = sizes![
        produce_response::PartitionProduceResponse,
        fetch_response::PartitionData,
        metadata_response::MetadataResponsePartition,
        metadata_response::MetadataResponseTopic,
        offset_fetch_response::OffsetFetchResponseGroup,
        find_coordinator_response::Coordinator,
        join_group_response::JoinGroupResponseMember,
        describe_groups_response::DescribedGroup,
        describe_groups_response::DescribedGroupMember,
        list_groups_response::ListedGroup,
        create_topics_response::CreatableTopicResult,
        describe_configs_response::DescribeConfigsResourceResult,
        describe_cluster_response::DescribeClusterBroker,
        describe_producers_response::ProducerState,
        consumer_group_describe_response::DescribedGroup,
        consumer_group_describe_response::Member,
        describe_topic_partitions_response::DescribeTopicPartitionsResponsePartition,
    ];
    for (name, size) in sizes {
        assert!(size <= DECODED_RESPONSE_ELEMENT_BYTES, "{name} takes {size} bytes");
    }
}

#[test]
fn an_api_that_is_not_served_has_no_versions() {
    assert!(served(17).is_none() && served(24).is_none() && served(-1).is_none() && served(9999).is_none());
    assert_eq!(check(9999, 0, &[], MOST), Err(CountError::UnknownApi(9999)));
}

#[test]
fn consumer_protocol_blobs_are_checked_like_requests() {
    type Check = fn(&[u8], usize) -> Result<i16, CountError>;
    let kinds: [(&str, Check); 2] =
        [(shapes::SUBSCRIPTION, check_subscription), (shapes::ASSIGNMENT, check_assignment)];
    for (shape, check) in kinds {
        for version in 0..=shapes::CONSUMER_PROTOCOL_NEWEST {
            let mut blob = BytesMut::new();
            blob.put_i16(version);
            message(shape, Fill { version, flexible: false, elements: 2, nulls: false }, &mut blob);
            assert_eq!(check(&blob, MOST), Ok(version));
            let mut left = blob.clone().freeze().split_off(2);
            let same = if shape == shapes::SUBSCRIPTION {
                encoded(&ConsumerProtocolSubscription::decode(&mut left, version).unwrap(), version)
            } else {
                encoded(&ConsumerProtocolAssignment::decode(&mut left, version).unwrap(), version)
            };
            assert!(left.is_empty());
            assert_eq!(same, blob[2..]);
            for end in 0..blob.len() {
                assert!(check(&blob[..end], MOST).is_err(), "v{version} cut off at {end}");
            }
            let mut hostile = blob.clone();
            hostile[2..6].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
            assert!(matches!(check(&hostile, MOST), Err(CountError::DoesNotFit { .. })));
            // A newer version has more behind what is known.
            blob[1] = 9;
            blob.put_slice(b"more");
            if version == shapes::CONSUMER_PROTOCOL_NEWEST {
                assert_eq!(check(&blob, MOST), Ok(version));
            }
        }
        assert_eq!(check(&[0xff, 0xff, 0, 0], MOST), Err(CountError::DoesNotFit { field: "version" }));
    }
}
