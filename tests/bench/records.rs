//! `produce`, `consume` and `e2e`: records into topics, out of them, and through them.

use std::time::Duration;

use ringgate_bench::batch::KeyChoice;
use ringgate_bench::consumer::{Settings, Verify};
use ringgate_bench::plan::Load;
use ringgate_bench::scenario::consume::{self, Consume, GroupPlan};
use ringgate_bench::scenario::e2e::{self, EndToEnd};
use ringgate_bench::scenario::produce::{self, Produce};
use ringgate_bench::scenario::records::RecordsPlan;

use crate::common::gateway::{Gateway, Options};
use crate::run::{common, open, run};

const WINDOW: Duration = Duration::from_secs(2);

#[test]
fn records_of_every_codec_and_of_keys_are_taken() {
    let gateway = Gateway::start(Options::new(2));
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let common = common(&gateway, open(500.0), WINDOW);
        let keys = KeyChoice::Zipf { skew: 1.0 };
        let records = RecordsPlan { partitions: 3, keys, codec: codec.parse().unwrap(), ..RecordsPlan::default() };
        let result = run::<Produce>(&gateway, &common, &produce::Plan::new(records, &common).expect("a plan"));
        assert_eq!(result.latencies["produce.rt"].count, 1_000, "{codec}");
        assert_eq!(result.values["records"].value, 1_000.0, "{codec}");
    }
}

#[test]
fn what_goes_in_comes_out_once_and_in_order() {
    let gateway = Gateway::start(Options::new(2));
    for codec in ["none", "lz4"] {
        let mut common = common(&gateway, open(2_000.0), WINDOW);
        common.connections = 4;
        let records = RecordsPlan {
            topics: 2,
            partitions: 3,
            sizes: "100..3000".parse().unwrap(),
            codec: codec.parse().unwrap(),
            ..RecordsPlan::default()
        };
        let plan = e2e::Plan::new(records, Settings::default(), &common).expect("a plan");
        let result = run::<EndToEnd>(&gateway, &common, &plan);
        assert_eq!(result.latencies["e2e.rt"].count, 4_000, "{codec}");
        assert_eq!(result.checks.violations["lost"], 0);
        assert_eq!(result.values["unacknowledged"].value, 0.0);
    }
}

#[test]
fn a_closed_loop_goes_through_whole_too() {
    let gateway = Gateway::start(Options::new(2));
    let mut common = common(&gateway, Load::Closed, WINDOW);
    common.connections = 2;
    let records = RecordsPlan { partitions: 2, ..RecordsPlan::default() };
    let plan = e2e::Plan::new(records, Settings::default(), &common).expect("a plan");
    let result = run::<EndToEnd>(&gateway, &common, &plan);
    let records = result.values["records"].value;
    assert!(records > 0.0);
    assert_eq!(result.latencies["e2e.rt"].count as f64, records, "all that was acknowledged has come");
}

#[test]
fn a_backlog_is_drained_and_a_tail_is_kept_up_with() {
    let gateway = Gateway::start(Options::new(2));
    for (load, backlog) in [(Load::Own, 20_000_000), (open(1_000.0), 0), (open(500.0), 5_000_000)] {
        let duration = if backlog > 0 && matches!(load, Load::Own) { Duration::from_secs(120) } else { WINDOW };
        let mut common = common(&gateway, load, duration);
        common.connections = 2;
        let plan = consume::Plan {
            records: RecordsPlan { partitions: 4, ..RecordsPlan::default() },
            fetch: Settings { verify: Verify::Records, ..Settings::default() },
            backlog,
            producers: 2,
            group: None,
        };
        let plan = consume::Plan::new(plan, &common).expect("a plan");
        let result = run::<Consume>(&gateway, &common, &plan);
        assert!(result.values["records"].value > 0.0, "{:?}", result.values);
        if matches!(load, Load::Own) {
            assert_eq!(result.values["records"].value * 1_024.0, result.values["backlog_bytes"].value);
        }
    }
}

#[test]
fn a_group_divides_a_topic_and_its_members_read_all_of_it() {
    let gateway = Gateway::start(Options::new(2));
    let mut common = common(&gateway, Load::Own, Duration::from_secs(120));
    common.connections = 3;
    let group = GroupPlan { commit_interval: Duration::from_millis(500), ..GroupPlan::default() };
    let plan = consume::Plan {
        records: RecordsPlan { topics: 2, partitions: 4, ..RecordsPlan::default() },
        fetch: Settings::default(),
        backlog: 5_000_000,
        producers: 2,
        group: Some(group),
    };
    let plan = consume::Plan::new(plan, &common).expect("a plan");
    let result = run::<Consume>(&gateway, &common, &plan);
    // Members that join one after the other may read some of it twice, which is what groups do.
    let (read, there) = (result.values["records"].value * 1_024.0, result.values["backlog_bytes"].value);
    assert!(read >= there, "{read} of {there} bytes");
    assert!(result.values["rebalance_s"].value > 0.0);
    assert!(result.values["rebalances"].value >= 3.0, "{:?}", result.values);
    assert!(result.latencies["commit.rt"].count >= 1);
}
