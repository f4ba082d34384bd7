//! Faults while offsets are committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{Fault, Rig};
use crate::common::LIVENESS;
use crate::common::librdkafka::create_topic;
use crate::common::member::Member;

fn at(offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, Offset::Offset(offset)).expect("offset");
    list
}

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
    let mut rig = Rig::start();
    create_topic(&rig.gateway, "orders", 1).await;
    // librdkafka leaves off its heartbeats' answers where a commit before them is told to try again.
    let settings = [("session.timeout.ms", "30000")];
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
