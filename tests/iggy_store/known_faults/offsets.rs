//! What Iggy's stored offsets may do to committed ones.

use std::time::Duration;

use crate::common::gateway::{Gateway, Options};
use crate::common::group::{commit, committed};
use crate::common::librdkafka::{create_topic, producer, unkeyed};
use crate::common::member::Member;
use crate::common::raw::Raw;
use crate::common::within;

/// Both the gateway and its server die and come back: nothing is in any memory.
fn restart_both(gateway: &mut Gateway) {
    gateway.kill9();
    gateway.server().kill9();
    gateway.server().restart(Options::new(1).iggy());
    gateway.restart(Options::new(2).on_iggy());
}

async fn write(gateway: &Gateway, topic: &str, count: usize) {
    let producer = producer(gateway, &[]);
    for n in 0..count {
        within("send", producer.send(unkeyed(topic, &n.to_string()), Duration::ZERO)).await.expect("delivered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k126_offset_0_of_an_empty_partition_and_the_end_of_a_log_can_be_committed() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "empty", 1).await;
    create_topic(&gateway, "full", 1).await;
    write(&gateway, "full", 3).await;
    tokio::task::block_in_place(|| {
        let mut raw = Raw::connect(gateway.bootstrap());
        commit(&mut raw, "readers", "empty", &[(0, 0)]);
        commit(&mut raw, "readers", "full", &[(0, 3)]);
        restart_both(&mut gateway);
        let mut raw = Raw::connect(gateway.bootstrap());
        assert_eq!(committed(&mut raw, "readers", "empty", &[0]), [0]);
        assert_eq!(committed(&mut raw, "readers", "full", &[0]), [3]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k127_a_committed_offset_comes_back_as_it_was_and_is_the_next_to_be_read() {
    let mut gateway = Gateway::start(Options::new(2).on_iggy());
    create_topic(&gateway, "t", 1).await;
    write(&gateway, "t", 10).await;
    let groups = [("at-0", 0), ("at-1", 1), ("at-5", 5), ("at-9", 9)];
    tokio::task::block_in_place(|| {
        let mut raw = Raw::connect(gateway.bootstrap());
        for (group, offset) in groups {
            commit(&mut raw, group, "t", &[(0, offset)]);
            assert_eq!(committed(&mut raw, group, "t", &[0]), [offset]);
        }
        restart_both(&mut gateway);
        let mut raw = Raw::connect(gateway.bootstrap());
        for (group, offset) in groups {
            assert_eq!(committed(&mut raw, group, "t", &[0]), [offset], "{group}");
        }
    });
    for (group, offset) in groups {
        let member = Member::join(&gateway, group, &["t"], &[]);
        let left = 10 - offset as usize;
        member.until_seen(left).await;
        let seen: Vec<i64> = member.seen().iter().map(|record| record.offset).collect();
        assert_eq!(seen, (offset..10).collect::<Vec<_>>(), "{group}");
        member.close().await;
    }
}
