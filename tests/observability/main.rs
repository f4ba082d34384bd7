//! The dashboard and the alerts in `docs/observability/` fit what gateways report: every query is held against live
//! scrapes of gateways that clients have used, and every metric is looked at by somebody.
//!
//! `tests/observability/run` has the same queries answered by a real Prometheus.

#[path = "../common/mod.rs"]
mod common;
mod dashboard;
mod live;
mod promql;
mod rules;

/// Metrics that no panel and no alert shows, and why.
const NOT_SHOWN: [(&str, &str); 1] =
    [("ringgate_partition_lag", "by option; a panel of the partitions of one group is the reader's own")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_is_about_what_gateways_report_and_every_metric_is_asked_for() {
    let reported = live::reported().await;
    let mut asked = std::collections::BTreeSet::new();
    let queries = dashboard::queries().into_iter().chain(rules::queries());
    for (of, query) in queries {
        asked.extend(promql::check(&of, &query, &reported));
    }
    for family in reported.keys() {
        let left_out = NOT_SHOWN.iter().any(|(name, _)| name == family);
        assert_ne!(asked.contains(family), left_out, "{family} is either asked for or left out with a reason");
    }
}
