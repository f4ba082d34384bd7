//! Limits at which nothing is refused and nobody is closed: connections are not read from until there is
//! room again, or get less at a time. At the limit, one past it, and back.

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use kafka_protocol::messages::{FetchRequest, GroupId, MetadataRequest};

use crate::common::eventually;
use crate::common::fetch::{fetch_request, offsets, only_partition};
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch, frame, string};
use crate::metrics::{hits, join};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Long enough to see that nothing comes. A slow machine only makes it more silent.
const A_MOMENT: Duration = Duration::from_millis(300);

/// A Metadata request of so many bytes; those behind the request are ignored.
fn padded(bytes: usize) -> Bytes {
    let mut whole = BytesMut::from(&frame(7, 9, &MetadataRequest::default())[..]);
    whole.put_bytes(0, bytes + 4 - whole.len());
    whole[..4].copy_from_slice(&(bytes as u32).to_be_bytes());
    whole.freeze()
}

/// One shard, whose clients may have 128 KiB unanswered.
fn options() -> Options {
    Options::new(1)
        .set("admin-listen", "127.0.0.1:0")
        .set("max-frame-size", "64KiB")
        .set("max-in-flight-bytes", "128KiB")
        .set("message-max-bytes", "16KiB")
        .set("max-member-blob-bytes", "16KiB")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_reads_no_more_than_its_bytes_in_flight_and_goes_on_when_they_are_answered() {
    let gateway = Gateway::start(options());
    let held = || metric(&gateway, "ringgate_in_flight_bytes", "");
    let mut first = Raw::connect(gateway.bootstrap());
    assert_eq!(first.call(3, &join("workers", 10)).error_code, 0);

    // A join that waits, and behind it requests that wait for their turn.
    let mut full = Raw::connect(gateway.bootstrap());
    full.send(3, &join("workers", 10));
    assert!(full.is_silent(A_MOMENT), "it waits for the first to join again");
    full.send_bytes(&padded(64 * KIB));
    full.send_bytes(&padded(64 * KIB - 1));
    eventually("both are read", || held() == 128 * KIB as u64 - 1).await;
    let mut other = Raw::connect(gateway.bootstrap());
    assert!(!other.call(9, &MetadataRequest::default()).brokers.is_empty(), "one byte is left");
    assert_eq!(hits(&gateway, "max_in_flight_bytes"), 0);

    full.send_bytes(&padded(KIB));
    eventually("the third is read, too", || held() == 129 * KIB as u64 - 1).await;
    let waiting = other.send(9, &MetadataRequest::default());
    assert!(other.is_silent(A_MOMENT), "nobody is read from");
    assert!(hits(&gateway, "max_in_flight_bytes") >= 1);

    drop(full);
    assert!(!other.receive::<MetadataRequest>(9, waiting).brokers.is_empty());
    eventually("nothing is held", || held() == 0).await;
}

/// One shard whose clients may have 4 MiB on their way, and frames of up to 1 MiB.
fn large_frames() -> Options {
    options().set("max-frame-size", "1MiB").set("max-in-flight-bytes", "4MiB")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_have_not_come_whole_count_too_and_every_one_gets_through() {
    // The last quarter has room for what is read of every client at once.
    const LIMIT: u64 = 3584 << 10;
    let gateway = Gateway::start(large_frames().set("max-in-flight-bytes", LIMIT));
    let unfinished = || metric(&gateway, "ringgate_unfinished_frame_bytes", "");
    let mut go_on = Vec::new();
    let mut client = || {
        let (step, steps) = std::sync::mpsc::channel::<usize>();
        go_on.push(step);
        let mut raw = Raw::connect(gateway.bootstrap());
        std::thread::spawn(move || {
            let whole = padded(MIB);
            let mut sent = 0;
            while sent < whole.len() {
                let to = steps.recv().expect("the test goes on").min(whole.len());
                raw.send_bytes(&whole[sent..to]);
                sent = to;
            }
            raw.receive::<MetadataRequest>(9, 7)
        })
    };
    let clients: Vec<_> = (0..6).map(|_| client()).collect();
    go_on[0].send(KIB).expect("it waits");
    eventually("one frame began first", || unfinished() == KIB as u64).await;
    go_on[1..].iter().for_each(|others| others.send(MIB - KIB).expect("they wait"));
    eventually("the others fill what is there for large frames", || unfinished() >= 3 * LIMIT / 4).await;
    eventually("the pause is counted", || hits(&gateway, "max_in_flight_bytes") >= 1).await;
    go_on[0].send(MIB - KIB).expect("it waits");
    eventually("the first goes on past the bound", || unfinished() > LIMIT).await;
    let mut other = Raw::connect(gateway.bootstrap());
    let until = Instant::now() + A_MOMENT;
    while Instant::now() < until {
        assert!(!other.call(9, &MetadataRequest::default()).brokers.is_empty(), "small requests are still read");
        let held = unfinished();
        assert!(held <= LIMIT + MIB as u64 + 64 * KIB as u64, "{held} bytes");
    }
    // Nobody can finish its frame but in the order in which they began, which is not known here.
    go_on.into_iter().rev().for_each(|rest| rest.send(usize::MAX).expect("it waits"));
    for client in clients {
        assert!(!client.join().expect("a client").brokers.is_empty());
    }
    eventually("nothing is held", || unfinished() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_never_come_whole_are_closed_and_leave_room() {
    let gateway = Gateway::start(large_frames().set("frame-timeout", "6s"));
    let unfinished = || metric(&gateway, "ringgate_unfinished_frame_bytes", "");
    let senders: Vec<_> = (0..6)
        .map(|_| {
            let mut raw = Raw::connect(gateway.bootstrap());
            std::thread::spawn(move || {
                raw.send_until_closed(&padded(MIB)[..MIB - KIB]);
                raw.assert_closed();
            })
        })
        .collect();
    eventually("they fill what is there for large frames", || unfinished() >= 3 << 20).await;
    for sender in senders {
        sender.join().expect("it is closed");
    }
    eventually("nothing is held", || unfinished() == 0).await;
    assert_eq!(hits(&gateway, "frame_timeout"), 6);
    let mut other = Raw::connect(gateway.bootstrap());
    other.send_bytes(&padded(MIB));
    assert!(!other.receive::<MetadataRequest>(9, 7).brokers.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_read_ahead_to_its_limit_is_counted_once_for_each_pause() {
    let gateway = Gateway::start(options().set("max-requests-in-flight", 3));
    let mut first = Raw::connect(gateway.bootstrap());
    assert_eq!(first.call(3, &join("workers", 10)).error_code, 0);
    let mut full = Raw::connect(gateway.bootstrap());
    full.send(3, &join("workers", 10));
    full.send(9, &MetadataRequest::default());
    assert!(full.is_silent(A_MOMENT), "both wait");
    assert_eq!(hits(&gateway, "max_requests_in_flight"), 0);
    full.send(9, &MetadataRequest::default());
    eventually("the pause is counted", || hits(&gateway, "max_requests_in_flight") == 1).await;
    full.send(9, &MetadataRequest::default());
    assert!(full.is_silent(A_MOMENT));
    assert_eq!(hits(&gateway, "max_requests_in_flight"), 1, "it is the same pause");
    drop(full);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_mailbox_pauses_its_senders_and_loses_nothing() {
    const GROUPS: usize = 3_000;
    let options = Options::new(2).set("admin-listen", "127.0.0.1:0").set("mailbox-capacity", 16);
    let gateway = Gateway::start(options);
    let mut raw = Raw::connect(gateway.bootstrap());
    // Half of them belong to the other shard, which is asked for each at once.
    let groups: Vec<_> = (0..GROUPS).map(|n| GroupId(string(&format!("group-{n}")))).collect();
    let describe = DescribeGroupsRequest::default().with_groups(groups.clone());
    eventually("the mailbox is full at some moment", || {
        let described = raw.call(5, &describe).groups;
        assert_eq!(
            described.iter().map(|group| &group.group_id).collect::<Vec<_>>(),
            groups.iter().collect::<Vec<_>>()
        );
        assert!(described.iter().all(|group| group.group_state.as_str() == "Dead"), "each was asked for");
        hits(&gateway, "mailbox_capacity") > 0
    })
    .await;
    assert_eq!(metric(&gateway, "ringgate_mailbox_depth", ""), 0);
    assert!(!raw.call(9, &MetadataRequest::default()).brokers.is_empty(), "and it is read from again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_answers_stay_unread_each_fetch_gets_a_batch_and_everything_again_after() {
    let options = options().set("message-max-bytes", "64KiB").set("max-frame-size", "80KiB");
    let gateway = Gateway::start(options.set("send-timeout", "1min"));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "large", 1, &[]);
    const BATCHES: i64 = 200;
    let value = "x".repeat(50 * KIB);
    for _ in 0..BATCHES {
        topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &[&value]));
    }
    let all = fetch_request(12, &[(&topic, &[(0, 0)])]);
    let fetched = |raw: &mut Raw| offsets(only_partition(&raw.call::<FetchRequest>(12, &all))).len();
    let usual = fetched(&mut raw);
    assert!(usual > 100, "{usual} batches at once");
    let before = hits(&gateway, "max_in_flight_bytes");

    // Each answer has 8 MiB; what the kernel does not take is more than the limit.
    let mut unread: Vec<_> = (0..4).map(|_| Raw::connect(gateway.bootstrap())).collect();
    for raw in &mut unread {
        for _ in 0..4 {
            raw.send(12, &all);
        }
    }
    eventually("one batch at a time", || fetched(&mut raw) == 1).await;
    assert!(hits(&gateway, "max_in_flight_bytes") > before);
    drop(unread);
    eventually("all that was asked for", || fetched(&mut raw) == usual).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_turned_away_in_a_flood_are_all_counted_and_some_are_logged() {
    const FLOOD: usize = 1_000;
    const LINES_A_SECOND: u64 = 200;
    let gateway = Gateway::start(options().set("max-connections", 1));
    let mut held = Raw::connect(gateway.bootstrap());
    held.call(9, &MetadataRequest::default());
    let began = Instant::now();
    for _ in 0..FLOOD {
        Raw::connect(gateway.bootstrap()).assert_closed();
    }
    eventually("all are counted", || hits(&gateway, "max_connections") == FLOOD as u64).await;
    gateway.until_logged(&["a connection was turned away", "max_connections"]);
    // Lines are written in order: what is logged now is behind all of those.
    held.send_bytes(&[0; 8]);
    held.assert_closed();
    gateway.until_logged(&["connection closed"]);
    let lines = gateway.written().lines().filter(|line| line.contains("turned away")).count() as u64;
    let most = LINES_A_SECOND * (began.elapsed().as_secs() + 2);
    assert!((1..=most).contains(&lines), "{lines} lines");
}
