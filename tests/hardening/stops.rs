//! SIGTERM while members wait for their assignment, and a second one by somebody in a hurry. Stops under
//! load are K123 in `tests/known_faults`.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{GroupId, MetadataRequest, SyncGroupRequest};

use crate::common::gateway::{Gateway, Options};
use crate::common::raw::{Raw, frame, string, topic_name};
use crate::metrics::join;

#[test]
fn a_stop_answers_a_parked_sync_with_not_coordinator() {
    let mut gateway = Gateway::start(Options::new(2).set("initial-rebalance-delay", "500ms"));
    let mut members = [Raw::connect(gateway.bootstrap()), Raw::connect(gateway.bootstrap())];
    let sent = members.each_mut().map(|raw| raw.send(3, &join("workers", 10)));
    let mut follower = None;
    for (raw, sent) in members.iter_mut().zip(sent) {
        let joined = raw.receive::<kafka_protocol::messages::JoinGroupRequest>(3, sent);
        assert_eq!((joined.error_code, joined.generation_id), (0, 1), "both in one generation");
        if joined.leader != joined.member_id {
            follower = Some((raw, joined));
        }
    }
    let (raw, joined) = follower.expect("one of two follows");
    let sync = SyncGroupRequest::default()
        .with_group_id(GroupId(string("workers")))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id);
    let sync = raw.send(0, &sync);
    assert!(raw.is_silent(Duration::from_millis(300)), "it waits for the leader's assignment");
    assert!(gateway.sigterm().success());
    assert_eq!(raw.receive::<SyncGroupRequest>(0, sync).error_code, 16);
    raw.assert_closed();
}

/// A connection whose answers nobody reads, full to the brim in both directions.
fn stalled(gateway: &Gateway) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("write timeout");
    let names = (0..400).map(|n| {
        let name = format!("{}-{n}", "long".repeat(50));
        MetadataRequestTopic::default().with_name(Some(topic_name(&name)))
    });
    let request = MetadataRequest::default().with_topics(Some(names.collect())).with_allow_auto_topic_creation(false);
    let request = frame(7, 9, &request);
    while stream.write_all(&request).is_ok() {}
    stream
}

#[test]
fn a_second_sigterm_ends_a_stop_that_takes_long_at_once() {
    // Nothing but the second signal ends this in less than half of an hour.
    let options = Options::new(1).set("shutdown-timeout", "1h").set("send-timeout", "1h");
    let mut gateway = Gateway::start(options);
    let _stalled: Vec<_> = (0..4).map(|_| stalled(&gateway)).collect();
    gateway.ask_to_stop();
    gateway.until_logged(&["stopping"]);
    let began = Instant::now();
    let status = gateway.sigterm();
    assert_eq!(status.code(), Some(1), "after {:?}", began.elapsed());
    gateway.until_logged(&["second signal", "SIGTERM"]);
}
