//! Records over what Iggy takes.

use crate::common::faulty_links::FaultyLinks;
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::partition::unknown;
use crate::common::raw::{Raw, Writer, batch};

const MESSAGE_TOO_LARGE: i16 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k130_a_record_over_iggys_bounds_is_refused_and_the_connections_to_iggy_stay() {
    let server = Gateway::start(Options::new(1).iggy());
    let links = FaultyLinks::to(server.iggy());
    let options = Options::new(1).on_iggy_at(links.address()).set("message-max-bytes", 90_000_000);
    let gateway = Gateway::start(options);
    create_topic(&gateway, "large", 1).await;
    create_topic(&gateway, "other", 1).await;
    let (large, other) = (unknown("large").partition(0), unknown("other").partition(0));
    tokio::task::block_in_place(|| {
        let mut raw = Raw::connect(gateway.bootstrap());
        // The bounds: one request of the gateway's, and one payload of Iggy's.
        let sizes = [((32 << 20) - 4_096, 0), (32 << 20, MESSAGE_TOO_LARGE), (64_000_001, MESSAGE_TOO_LARGE)];
        let mut expected_end = 0;
        for (nth, (size, code)) in (0..).zip(sizes) {
            assert_eq!(other.append(&mut raw, batch(Writer::NOBODY, 1, &["before"])), nth * 2);
            let links_before = links.links();
            let produced = large.produce(&mut raw, 9, Some(batch(Writer::NOBODY, 1, &[&"x".repeat(size)])));
            assert_eq!(produced.error_code, code, "{size} bytes: {:?}", produced.error_message);
            assert_eq!(other.append(&mut raw, batch(Writer::NOBODY, 1, &["after"])), nth * 2 + 1);
            assert!(links.links() >= links_before, "no connection to Iggy was lost");
            expected_end += i64::from(code == 0);
            assert_eq!(large.ends(&mut raw), (0, expected_end), "{size} bytes");
        }
    });
}
