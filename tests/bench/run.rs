//! A run within the test's own process.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::{ListGroupsRequest, MetadataRequest};
use ringgate_bench::engine::{self, Interrupt, Pace, RunError, RunOptions};
use ringgate_bench::plan::{Arrivals, Common, Load};
use ringgate_bench::result::RunResult;
use ringgate_bench::scenario::Scenario;
use ringgate_bench::scrape::Scraping;
use ringgate_client::Security;

use crate::common::LIVENESS;
use crate::common::gateway::Gateway;
use crate::common::raw::Raw;

/// Runs that the machine may disturb before one must be as it was meant.
const ATTEMPTS: usize = 20;

/// `rate` slots per second, evenly.
pub fn open(rate: f64) -> Load {
    Load::Open { rate, arrivals: Arrivals::Constant }
}

/// What every run here has: a window of `duration` without a warm-up.
pub fn common(gateway: &Gateway, load: Load, duration: Duration) -> Common {
    Common {
        bootstrap: vec![gateway.bootstrap().to_string()],
        name: "ringgate".into(),
        load,
        duration,
        warmup: Duration::ZERO,
        connections: 1,
        in_flight: 5,
        max_outstanding: 10_000,
        request_timeout: LIVENESS,
        seed: 7,
        security: Security::default(),
        api_versions: BTreeMap::new(),
        source_ips: Vec::new(),
        prefix: "bench".into(),
    }
}

/// Topics and groups of runs.
pub fn left_on(gateway: &Gateway) -> Vec<String> {
    let metadata = Raw::connect(gateway.bootstrap()).call(9, &MetadataRequest::default().with_topics(None));
    let mut left: Vec<String> =
        metadata.topics.iter().flat_map(|topic| &topic.name).map(|name| name.to_string()).collect();
    for node in &metadata.brokers {
        let address = format!("{}:{}", node.host, node.port).parse().expect("an address");
        let groups = Raw::connect(address).call(4, &ListGroupsRequest::default()).groups;
        left.extend(groups.iter().map(|group| group.group_id.to_string()));
    }
    left.retain(|name| name.starts_with("bench"));
    left.sort();
    left.dedup();
    left
}

/// Does it until the machine leaves it alone, which `is_so` judges; what came of it last if it never does.
pub fn undisturbed(attempt: impl Fn() -> RunResult, is_so: impl Fn(&RunResult) -> bool) -> RunResult {
    let mut result = attempt();
    for _ in 1..ATTEMPTS {
        if is_so(&result) {
            break;
        }
        result = attempt();
    }
    result
}

/// Runs it on two executors, with the gateway's process sampled, until all of its schedule was sent: slots that a machine
/// without time leaves over for longer than a second at the end are never sent, and counted.
pub fn run<S: Scenario>(gateway: &Gateway, common: &Common, plan: &S::Plan) -> RunResult {
    undisturbed(
        || run_and_scrape::<S>(gateway, common, plan, None),
        |result| {
            ["unsent", "other.unsent"]
                .iter()
                .all(|name| result.values.get(*name).is_none_or(|unsent| unsent.value == 0.0))
        },
    )
}

/// The same, with the gateway's metrics scraped.
#[track_caller]
pub fn run_and_scrape<S: Scenario>(
    gateway: &Gateway,
    common: &Common,
    plan: &S::Plan,
    server_metrics: Option<Scraping>,
) -> RunResult {
    let result = begin::<S>(gateway, common, plan, server_metrics).expect("a run that begins");
    went_well(gateway, &result);
    result
}

/// As [`run`], for one that cuts connections of its own, on which something may be asked just then.
#[track_caller]
pub fn run_with_cuts<S: Scenario>(gateway: &Gateway, common: &Common, plan: &S::Plan) -> RunResult {
    let mut result = begin::<S>(gateway, common, plan, None).expect("a run that begins");
    result.errors.retain(|error| error.name != "DISCONNECTED");
    went_well(gateway, &result);
    result
}

#[track_caller]
fn went_well(gateway: &Gateway, result: &RunResult) {
    assert!(result.errors.is_empty(), "{:?}", result.errors);
    assert!(result.checks.violations.values().all(|count| *count == 0), "{:?}", result.checks);
    let server = result.server.as_ref().expect("its process was sampled");
    assert!(!server.restarted && server.cpu_s > 0.0, "{server:?}");
    let is_kept = result.notes.iter().any(|note| note.contains("--keep-topics"));
    let left = left_on(gateway);
    assert_eq!(left.is_empty(), !is_kept, "{left:?} are left: {:?}", result.notes);
}

/// As [`run_and_scrape`], for a run that need not begin, or go well.
pub fn begin<S: Scenario>(
    gateway: &Gateway,
    common: &Common,
    plan: &S::Plan,
    server_metrics: Option<Scraping>,
) -> Result<RunResult, RunError> {
    let how = RunOptions {
        id: "test".into(),
        executors: 2,
        cpus: None,
        pace: Pace::Sleep,
        server_pid: Some(gateway.ready().pid),
        server_metrics,
        command: Vec::new(),
        interrupt: Interrupt::new(),
        error_limit: 1.0,
    };
    engine::run::<S>(common, plan, &how, &mut ()).map(|finished| finished.result)
}
