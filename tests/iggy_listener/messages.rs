use std::time::{Duration, Instant};

use iggy::prelude::*;
use iggy_common::{DeferredPollOptions, fetch_binary_messages};

use crate::client::{client, code, id, number, poll, send, texts, topic};
use crate::common::gateway::{Gateway, IGGY_PASSWORD, Options};
use crate::common::metrics::metric;
use crate::common::{eventually, within};

fn texts_of(from: u64, payloads: &[&str]) -> Vec<(u64, String)> {
    (from..).zip(payloads.iter().map(|payload| payload.to_string())).collect()
}

async fn polled(client: &IggyClient, strategy: PollingStrategy, options: PollOptions) -> Vec<(u64, String)> {
    let (s, t, consumer) = (id("s"), id("t"), Consumer::new(number(1)));
    texts(&within("poll", client.poll_messages(&s, &t, 0, &consumer, &strategy, options)).await.expect("poll"))
}

fn up_to(count: u32) -> PollOptions {
    PollOptions { count, ..Default::default() }
}

#[tokio::test]
async fn messages_come_back_in_order_with_their_offsets_and_headers_from_every_partition() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 5).await;
    for partition in 0..5 {
        assert_eq!(send(&client, "s", "t", partition, &["a", "b", "c"]).await, 0);
        assert_eq!(send(&client, "s", "t", partition, &["d"]).await, 3);
        assert_eq!(poll(&client, "s", "t", partition, 0).await, texts_of(0, &["a", "b", "c", "d"]));
    }
    let headers = [("kind".try_into().expect("a key"), "greeting".try_into().expect("a value"))];
    let message = IggyMessage::builder().payload("e".into()).user_headers(headers.into()).build().expect("a message");
    let (s, t) = (id("s"), id("t"));
    within("send", client.send_messages(&s, &t, &Partitioning::partition_id(0), &mut [message])).await.expect("send");
    let (consumer, last) = (Consumer::new(number(1)), PollingStrategy::last());
    let read = within("poll", client.poll_messages(&s, &t, 0, &consumer, &last, up_to(1))).await.expect("poll");
    let headers = read.messages[0].user_headers_map().expect("headers").expect("headers");
    assert_eq!(headers[&"kind".try_into().expect("a key")].as_str().expect("text"), "greeting");
}

#[tokio::test]
async fn batches_are_cut_to_what_was_asked_for() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 1).await;
    send(&client, "s", "t", 0, &["a", "b", "c"]).await;
    send(&client, "s", "t", 0, &["d", "e"]).await;
    assert_eq!(polled(&client, PollingStrategy::offset(1), up_to(3)).await, texts_of(1, &["b", "c", "d"]));
    assert_eq!(polled(&client, PollingStrategy::first(), up_to(2)).await, texts_of(0, &["a", "b"]));
    assert_eq!(polled(&client, PollingStrategy::last(), up_to(3)).await, texts_of(2, &["c", "d", "e"]));
    assert_eq!(polled(&client, PollingStrategy::last(), up_to(9)).await.len(), 5);
    assert_eq!(polled(&client, PollingStrategy::offset(4), up_to(9)).await, texts_of(4, &["e"]));
    assert_eq!(polled(&client, PollingStrategy::offset(5), up_to(9)).await, []);
    assert_eq!(polled(&client, PollingStrategy::offset(500), up_to(9)).await, []);
    assert_eq!(
        polled(&client, PollingStrategy::timestamp(IggyTimestamp::from(1)), up_to(1)).await,
        texts_of(0, &["a"])
    );
    let later = IggyTimestamp::from(IggyTimestamp::now().as_micros() + 3_600_000_000);
    assert_eq!(polled(&client, PollingStrategy::timestamp(later), up_to(9)).await, []);
}

