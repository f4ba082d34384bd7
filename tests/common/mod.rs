//! The harness of the end-to-end tests: a gateway process ([`gateway`]), stock clients on it
//! ([`librdkafka`], [`member`]), and a client that writes frames by hand ([`raw`], [`frames`], [`partition`],
//! [`fetch`], [`record_batch`], [`served`]) for what no stock client would send; [`proxy`] and [`faulty_links`] break
//! connections; [`metrics`] reads what the gateway reports, [`scrape`] all of it and strictly.
//!
//! What must stay true: a gateway has a loopback address of its own, so that tests run side by side and a
//! restart finds its ports again; every wait is for an event and ends at [`LIVENESS`], which tells a hang
//! from slowness and never judges speed; a failed test shows what its gateway wrote.

// Each test binary includes the whole harness and uses its own part of it.
#![allow(dead_code)]

pub mod faulty_links;
pub mod fetch;
pub mod frames;
pub mod gateway;
pub mod group;
pub mod http;
pub mod librdkafka;
pub mod member;
pub mod metrics;
pub mod partition;
pub mod peer;
pub mod proxy;
pub mod raw;
pub mod record_batch;
pub mod scrape;
pub mod served;
pub mod settings;
pub mod store;

use std::future::Future;
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung. Far above what a loaded machine needs.
pub const LIVENESS: Duration = Duration::from_secs(60);

/// Between two looks at a state that announces its changes to nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waits until `look` is true.
pub async fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIVENESS;
    while !look() {
        assert!(Instant::now() < deadline, "hung: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The output of `future`, which must come before [`LIVENESS`] is over.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIVENESS, future).await {
        Ok(output) => output,
        Err(_) => panic!("hung: {what}"),
    }
}

/// Runs `work`, which blocks, away from the test's executor.
pub async fn blocking<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    within(what, tokio::task::spawn_blocking(work)).await.expect("blocking work panicked")
}
