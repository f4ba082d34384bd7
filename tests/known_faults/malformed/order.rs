//! Answers in the order of their requests.

use kafka_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, GroupId, HeartbeatRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest,
};

use super::{assert_no_panic, options};
use crate::common::fetch::{fetch_request, offsets, only_partition};
use crate::common::gateway::Gateway;
use crate::common::partition::create;
use crate::common::raw::{Raw, string, topic_name};
use crate::common::record_batch::RecordBatch;

#[test]
fn k120_answers_keep_the_order_of_their_requests_also_behind_one_that_waits() {
    let gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    let quiet = create(&mut raw, "quiet", 1, &[]);
    // On both shards.
    let topic = create(&mut raw, "orders", 4, &[]);
    let heartbeat = HeartbeatRequest::default()
        .with_group_id(GroupId(string("nobody")))
        .with_member_id(string("nobody"))
        .with_generation_id(1);
    let unknown = MetadataRequestTopic::default().with_name(Some(topic_name("not a name!")));
    let unknown = MetadataRequest::default().with_topics(Some(vec![unknown]));
    for round in 0..3 {
        // It waits, and nothing comes; all the others could be answered at once.
        let waits = fetch_request(12, &[(&quiet, &[(0, 0)])]).with_max_wait_ms(1_500);
        let fetch = raw.send(12, &waits);
        let versions = raw.send(0, &ApiVersionsRequest::default());
        let metadata = raw.send(9, &MetadataRequest::default());
        let alive = raw.send(4, &heartbeat);
        let failed = raw.send(9, &unknown);
        let produced: Vec<_> = (0..4)
            .map(|index| {
                let records = Some(RecordBatch::of(&["v"]).bytes());
                (index, raw.send(9, &topic.partition(index).produce_request(9, -1, records)))
            })
            .collect();
        let listed: Vec<_> = (0..4).map(|i| raw.send(9, &topic.partition(i).list_offsets_request(&[-1]))).collect();
        let described = raw.send(5, &DescribeGroupsRequest::default().with_groups(vec![GroupId(string("nobody"))]));

        // `receive` fails when the next answer is another one's.
        let fetched = raw.receive::<FetchRequest>(12, fetch);
        assert!(offsets(only_partition(&fetched)).is_empty());
        assert_eq!(raw.receive::<ApiVersionsRequest>(0, versions).error_code, 0);
        assert_eq!(raw.receive::<MetadataRequest>(9, metadata).brokers.len(), gateway.nodes().len());
        assert_eq!(raw.receive::<HeartbeatRequest>(4, alive).error_code, 25);
        assert_eq!(raw.receive::<MetadataRequest>(9, failed).topics[0].error_code, 17);
        for (index, correlation_id) in produced {
            let partition = &raw.receive::<ProduceRequest>(9, correlation_id).responses[0].partition_responses[0];
            assert_eq!((partition.index, partition.error_code, partition.base_offset), (index, 0, round));
        }
        for correlation_id in listed {
            let partition = &raw.receive::<ListOffsetsRequest>(9, correlation_id).topics[0].partitions[0];
            assert_eq!((partition.error_code, partition.offset), (0, round + 1));
        }
        assert_eq!(raw.receive::<DescribeGroupsRequest>(5, described).groups[0].group_state.as_str(), "Dead");
    }
    assert_no_panic(&gateway);
}
