//! Groups: what operators of Kafka and Redpanda know of theirs.

use ringgate_group::{Departure, GroupStats};

use super::ShardScrape;
use crate::admin::Family;

/// What the groups of the shards have, and what they have done.
pub(super) fn families(shards: &[ShardScrape]) -> Vec<Family> {
    let mut states = Family::gauge("ringgate_groups", "Groups that the shard coordinates, by state.");
    let mut members = Family::gauge("ringgate_group_members", "Members of these groups.");
    let mut departed = Family::counter(
        "ringgate_group_members_departed_total",
        "Members that are none any more, by why: left, session_timeout, rebalance_timeout, disconnected before their first \
         join was answered, replaced by one with their instance id.",
    );
    let mut took = Family::histogram(
        "ringgate_rebalance_seconds",
        "From the first change that makes a group rebalance until it is stable, failed attempts included.",
    );
    let mut committed = Family::histogram(
        "ringgate_commit_seconds",
        "From a commit's arrival at the shard that coordinates its group until it is kept or refused.",
    );
    for shard in shards {
        let number = shard.report.shard.to_string();
        let stats = &shard.report.group_stats;
        for (state, groups) in &shard.report.groups {
            states.push(&[("shard", &number), ("state", state)], *groups);
        }
        members.push(&[("shard", &number)], shard.report.members);
        for why in Departure::ALL {
            departed.push(&[("shard", &number), ("reason", why.name())], stats.departed(why));
        }
        took.push_recorded(&[("shard", &number)], &stats.rebalance_took);
        committed.push_recorded(&[("shard", &number)], &shard.report.commit_took);
    }
    let mut all = vec![states, members, departed, took, committed];
    let mut each = |mut family: Family, value: fn(&GroupStats) -> u64| {
        for shard in shards {
            family.push(&[("shard", &shard.report.shard.to_string())], value(&shard.report.group_stats));
        }
        all.push(family);
    };
    each(
        Family::gauge(
            "ringgate_group_assigned_partitions",
            "Partitions that members have, as of their groups' last assignments.",
        ),
        |stats| stats.assigned_partitions as u64,
    );
    each(Family::gauge("ringgate_group_offsets", "Committed offsets that groups have."), |stats| stats.offsets as u64);
    each(Family::counter("ringgate_group_members_joined_total", "Members that joined."), |stats| stats.joined);
    each(Family::counter("ringgate_rebalances_total", "Rebalances that ended in a stable group."), |stats| {
        stats.rebalances_completed
    });
    each(
        Family::counter(
            "ringgate_rebalances_failed_total",
            "Rebalances that had to begin again after everybody had joined, or ended without members.",
        ),
        |stats| stats.rebalances_failed,
    );
    each(Family::counter("ringgate_group_epochs_total", "Epochs of consumer groups (KIP-848) that began."), |stats| {
        stats.epochs
    });
    each(
        Family::counter(
            "ringgate_group_reconciliations_total",
            "Steps of members of consumer groups (KIP-848) towards their targets.",
        ),
        |stats| stats.reconciliations,
    );
    each(
        Family::counter("ringgate_group_heartbeats_total", "Heartbeats that kept a member's session going."),
        |stats| stats.heartbeats,
    );
    each(Family::counter("ringgate_offsets_committed_total", "Offsets that were committed and are kept."), |stats| {
        stats.offsets_committed
    });
    each(Family::counter("ringgate_offsets_expired_total", "Offsets whose retention was over."), |stats| {
        stats.offsets_expired
    });
    all
}
