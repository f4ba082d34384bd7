//! A gateway that stops while its server does not answer.

use std::time::Duration;

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, FetchRequest, ListOffsetsRequest, OffsetCommitRequest, ProduceRequest,
};

use crate::common::faulty_links::FaultyLinks;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit_codes, commit_request};
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, topic_name};

const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const REQUEST_TIMED_OUT: i16 = 7;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;

/// Iggy would be waited for much longer than the stop may take.
#[test]
fn a_stop_answers_all_that_waits_for_a_server_which_does_not_answer() {
    let server = Gateway::start(Options::new(1).iggy());
    let links = FaultyLinks::to(server.iggy());
    let options = Options::new(2).on_iggy_at(links.address());
    let mut gateway = Gateway::start(options.set("iggy-timeout", "60s").set("shutdown-timeout", "10s"));
    let connect = || Raw::connect(gateway.bootstrap());
    let [mut at_the_end, mut produces, mut looks_up, mut reads, mut commits, mut creates] = [(); 6].map(|()| connect());
    let [quiet, busy] = ["quiet", "busy"].map(|name| create(&mut at_the_end, name, 1, &[]).partition(0));
    let records = || Some(batch(Writer::NOBODY, 1, &["a record"]));
    busy.append(&mut produces, records().expect("records"));
    assert_eq!(commit_codes(&mut commits, 8, &commit_request("readers", "busy", &[(0, 1)])), [0]);

    let wait = quiet.fetch_request(12, 0).with_min_bytes(1).with_max_wait_ms(60_000);
    let waits = at_the_end.send(12, &wait);
    let waiting = "nobody answers";
    assert!(at_the_end.is_silent(Duration::from_millis(300)), "{waiting}");
    links.stall(true);
    let produced = produces.send(9, &busy.produce_request(9, -1, records()));
    let looked_up = looks_up.send(7, &busy.list_offsets_request(&[-1]));
    let read = reads.send(12, &busy.fetch_request(12, 0));
    let committed = commits.send(8, &commit_request("readers", "busy", &[(0, 2)]));
    let topic =
        CreatableTopic::default().with_name(topic_name("new")).with_num_partitions(1).with_replication_factor(1);
    let created = creates.send(7, &CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000));
    for raw in [&mut produces, &mut looks_up, &mut reads, &mut commits, &mut creates] {
        assert!(raw.is_silent(Duration::from_millis(300)), "{waiting}");
    }

    // An exit code other than 0 says that shutdown_timeout was over.
    let status = gateway.sigterm();
    assert!(status.success(), "{status}");
    // What was known needs no server.
    let fetched = at_the_end.receive::<FetchRequest>(12, waits);
    assert_eq!((fetched.error_code, fetched.responses[0].partitions[0].error_code), (0, 0));
    // Nobody knows whether these happened.
    let produced = produces.receive::<ProduceRequest>(9, produced);
    assert_eq!(produced.responses[0].partition_responses[0].error_code, REQUEST_TIMED_OUT);
    let created = creates.receive::<CreateTopicsRequest>(7, created);
    assert_eq!(created.topics[0].error_code, REQUEST_TIMED_OUT);
    let committed = commits.receive::<OffsetCommitRequest>(8, committed);
    assert_eq!(committed.topics[0].partitions[0].error_code, COORDINATOR_NOT_AVAILABLE);
    // Others may know.
    let looked_up = looks_up.receive::<ListOffsetsRequest>(7, looked_up);
    assert_eq!(looked_up.topics[0].partitions[0].error_code, NOT_LEADER_OR_FOLLOWER);
    let read = reads.receive::<FetchRequest>(12, read);
    assert_eq!(read.responses[0].partitions[0].error_code, NOT_LEADER_OR_FOLLOWER);
    for raw in [&mut at_the_end, &mut produces, &mut looks_up, &mut reads, &mut commits, &mut creates] {
        raw.assert_closed();
    }
    gateway.until_logged(&["the lease could not be given back"]);
}
