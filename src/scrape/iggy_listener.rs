//! The Iggy listener.

use super::ShardScrape;
use crate::admin::Family;

/// What the Iggy listener does; nothing where there is none.
pub(super) fn families(shards: &[ShardScrape]) -> Vec<Family> {
    let mut requests = Family::counter("ringgate_iggy_requests_total", "Requests of Iggy clients, by command.");
    let mut waiting = Family::gauge("ringgate_iggy_waiting_polls", "Polls and fetches that wait for messages.");
    let mut sessions = None;
    for shard in shards {
        let number = shard.report.shard.to_string();
        let Some(iggy) = &shard.iggy else { continue };
        for &(command, count) in &iggy.requests {
            requests.push(&[("shard", &number), ("command", command)], count);
        }
        waiting.push(&[("shard", &number)], iggy.waiting);
        sessions = Some(iggy.sessions);
    }
    let Some(sessions) = sessions else { return Vec::new() };
    let sessions = Family::gauge("ringgate_iggy_sessions", "Sessions of Iggy clients.").with(&[], sessions);
    vec![sessions, waiting, requests]
}
