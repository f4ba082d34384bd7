//! What `/metrics` says of lag.

use std::time::Duration;

use super::WatchSettings;
use super::census::Census;
use crate::admin::Family;

/// Lag as of a census that took so long.
pub fn families(census: &Census, took: Duration, settings: &WatchSettings, now_ms: i64) -> Vec<Family> {
    let mut lag = Family::gauge(
        "ringgate_group_lag",
        "Records between what a group has committed and the ends of its partitions, of the groups that lag the most.",
    );
    for group in census.by_lag().take(settings.group_series_max) {
        lag.push(&[("group", group.group.as_str())], group.lag.unwrap_or_default());
    }
    // Groups that have caught up fill what is left, so that a series does not end when its lag does.
    let room = settings.group_series_max.saturating_sub(census.lagging.len());
    for group in census.groups.iter().filter(|group| group.lag == Some(0)).take(room) {
        lag.push(&[("group", group.group.as_str())], 0u64);
    }
    let known = census.groups.iter().filter(|group| group.lag.is_some()).count();
    let age = (now_ms - census.at_ms).max(0) as f64 / 1000.0;
    let mut all = vec![
        lag,
        Family::gauge(
            "ringgate_group_lag_left_out",
            "Groups whose lag is known and not shown: metrics_group_series_max.",
        )
        .with(&[], known.saturating_sub(settings.group_series_max)),
        Family::gauge("ringgate_groups_lagging", "Groups that lag at all.").with(&[], census.lagging.len()),
        Family::gauge("ringgate_census_age_seconds", "How old what is said of lag is.").with(&[], age),
        Family::gauge("ringgate_census_seconds", "How long it took to ask all shards for it.")
            .with(&[], took.as_secs_f64()),
        Family::gauge(
            "ringgate_census_offsets_left_out",
            "Committed offsets beyond the 1,000,000 that a census looks at; their groups have no lag.",
        )
        .with(&[], census.offsets_left_out),
    ];
    if let Some(lag) = census.lag {
        all.push(Family::gauge("ringgate_lag", "The lag of all groups together.").with(&[], lag));
    }
    if settings.partition_lag {
        let mut lag = Family::gauge(
            "ringgate_partition_lag",
            "Records between what a group has committed and the end of a partition, of the 10,000 largest, with \
             metrics_partition_lag.",
        );
        for of in &census.partition_lags {
            let (group, topic) = (&census.groups[of.group as usize], &census.topics[of.topic as usize]);
            let partition = of.partition.to_string();
            let labels =
                [("group", group.group.as_str()), ("topic", &*topic.topic.name), ("partition", partition.as_str())];
            lag.push(&labels, of.lag);
        }
        all.push(lag);
    }
    all
}

/// All of these, for the manual: their names, helps and labels are those of any scrape; their values are nobody's.
pub fn example() -> Vec<Family> {
    let settings = WatchSettings { census_interval: None, group_series_max: 1, partition_lag: true };
    families(&Census::example(), Duration::ZERO, &settings, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::exposition;

    #[test]
    fn the_groups_that_lag_the_most_are_shown_and_the_others_are_counted() {
        let settings = WatchSettings { census_interval: None, group_series_max: 0, partition_lag: false };
        let text = exposition(&families(&Census::example(), Duration::ZERO, &settings, 2_000));
        assert!(!text.contains("ringgate_group_lag{") && !text.contains("ringgate_partition_lag"), "{text}");
        assert!(text.contains("ringgate_group_lag_left_out 1\n") && text.contains("ringgate_lag 3\n"), "{text}");
        assert!(text.contains("ringgate_census_age_seconds 2\n"), "{text}");
        let text = exposition(&example());
        assert!(text.contains("ringgate_group_lag{group=\"billing\"} 3\n"), "{text}");
        let partition = "ringgate_partition_lag{group=\"billing\",topic=\"orders\",partition=\"0\"} 3\n";
        assert!(text.contains(partition), "{text}");
    }
}
