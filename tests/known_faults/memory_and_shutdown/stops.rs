//! SIGTERM under load: what was acknowledged is there after it, answers are whole, and nobody holds it up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::{FetchRequest, JoinGroupRequest, MetadataRequest, ProduceResponse};
use kafka_protocol::protocol::Decodable;
use rdkafka::topic_partition_list::Offset;

use super::{JOIN_VERSION, join};
use crate::common::fetch::{FOR_EVER_MS, fetch_request, only_partition};
use crate::common::gateway::{Gateway, Options};
use crate::common::group::state;
use crate::common::librdkafka::{create_topic, read_from};
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, frame, topic_name};
use crate::common::{LIVENESS, eventually};

fn produce(n: i64) -> Bytes {
    let records = batch(Writer::NOBODY, 1_000, &[&n.to_string()]);
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name("load")).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic]);
    frame(n as i32, 9, &request)
}

/// Writes numbers, eight requests in flight, until the gateway closes; the highest offset acknowledged. Its
/// last bytes must be the end of a whole answer.
fn write_until_closed(address: SocketAddr, acknowledged: &AtomicI64) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(LIVENESS)).expect("read timeout");
    let mut sent = 0;
    let mut answered = 0;
    loop {
        while sent < answered + 8 {
            if stream.write_all(&produce(sent)).is_err() {
                break;
            }
            sent += 1;
        }
        let mut length = [0; 4];
        match stream.read(&mut length) {
            // The end, between two answers; a reset where the gateway left requests unread.
            Ok(0) => return,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Ok(some) => stream.read_exact(&mut length[some..]).expect("a whole length"),
            Err(error) => panic!("hung: {error}"),
        }
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut body).expect("a whole answer");
        let mut body = Bytes::from(body);
        assert_eq!(i64::from(body.get_i32()), answered, "answers come in the order of their requests");
        body.advance(1);
        let response = ProduceResponse::decode(&mut body, 9).expect("a Produce response");
        let partition = &response.responses[0].partition_responses[0];
        if partition.error_code == 0 {
            acknowledged.fetch_max(partition.base_offset, Ordering::Relaxed);
        }
        answered += 1;
    }
}

/// A connection whose answers nobody reads, full to the brim in both directions.
fn stalled(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("write timeout");
    let names = (0..400).map(|n| {
        let name = format!("{}-{n}", "long".repeat(50));
        MetadataRequestTopic::default().with_name(Some(topic_name(&name)))
    });
    let request = MetadataRequest::default().with_topics(Some(names.collect())).with_allow_auto_topic_creation(false);
    let request = frame(7, 9, &request);
    while stream.write_all(&request).is_ok() {}
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k123_a_stop_waits_for_nobody_and_keeps_what_was_acknowledged() {
    let mut gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    create_topic(&gateway, "load", 1).await;
    let address = gateway.bootstrap();
    // Several: where the kernel still has room for one's last answer, the gateway has nothing to wait for.
    let _stalled: Vec<_> = tokio::task::block_in_place(|| (0..4).map(|_| stalled(address)).collect());
    let acknowledged = std::sync::Arc::new(AtomicI64::new(-1));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let acknowledged = acknowledged.clone();
            std::thread::spawn(move || write_until_closed(address, &acknowledged))
        })
        .collect();
    // Fetches and joins that would wait for minutes.
    let mut first = Raw::connect(address);
    let quiet = create(&mut first, "quiet", 1, &[]);
    let waits = fetch_request(12, &[(&quiet, &[(0, 0)])]).with_max_wait_ms(FOR_EVER_MS);
    let mut fetching: Vec<_> = (0..20)
        .map(|_| {
            let mut raw = Raw::connect(address);
            let sent = raw.send(12, &waits);
            (raw, sent)
        })
        .collect();
    let session = Duration::from_secs(60);
    assert_eq!(first.call(JOIN_VERSION, &join("workers", "", session)).error_code, 0);
    let mut joining = Raw::connect(address);
    let joins = joining.send(JOIN_VERSION, &join("workers", "", session));
    eventually("it waits for the first to join again", || state(&mut first, "workers") == "PreparingRebalance").await;
    let read = || metric(&gateway, "ringgate_requests_total", "api=\"Fetch\"");
    eventually("all fetches are read", || read() == fetching.len() as u64).await;
    eventually("load", || acknowledged.load(Ordering::Relaxed) > 100).await;
    let status = tokio::task::block_in_place(|| gateway.sigterm());
    assert_eq!(status.code(), Some(0), "an orderly end within shutdown_timeout");
    for (raw, sent) in &mut fetching {
        let fetched = raw.receive::<FetchRequest>(12, *sent);
        assert_eq!((fetched.error_code, only_partition(&fetched).error_code), (0, 0), "with what there is");
        raw.assert_closed();
    }
    assert_eq!(joining.receive::<JoinGroupRequest>(JOIN_VERSION, joins).error_code, 16, "NOT_COORDINATOR");
    joining.assert_closed();
    for writer in writers {
        tokio::task::block_in_place(|| writer.join()).expect("a writer");
    }

    tokio::task::block_in_place(|| gateway.restart(Options::new(1)));
    let count = usize::try_from(acknowledged.load(Ordering::Relaxed)).expect("an offset") + 1;
    let seen = tokio::task::block_in_place(|| read_from(&gateway, "load", &[(0, Offset::Beginning)], count));
    assert!(seen.iter().zip(0..).all(|(record, offset)| record.offset == offset));
}