#[tokio::test]
async fn a_consumer_goes_on_behind_what_it_has_committed() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 1).await;
    send(&client, "s", "t", 0, &["a", "b", "c", "d"]).await;
    let committing = || PollOptions { count: 2, commit: CommitPolicy::OnRead, ..Default::default() };
    assert_eq!(polled(&client, PollingStrategy::next(), committing()).await, texts_of(0, &["a", "b"]));
    assert_eq!(polled(&client, PollingStrategy::next(), committing()).await, texts_of(2, &["c", "d"]));
    assert_eq!(polled(&client, PollingStrategy::next(), committing()).await, []);
    let (s, t, consumer) = (id("s"), id("t"), Consumer::new(number(1)));
    let stored = within("get", client.get_consumer_offset(&consumer, &s, &t, Some(0))).await.expect("get");
    assert_eq!(stored.map(|stored| (stored.stored_offset, stored.current_offset)), Some((3, 3)));
    assert_eq!(code(within("store", client.store_consumer_offset(&consumer, &s, &t, Some(0), 4)).await), 4100);
}

#[tokio::test]
async fn a_poll_waits_for_messages_and_is_answered_when_they_come() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let (waits, sends) = (client(&gateway).await, client(&gateway).await);
    topic(&waits, "s", "t", 1).await;
    let began = Instant::now();
    let wait = PollOptions { count: 9, max_wait: "30s".parse().expect("a duration"), ..Default::default() };
    let poll = tokio::spawn(async move { polled(&waits, PollingStrategy::offset(0), wait).await });
    // Whether it has arrived before or not, it is answered with the message.
    send(&sends, "s", "t", 0, &["a"]).await;
    assert_eq!(within("the poll", poll).await.expect("the poll"), texts_of(0, &["a"]));
    assert!(began.elapsed() < Duration::from_secs(20), "it was answered at the message");
}

/// Until a poll waits in the gateway.
async fn until_one_waits(gateway: &Gateway) {
    eventually("a poll waits", || metric(gateway, "ringgate_iggy_waiting_polls", "") == 1).await;
}

#[tokio::test]
async fn a_poll_of_an_offset_that_is_yet_to_come_is_answered_when_it_comes() {
    let gateway = Gateway::start(Options::new(3).iggy().set("admin-listen", "127.0.0.1:0"));
    let (waits, sends) = (client(&gateway).await, client(&gateway).await);
    topic(&waits, "s", "t", 1).await;
    send(&sends, "s", "t", 0, &["a"]).await;
    let wait = PollOptions { count: 9, max_wait: "30s".parse().expect("a duration"), ..Default::default() };
    let poll = tokio::spawn(async move { polled(&waits, PollingStrategy::offset(4), wait).await });
    until_one_waits(&gateway).await;
    let began = Instant::now();
    send(&sends, "s", "t", 0, &["b"]).await;
    send(&sends, "s", "t", 0, &["c", "d", "e"]).await;
    assert_eq!(within("the poll", poll).await.expect("the poll"), texts_of(4, &["e"]));
    assert!(began.elapsed() < Duration::from_secs(20), "it was answered at the message");
}

#[tokio::test]
async fn an_offset_that_is_yet_to_come_keeps_no_other_partition_of_a_fetch_waiting() {
    let gateway = Gateway::start(Options::new(2).iggy().set("admin-listen", "127.0.0.1:0"));
    let sends = client(&gateway).await;
    topic(&sends, "s", "t", 4).await;
    let tcp = raw_client(&gateway).await;
    let targets: Vec<_> = (0..4).map(|nth| (nth, PollingStrategy::offset(if nth == 2 { 0 } else { 100 }))).collect();
    let fetch = tokio::spawn(async move {
        let options = DeferredPollOptions {
            max_wait: "30s".parse().expect("a duration"),
            request_timeout: "60s".parse().expect("a duration"),
            ..Default::default()
        };
        let consumer = Consumer::new(number(1));
        fetch_binary_messages(&tcp, &id("s"), &id("t"), &targets, &consumer, 9, false, options).await
    });
    until_one_waits(&gateway).await;
    let began = Instant::now();
    send(&sends, "s", "t", 2, &["a"]).await;
    let sections = within("the fetch", fetch).await.expect("the fetch").expect("sections");
    assert_eq!(sections.iter().map(|section| section.messages_count).collect::<Vec<_>>(), [0, 0, 1, 0]);
    assert!(began.elapsed() < Duration::from_secs(20), "it was answered at the message");
}

