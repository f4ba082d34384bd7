//! `/readyz`: whether clients should be sent here.

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::http::get;

#[tokio::test]
async fn a_gateway_is_ready_when_all_shards_serve() {
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    eventually("ready", || get(&gateway, "/readyz") == (200, "ready\n".into())).await;
    assert_eq!(get(&gateway, "/healthz").0, 200);
}

#[tokio::test]
async fn a_gateway_whose_lease_ran_out_is_alive_and_not_ready_until_iggy_answers_again() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy().set("admin-listen", "127.0.0.1:0"));
    eventually("ready", || get(&gateway, "/readyz").0 == 200).await;
    gateway.server().halt();
    eventually("the lease is over", || {
        let (status, missing) = get(&gateway, "/readyz");
        status == 503 && missing.contains("shard 1 answers no groups")
    })
    .await;
    assert_eq!(get(&gateway, "/healthz").0, 200);
    gateway.server().go_on();
    eventually("ready again", || get(&gateway, "/readyz").0 == 200).await;
}
