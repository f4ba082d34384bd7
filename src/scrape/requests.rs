//! Requests of Kafka's clients, and those of shards to each other.

use ringgate_group::ErrorCode;

use super::ShardScrape;
use crate::admin::Family;

/// What became of requests, by API.
pub(super) fn families(shards: &[ShardScrape]) -> [Family; 4] {
    let mut read = Family::counter("ringgate_requests_total", "Requests read, by API.");
    let mut closed = Family::counter(
        "ringgate_requests_closed_total",
        "Requests that closed their connection in the place of an answer: Kafka has no error for them.",
    );
    let mut took = Family::histogram(
        "ringgate_request_seconds",
        "From a request read whole until its answer is handed to the socket, waiting in a group or for records included.",
    );
    let mut errors = Family::counter(
        "ringgate_errors_total",
        "Errors in answers: each code of the whole, and of each topic, partition, group, member or resource in it.",
    );
    for shard in shards {
        let number = shard.report.shard.to_string();
        for api in &shard.requests {
            let labels = [("shard", &*number), ("api", api.api)];
            read.push(&labels, api.read);
            closed.push(&labels, api.closed);
            took.push_recorded(&labels, &api.took);
            for (code, count) in api.errors.iter() {
                errors.push(&[labels[0], labels[1], ("error", ErrorCode(code).name())], count);
            }
        }
    }
    [read, closed, took, errors]
}

/// What shards asked of each other.
pub(super) fn hops(shards: &[ShardScrape]) -> [Family; 2] {
    let mut took = Family::histogram(
        "ringgate_hop_seconds",
        "From the moment that another shard asked this one until it took the request up.",
    );
    let mut full = Family::counter(
        "ringgate_mailbox_full_total",
        "How often another shard found this one's mailbox full and kept its requests back.",
    );
    for shard in shards {
        let number = shard.report.shard.to_string();
        took.push_recorded(&[("shard", &number)], &shard.report.hops.took);
        let owner = usize::from(shard.report.shard);
        let times = shards.iter().filter_map(|asking| asking.report.hops.full.get(owner)).sum::<u64>();
        full.push(&[("shard", &number)], times);
    }
    [took, full]
}
