//! What one connection's pipeline does with each pair of requests, and at its edges.

use ringgate_group::pipeline::{Pipeline, RequestId, RequestKind};

use RequestKind::{Heartbeat, JoinOrSync, Other, Produce, Sasl};

const FETCH: RequestKind = RequestKind::Fetch { session: None };
const FETCH_1: RequestKind = RequestKind::Fetch { session: Some(1) };
const FETCH_2: RequestKind = RequestKind::Fetch { session: Some(2) };
const KINDS: [RequestKind; 8] = [Produce, FETCH, FETCH_1, FETCH_2, JoinOrSync, Heartbeat, Sasl, Other];

fn pipeline() -> Pipeline<&'static str> {
    Pipeline::new(16)
}

fn started(pipeline: &mut Pipeline<&'static str>) -> Vec<RequestId> {
    std::iter::from_fn(|| pipeline.poll_start()).collect()
}

fn seen(pipeline: &mut Pipeline<&'static str>) -> Vec<RequestId> {
    std::iter::from_fn(|| pipeline.poll_heartbeat_seen()).collect()
}

fn ready(pipeline: &mut Pipeline<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| pipeline.poll_ready()).collect()
}

/// Those of [`KINDS`] that start behind a request of `first`.
fn may_follow(first: RequestKind, waiting: bool) -> Vec<RequestKind> {
    let starts_behind = |second: &RequestKind| {
        let mut pipeline = pipeline();
        let a = pipeline.read(first, 1);
        if first == Sasl {
            // Not even read; the same holds for what a caller reads all the same.
            assert!(!pipeline.may_read());
            return false;
        }
        let b = pipeline.read(*second, 1);
        assert_eq!(pipeline.poll_start(), Some(a));
        if waiting {
            pipeline.handle_waiting(a);
        }
        let follows = started(&mut pipeline) == [b];
        pipeline.handle_answered(a, Some("a"));
        assert_eq!(started(&mut pipeline), if follows { vec![] } else { vec![b] }, "{first:?}, {second:?}");
        follows
    };
    KINDS.into_iter().filter(starts_behind).collect()
}

#[test]
fn each_kind_starts_behind_the_earlier_ones_that_the_table_names() {
    let everything_but_sasl = [Produce, FETCH, FETCH_1, FETCH_2, JoinOrSync, Heartbeat, Other];
    assert_eq!(may_follow(Produce, false), [Produce]);
    assert_eq!(may_follow(FETCH, false), [Produce]);
    assert_eq!(may_follow(FETCH_1, false), [Produce]);
    assert_eq!(may_follow(FETCH, true), everything_but_sasl);
    assert_eq!(may_follow(FETCH_1, true), [Produce, FETCH, FETCH_2, JoinOrSync, Heartbeat, Other]);
    assert_eq!(may_follow(JoinOrSync, false), []);
    assert_eq!(may_follow(JoinOrSync, true), [Produce]);
    for kind in [Heartbeat, Sasl, Other] {
        assert_eq!(may_follow(kind, false), [], "{kind:?}");
    }
}

#[test]
fn only_fetch_join_and_sync_can_wait() {
    for kind in [Produce, Heartbeat, Other] {
        assert_eq!(may_follow(kind, true), may_follow(kind, false), "{kind:?}");
    }
}

#[test]
fn produce_passes_a_fetch_that_waits_for_its_session() {
    let mut pipeline = pipeline();
    let ids: Vec<_> =
        [FETCH_1, FETCH_1, Produce, Other, Produce].into_iter().map(|kind| pipeline.read(kind, 1)).collect();
    assert_eq!(started(&mut pipeline), [ids[0], ids[2]]);
    pipeline.handle_waiting(ids[0]);
    assert_eq!(started(&mut pipeline), [], "the last Produce is behind Other, which is behind a queued Fetch");
    pipeline.handle_answered(ids[0], Some("fetch"));
    assert_eq!(started(&mut pipeline), [ids[1]], "the Produce behind it is not in its way");
    pipeline.handle_waiting(ids[1]);
    assert_eq!(started(&mut pipeline), [], "Other waits for the Produce before it");
    pipeline.handle_answered(ids[2], None);
    assert_eq!(started(&mut pipeline), [ids[3]]);
    assert_eq!(started(&mut pipeline), []);
    pipeline.handle_answered(ids[3], Some("other"));
    assert_eq!(started(&mut pipeline), [ids[4]]);
}

