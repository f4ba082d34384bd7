//! `--server-metrics` on a gateway: what it counted is what was done to it.

use std::time::Duration;

use ringgate_bench::plan::Load;
use ringgate_bench::result::{MetricKind, RunResult, metric};
use ringgate_bench::scenario::fleet::{self, Flags, Fleet};
use ringgate_bench::scrape::{Choice, Scraping};

use crate::common::gateway::{Gateway, Options};
use crate::common::metrics::admin;
use crate::run::{common, run_and_scrape};

/// Groups form in its first seconds, on a busy machine too.
const LONG: Duration = Duration::from_secs(10);

fn found(result: &RunResult, name: &str) -> f64 {
    metric(result, &format!("metrics.{name}")).unwrap_or_else(|| panic!("{name}: {:?}", result.server_metrics)).value
}

#[test]
fn a_fleets_groups_are_in_the_gateways_own_metrics() {
    let gateway = Gateway::start(Options::new(2).set("admin-listen", "127.0.0.1:0"));
    let url = format!("http://{}/metrics", admin(&gateway)).parse().expect("a URL");
    let choice = Choice { prefixes: vec!["process_open_fds".parse().expect("a prefix")] };
    let flags = Flags {
        groups: 5,
        members: 4,
        hb_interval: "250ms".into(),
        commit_interval: "500ms".into(),
        ..Flags::default()
    };
    let plan = fleet::Plan::new(flags).expect("a plan");
    let result =
        run_and_scrape::<Fleet>(&gateway, &common(&gateway, Load::Own, LONG), &plan, Some(Scraping { url, choice }));
    let metrics = result.server_metrics.as_ref().expect("it was scraped");
    assert!(metrics.scrapes >= 2 && metrics.covered_s > 1.0, "{metrics:?}");

    // On a busy machine the first scrape may find members that have joined already, or all of them.
    let joined = found(&result, "ringgate_group_members_joined_total.increase");
    assert!((0.0..=20.0).contains(&joined), "{joined}");
    assert_eq!(found(&result, "ringgate_groups(Stable).max"), 5.0);
    assert_eq!(found(&result, "ringgate_group_members.last"), 20.0);
    assert!(found(&result, "ringgate_rebalances_total.increase") >= 1.0);
    // Each is answered when the group is formed, seconds after it joined.
    assert!(found(&result, "ringgate_request_seconds(JoinGroup).count") >= joined);
    let requests = |name: &str| result.values[name].value;
    // Twenty members, four heartbeats and two commits each per second.
    for (api, asked, rate) in [("Heartbeat", "heartbeat.requests", 80.0), ("OffsetCommit", "commit.requests", 40.0)] {
        let counted = found(&result, &format!("ringgate_request_seconds({api}).count"));
        // What came while no scrape was there to see it, and one for each member that was on its way.
        let unseen = (LONG.as_secs_f64() - metrics.covered_s + 1.0) * rate + 20.0;
        let missed = (counted - requests(asked)).abs();
        assert!(counted > 0.0 && missed <= unseen, "{api}: {counted} of {}, {metrics:?}", requests(asked));
    }
    let (p50, p99) = (found(&result, "ringgate_commit_seconds.p50"), found(&result, "ringgate_commit_seconds.p99"));
    assert!(p50 > 0.0 && p50 <= p99, "{p50} {p99}");
    assert!(found(&result, "process_open_fds.max") >= 20.0, "each member has a connection");
    let moved = metrics.moved().0;
    assert!(moved.iter().any(|series| series.kind == MetricKind::Histogram && !series.over_time["p99"].is_empty()));
}
