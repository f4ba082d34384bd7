//! Faults while a group rebalances.

use super::writing::Writing;
use super::{Fault, Rig};
use crate::common::eventually;
use crate::common::member::Member;

const PARTITIONS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_group_comes_to_rest_with_all_partitions_assigned_once_through_every_fault() {
    let mut rig = Rig::start("work", PARTITIONS as i32).await;
    let writing = Writing::to(&rig.gateway, "work", PARTITIONS, &[("enable.idempotence", "true")]);
    let stays = Member::join(&rig.gateway, "workers", &["work"], &[]);
    stays.until_assigned(PARTITIONS).await;
    for fault in Fault::ALL {
        // The join, the sync, and what the group has to write of both meet the fault.
        let comes = Member::join(&rig.gateway, "workers", &["work"], &[]);
        rig.strike(fault).await;
        eventually(&format!("both have their half after {fault:?}"), || {
            let (one, other) = (stays.assignment(), comes.assignment());
            (one.len(), other.len()) == (PARTITIONS / 2, PARTITIONS / 2) && one.is_disjoint(&other)
        })
        .await;
        let before = (stays.seen().len(), comes.seen().len());
        eventually(&format!("both read after {fault:?}"), || {
            stays.seen().len() > before.0 && comes.seen().len() > before.1
        })
        .await;
        comes.close().await;
        stays.until_assigned(PARTITIONS).await;
    }
    let written = writing.end().await;
    assert!(written > 0);
    stays.close().await;
}