#[test]
fn responses_leave_in_request_order_and_a_request_without_one_leaves_no_gap() {
    let mut pipeline = pipeline();
    let ids: Vec<_> = (0..4).map(|_| pipeline.read(Produce, 10)).collect();
    assert_eq!(started(&mut pipeline), ids);
    pipeline.handle_answered(ids[3], Some("d"));
    pipeline.handle_answered(ids[2], Some("c"));
    assert_eq!(ready(&mut pipeline), [""; 0]);
    pipeline.handle_answered(ids[0], None);
    assert_eq!(ready(&mut pipeline), [""; 0]);
    pipeline.handle_answered(ids[1], Some("b"));
    assert_eq!(ready(&mut pipeline), ["b", "c", "d"]);
    assert_eq!((pipeline.in_flight(), pipeline.bytes_in_flight()), (0, 0));
}

#[test]
fn the_first_answer_counts() {
    let mut pipeline = pipeline();
    let (a, b) = (pipeline.read(Other, 1), pipeline.read(Other, 1));
    pipeline.handle_answered(b, Some("before its start"));
    assert_eq!(started(&mut pipeline), [a]);
    pipeline.handle_answered(a, Some("a"));
    pipeline.handle_answered(a, Some("again"));
    pipeline.handle_waiting(a);
    assert_eq!(ready(&mut pipeline), ["a"]);
    pipeline.handle_answered(a, Some("after it left"));
    assert_eq!(started(&mut pipeline), [b]);
    pipeline.handle_answered(b, Some("b"));
    assert_eq!(ready(&mut pipeline), ["b"]);
}

#[test]
fn reading_pauses_at_either_bound_and_goes_on_below_it() {
    let mut pipeline: Pipeline<&str> = Pipeline::new(2).with_max_bytes(100);
    let a = pipeline.read(FETCH_1, 99);
    assert!(pipeline.may_read());
    let b = pipeline.read(JoinOrSync, 1);
    assert_eq!((pipeline.may_read(), pipeline.in_flight(), pipeline.bytes_in_flight()), (false, 2, 100));
    assert_eq!(started(&mut pipeline), [a]);
    pipeline.handle_waiting(a);
    assert_eq!(pipeline.bytes_in_flight(), 1, "a waiting request holds no bytes");
    assert!(!pipeline.may_read(), "but it is in flight");
    assert_eq!(started(&mut pipeline), [b]);
    pipeline.handle_answered(b, Some("b"));
    assert!(!pipeline.may_read(), "its response has not left");
    pipeline.handle_answered(a, Some("a"));
    assert_eq!(ready(&mut pipeline), ["a", "b"]);
    assert!(pipeline.may_read());
    let c = pipeline.read(Other, 1000);
    assert!(!pipeline.may_read(), "one frame may pass the bound, no second one");
    assert_eq!(started(&mut pipeline), [c]);
    pipeline.handle_answered(c, None);
    assert_eq!((pipeline.bytes_in_flight(), pipeline.may_read()), (0, true));
    assert_eq!((ready(&mut pipeline), pipeline.in_flight()), (vec![], 0));
}

#[test]
fn sasl_starts_alone_and_nothing_is_read_until_it_is_answered() {
    let mut pipeline = pipeline();
    let fetch = pipeline.read(FETCH_1, 1);
    assert_eq!(started(&mut pipeline), [fetch]);
    pipeline.handle_waiting(fetch);
    let sasl = pipeline.read(Sasl, 1);
    assert!(!pipeline.may_read());
    assert_eq!(started(&mut pipeline), [], "not even behind a waiting Fetch");
    pipeline.handle_answered(fetch, Some("fetch"));
    assert_eq!(started(&mut pipeline), [sasl]);
    assert!(!pipeline.may_read());
    pipeline.handle_answered(sasl, Some("sasl"));
    assert!(pipeline.may_read());
}

