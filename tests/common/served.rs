//! Every API that is served, each with a request that asks for next to nothing.

use bytes::Bytes;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;
use ringgate_wire::versions::{SERVED, Served};

use super::frames::{CORRELATION_ID, body};
use super::raw::{Raw, string};

/// One API as tests walk through all of them.
pub struct Api {
    pub served: &'static Served,
    /// A request's body in this version.
    pub body: Box<dyn Fn(i16) -> Bytes>,
    /// Reads the answer to it, whose every byte must be in its place.
    pub receive: fn(&mut Raw, i16),
    /// Whether requests of this version are flexible.
    pub is_flexible: fn(i16) -> bool,
}

/// All that are served, in order. Nothing is left out: an API without a request here fails.
pub fn apis() -> Vec<Api> {
    let name = || string("raw");
    let all = vec![
        api(ProduceRequest::default().with_acks(-1)),
        api(FetchRequest::default()),
        api(ListOffsetsRequest::default()),
        api(MetadataRequest::default().with_topics(Some(Vec::new()))),
        api(OffsetCommitRequest::default()),
        api(OffsetFetchRequest::default()),
        api(FindCoordinatorRequest::default()),
        api(JoinGroupRequest::default()),
        api(HeartbeatRequest::default()),
        api(LeaveGroupRequest::default()),
        api(SyncGroupRequest::default()),
        api(DescribeGroupsRequest::default()),
        api(ListGroupsRequest::default()),
        api_by(move |version| {
            let request = ApiVersionsRequest::default();
            let named = || request.clone().with_client_software_name(name()).with_client_software_version(name());
            if version < 3 { request } else { named() }
        }),
        api(CreateTopicsRequest::default()),
        api(DeleteTopicsRequest::default()),
        api(DeleteRecordsRequest::default()),
        // Refused, since transactions are: another producer id would be another answer each time.
        api(InitProducerIdRequest::default().with_transactional_id(Some(TransactionalId(name())))),
        api(OffsetForLeaderEpochRequest::default()),
        api(DescribeConfigsRequest::default()),
        api(AlterConfigsRequest::default()),
        api(CreatePartitionsRequest::default()),
        api(DeleteGroupsRequest::default()),
        api(IncrementalAlterConfigsRequest::default()),
        api(OffsetDeleteRequest::default()),
        api(DescribeClusterRequest::default()),
        api(DescribeProducersRequest::default()),
        api(ConsumerGroupHeartbeatRequest::default()),
        api(ConsumerGroupDescribeRequest::default()),
        api(DescribeTopicPartitionsRequest::default()),
    ];
    let keys: Vec<_> = all.iter().map(|api| api.served.api_key).collect();
    assert_eq!(keys, SERVED.iter().map(|api| api.api_key).collect::<Vec<_>>(), "a request for every API");
    all
}

fn api<R: Request + Clone + 'static>(request: R) -> Api {
    api_by(move |_| request.clone())
}

fn api_by<R: Request + 'static>(request: impl Fn(i16) -> R + 'static) -> Api {
    Api {
        served: SERVED.iter().find(|api| api.api_key == R::KEY).expect("a served API"),
        body: Box::new(move |version| body(version, &request(version))),
        receive: |raw, version| {
            raw.receive::<R>(version, CORRELATION_ID);
        },
        is_flexible: |version| R::header_version(version) >= 2,
    }
}