#[tokio::test]
async fn a_poll_does_not_wait_for_more_than_it_may_read() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 1).await;
    let large = "x".repeat(1_000);
    for _ in 0..4 {
        send(&client, "s", "t", 0, &[&large]).await;
    }
    let began = Instant::now();
    let options = PollOptions {
        count: 9,
        min_count: 9,
        max_bytes: 2_000,
        max_wait: "30s".parse().expect("a duration"),
        ..Default::default()
    };
    assert_eq!(polled(&client, PollingStrategy::offset(0), options).await.len(), 1);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn polls_that_wait_hold_up_nothing() {
    const POLLS: u64 = 40;
    let gateway = Gateway::start(Options::new(2).iggy().set("admin-listen", "127.0.0.1:0"));
    let client = client(&gateway).await;
    topic(&client, "s", "t", 1).await;
    let wait = || PollOptions { count: 9, max_wait: "30s".parse().expect("a duration"), ..Default::default() };
    let polls = futures::future::join_all((0..POLLS).map(|_| polled(&client, PollingStrategy::offset(0), wait())));
    let pings = async {
        eventually("all wait", || metric(&gateway, "ringgate_iggy_waiting_polls", "") == POLLS).await;
        let began = Instant::now();
        for _ in 0..20 {
            within("ping", client.ping()).await.expect("ping");
        }
        assert!(began.elapsed() < Duration::from_secs(20), "pings pass waiting polls");
    };
    tokio::select! {
        read = polls => panic!("there is nothing to read: {read:?}"),
        () = pings => {}
    }
}

#[tokio::test]
async fn a_poll_that_waits_ends_with_its_time() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 1).await;
    let began = Instant::now();
    let wait = PollOptions { count: 9, max_wait: "1s".parse().expect("a duration"), ..Default::default() };
    assert_eq!(polled(&client, PollingStrategy::offset(0), wait).await, []);
    let took = began.elapsed();
    // A shard reads the clock once a turn, so that its second may have begun a little before this one's.
    assert!((Duration::from_millis(900)..Duration::from_secs(20)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn many_partitions_are_fetched_together_and_one_that_is_wrong_keeps_no_other() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 3).await;
    send(&client, "s", "t", 0, &["a", "b"]).await;
    send(&client, "s", "t", 2, &["c"]).await;
    let tcp = raw_client(&gateway).await;
    let fetch = async |targets: &[(u32, PollingStrategy)], consumer: &Consumer, count: u32| {
        let options = DeferredPollOptions {
            max_wait: "0s".parse().expect("a duration"),
            request_timeout: "20s".parse().expect("a duration"),
            ..Default::default()
        };
        within("fetch", fetch_binary_messages(&tcp, &id("s"), &id("t"), targets, consumer, count, false, options)).await
    };
    let (plain, from) = (Consumer::new(number(1)), PollingStrategy::offset);
    let sections = fetch(&[(0, from(1)), (1, from(0)), (2, from(0))], &plain, 100).await.expect("fetch");
    let read: Vec<_> = sections
        .into_iter()
        .map(|section| (section.partition_id, texts(&section.decode().expect("a section"))))
        .collect();
    assert_eq!(read, [(0, texts_of(1, &["b"])), (1, vec![]), (2, texts_of(0, &["c"]))]);
    let sections = fetch(&[(0, from(0)), (2, from(0))], &plain, 2).await.expect("fetch");
    assert_eq!(sections.iter().map(|section| section.messages_count).sum::<u32>(), 2, "the count is of all together");
    let external = Consumer::external_group(id("g"));
    assert_eq!(code(fetch(&[(0, from(0))], &external, 9).await.map(|_| ())), 5);
}

