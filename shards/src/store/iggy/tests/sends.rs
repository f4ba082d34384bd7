//! What becomes of a batch when sending it goes wrong.

use std::time::Duration;

use iggy_binary_protocol::batch::BatchProducer;
use ringgate_group::ErrorCode;

use super::server::{Fault, Server};
use super::{SOON, lane, sent, to_send};
use crate::store::iggy::send::Sent;

fn producer(sequence: u32) -> Option<BatchProducer> {
    Some(BatchProducer::new(1 << 20, 0, sequence).expect("a producer"))
}

#[test]
fn a_batch_is_answered_with_its_base_offset() {
    let server = Server::start();
    let lane = lane(&server);
    assert_eq!(sent(&lane, to_send(&["a", "b"], None, SOON)), Ok(Sent { base_offset: Some(0) }));
    assert_eq!(sent(&lane, to_send(&["c"], None, SOON)), Ok(Sent { base_offset: Some(2) }));
    assert_eq!((server.sends(), server.messages()), (2, 3));
}

#[test]
fn what_was_not_taken_is_sent_again_and_written_once() {
    let server = Server::start();
    let lane = lane(&server);
    for fault in [Fault::Status(58), Fault::Status(88), Fault::Close, Fault::Status(57), Fault::Status(87)] {
        let before = server.messages();
        server.fail_sends([fault]);
        let sent = sent(&lane, to_send(&["a"], None, SOON));
        assert_eq!(sent, Ok(Sent { base_offset: Some(before) }), "{fault:?}");
        assert_eq!(server.messages(), before + 1, "{fault:?}");
    }
}

#[test]
fn a_receipt_that_the_link_lost_is_asked_for_again() {
    let server = Server::start();
    let lane = lane(&server);
    for producer in [None, producer(0)] {
        let before = server.messages();
        server.fail_sends([Fault::WriteAndClose]);
        assert_eq!(sent(&lane, to_send(&["a"], producer, SOON)), Ok(Sent { base_offset: Some(before) }));
        assert_eq!(server.messages(), before + 1);
    }
}

#[test]
fn an_idempotent_batch_whose_outcome_is_unknown_is_sent_again_until_its_offset_is_known() {
    let server = Server::start();
    let lane = lane(&server);
    // Written, and the SDK waits for the receipt until its deadline; what it then keeps is abandoned.
    server.fail_sends([Fault::WriteAndSaySilent]);
    let sent_again = sent(&lane, to_send(&["a", "b"], producer(0), SOON));
    assert_eq!(sent_again, Ok(Sent { base_offset: Some(0) }));
    assert_eq!((server.sends(), server.messages()), (2, 2), "written once");
    assert_eq!(sent(&lane, to_send(&["c"], producer(2), SOON)), Ok(Sent { base_offset: Some(2) }), "the lane is free");
}

#[test]
fn another_batch_whose_outcome_stays_unknown_times_out_and_holds_up_nobody() {
    let server = Server::start();
    let lane = lane(&server);
    // There is a connection when its time begins.
    assert_eq!(sent(&lane, to_send(&["a"], None, SOON)), Ok(Sent { base_offset: Some(0) }));
    server.fail_sends([Fault::WriteAndSaySilent]);
    let unknown = sent(&lane, to_send(&["b"], None, Duration::from_secs(5)));
    assert_eq!(unknown.map_err(|not| not.error), Err(ErrorCode::REQUEST_TIMED_OUT));
    assert_eq!(sent(&lane, to_send(&["c"], None, SOON)), Ok(Sent { base_offset: Some(2) }));
}

#[test]
fn what_iggy_refuses_is_refused_at_once_with_kafkas_code() {
    let server = Server::start();
    let lane = lane(&server);
    let table = [
        (92, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
        (93, ErrorCode::INVALID_PRODUCER_EPOCH),
        (94, ErrorCode::UNKNOWN_PRODUCER_ID),
        (41, ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        (2010, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (3009, ErrorCode::KAFKA_STORAGE_ERROR),
    ];
    for (nth, (status, code)) in table.into_iter().enumerate() {
        server.fail_sends([Fault::Status(status)]);
        let refused = sent(&lane, to_send(&["a"], producer(0), SOON)).map_err(|not| not.error);
        assert_eq!(refused, Err(code), "{status}");
        assert_eq!(server.sends(), nth + 1, "{status} is not tried again");
    }
    assert_eq!(server.messages(), 0);
    assert_eq!(lane.report().failures.iter().map(|(_, count)| count).sum::<u64>(), 6);
}

#[test]
fn a_server_that_takes_nothing_is_no_leader_in_the_end() {
    let server = Server::start();
    let lane = lane(&server);
    let refused_as = || {
        server.fail_sends(std::iter::repeat_n(Fault::Status(58), 1_000));
        sent(&lane, to_send(&["a"], None, Duration::from_secs(1))).expect_err("nothing is taken").error
    };
    // The SDK tries again by itself until the deadline. What is on the way just then may have been written for all that
    // it knows, so now and then that is the answer.
    let refused = (0..10).map(|_| refused_as()).find(|error| *error != ErrorCode::REQUEST_TIMED_OUT);
    assert_eq!(refused, Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    assert_eq!(server.messages(), 0);
}

#[test]
fn what_was_applied_without_a_receipt_is_a_success_without_an_offset() {
    let server = Server::start();
    let lane = lane(&server);
    server.fail_sends([Fault::Status(59)]);
    assert_eq!(sent(&lane, to_send(&["a"], None, SOON)), Ok(Sent { base_offset: None }));
}
