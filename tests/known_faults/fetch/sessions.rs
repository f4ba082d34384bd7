//! Fetch sessions (KIP-227).

use std::time::Duration;

use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_response::FetchResponse;

use crate::common::fetch::{
    FOR_EVER_MS, SESSIONS_SINCE, about, fetch_request, forgotten, offsets, only_partition, partitions, records, size,
};
use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::metric;
use crate::common::partition::{Topic, create, unknown, versions};
use crate::common::raw::{Raw, Writer, batch, frame};

/// Long enough to see that something waits. A slow machine only makes it more silent.
const A_MOMENT: Duration = Duration::from_millis(100);

/// Every version that has sessions.
fn with_sessions() -> impl Iterator<Item = i16> {
    versions(1).filter(|version| *version >= SESSIONS_SINCE)
}

/// A session of one connection.
struct Session {
    version: i16,
    id: i32,
    epoch: i32,
}

impl Session {
    /// Opens one; its first answer names everything.
    fn open(raw: &mut Raw, version: i16, topics: &[(&Topic, &[(i32, i64)])]) -> (Session, FetchResponse) {
        let response = raw.call(version, &fetch_request(version, topics).with_session_epoch(0));
        assert_eq!(response.error_code, 0, "version {version}");
        assert_ne!(response.session_id, 0, "version {version}");
        (Session { version, id: response.session_id, epoch: 1 }, response)
    }

    /// Its next request: only what is named here changes.
    fn request(&self, topics: &[(&Topic, &[(i32, i64)])]) -> FetchRequest {
        fetch_request(self.version, topics).with_session_id(self.id).with_session_epoch(self.epoch)
    }

    /// Goes on with it; the answer must be the session's.
    fn fetch(&mut self, raw: &mut Raw, topics: &[(&Topic, &[(i32, i64)])]) -> FetchResponse {
        let response = raw.call(self.version, &self.request(topics));
        assert_eq!((response.error_code, response.session_id), (0, self.id), "version {}", self.version);
        self.epoch += 1;
        response
    }
}

#[test]
fn k027_a_client_that_opens_a_session_at_every_poll_pushes_nobody_out_and_costs_no_memory() {
    const POLLS: i32 = 6_000;
    let gateway = Gateway::start(Options::new(1).set("max-fetch-sessions", 20));
    let mut reader = Raw::connect(gateway.bootstrap());
    let topic = create(&mut reader, "polled", 1, &[]);
    topic.partition(0).append(&mut reader, batch(Writer::NOBODY, 1, &["a", "b"]));
    let (mut session, _) = Session::open(&mut reader, 12, &[(&topic, &[(0, 2)])]);

    let mut forgetful = Raw::connect(gateway.bootstrap());
    let poll = fetch_request(12, &[(&topic, &[(0, 0)])]).with_session_epoch(0);
    let mut before = 0;
    for chunk in 0..POLLS / 10 {
        let sent: Vec<i32> = (0..10).map(|_| forgetful.send(12, &poll)).collect();
        for correlation_id in sent {
            let response = forgetful.receive::<FetchRequest>(12, correlation_id);
            assert_eq!((response.error_code, offsets(only_partition(&response))), (0, vec![0, 1]));
        }
        if chunk % 20 == 0 {
            assert!(session.fetch(&mut reader, &[]).responses.is_empty(), "there is no news");
        }
        if chunk == 60 {
            before = gateway.rss();
        }
    }
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB more after {POLLS} sessions");
}

#[test]
fn k027_without_room_for_a_session_a_client_is_served_without_one_and_closed_connections_make_room() {
    let gateway = Gateway::start(Options::new(1).set("max-fetch-sessions", 2).set("admin-listen", "127.0.0.1:0"));
    let mut first = Raw::connect(gateway.bootstrap());
    let topic = create(&mut first, "read", 1, &[]);
    topic.partition(0).append(&mut first, batch(Writer::NOBODY, 1, &["a"]));
    let (mut kept, _) = Session::open(&mut first, 12, &[(&topic, &[(0, 0)])]);
    let mut second = Raw::connect(gateway.bootstrap());
    Session::open(&mut second, 12, &[(&topic, &[(0, 0)])]);

    let mut third = Raw::connect(gateway.bootstrap());
    let full = fetch_request(12, &[(&topic, &[(0, 0)])]).with_session_epoch(0);
    let response = third.call(12, &full);
    assert_eq!((response.error_code, response.session_id), (0, 0));
    assert_eq!(offsets(only_partition(&response)), [0], "it gets everything all the same");
    assert_eq!(metric(&gateway, "ringgate_limit_hit_total", "limit=\"max_fetch_sessions\""), 1);

    // A session is of no use without its connection: at a lost one, clients start over.
    drop(second);
    let deadline = std::time::Instant::now() + crate::common::LIVENESS;
    while third.call(12, &full).session_id == 0 {
        assert!(std::time::Instant::now() < deadline, "hung: room for a session");
    }
    assert_eq!(partitions(&kept.fetch(&mut first, &[])).len(), 1, "who holds a session keeps it");
}

