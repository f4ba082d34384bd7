//! A server that does not answer.

use kafka_protocol::messages::MetadataRequest;

use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit_codes, commit_request, try_committed};
use crate::common::librdkafka::create_topic;
use crate::common::partition::unknown;
use crate::common::raw::{Raw, Writer, batch};
use crate::common::{blocking, eventually, fetch};

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
/// The first when nothing was sent, REQUEST_TIMED_OUT when it may have been written.
const PRODUCE_AGAIN: [i16; 2] = [NOT_LEADER_OR_FOLLOWER, 7];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn k129_requests_end_by_the_gateways_own_limit_while_the_server_is_suspended() {
    const TOPICS: [&str; 3] = ["a", "b", "c"];
    // The set-up must go well, however long it takes; then there is another gateway that soon gives up.
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    for topic in TOPICS {
        create_topic(&gateway, topic, 1).await;
    }
    let bootstrap = gateway.bootstrap();
    let write = move |raw: &mut Raw, topic: &str, what: &str| {
        let records = batch(Writer::NOBODY, 1, &[&format!("{topic} {what}")]);
        unknown(topic).partition(0).produce(raw, 9, Some(records)).error_code
    };
    blocking("first records", move || {
        let mut raw = Raw::connect(bootstrap);
        for topic in TOPICS {
            assert_eq!(write(&mut raw, topic, "before"), 0);
        }
    })
    .await;
    gateway.kill9();
    tokio::task::block_in_place(|| gateway.restart(Options::new(2).on_iggy().set("iggy-timeout", "2s")));

    gateway.server().halt();
    let producing = TOPICS.map(|topic| {
        blocking("a produce", move || {
            let code = write(&mut Raw::connect(bootstrap), topic, "meanwhile");
            assert!(PRODUCE_AGAIN.contains(&code), "{topic}: {code}");
        })
    });
    let committing = blocking("a commit", move || {
        let codes = commit_codes(&mut Raw::connect(bootstrap), 8, &commit_request("g", "a", &[(0, 1)]));
        assert_eq!(codes, [COORDINATOR_NOT_AVAILABLE]);
    });
    let fetching = blocking("a fetch", move || {
        // At the end, where the gateway remembers nothing and has to ask.
        let fetched = unknown("b").partition(0).fetch(&mut Raw::connect(bootstrap), 12, 1);
        assert!([0, 6].contains(&fetched.error_code), "{}", fetched.error_code);
        assert!(fetched.records.is_none_or(|records| records.is_empty()));
    });
    let looking = blocking("metadata", move || {
        let metadata = Raw::connect(bootstrap).call(12, &MetadataRequest::default().with_topics(None));
        assert_eq!(metadata.topics.len(), TOPICS.len());
    });
    // Clients that go while their calls are on the way.
    let leaving = blocking("a client that goes", move || {
        for topic in TOPICS {
            let records = batch(Writer::NOBODY, 1, &[&format!("{topic} and away")]);
            let mut raw = Raw::connect(bootstrap);
            raw.send(9, &unknown(topic).partition(0).produce_request(9, -1, Some(records)));
        }
    });
    let [a, b, c] = producing;
    tokio::join!(a, b, c, committing, fetching, looking, leaving);
    gateway.server().go_on();

    // Every call has its own answer again, and every topic its own records.
    for topic in TOPICS {
        eventually(&format!("{topic} is written again"), || {
            tokio::task::block_in_place(|| write(&mut Raw::connect(bootstrap), topic, "afterwards") == 0)
        })
        .await;
    }
    eventually("commits are taken again", || {
        tokio::task::block_in_place(|| {
            commit_codes(&mut Raw::connect(bootstrap), 8, &commit_request("g", "a", &[(0, 2)])) == [0]
        })
    })
    .await;
    eventually("the commit is there", || {
        let committed = try_committed(&mut Raw::connect(bootstrap), "g", "a", &[0]);
        match committed {
            Ok(offsets) => {
                assert_eq!(offsets, [2]);
                true
            }
            Err(code) if [COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE].contains(&code) => false,
            Err(code) => panic!("{code}"),
        }
    })
    .await;
    for topic in TOPICS {
        let mut texts: Vec<String> = Vec::new();
        eventually(&format!("{topic} is read again"), || {
            let fetched = unknown(topic).partition(0).fetch(&mut Raw::connect(bootstrap), 12, 0);
            assert!([0, NOT_LEADER_OR_FOLLOWER].contains(&fetched.error_code), "{}", fetched.error_code);
            texts = fetch::records(&fetched).into_iter().map(|(_, text)| text).collect();
            !texts.is_empty()
        })
        .await;
        assert!(texts.iter().all(|text| text.starts_with(&format!("{topic} "))), "{topic}: {texts:?}");
        assert_eq!(texts[0], format!("{topic} before"));
        assert!(texts.contains(&format!("{topic} afterwards")), "{topic}: {texts:?}");
    }
}

#[test]
fn k129_no_time_at_all_is_no_timeout_that_can_be_set() {
    let nobody = "127.0.0.1:1".parse().expect("an address");
    let (status, written) = Gateway::start_in_vain(&Options::new(1).on_iggy_at(nobody).set("iggy-timeout", "0s"));
    assert_eq!(status.code(), Some(2), "{written}");
    assert!(written.contains("iggy_timeout") || written.contains("iggy-timeout"), "{written}");
}
