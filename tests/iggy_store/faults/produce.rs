//! Faults while records are written.

use std::collections::BTreeSet;

use super::writing::{Writing, assert_once_each_in_order, numbers};
use super::{Fault, Rig};
use crate::common::librdkafka::{read_all, read_from};
use crate::common::partition::unknown;
use crate::common::raw::Raw;
use rdkafka::topic_partition_list::Offset;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_producer_writes_each_record_once_and_in_order_through_every_fault() {
    let mut rig = Rig::start("once", 2).await;
    let writing = Writing::to(&rig.gateway, "once", 2, &[("enable.idempotence", "true")]);
    for fault in Fault::ALL {
        writing.until_it_goes_on(&format!("all before {fault:?}")).await;
        rig.strike(fault).await;
        writing.until_it_goes_on(&format!("{fault:?}")).await;
    }
    let written = writing.end().await;
    rig.until_read_again("once", 2).await;
    let seen = tokio::task::block_in_place(|| read_all(&rig.gateway, "once", 2, written));
    assert_once_each_in_order(&seen, 2, written);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_any_producer_was_acknowledged_is_there_after_every_fault() {
    let mut rig = Rig::start("all", 1).await;
    let writing = Writing::to(&rig.gateway, "all", 1, &[("enable.idempotence", "false"), ("acks", "all")]);
    for fault in Fault::ALL {
        writing.until_it_goes_on(&format!("all before {fault:?}")).await;
        rig.strike(fault).await;
        writing.until_it_goes_on(&format!("{fault:?}")).await;
    }
    let written = writing.end().await;
    rig.until_read_again("all", 1).await;
    let (_, end) = unknown("all").partition(0).ends(&mut Raw::connect(rig.server.bootstrap()));
    let from = [(0, Offset::Beginning)];
    let seen = tokio::task::block_in_place(|| read_from(&rig.gateway, "all", &from, end as usize));
    // What the client sends again after REQUEST_TIMED_OUT may be there twice.
    let there: BTreeSet<usize> = numbers(&seen, 0).into_iter().collect();
    assert_eq!(there, (0..written).collect());
}