#[test]
fn k027_epoch_minus_1_makes_no_session() {
    let gateway = Gateway::start(Options::new(1).set("max-fetch-sessions", 1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "read", 1, &[]);
    for version in with_sessions() {
        let request = fetch_request(version, &[(&topic, &[(0, 0)])]);
        for _ in 0..3 {
            let response = raw.call(version, &request);
            assert_eq!((response.error_code, response.session_id, partitions(&response).len()), (0, 0, 1));
        }
        // The only place is still free; and given back for the next version.
        let (session, _) = Session::open(&mut raw, version, &[(&topic, &[(0, 0)])]);
        let ended = raw.call(version, &session.request(&[]).with_session_epoch(-1));
        assert_eq!((ended.error_code, ended.session_id), (0, 0), "version {version}");
        assert_eq!(raw.call(version, &session.request(&[])).error_code, 70, "version {version}");
    }
}

#[test]
fn k028_a_session_remembers_the_newest_offset_of_each_partition() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "sought", 2, &[]);
    let values = ["v"; 50];
    for _ in 0..12 {
        topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &values));
    }
    for version in with_sessions() {
        let (mut session, first) = Session::open(&mut raw, version, &[(&topic, &[(0, 0), (1, 0)])]);
        assert_eq!(offsets(partitions(&first)[0]), (0..600).collect::<Vec<_>>(), "version {version}");

        let moved = session.fetch(&mut raw, &[(&topic, &[(0, 500)])]);
        assert_eq!(offsets(only_partition(&moved)), (500..600).collect::<Vec<_>>(), "version {version}");
        let again = session.fetch(&mut raw, &[]);
        assert_eq!(offsets(only_partition(&again)), (500..600).collect::<Vec<_>>(), "version {version}");
        let back = session.fetch(&mut raw, &[(&topic, &[(0, 120)])]);
        let found = offsets(only_partition(&back));
        // From the batch that holds it on; Iggy leaves out what is before it.
        assert!((100..=120).contains(&found[0]) && found.contains(&120), "{found:?}, version {version}");

        for (epoch, code) in [(session.epoch - 1, 71), (session.epoch + 1, 71), (-2, 71)] {
            let wrong = raw.call(version, &session.request(&[]).with_session_epoch(epoch));
            assert_eq!((wrong.error_code, wrong.responses.len()), (code, 0), "epoch {epoch}, version {version}");
        }
        let unknown = raw.call(version, &session.request(&[]).with_session_id(session.id ^ 0x7_0000));
        assert_eq!((unknown.error_code, unknown.responses.len()), (70, 0), "version {version}");

        let mut forgets = session.request(&[(&topic, &[(1, 0)])]);
        forgets.forgotten_topics_data = vec![forgotten(version, &topic, &[0])];
        let response = raw.call(version, &forgets);
        assert_eq!((response.error_code, response.session_id), (0, session.id), "errors left the session as it was");
        assert!(partitions(&response).is_empty(), "what was forgotten is not sent, version {version}");
        raw.call(version, &session.request(&[]).with_session_epoch(-1));
    }
}

#[test]
fn k029_every_answer_of_a_session_but_its_errors_carries_the_sessions_id() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "quiet", 2, &[]);
    for version in with_sessions() {
        let (mut session, _) = Session::open(&mut raw, version, &[(&topic, &[(0, 0), (1, 0)])]);
        // `fetch` sees the id each time.
        for _ in 0..3 {
            assert!(session.fetch(&mut raw, &[]).responses.is_empty(), "nothing new, version {version}");
        }
        let waited = session.request(&[]).with_max_wait_ms(20);
        let waited = raw.call(version, &waited);
        session.epoch += 1;
        assert_eq!((waited.error_code, waited.session_id, waited.responses.len()), (0, session.id, 0));

        let refused = session.fetch(&mut raw, &[(&topic, &[(0, 99)])]);
        assert_eq!(only_partition(&refused).error_code, 1, "version {version}");
        let refused = session.fetch(&mut raw, &[(&topic, &[(0, 0), (7, 0)])]);
        assert_eq!(only_partition(&refused).error_code, 3, "no such partition, version {version}");
        let mut forgets = session.request(&[]);
        forgets.forgotten_topics_data = vec![forgotten(version, &topic, &[7])];
        let response = raw.call(version, &forgets);
        assert_eq!((response.error_code, response.session_id), (0, session.id), "version {version}");
        raw.call(version, &session.request(&[]).with_session_epoch(-1));
    }
}

