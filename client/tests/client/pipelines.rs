//! Many requests at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, HeartbeatRequest, HeartbeatResponse};
use kafka_protocol::protocol::{Encodable, Request};
use ringgate_client::Options;
use ringgate_client::{CallError, Pipeline, Target};

use crate::peer::{Does, broker};
use crate::{impatient, on_executor, options};

fn heartbeat(generation: i32) -> HeartbeatRequest {
    HeartbeatRequest::default().with_generation_id(generation)
}

#[test]
fn answers_go_to_their_requests_and_moments_are_in_order() {
    let address = broker(|asked| {
        let request = asked.read::<HeartbeatRequest>();
        asked.answer(&HeartbeatResponse::default().with_throttle_time_ms(request.generation_id))
    });
    on_executor(move || async move {
        let options = Options { in_flight: 50, ..options(&[address]) };
        let target = Target::reach(&options).await.expect("reached");
        let pipeline = target.connect(&target.bootstrap()[0]).await.expect("connected").pipelined();
        let mut answers = Vec::new();
        for generation in 0..200 {
            let answer = if generation % 2 == 0 {
                pipeline.submit_request(4, &heartbeat(generation)).await
            } else {
                // In segments, as record bytes are sent.
                let mut body = BytesMut::new();
                heartbeat(generation).encode(&mut body, 4).expect("a request");
                let mut head = body.freeze();
                let tail = head.split_off(3);
                pipeline.submit(HeartbeatRequest::KEY, 4, vec![head, Bytes::new(), tail]).await
            };
            answers.push(answer.expect("submitted"));
        }
        for (generation, answer) in (0..).zip(answers) {
            let answered = answer.await.expect("an answer");
            assert!(answered.sent <= answered.received);
            let answer = Pipeline::decode::<HeartbeatRequest>(answered.body, 4).expect("readable");
            assert_eq!(answer.throttle_time_ms, generation);
        }
        assert_eq!(pipeline.outstanding(), 0);
    });
}

#[test]
fn no_more_are_out_than_the_bound_and_a_timeout_keeps_its_place() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let address = broker(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Does::Nothing
    });
    on_executor(move || async move {
        let options = Options { in_flight: 2, ..options(&[address]) };
        let pipeline = impatient(options, Duration::from_millis(300)).await.pipelined();
        let first = pipeline.submit_request(4, &heartbeat(1)).await.expect("a place");
        let second = pipeline.submit_request(4, &heartbeat(2)).await.expect("a place");
        assert!(pipeline.is_full());
        assert_eq!(first.await.expect_err("no answer"), CallError::TimedOut);
        assert_eq!(second.await.expect_err("no answer"), CallError::TimedOut);
        assert!(pipeline.is_full(), "their answers may still come");
        let third = heartbeat(3);
        let third = ringgate_runtime::timeout(Duration::from_millis(50), pipeline.submit_request(4, &third));
        assert!(third.await.is_err(), "it waits for a place");
        // The peer may come to read them only now.
        while asked.load(Ordering::SeqCst) < 2 {
            ringgate_runtime::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn what_is_out_when_the_connection_is_lost_is_told_and_later_submits_fail() {
    let address = broker(|asked| match asked.read::<HeartbeatRequest>().generation_id {
        3 => Does::Close,
        _ => Does::Nothing,
    });
    on_executor(move || async move {
        let options = Options { in_flight: 10, ..options(&[address]) };
        let target = Target::reach(&options).await.expect("reached");
        let pipeline = target.connect(&target.bootstrap()[0]).await.expect("connected").pipelined();
        let mut answers = Vec::new();
        for generation in 1..=3 {
            answers.push(pipeline.submit_request(4, &heartbeat(generation)).await.expect("a place"));
        }
        for answer in answers {
            assert_eq!(answer.await.expect_err("no answer"), CallError::Disconnected);
        }
        assert_eq!(pipeline.lost().await, CallError::Disconnected);
        assert_eq!(pipeline.submit_request(4, &heartbeat(4)).await.err(), Some(CallError::Disconnected));
    });
}

#[test]
fn an_answer_that_nothing_was_asked_for_ends_the_connection() {
    let address = broker(|asked| {
        let Does::Send(frame) = asked.answer(&HeartbeatResponse::default()) else { return Does::Close };
        let mut twice = BytesMut::new();
        twice.put_slice(&frame);
        twice.put_slice(&frame);
        Does::Send(twice.freeze())
    });
    on_executor(move || async move {
        let target = Target::reach(&options(&[address])).await.expect("reached");
        let pipeline = target.connect(&target.bootstrap()[0]).await.expect("connected").pipelined();
        let answer = pipeline.submit_request(4, &heartbeat(1)).await.expect("a place");
        answer.await.expect("an answer");
        assert!(matches!(pipeline.lost().await, CallError::BadResponse(_)));
    });
}

#[test]
fn requests_without_an_answer_take_no_place() {
    let address = broker(|asked| match asked.api {
        // acks=0.
        ApiKey::Produce => Does::Nothing,
        _ => asked.answer(&HeartbeatResponse::default()),
    });
    on_executor(move || async move {
        let options = Options { in_flight: 1, ..options(&[address]) };
        let target = Target::reach(&options).await.expect("reached");
        let pipeline = target.connect(&target.bootstrap()[0]).await.expect("connected").pipelined();
        for _ in 0..10 {
            pipeline.submit_unanswered(ApiKey::Produce as i16, 3, vec![Bytes::from_static(&[0; 12])]).expect("sent");
        }
        let answer = pipeline.submit_request(4, &heartbeat(1)).await.expect("a place");
        answer.await.expect("an answer");
    });
}
