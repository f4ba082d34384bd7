//! SIGTERM while members wait for their assignment, and a second one by somebody in a hurry. Stops under
//! load are K123 in `tests/known_faults`.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::peer::{A_MOMENT, Peer, rejoin};
use crate::common::raw::{frame, topic_name};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_a_parked_sync_with_not_coordinator() {
    let mut gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    let mut peers = [Peer::connect(gateway.bootstrap(), "workers"), Peer::connect(gateway.bootstrap(), "workers")];
    rejoin(&mut peers);
    let [_leader, follower] = &mut peers;
    let sync = follower.send_sync(&[]);
    eventually("it is read", || metric(&gateway, "ringgate_requests_total", "api=\"SyncGroup\"") == 1).await;
    assert!(follower.raw.is_silent(A_MOMENT), "it waits for the leader's assignment");
    assert!(tokio::task::block_in_place(|| gateway.sigterm()).success());
    assert_eq!(follower.receive_sync(sync).0, 16);
    follower.raw.assert_closed();
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
