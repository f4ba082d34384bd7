//! `commit-storm`: members of classic groups commit, and every offset reads back as it was acknowledged.

use std::time::Duration;

use ringgate_bench::plan::Load;
use ringgate_bench::scenario::commit_storm::{CommitStorm, Membership, Plan};

use crate::common::gateway::{Gateway, Options};
use crate::run::{common, open, run};

fn plan(membership: Membership) -> Plan {
    Plan { groups: 5, members: 4, partitions: 2, fetch_share: 0.2, hot_share: None, membership, keep_topics: false }
}

#[test]
fn commits_of_joined_members_are_durable_and_read_back() {
    let gateway = Gateway::start(Options::new(2));
    let common = common(&gateway, open(200.0), Duration::from_secs(2));
    let plan = plan(Membership::Joined).checked(&common).expect("a plan");
    let result = run::<CommitStorm>(&gateway, &common, &plan);
    assert_eq!((result.values["members"].value, result.values["groups"].value), (20.0, 5.0));
    assert_eq!(result.latencies["commit.rt"].count, 320);
    assert_eq!(result.latencies["offset_fetch.rt"].count, 80);
    assert_eq!(result.values["offsets"].value, 640.0);
    let server = result.server.expect("its process was sampled");
    assert!(server.cpu_us_per_request.is_some_and(|cost| cost > 0.0), "{server:?}");
    assert!(server.threads.iter().any(|thread| thread.name.starts_with("shard-")), "{:?}", server.threads);
}

#[test]
fn members_that_are_always_busy_and_nobodys_commits_are_served_too() {
    let gateway = Gateway::start(Options::new(1));
    for membership in [Membership::Joined, Membership::Standalone] {
        let mut common = common(&gateway, Load::Closed, Duration::from_secs(1));
        common.prefix = format!("bench-{}", membership.name());
        let plan = plan(membership).checked(&common).expect("a plan");
        let result = run::<CommitStorm>(&gateway, &common, &plan);
        // A member at least makes one request.
        assert!(result.values["requests"].value >= 20.0, "{:?}", result.values);
    }
}
