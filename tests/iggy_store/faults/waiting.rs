//! Batches that wait for one of their partition which Iggy does not take.

use std::time::{Duration, Instant};

use kafka_protocol::messages::ProduceRequest;

use super::{IGGY_TIMEOUT, NOT_LEADER_OR_FOLLOWER, Rig};
use crate::common::faulty_links::FaultyLinks;
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::partition::{Partition, create, unknown};
use crate::common::raw::{Raw, Writer, batch};
use crate::common::{LIVENESS, eventually, fetch};

const REQUEST_TIMED_OUT: i16 = 7;

fn send(raw: &mut Raw, partition: &Partition, acks: i16, text: &str) -> i32 {
    raw.send(9, &partition.produce_request(9, acks, Some(batch(Writer::NOBODY, 1, &[text]))))
}

/// What became of a batch.
fn code(raw: &mut Raw, asked: i32) -> i16 {
    raw.receive::<ProduceRequest>(9, asked).responses[0].partition_responses[0].error_code
}

/// What is in the partition, in order.
fn texts(raw: &mut Raw, partition: &Partition) -> Vec<String> {
    let fetched = partition.fetch(raw, 12, 0);
    assert_eq!(fetched.error_code, 0);
    fetch::records(&fetched).into_iter().map(|(_, text)| text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_many_batches_wait_all_are_answered_in_the_time_of_one() {
    const BATCHES: usize = 40;
    // One after the other they would take 80 s.
    const SOON: Duration = IGGY_TIMEOUT.saturating_mul(10);
    let rig = Rig::start("waits", 1).await;
    let mut raws: Vec<Raw> = (0..BATCHES).map(|_| Raw::connect(rig.gateway.bootstrap())).collect();
    let partition = unknown("waits").partition(0);
    partition.append(&mut raws[0], batch(Writer::NOBODY, 1, &["before"]));
    rig.links.stall(true);
    let began = Instant::now();
    let asked: Vec<i32> =
        raws.iter_mut().enumerate().map(|(nth, raw)| send(raw, &partition, -1, &nth.to_string())).collect();
    let codes: Vec<i16> = raws.iter_mut().zip(asked).map(|(raw, asked)| code(raw, asked)).collect();
    let took = began.elapsed();
    assert!(took < SOON, "{BATCHES} batches took {took:?}: {codes:?}");
    assert!(codes.iter().all(|code| [NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT].contains(code)), "{codes:?}");
    rig.links.stall(false);
    eventually("batches are taken again", || {
        let asked = send(&mut raws[0], &partition, -1, "afterwards");
        code(&mut raws[0], asked) == 0
    })
    .await;
    rig.until_read_again("waits", 1).await;
    // What was not to be there is not, and what was on its way may be.
    let there = texts(&mut raws[0], &partition);
    for (nth, code) in codes.into_iter().enumerate() {
        let times = there.iter().filter(|text| **text == nth.to_string()).count();
        assert!(
            times <= usize::from(code == REQUEST_TIMED_OUT),
            "{nth} was answered {code} and is there {times} times"
        );
    }
    assert_eq!(there.first().map(String::as_str), Some("before"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_client_has_gone_is_not_sent_any_more_unless_nobody_was_to_wait_for_it() {
    const GONE: u64 = 30;
    let server = Gateway::start(Options::new(1).iggy());
    let links = FaultyLinks::to(server.iggy());
    // Nothing is to be late.
    let patient = format!("{}s", LIVENESS.as_secs() * 5);
    let options = Options::new(1).on_iggy_at(links.address()).set("iggy-timeout", patient);
    let gateway = Gateway::start(options.set("admin-listen", "127.0.0.1:0"));
    let connect = || Raw::connect(gateway.bootstrap());
    let produces = || metric(&gateway, "ringgate_requests_total", r#"api="Produce""#);
    let connections = || metric(&gateway, "ringgate_connections", "");
    let [mut first, mut last] = [connect(), connect()];
    let partition = create(&mut first, "waits", 1, &[]).partition(0);
    partition.append(&mut last, batch(Writer::NOBODY, 1, &["before"]));

    links.stall(true);
    let (produced, connected) = (produces(), connections());
    let first_asked = send(&mut first, &partition, -1, "on its way");
    eventually("the first is on its way", || produces() == produced + 1).await;
    for nth in 0..GONE {
        let acks = [-1, 1, 0][nth as usize % 3];
        send(&mut connect(), &partition, acks, &format!("acks={acks}"));
    }
    eventually("all have been read, and their clients are gone", || {
        produces() == produced + 1 + GONE && connections() == connected
    })
    .await;
    let last_asked = send(&mut last, &partition, -1, "the last");
    links.stall(false);

    assert_eq!((code(&mut first, first_asked), code(&mut last, last_asked)), (0, 0));
    let acks_0 = std::iter::repeat_n("acks=0", GONE as usize / 3);
    let expected: Vec<&str> = ["before", "on its way"].into_iter().chain(acks_0).chain(["the last"]).collect();
    assert_eq!(texts(&mut last, &partition), expected);
}
