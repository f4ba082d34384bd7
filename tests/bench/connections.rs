//! `churn` and `idle`: connections that come and go, and those that stay.

use std::time::Duration;

use ringgate_bench::plan::Load;
use ringgate_bench::scenario::churn::{self, Churn, Close};
use ringgate_bench::scenario::idle::{self, Idle, Kind};

use crate::common::gateway::{Gateway, Options};
use crate::run::{common, open, run, undisturbed};

#[test]
fn connections_come_and_go() {
    let gateway = Gateway::start(Options::new(2));
    for (close, burst) in [(Close::Fin, 1), (Close::Rst, 10)] {
        let common = common(&gateway, open(100.0), Duration::from_secs(2));
        let plan = churn::Plan::new(&common, close, burst).expect("a plan");
        let result = run::<Churn>(&gateway, &common, &plan);
        for series in ["tcp.rt", "api_versions.rt", "metadata.rt", "churn.rt"] {
            assert_eq!(result.latencies[series].count, 200, "{series}");
        }
    }
}

#[test]
fn connections_of_every_kind_are_held_and_cost_memory_by_a_straight_line() {
    for kind in [Kind::Idle, Kind::HalfOpen, Kind::SlowReader] {
        let hold = || {
            // A fresh one for each, which has no memory from before to use again.
            let gateway = Gateway::start(Options::new(1));
            let mut common = common(&gateway, Load::Own, Duration::from_secs(4));
            common.connections = 900;
            let plan = idle::Plan::new(&common, kind, 3, 10, 1_000.0).expect("a plan");
            run::<Idle>(&gateway, &common, &plan)
        };
        // One executor reads how many both hold; the other has no more than a moment's start.
        let result = undisturbed(hold, |result| result.values["held_connections"].value == 900.0);
        assert_eq!(result.values["held_connections"].value, 900.0, "{:?}", result.notes);
        let per_conn = result.values["rss_per_conn"];
        // Not a judgement of the gateway: what a connection costs is neither nothing nor a megabyte.
        assert!((1.0..1e6).contains(&per_conn.value), "{kind:?}: {per_conn:?}, {:?}", result.notes);
    }
}