/// A client below that of the SDK's usual calls.
async fn raw_client(gateway: &Gateway) -> TcpClient {
    let credentials = Credentials::UsernamePassword("iggy".into(), IGGY_PASSWORD.to_string().into());
    let client = TcpClient::create(std::sync::Arc::new(TcpClientConfig {
        server_address: gateway.iggy().to_string(),
        auto_login: AutoLogin::Enabled(credentials),
        ..Default::default()
    }));
    let client = client.expect("a client");
    within("connect", client.connect()).await.expect("connect");
    client
}

#[tokio::test]
async fn a_partition_that_was_made_again_is_not_taken_for_the_one_before() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let (one, other) = (client(&gateway).await, client(&gateway).await);
    topic(&one, "s", "t", 1).await;
    send(&one, "s", "t", 0, &["a"]).await;
    within("delete topic", other.delete_topic(&id("s"), &id("t"))).await.expect("delete topic");
    topic(&other, "s", "t", 1).await;
    // The route that this client knows is of the old one; it learns the new one by itself.
    assert_eq!(send(&one, "s", "t", 0, &["b"]).await, 0);
    assert_eq!(poll(&one, "s", "t", 0, 0).await, texts_of(0, &["b"]));
}

#[tokio::test]
async fn an_idempotent_producer_is_held_to_its_sequence() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    topic(&client, "s", "t", 1).await;
    let producer = within("id", client.next_producer_id()).await.expect("an id");
    let send = async |id: u64, epoch: u16, sequence: u32, payloads: &[&str]| {
        let mut messages: Vec<IggyMessage> =
            payloads.iter().map(|payload| IggyMessage::from(payload.to_string())).collect();
        let producer = BatchProducer::new(id, epoch, sequence).expect("a producer");
        let (s, t) = (crate::client::id("s"), crate::client::id("t"));
        within("send", client.send_producer_messages(&s, &t, 0, producer, &mut messages)).await
    };
    let offset = |sent: Result<SendMessagesResponse, IggyError>| sent.expect("sent").confirmations[0].base_offset;
    assert_eq!(offset(send(producer, 0, 0, &["a", "b"]).await), 0);
    assert_eq!(offset(send(producer, 0, 2, &["c"]).await), 2);
    assert_eq!(offset(send(producer, 0, 0, &["a", "b"]).await), 0, "a duplicate has the first offset");
    assert_eq!(code(send(producer, 0, 9, &["x"]).await), 92);
    assert_eq!(code(send(producer + 1, 0, 4, &["x"]).await), 94);
    assert_eq!(offset(send(producer, 1, 0, &["d"]).await), 3);
    assert_eq!(code(send(producer, 0, 3, &["x"]).await), 93);
    assert_eq!(poll(&client, "s", "t", 0, 0).await, texts_of(0, &["a", "b", "c", "d"]));
}

#[tokio::test]
async fn closed_segments_are_deleted_on_request() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    within("stream", client.create_stream("s", &StreamCreateOptions::default())).await.expect("stream");
    let segment = "1 MiB".parse().expect("a size");
    let options = TopicCreateOptions { partitions_count: Some(1), segment_size: Some(segment), ..Default::default() };
    within("topic", client.create_topic(&id("s"), "t", &options)).await.expect("topic");
    let large = "x".repeat(400 << 10);
    for _ in 0..7 {
        send(&client, "s", "t", 0, &[&large]).await;
    }
    within("delete segments", client.delete_segments(&id("s"), &id("t"), 0, 1)).await.expect("delete segments");
    let first = polled(&client, PollingStrategy::first(), up_to(1)).await[0].0;
    assert!(first > 0, "the oldest segment is gone");
    assert_eq!(polled(&client, PollingStrategy::offset(0), up_to(1)).await[0].0, first);
}
