//! Time that passes without the gateway: nobody is punished for a heartbeat that it did not take.

use std::time::{Duration, Instant};

use crate::common::gateway::{Gateway, Options};
use crate::common::peer::members;
use crate::common::raw::Raw;
use crate::common::store::Store;
use crate::common::{LIVENESS, eventually};
use crate::connections::found_group_with_session;
use crate::routing::heartbeat;

#[test]
fn a_gateway_that_was_suspended_expels_nobody() {
    let mut gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let members = ["one", "two", "three"].map(|group| (group, found_group_with_session(&mut raw, group, 10_000)));
    // Longer than any of the sessions.
    gateway.suspend(Duration::from_secs(11));
    for (group, member) in &members {
        let deadline = Instant::now() + LIVENESS;
        let code = loop {
            match heartbeat(&gateway, group, member, 1) {
                // COORDINATOR_NOT_AVAILABLE: the lease may be somebody else's by now, so it is renewed first.
                15 if Store::of_this_run() == Store::Iggy && Instant::now() < deadline => {}
                code => break code,
            }
        };
        assert_eq!(code, 0, "{group}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_silent_for_its_session_is_expelled() {
    let gateway = Gateway::start(Options::new(2));
    let mut raw = Raw::connect(gateway.bootstrap());
    let member = found_group_with_session(&mut raw, "workers", 6_000);
    let other = found_group_with_session(&mut raw, "others", 300_000);
    // How long that takes is not known: a shard that was not run for a while gives its members as much more.
    eventually("the group has no member", || members(&mut raw, "workers") == 0).await;
    assert_eq!(heartbeat(&gateway, "workers", &member, 1), 25, "UNKNOWN_MEMBER_ID");
    assert_eq!(heartbeat(&gateway, "others", &other, 1), 0, "a longer session goes on");
}
