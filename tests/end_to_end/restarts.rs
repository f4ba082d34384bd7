//! What outlives the process: records, commits, groups, and the ports that clients know.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use krafka::Record;
use krafka::producer::Acks;

use crate::common::gateway::{Advertise, Gateway, Options};
use crate::common::librdkafka::{create_topic, producer, read_from, unkeyed};
use crate::common::member::Member;
use crate::common::{eventually, within};
use crate::groups::{numbers, produce_numbers};
use crate::krafka_client;
use crate::routing::heartbeat;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_resumes_exactly_after_a_kill_with_another_number_of_shards() {
    join_all([(1, 3), (3, 2)].map(resumes_exactly)).await;
}

async fn resumes_exactly((before, after): (usize, usize)) {
    let mut gateway = Gateway::start(Options::new(before));
    create_topic(&gateway, "work", 4).await;
    produce_numbers(&gateway, "work", 4, 0..40).await;
    let first = Member::join(&gateway, "workers", &["work"], &[]);
    first.until_seen(40).await;
    first.commit().await.expect("commit");
    // Read by the first member, but committed by nobody.
    produce_numbers(&gateway, "work", 4, 40..48).await;
    first.until_seen(48).await;

    gateway.kill9();
    gateway.restart(Options::new(after));
    first.close().await;

    let second = Member::join(&gateway, "workers", &["work"], &[]);
    produce_numbers(&gateway, "work", 4, 48..60).await;
    second.until_seen(20).await;
    let seen = numbers(&second);
    assert_eq!(seen.len(), 20, "from the last commit on, each once");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), (40..60).collect());
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_is_invisible_to_a_stable_group() {
    join_all([(Advertise::Shards, 2, 2), (Advertise::Shards, 2, 3), (Advertise::Gateway, 2, 1)].map(invisible)).await;
}

async fn invisible((advertise, shards, shards_after): (Advertise, usize, usize)) {
    let mut gateway = Gateway::start(Options::new(shards).advertise(advertise));
    create_topic(&gateway, "work", 4).await;
    // Longer than any restart may take; a rebalance would be seen all the same.
    let patient = [("session.timeout.ms", "120000"), ("max.poll.interval.ms", "120000")];
    let one = Member::join(&gateway, "workers", &["work"], &patient);
    let two = Member::join(&gateway, "workers", &["work"], &patient);
    one.until_assigned(2).await;
    two.until_assigned(2).await;
    produce_numbers(&gateway, "work", 4, 0..20).await;
    one.until_seen(10).await;
    two.until_seen(10).await;
    one.commit().await.expect("commit");
    let before = (one.changes(), two.changes());
    // Of the last ones, too: statistics come a while after what they tell of.
    eventually("the statistics know of all changes", || {
        [&one, &two].iter().all(|member| member.rebalances() == member.changes().len() as i64)
    })
    .await;
    let counted = (one.rebalances(), two.rebalances());

    gateway.kill9();
    gateway.restart(Options::new(shards_after).advertise(advertise));

    produce_numbers(&gateway, "work", 4, 20..40).await;
    one.until_seen(20).await;
    two.until_seen(20).await;
    // A commit carries the generation: both still have the one from before.
    commits_again(&one).await;
    commits_again(&two).await;
    assert_eq!((one.changes(), two.changes()), before, "no rebalance was seen");
    assert_eq!((one.rebalances(), two.rebalances()), counted, "no assignment was taken");
    one.close().await;
    two.close().await;
}