#[test]
fn heartbeats_behind_a_parked_join_are_seen_once_and_executed_at_their_turn() {
    let mut pipeline = pipeline();
    let join = pipeline.read(JoinOrSync, 1);
    let early = pipeline.read(Heartbeat, 1);
    assert_eq!(started(&mut pipeline), [join]);
    assert_eq!(seen(&mut pipeline), [], "the join may still be answered at once");
    pipeline.handle_waiting(join);
    assert_eq!((started(&mut pipeline), seen(&mut pipeline)), (vec![], vec![early]));
    pipeline.read(Other, 1);
    let late = pipeline.read(Heartbeat, 1);
    assert_eq!((started(&mut pipeline), seen(&mut pipeline)), (vec![], vec![late]));
    assert_eq!(seen(&mut pipeline), []);
    pipeline.handle_answered(join, Some("join"));
    assert_eq!((started(&mut pipeline), seen(&mut pipeline)), (vec![early], vec![]));
}

#[test]
fn a_heartbeat_that_starts_behind_a_waiting_fetch_is_executed_and_not_merely_seen() {
    let mut pipeline = pipeline();
    let fetch = pipeline.read(FETCH_1, 1);
    assert_eq!(started(&mut pipeline), [fetch]);
    pipeline.handle_waiting(fetch);
    let heartbeat = pipeline.read(Heartbeat, 1);
    assert_eq!(seen(&mut pipeline), [], "it may start");
    assert_eq!((started(&mut pipeline), seen(&mut pipeline)), (vec![heartbeat], vec![]));
    let behind = pipeline.read(Heartbeat, 1);
    assert_eq!((started(&mut pipeline), seen(&mut pipeline)), (vec![], vec![behind]));
}

#[test]
fn a_closing_request_lets_earlier_responses_out_and_nothing_behind_it() {
    let mut pipeline = pipeline();
    let ids: Vec<_> = [Produce, Produce, Produce, Other].into_iter().map(|kind| pipeline.read(kind, 1)).collect();
    assert_eq!(started(&mut pipeline), ids[..3]);
    pipeline.handle_closing(ids[1]);
    pipeline.handle_answered(ids[2], Some("c"));
    assert!(!pipeline.may_read() && !pipeline.should_close(), "the first response is owed");
    assert_eq!(ready(&mut pipeline), [""; 0]);
    pipeline.handle_answered(ids[0], Some("a"));
    assert_eq!((ready(&mut pipeline), started(&mut pipeline)), (vec!["a"], vec![]));
    assert!(pipeline.should_close());
    pipeline.handle_answered(ids[1], Some("b"));
    assert_eq!(ready(&mut pipeline), [""; 0]);
}

#[test]
fn what_was_read_before_a_closing_request_still_runs() {
    let mut pipeline = pipeline();
    let ids: Vec<_> = [Other, Other, Other].into_iter().map(|kind| pipeline.read(kind, 1)).collect();
    pipeline.handle_closing(ids[2]);
    pipeline.handle_closing(ids[1]);
    assert_eq!(started(&mut pipeline), ids[..1]);
    pipeline.handle_answered(ids[0], Some("done"));
    assert_eq!((started(&mut pipeline), ready(&mut pipeline)), (vec![], vec!["done"]));
    assert!(pipeline.should_close());
}

#[test]
fn a_closed_pipeline_forgets_everything_and_ignores_late_answers() {
    let mut pipeline = pipeline();
    let ids: Vec<_> = [FETCH_1, Produce, Heartbeat].into_iter().map(|kind| pipeline.read(kind, 1)).collect();
    assert_eq!(started(&mut pipeline), ids[..2]);
    pipeline.handle_waiting(ids[0]);
    pipeline.handle_answered(ids[1], Some("produce"));
    pipeline.close();
    pipeline.handle_answered(ids[0], Some("fetch"));
    pipeline.handle_waiting(ids[0]);
    pipeline.handle_closing(ids[2]);
    assert_eq!((started(&mut pipeline), seen(&mut pipeline), ready(&mut pipeline)), (vec![], vec![], vec![]));
    assert_eq!((pipeline.may_read(), pipeline.should_close()), (false, true));
    assert_eq!((pipeline.in_flight(), pipeline.bytes_in_flight()), (0, 0));
}
