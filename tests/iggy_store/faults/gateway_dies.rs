//! The gateway dies between Iggy's write and the answer to the client.

use std::time::Duration;

use super::Rig;
use super::writing::assert_once_each_in_order;
use crate::common::librdkafka::{producer, read_all, unkeyed};
use crate::common::partition::unknown;
use crate::common::raw::Raw;
use crate::common::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_batch_that_iggy_wrote_and_no_gateway_acknowledged_is_there_once() {
    let mut rig = Rig::start("once", 1).await;
    let producer = producer(&rig.gateway, &[("enable.idempotence", "true"), ("linger.ms", "0")]);
    let partition = unknown("once").partition(0);
    let mut at_server = Raw::connect(rig.server.bootstrap());
    let mut written = 0;
    for _ in 0..5 {
        let acknowledged = written.to_string();
        within("send", producer.send(unkeyed("once", &acknowledged), Duration::ZERO)).await.expect("delivered");
        written += 1;
        rig.links.hold_answers(true);
        let value = written.to_string();
        let delivery = producer.send_result(unkeyed("once", &value)).map_err(|(error, _)| error).expect("queued");
        written += 1;
        eventually("Iggy has the record", || partition.ends(&mut at_server).1 == written as i64).await;
        rig.gateway.kill9();
        rig.links.cut();
        rig.links.hold_answers(false);
        tokio::task::block_in_place(|| rig.start_gateway_again());
        within("the delivery", delivery).await.expect("reported").expect("delivered");
        assert_eq!(partition.ends(&mut at_server).1, written as i64, "the client's second try wrote nothing");
    }
    let seen = tokio::task::block_in_place(|| read_all(&rig.gateway, "once", 1, written));
    assert_once_each_in_order(&seen, 1, written);
}
