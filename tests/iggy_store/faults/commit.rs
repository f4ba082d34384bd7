//! Faults while offsets are committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{Fault, Rig};
use crate::common::member::Member;
use crate::common::peer::{Peer, form};
use crate::common::raw::Raw;
use crate::common::{LIVENESS, within};

fn at(offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, Offset::Offset(offset)).expect("offset");
    list
}

const COORDINATOR_NOT_AVAILABLE: i16 = 15;

/// What a consumer commits again at.
fn is_retriable(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::*;
    matches!(
        code,
        CoordinatorNotAvailable | CoordinatorLoadInProgress | NotCoordinator | RequestTimedOut | WaitingForCoordinator
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn commits_that_were_acknowledged_outlive_every_fault_and_no_member_is_lost() {
    let mut rig = Rig::start("orders", 1).await;
    // librdkafka takes its coordinator for dead whenever a commit is to be tried again, and meanwhile sends few
    // heartbeats: the shortest session would end by its own clock. This is its default.
    let settings = [("session.timeout.ms", "45000")];
    let member = Arc::new(Member::join(&rig.gateway, "readers", &["orders"], &settings));
    member.until_assigned(1).await;
    let mut offset = 0;
    for fault in Fault::ALL {
        // One commit after the other, for as long as the fault lasts and until one is taken afterwards.
        let over = Arc::new(AtomicBool::new(false));
        let committing = tokio::spawn({
            let (member, over) = (member.clone(), over.clone());
            async move {
                let mut acknowledged = offset;
                let mut deadline = None;
                loop {
                    let is_over = over.load(Ordering::Relaxed);
                    offset += 1;
                    match member.commit_offsets(at(offset)).await {
                        Ok(()) => {
                            acknowledged = offset;
                            if is_over {
                                return acknowledged;
                            }
                        }
                        Err(error) => {
                            let code = error.rdkafka_error_code().expect("a code");
                            assert!(is_retriable(code), "{fault:?}: {error}, after {acknowledged}");
                            let began = *deadline.get_or_insert_with(Instant::now);
                            assert!(began.elapsed() < LIVENESS, "no commit is taken after {fault:?}");
                        }
                    }
                }
            }
        });
        rig.strike(fault).await;
        over.store(true, Ordering::Relaxed);
        offset = committing.await.expect("commits");
        let committed = member.committed(at(0)).await;
        assert_eq!(committed.elements()[0].offset(), Offset::Offset(offset), "after {fault:?}");
    }
    assert_eq!(member.changes().len(), 1, "nobody rebalanced: {:?}", member.changes());
    // What another gateway reads from Iggy is the same.
    rig.gateway.kill9();
    tokio::task::block_in_place(|| rig.start_gateway_again());
    let committed = member.committed(at(0)).await;
    assert_eq!(committed.elements()[0].offset(), Offset::Offset(offset));
    let member = Arc::into_inner(member).expect("the only owner");
    member.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_short_session_outlives_every_fault_while_commits_wait() {
    let mut rig = Rig::start_patient("orders", 1).await;
    // Several times what a commit waits for; the shortest there is, 6 s, leaves a loaded machine too little.
    let mut peer = Peer::connect(rig.gateway.bootstrap(), "readers").timeouts(10_000, 10_000);
    tokio::task::block_in_place(|| form(std::slice::from_mut(&mut peer)));
    rig.hurry();
    peer.raw = Raw::connect(rig.gateway.bootstrap());
    let over = Arc::new(AtomicBool::new(false));
    let member = tokio::task::spawn_blocking({
        let over = over.clone();
        move || {
            let mut taken = 0;
            for offset in 0.. {
                // A commit, and behind it on the same connection a heartbeat.
                let codes = (peer.commit("orders", offset), peer.heartbeat());
                let is_known = |code| [0, COORDINATOR_NOT_AVAILABLE].contains(&code);
                assert!(is_known(codes.0) && is_known(codes.1), "{codes:?} at offset {offset}");
                if codes == (0, 0) {
                    taken += 1;
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
            taken
        }
    });
    for fault in Fault::ALL {
        rig.strike(fault).await;
    }
    over.store(true, Ordering::Relaxed);
    assert!(within("the member's last commit", member).await.expect("the member") > 0);
}