/// Commits; while the connection to the coordinator is made again that may fail for want of it.
async fn commits_again(member: &Member) {
    use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
    let deadline = std::time::Instant::now() + crate::common::LIVENESS;
    loop {
        match member.commit().await {
            Ok(()) => return,
            Err(KafkaError::ConsumerCommit(
                Code::BrokerTransportFailure | Code::WaitingForCoordinator | Code::AllBrokersDown,
            )) => assert!(std::time::Instant::now() < deadline, "hung: a commit after a restart"),
            Err(error) => panic!("the group changed: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_krafka_member_keeps_its_generation_over_a_restart() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "ledger", 2).await;
    produce_numbers(&gateway, "ledger", 2, 0..4).await;
    let kafka = krafka_client::connect(&gateway).await;
    let rebalances = krafka_client::Rebalances::default();
    let consumer = krafka_client::group_consumer(&kafka, "ledger-group", rebalances.clone()).await;
    krafka_client::read(&consumer, 4).await;
    within("commit", consumer.commit()).await.expect("commit");
    let before = consumer.group_metadata().await.expect("in a group");
    let callbacks = rebalances.all();

    gateway.kill9();
    gateway.restart(Options::new(3));

    let code =
        tokio::task::block_in_place(|| heartbeat(&gateway, "ledger-group", before.member_id(), before.generation_id()));
    assert_eq!(code, 0, "the member and its generation are known after the restart");
    produce_numbers(&gateway, "ledger", 2, 4..8).await;
    let mut seen = BTreeSet::new();
    within("records after the restart", async {
        while seen.len() < 4 {
            // While the gateway was gone, polls fail: that is no rebalance.
            for record in consumer.poll(Duration::from_millis(200)).await.unwrap_or_default() {
                seen.insert(record.value_str().expect("text").to_owned());
            }
        }
    })
    .await;
    assert_eq!(seen, ["4", "5", "6", "7"].map(str::to_owned).into());
    let after = consumer.group_metadata().await.expect("in a group");
    assert_eq!(after.generation_id(), before.generation_id());
    assert_eq!(after.member_id(), before.member_id());
    assert_eq!(rebalances.all(), callbacks, "no rebalance was seen");
    within("close", consumer.close()).await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_records_survive_a_kill_in_the_middle_of_writing() {
    join_all(["1", "all"].map(survives_a_kill)).await;
}

async fn survives_a_kill(acks: &str) {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "journal", 3).await;
    let settings = [("acks", acks), ("linger.ms", "1"), ("message.timeout.ms", "2000"), ("retries", "0")];
    let producer = producer(&gateway, &settings);
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicUsize::new(0));
    let writer = tokio::spawn({
        let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
        async move {
            let mut acknowledged = Vec::new();
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                // A few at a time, so that the kill meets batches that are being written.
                let sends = (n..n + 30).map(|n| {
                    let (producer, value) = (producer.clone(), n.to_string());
                    async move {
                        let record = unkeyed("journal", &value).partition(n % 3);
                        let delivery = producer.send(record, Duration::from_secs(30)).await.ok()?;
                        Some((delivery.partition, delivery.offset, n))
                    }
                });
                let results = futures::future::join_all(sends).await;
                acknowledged.extend(results.into_iter().flatten());
                done.store(acknowledged.len(), Ordering::Relaxed);
                n += 30;
            }
            acknowledged
        }
    });
    eventually("a few hundred records", || done.load(Ordering::Relaxed) > 300).await;
    gateway.kill9();
    stop.store(true, Ordering::Relaxed);
    let acknowledged = within("the writer stops", writer).await.expect("writer");
    gateway.restart(Options::new(2));

    for partition in 0..3 {
        let here: Vec<_> = acknowledged.iter().filter(|(p, ..)| *p == partition).collect();
        let last = here.iter().map(|(_, offset, _)| *offset).max().expect("records in each partition");
        let from = [(partition, rdkafka::Offset::Beginning)];
        let seen = tokio::task::block_in_place(|| {
            read_from(&gateway, "journal", &from, usize::try_from(last).expect("an offset") + 1)
        });
        for (_, offset, n) in here {
            let record = &seen[*offset as usize];
            assert_eq!((record.offset, record.text()), (*offset, n.to_string().as_str()), "acks={acks}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_and_consumers_go_on_after_a_restart_by_themselves() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "journal", 2).await;
    let librdkafka = producer(&gateway, &[("enable.idempotence", "true")]);
    let kafka = krafka_client::connect(&gateway).await;
    let krafka = kafka.producer().acks(Acks::All).build().await.expect("producer");
    let member = Member::join(
        &gateway,
        "readers",
        &["journal"],
        &[("session.timeout.ms", "120000"), ("max.poll.interval.ms", "120000")],
    );
    for round in 0..3 {
        let value = format!("librdkafka {round}");
        let record = unkeyed("journal", &value).partition(0);
        within("send", librdkafka.send(record, Duration::ZERO)).await.expect("delivered");
        let record = Record::new("journal", format!("krafka {round}")).partition(1);
        krafka_client::acknowledged(krafka.send(record)).await;
        member.until_seen(2 * (round + 1)).await;
        if round < 2 {
            gateway.kill9();
            gateway.restart(Options::new(2 + round));
        }
    }
    let seen: BTreeSet<_> = member.seen().iter().map(|record| record.text().to_owned()).collect();
    let expected: BTreeSet<_> =
        (0..3).flat_map(|round| [format!("librdkafka {round}"), format!("krafka {round}")]).collect();
    assert_eq!(seen, expected);
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_by_sigterm_is_clean_and_loses_nothing() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "work", 2).await;
    let member = Member::join(&gateway, "workers", &["work"], &[]);
    member.until_assigned(2).await;
    produce_numbers(&gateway, "work", 2, 0..20).await;
    member.until_seen(20).await;
    member.commit().await.expect("commit");
    let status = tokio::task::block_in_place(|| gateway.sigterm());
    assert!(status.success(), "{status}");
    gateway.restart(Options::new(1));
    member.close().await;
    let next = Member::join(&gateway, "workers", &["work"], &[]);
    produce_numbers(&gateway, "work", 2, 20..24).await;
    next.until_seen(4).await;
    assert_eq!(numbers(&next).into_iter().collect::<BTreeSet<_>>(), (20..24).collect());
    next.close().await;
}
