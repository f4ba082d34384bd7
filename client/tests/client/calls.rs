//! One request at a time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, HeartbeatRequest, HeartbeatResponse};
use ringgate_client::{CallError, Target};

use crate::peer::{Does, broker};
use crate::{impatient, on_executor, options};

async fn heartbeat(target: &Target) -> Result<HeartbeatResponse, CallError> {
    let mut connection = target.connect(&target.bootstrap()[0]).await?;
    connection.call(target.version(ApiKey::Heartbeat)?, &HeartbeatRequest::default()).await
}

#[test]
fn a_call_gives_the_answer_and_the_connection_can_be_used_again() {
    let address = broker(|asked| {
        let request = asked.read::<HeartbeatRequest>();
        asked.answer(&HeartbeatResponse::default().with_throttle_time_ms(request.generation_id + 1))
    });
    on_executor(move || async move {
        let target = Target::reach(&options(&[address])).await.expect("reached");
        let mut connection = target.connect(&target.bootstrap()[0]).await.expect("connected");
        let version = target.version(ApiKey::Heartbeat).expect("shared");
        for generation in 0..100 {
            let answer = connection.call(version, &HeartbeatRequest::default().with_generation_id(generation)).await;
            assert_eq!(answer.expect("an answer").throttle_time_ms, generation + 1);
        }
    });
}

#[test]
fn an_answer_that_does_not_come_is_a_timeout_and_the_connection_is_of_no_more_use() {
    let address = broker(|_| Does::Nothing);
    on_executor(move || async move {
        let timeout = Duration::from_millis(300);
        let mut connection = impatient(options(&[address]), timeout).await;
        let began = Instant::now();
        let answer = connection.call(4, &HeartbeatRequest::default()).await;
        assert_eq!(answer, Err(CallError::TimedOut));
        assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
        assert!(connection.is_broken());
        assert_eq!(connection.call(4, &HeartbeatRequest::default()).await, Err(CallError::Disconnected));
    });
}

#[test]
fn what_is_no_answer_is_told_as_what_it_is() {
    let wrong: [(&[u8], &str); 4] = [
        (b"HTTP/1.1 400 Bad Request\r\n", "is this a Kafka listener"),
        (&[0, 0, 0, 6, 0, 0, 0, 99, 0, 0], "an answer to request 99"),
        (&[0, 0, 0, 5, 0, 0, 0, 1, 0], "an answer to API 12 version 4"),
        (&[255, 255, 255, 255], "a frame of -1 bytes"),
    ];
    for (bytes, told) in wrong {
        let address = broker(move |_| Does::Send(Bytes::from_static(bytes)));
        let error = on_executor(move || async move {
            let target = Target::reach(&options(&[address])).await.expect("reached");
            heartbeat(&target).await.expect_err("no answer")
        });
        assert!(matches!(error, CallError::BadResponse(_)), "{error:?}");
        assert!(error.to_string().contains(told), "{error} does not say {told}");
    }
    // The rest of what announces itself as 256 MB is not waited for.
    let address = broker(|_| Does::Send(Bytes::from_static(&[16, 0, 0, 0, 0, 0, 0, 99, 0])));
    let error = on_executor(move || async move {
        let target = Target::reach(&options(&[address])).await.expect("reached");
        heartbeat(&target).await.expect_err("no answer")
    });
    assert!(error.to_string().contains("an answer to request 99"), "{error}");
    let address = broker(|_| Does::Close);
    let error = on_executor(move || async move {
        let target = Target::reach(&options(&[address])).await.expect("reached");
        heartbeat(&target).await.expect_err("no answer")
    });
    assert_eq!(error, CallError::Disconnected);
}
