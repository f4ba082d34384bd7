//! Which families are kept of all that a server tells.

use std::str::FromStr;

/// Ringgate's own, which are there without being asked for: what operators of groups look at (joins, syncs, heartbeats and
/// commits with their latency, rebalances, who went and why, groups by state, limits that were met).
pub(super) const FAMILIES: [&str; 16] = [
    "ringgate_commit_seconds",
    "ringgate_errors_total",
    "ringgate_group_assigned_partitions",
    "ringgate_group_epochs_total",
    "ringgate_group_heartbeats_total",
    "ringgate_group_members",
    "ringgate_group_members_departed_total",
    "ringgate_group_members_joined_total",
    "ringgate_group_reconciliations_total",
    "ringgate_groups",
    "ringgate_limit_hit_total",
    "ringgate_offsets_committed_total",
    "ringgate_rebalance_seconds",
    "ringgate_rebalances_failed_total",
    "ringgate_rebalances_total",
    "ringgate_request_seconds",
];

/// Families by the beginning of their names, beside ringgate's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// As given.
    pub prefixes: Vec<Prefix>,
}

/// How names of families begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(pub String);

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        if text.is_empty() || !text.chars().all(is_name) {
            return Err("the beginning of a metric's name: kafka_server_, redpanda_kafka_request".into());
        }
        Ok(Prefix(text.to_owned()))
    }
}

impl Choice {
    /// Whether the family is one of them.
    pub(super) fn has(&self, family: &str) -> bool {
        FAMILIES.binary_search(&family).is_ok() || self.prefixes.iter().any(|prefix| family.starts_with(&prefix.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ringgates_families_are_those_that_it_has() {
        let page = include_str!("../../../docs/metrics.md");
        for family in FAMILIES {
            assert!(page.contains(&format!("| `{family}` |")), "{family} is not in docs/metrics.md");
        }
        assert!(FAMILIES.is_sorted());
    }

    #[test]
    fn others_are_chosen_by_how_they_begin() {
        let choice = Choice { prefixes: vec!["kafka_server_".parse().unwrap()] };
        assert!(choice.has("ringgate_groups") && choice.has("kafka_server_requests_total"));
        assert!(!choice.has("ringgate_groups_lagging") && !choice.has("jvm_threads_current"));
        for none in ["", "kafka.server", "a b", ".*"] {
            assert!(none.parse::<Prefix>().is_err(), "{none}");
        }
    }
}
