//! Reads.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::server::Server;
use super::{SOON, lane, sent, to_send, topic};
use crate::store::iggy::poll::{From, Poll, Polled, poll};
use crate::store::iggy::{Failure, Lane};

fn polled(lane: &Lane, offset: u64, wait: Duration) -> Receiver<Result<Polled, Failure>> {
    let what = Poll {
        topic: topic(),
        partition: 0,
        from: From::Offset(offset),
        messages_max: 100,
        bytes_max: 1 << 20,
        wait,
        timeout: SOON,
    };
    lane.call_from_thread(move |clients| async move { poll(&clients, what).await })
}

#[test]
fn a_read_brings_whole_batches_and_the_last_offset() {
    let server = Server::start();
    let lane = lane(&server);
    sent(&lane, to_send(&["a", "b"], None, SOON)).expect("sent");
    sent(&lane, to_send(&["c"], None, SOON)).expect("sent");
    let read = polled(&lane, 0, Duration::ZERO).recv_timeout(SOON).expect("an answer").expect("read");
    assert_eq!((read.messages, read.current_offset), (3, 2));
    let at_the_end = polled(&lane, 3, Duration::ZERO).recv_timeout(SOON).expect("an answer").expect("read");
    assert_eq!((at_the_end.messages, at_the_end.current_offset, at_the_end.batches.len()), (0, 2, 0));
}

#[test]
fn a_read_that_waits_is_answered_by_the_next_send_and_holds_up_no_other() {
    let server = Server::start();
    let lane = lane(&server);
    let waiting: Vec<_> = (0..100).map(|_| polled(&lane, 0, Duration::from_secs(60))).collect();
    let deadline = Instant::now() + SOON;
    while server.waiting() < 100 {
        assert!(Instant::now() < deadline, "more than one client allows can wait; {} do", server.waiting());
        std::thread::sleep(Duration::from_millis(5));
    }
    let now = polled(&lane, 0, Duration::ZERO).recv_timeout(SOON).expect("an answer").expect("read");
    assert_eq!(now.messages, 0);
    sent(&lane, to_send(&["a"], None, SOON)).expect("sent");
    for waiting in waiting {
        assert_eq!(waiting.recv_timeout(SOON).expect("an answer").expect("read").messages, 1);
    }
    assert_eq!(server.most_waiting(), 100);
}
