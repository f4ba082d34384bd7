//! Open files, which partitions and connections share: what no longer fits is refused before anything that
//! is there fails.

use std::io::{Read, Write};
use std::net::TcpStream;

use kafka_protocol::messages::MetadataRequest;

use crate::common::LIVENESS;
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, frame};

/// The least that a gateway starts with.
const FEW: u64 = 1024;
/// Of which one of one shard keeps so many for itself.
const OWN: usize = 512 + 7;

#[test]
fn a_start_refuses_more_partitions_than_a_lowered_limit_carries_and_harms_nothing() {
    const PARTITIONS: i32 = 442;
    let mut gateway = Gateway::start(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "many", PARTITIONS, &[]);
    topic.partition(PARTITIONS - 1).append(&mut raw, batch(Writer::NOBODY, 1, &["kept"]));
    assert!(gateway.sigterm().success());

    let (status, wrote) = gateway.restart_in_vain(&Options::new(1).open_files(FEW));
    assert_eq!(status.code(), Some(1), "{wrote}");
    let needed = OWN + 64 + PARTITIONS as usize;
    for part in [&FEW.to_string(), &format!("{PARTITIONS} partitions"), &needed.to_string(), "LimitNOFILE"] {
        assert!(wrote.contains(part), "{part} in {wrote}");
    }

    gateway.restart(Options::new(1).open_files(needed as u64));
    let mut raw = Raw::connect(gateway.bootstrap());
    for index in 0..PARTITIONS {
        let next = i64::from(index == PARTITIONS - 1);
        assert_eq!(topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &["new"])), next);
    }
}

#[test]
fn connections_leave_partitions_the_files_that_they_need() {
    const PARTITIONS: i32 = 200;
    let options = Options::new(1).open_files(FEW).set("admin-listen", "127.0.0.1:0").set("segment-bytes", "2MiB");
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "rolling", PARTITIONS, &[]);
    let most = FEW as usize - OWN - PARTITIONS as usize;
    let served = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(LIVENESS)).expect("read timeout");
        stream.write_all(&frame(7, 9, &MetadataRequest::default())).is_ok() && stream.read_exact(&mut [0; 4]).is_ok()
    };
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