#[test]
fn k030_an_unknown_topic_fails_alone_and_the_others_are_served() {
    let gateway = Gateway::start(Options::new(3));
    let mut raw = Raw::connect(gateway.bootstrap());
    let (topic, missing) = (create(&mut raw, "there", 2, &[]), unknown("not-there"));
    topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["a"]));
    topic.partition(1).append(&mut raw, batch(Writer::NOBODY, 1, &["b"]));
    for version in versions(1) {
        let code = if version < 13 { 3 } else { 100 };
        let both: &[(&Topic, &[(i32, i64)])] = &[(&missing, &[(0, 0), (3, 0)]), (&topic, &[(0, 0), (1, 0)])];
        let seen = |response: &FetchResponse| {
            assert_eq!(response.error_code, 0, "version {version}");
            let unknown = about(version, response, &missing).expect("the unknown topic is answered");
            assert_eq!(unknown.partitions.iter().map(|p| p.error_code).collect::<Vec<_>>(), [code; 2]);
            assert!(unknown.partitions.iter().all(|p| size(p) == 0));
            let known = about(version, response, &topic).expect("the known topic is answered");
            let values: Vec<_> = known.partitions.iter().flat_map(records).map(|(_, value)| value).collect();
            assert_eq!(values, ["a", "b"], "version {version}");
        };
        seen(&raw.call(version, &fetch_request(version, both)));
        if version >= SESSIONS_SINCE {
            let (mut session, first) = Session::open(&mut raw, version, both);
            seen(&first);
            // What fails is told each time, with the rest.
            seen(&session.fetch(&mut raw, &[]));
            raw.call(version, &session.request(&[]).with_session_epoch(-1));
        }
    }
}

#[test]
fn k030_an_unknown_topic_does_not_keep_the_others_from_waiting() {
    let gateway = Gateway::start(Options::new(3));
    let mut writer = Raw::connect(gateway.bootstrap());
    let (topic, missing) = (create(&mut writer, "there", 2, &[]), unknown("not-there"));
    for (offset, version) in (0..).zip([4, 12, 13, 18]) {
        // On one shard, and on both.
        for from in [&[(0, offset)][..], &[(0, offset), (1, 0)]] {
            let both: &[(&Topic, &[(i32, i64)])] = &[(&missing, &[(0, 0)]), (&topic, from)];
            let mut raw = Raw::connect(gateway.bootstrap());
            let request = fetch_request(version, both).with_max_wait_ms(FOR_EVER_MS);
            let waiting = raw.send(version, &request);
            assert!(raw.is_silent(A_MOMENT), "a client that asks again at once would never rest");
            if from.len() == 2 {
                topic.partition(0).append(&mut writer, batch(Writer::NOBODY, 1, &["a"]));
                let response = raw.receive::<FetchRequest>(version, waiting);
                let of = |topic| &about(version, &response, topic).expect("an answer").partitions[0];
                assert_eq!(of(&missing).error_code, if version < 13 { 3 } else { 100 });
                assert_eq!(records(of(&topic)), [(offset, "a".to_owned())]);
            }
        }
    }
    // With nothing to wait for, there is nothing to wait.
    let alone = fetch_request(12, &[(&missing, &[(0, 0)])]).with_max_wait_ms(FOR_EVER_MS);
    assert_eq!(only_partition(&writer.call(12, &alone)).error_code, 3);
}

#[test]
fn k030_a_session_by_name_does_not_go_on_by_id_nor_the_other_way_round() {
    let gateway = Gateway::start(Options::new(1));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "there", 1, &[]);
    for (version, other) in [(7, 13), (12, 13), (12, 18), (13, 12), (18, 7)] {
        let (mut session, _) = Session::open(&mut raw, version, &[(&topic, &[(0, 0)])]);
        let mut mixed = session.request(&[]);
        mixed.topics.clear();
        let response = raw.call(other, &mixed);
        assert_eq!((response.error_code, response.responses.len()), (106, 0), "version {version}, then {other}");
        session.fetch(&mut raw, &[]);
        raw.call(version, &session.request(&[]).with_session_epoch(-1));
    }
}

#[test]
fn k030_a_topic_that_is_deleted_and_made_again_leaves_the_others_of_its_session_alone() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let (steady, old) = (create(&mut raw, "steady", 1, &[]), create(&mut raw, "replaced", 1, &[]));
    let (mut session, _) = Session::open(&mut raw, 13, &[(&old, &[(0, 0)]), (&steady, &[(0, 0)])]);
    super::topic_ids::delete(&mut raw, "replaced");
    let new = create(&mut raw, "replaced", 1, &[]);
    assert_ne!(new.id, old.id);
    steady.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["a"]));
    new.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["b"]));

    let response = session.fetch(&mut raw, &[(&new, &[(0, 0)])]);
    let of = |topic| &about(13, &response, topic).expect("an answer").partitions[0];
    assert_eq!(of(&old).error_code, 100, "its id is no topic's any more");
    assert_eq!(records(of(&steady)), [(0, "a".to_owned())]);
    assert_eq!(records(of(&new)), [(0, "b".to_owned())]);
}

#[test]
fn a_pipelined_session_is_answered_in_the_order_of_its_epochs() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "ahead", 2, &[]);
    let (session, _) = Session::open(&mut raw, 12, &[(&topic, &[(0, 0), (1, 0)])]);
    let frames: Vec<_> = (1..=8)
        .map(|epoch| frame(epoch, 12, &session.request(&[]).with_session_epoch(epoch).with_max_wait_ms(20)))
        .collect();
    raw.send_bytes(&frames.concat());
    for correlation_id in 1..=8 {
        let response = raw.receive::<FetchRequest>(12, correlation_id);
        assert_eq!((response.error_code, response.session_id), (0, session.id));
    }
}
