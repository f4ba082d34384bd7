//! Open files, which partitions and connections share: what no longer fits is refused before anything that
//! is there fails.

use std::io::{Read, Write};
use std::net::TcpStream;

use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};

use crate::common::LIVENESS;
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, frame, topic_name};

/// The least that a gateway starts with.
const FEW: u64 = 1024;
/// Of which one of one shard keeps so many for itself.
const OWN: usize = 512 + 7;

fn options() -> Options {
    Options::new(1).embedded("partitions hold files of the gateway's own")
}

#[test]
fn a_start_refuses_more_partitions_than_a_lowered_limit_carries_and_harms_nothing() {
    const PARTITIONS: i32 = 442;
    let mut gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "many", PARTITIONS, &[]);
    topic.partition(PARTITIONS - 1).append(&mut raw, batch(Writer::NOBODY, 1, &["kept"]));
    assert!(gateway.sigterm().success());

    let (status, wrote) = gateway.restart_in_vain(&options().open_files(FEW));
    assert_eq!(status.code(), Some(1), "{wrote}");
    let needed = OWN + 64 + PARTITIONS as usize;
    for part in [&FEW.to_string(), &format!("{PARTITIONS} partitions"), &needed.to_string(), "LimitNOFILE"] {
        assert!(wrote.contains(part), "{part} in {wrote}");
    }

    gateway.restart(options().open_files(needed as u64));
    let mut raw = Raw::connect(gateway.bootstrap());
    for index in 0..PARTITIONS {
        let next = i64::from(index == PARTITIONS - 1);
        assert_eq!(topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &["new"])), next);
    }
}

/// Whether a connection is there, and not turned away.
fn served(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(LIVENESS)).expect("read timeout");
    stream.write_all(&frame(7, 9, &MetadataRequest::default())).is_ok() && stream.read_exact(&mut [0; 4]).is_ok()
}

#[test]
fn connections_leave_partitions_the_files_that_they_need() {
    const PARTITIONS: i32 = 200;
    let options = options().open_files(FEW).set("admin-listen", "127.0.0.1:0").set("segment-bytes", "2MiB");
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "rolling", PARTITIONS, &[]);
    let most = FEW as usize - OWN - PARTITIONS as usize;
    // `raw` is one of them.
    let mut open: Vec<TcpStream> = (1..most)
        .map(|nth| {
            let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
            assert!(served(&mut stream), "connection {nth}");
            stream
        })
        .collect();
    for _ in 0..50 {
        assert!(!served(&mut TcpStream::connect(gateway.bootstrap()).expect("connect")), "one more");
    }
    assert_eq!(metric(&gateway, "ringgate_limit_hit_total", "limit=\"open_files\""), 50);

    // Each partition begins a segment and takes records in it.
    let value = "x".repeat(900 << 10);
    for index in (0..PARTITIONS).step_by(20) {
        for offset in 0..3 {
            assert_eq!(topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &[&value])), offset);
        }
    }
    assert!(open.iter_mut().all(served), "who was there is served on");
}

#[test]
fn topics_are_refused_whose_partitions_do_not_fit_beside_the_connections() {
    let options = options().open_files(FEW).set("max-partitions", 512).set("max-partitions-per-topic", 512);
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let mut make = |name: &str, partitions: usize| {
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions as i32)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        let created = raw.call(7, &request);
        (created.topics[0].error_code, created.topics[0].error_message.as_ref().map(|why| why.to_string()))
    };
    let room = FEW as usize - OWN;
    let (code, why) = make("over", room - 63);
    assert_eq!(code, 37, "64 files are kept for connections");
    assert!(why.as_ref().is_some_and(|why| why.contains("open files")), "{why:?}");

    let open: Vec<Raw> = (0..300)
        .map(|_| {
            let mut raw = Raw::connect(gateway.bootstrap());
            raw.call(9, &MetadataRequest::default());
            raw
        })
        .collect();
    assert_eq!(make("over", room - open.len()).0, 37, "the connection that asks is one more");
    assert_eq!(make("fits", room - open.len() - 1).0, 0);
    drop(open);
    let deadline = std::time::Instant::now() + LIVENESS;
    while make("later", 100).0 != 0 {
        assert!(std::time::Instant::now() < deadline, "hung: closed connections make room");
    }
}

#[test]
fn connections_that_come_while_a_topic_is_made_leave_its_partitions_their_files() {
    const PARTITIONS: usize = 440;
    let options = options().open_files(FEW).set("max-partitions", 512).set("max-partitions-per-topic", 512);
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = CreatableTopic::default()
        .with_name(topic_name("slow"))
        .with_num_partitions(PARTITIONS as i32)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
    let asked = raw.send(7, &request);
    let topics = gateway.data().join("topics");
    let deadline = std::time::Instant::now() + LIVENESS;
    while std::fs::read_dir(&topics).map_or(0, Iterator::count) == 0 {
        assert!(std::time::Instant::now() < deadline, "hung: the topic is being made");
    }
    let mut open: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(gateway.bootstrap()).expect("connect")).collect();
    open.retain_mut(served);
    assert_eq!(raw.receive::<CreateTopicsRequest>(7, asked).topics[0].error_code, 0);
    let room = FEW as usize - OWN - PARTITIONS;
    assert!(open.len() < room, "{} connections beside the one that asked, where {room} fit", open.len());
}
