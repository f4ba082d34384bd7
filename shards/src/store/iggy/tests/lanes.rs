//! Connections of a lane, and its bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iggy::prelude::MessageClient as _;
use ringgate_group::ErrorCode;

use super::server::{PASSWORD, Server};
use super::{SOON, lane, lane_with, sent, settings, to_send};
use crate::store::iggy::send::Sent;
use crate::store::iggy::{Credentials, Failure, IggySettings, Use};

#[test]
fn a_lost_connection_is_made_again_soon() {
    let server = Server::start();
    let lane = lane(&server);
    for nth in 0..5 {
        assert_eq!(sent(&lane, to_send(&["a"], None, SOON)), Ok(Sent { base_offset: Some(nth) }));
        let (links, deadline) = (server.links(), Instant::now() + SOON);
        server.cut();
        while server.links() == links {
            assert!(Instant::now() < deadline, "no new connection");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn connections_are_made_when_they_are_needed() {
    let server = Server::start();
    let lane = lane(&server);
    assert_eq!(server.links(), 0);
    sent(&lane, to_send(&["a"], None, SOON)).expect("sent");
    sent(&lane, to_send(&["a"], None, SOON)).expect("sent");
    assert_eq!(server.links(), 1, "one client does all of a partition");
}

#[test]
fn the_second_server_is_tried_when_the_first_is_not_there() {
    let (gone, server) = (Server::start(), Server::start());
    let servers = settings(&[&gone, &server]);
    drop(gone);
    let lane = lane_with(servers);
    assert_eq!(sent(&lane, to_send(&["a"], None, SOON)), Ok(Sent { base_offset: Some(0) }));
}

#[test]
fn nobody_there_is_no_leader_until_the_deadline_and_a_counted_failure() {
    let gone = Server::start();
    let servers = settings(&[&gone]);
    drop(gone);
    let lane = lane_with(servers);
    let before = Instant::now();
    let refused = sent(&lane, to_send(&["a"], None, Duration::from_secs(1))).map_err(|not| (not.error, not.failure));
    assert_eq!(refused, Err((ErrorCode::NOT_LEADER_OR_FOLLOWER, Failure::NOT_CONNECTED)));
    assert!(before.elapsed() >= Duration::from_secs(1));
    assert!(lane.report().failures.iter().any(|(code, count)| *code == Failure::NOT_CONNECTED.code && *count > 0));
}

fn refusal(settings: IggySettings) -> u32 {
    let lane = lane_with(settings);
    let answer = lane
        .call_from_thread(|clients| async move { clients.get(Use::Admin, Instant::now() + SOON).await.map(|_| ()) });
    answer.recv_timeout(SOON * 2).expect("an answer").expect_err("refused").code
}

#[test]
fn a_wrong_password_and_an_older_server_are_told_apart() {
    let server = Server::start();
    let credentials = Credentials { username: "iggy".into(), password: "wrong".into() };
    assert_eq!(refusal(IggySettings { credentials, ..settings(&[&server]) }), 42);
    server.becomes_old();
    assert_eq!(refusal(settings(&[&server])), 14003);
}

#[test]
fn a_password_that_becomes_right_is_taken_without_a_restart() {
    let server = Server::start();
    server.takes_password("another");
    let lane = lane(&server);
    let refused = sent(&lane, to_send(&["a"], None, Duration::from_secs(1)));
    assert_eq!(refused.map_err(|not| not.error), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    server.takes_password(PASSWORD);
    assert_eq!(sent(&lane, to_send(&["a"], None, SOON)), Ok(Sent { base_offset: Some(0) }));
}

#[test]
fn passwords_are_not_shown() {
    let server = Server::start();
    let shown = format!("{:?}", settings(&[&server]));
    assert!(shown.contains("iggy:********") && !shown.contains(PASSWORD), "{shown}");
}

#[test]
fn a_lane_takes_so_many_calls_and_refuses_more_at_once() {
    let server = Server::start();
    let lane = lane(&server);
    let (go, held) = tokio::sync::watch::channel(false);
    let hold = || {
        let mut held = held.clone();
        lane.call_from_thread(move |_| async move {
            let _ = held.wait_for(|go| *go).await;
            Ok(())
        })
    };
    let calls: Vec<_> = (0..crate::store::iggy::limits::LANE_CALLS_MAX).map(|_| hold()).collect();
    assert_eq!(hold().recv_timeout(SOON).expect("at once"), Err(Failure::LANE_FULL));
    assert_eq!((lane.report().refused_full, lane.report().in_flight), (1, calls.len()));
    go.send_replace(true);
    for call in &calls {
        assert_eq!(call.recv_timeout(SOON).expect("an answer"), Ok(()));
    }
    assert_eq!(hold().recv_timeout(SOON).expect("an answer"), Ok(()), "there is room again");
}

#[test]
fn a_call_that_panics_fails_and_the_lane_goes_on() {
    let server = Server::start();
    let lane = lane(&server);
    let answer = lane.call_from_thread::<(), _>(|_| async move { panic!("by a test") });
    assert!(answer.recv_timeout(SOON).is_err(), "nobody answers");
    assert_eq!(sent(&lane, to_send(&["a"], None, SOON)), Ok(Sent { base_offset: Some(0) }));
    assert_eq!(lane.report().in_flight, 0);
}

#[test]
fn producer_ids_go_on_when_a_session_has_given_all_that_it_has() {
    let server = Server::start();
    let lane = lane(&server);
    let given = lane.call_from_thread(|clients| async move {
        let mut given = Vec::new();
        // The first session is one that sends, too; those after it give ids and nothing else.
        for _ in 0..2 {
            let mut last = clients.next_producer_id(Instant::now() + SOON).await?;
            given.push(last);
            let client = clients.get(Use::ProducerIds, Instant::now() + SOON).await?;
            while let Ok(next) = client.next_producer_id().await {
                last = next;
            }
            given.push(last);
        }
        let next = [(); 2].map(|()| clients.next_producer_id(Instant::now() + SOON));
        for next in next {
            given.push(next.await?);
        }
        Ok(given)
    });
    let given = given.recv_timeout(SOON * 6).expect("an answer").expect("ids");
    assert!(given.is_sorted_by(|before, after| before < after), "{given:?}");
    let [sessions, indices] = [20, 0].map(|bits| given.iter().map(|id| id >> bits & 0xf_ffff).collect::<Vec<_>>());
    assert_eq!(sessions[0], sessions[1]);
    assert_eq!(sessions[2], sessions[3]);
    assert_eq!(indices, [0, 0xf_ffff, 0, 0xf_ffff, 0, 1], "{given:?}");
    let exhausted = lane.report().failures.into_iter().find(|(code, _)| *code == 91);
    assert_eq!((server.links(), exhausted), (3, Some((91, 2))));
    assert_eq!(sent(&lane, to_send(&["a"], None, SOON)), Ok(Sent { base_offset: Some(0) }), "what sends still does");
}

#[test]
fn a_stop_ends_the_wait_of_shards_and_not_what_they_wait_for() {
    let server = Server::start();
    let lane = lane(&server);
    let (go, held) = tokio::sync::watch::channel(false);
    let done = Arc::new(AtomicBool::new(false));
    let call = |tell: Arc<AtomicBool>| {
        let mut held = held.clone();
        lane.call(move |_| async move {
            let _ = held.wait_for(|go| *go).await;
            tell.store(true, Ordering::SeqCst);
            Ok(())
        })
    };
    let waiting = call(done.clone());
    let mut of_a_thread = held.clone();
    let waiting_thread = lane.call_from_thread(move |_| async move {
        let _ = of_a_thread.wait_for(|go| *go).await;
        Ok(())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    lane.wait_until(Instant::now());
    assert_eq!(runtime.block_on(waiting), Err(Failure::UNANSWERED));
    let refused = Arc::new(AtomicBool::new(false));
    assert_eq!(runtime.block_on(call(refused.clone())), Err(Failure::NOT_CONNECTED), "nothing is begun");
    go.send_replace(true);
    assert_eq!(waiting_thread.recv_timeout(SOON).expect("an answer"), Ok(()));
    let deadline = Instant::now() + SOON;
    while !done.load(Ordering::SeqCst) {
        assert!(Instant::now() < deadline, "what was begun is not done to its end");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!refused.load(Ordering::SeqCst));
}
