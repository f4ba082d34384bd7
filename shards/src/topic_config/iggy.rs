//! Iggy's options of a topic that are settings here, and settings as Iggy has them.
//!
//! A topic keeps each of them once, by Kafka's name, so that both protocols see a change that came by the other.
//! Iggy's `max_topic_size` is that of all partitions together, Kafka's `retention.bytes` that of each: a topic that gets
//! more partitions keeps the latter.

use super::TopicConfig;

/// The topic keeps messages for so long, in us.
pub const MESSAGE_EXPIRY: &str = "message_expiry";
/// The topic keeps so many bytes.
pub const MAX_TOPIC_SIZE: &str = "max_topic_size";
/// A segment has so many bytes.
pub const SEGMENT_SIZE: &str = "segment_size";

/// All of these options.
pub const OPTIONS: [&str; 3] = [MESSAGE_EXPIRY, MAX_TOPIC_SIZE, SEGMENT_SIZE];

/// What Iggy writes for "never" and "without bound".
const UNBOUNDED: u64 = u64::MAX;
/// What it writes for its own default, which is the same for expiry and size.
const DEFAULT: u64 = 0;

/// The setting that an option of a topic with so many partitions stands for, and the value as it is set; `None` for
/// options that mean nothing here.
pub fn setting_of(option: &str, value: u64, partitions: u32) -> Option<(&'static str, String)> {
    let bounded = |bound: u64| match value {
        UNBOUNDED | DEFAULT => "-1".to_string(),
        _ => bound.min(i64::MAX as u64).to_string(),
    };
    match option {
        MESSAGE_EXPIRY => Some(("retention.ms", bounded(value.div_ceil(1000)))),
        MAX_TOPIC_SIZE => Some(("retention.bytes", bounded((value / u64::from(partitions.max(1))).max(1)))),
        SEGMENT_SIZE => Some(("segment.bytes", value.to_string())),
        _ => None,
    }
}

/// What a topic that Iggy's clients make has where they say nothing: everything is kept for ever. The size of
/// segments is the gateway's.
pub fn defaults() -> impl Iterator<Item = (&'static str, String)> {
    [MESSAGE_EXPIRY, MAX_TOPIC_SIZE].into_iter().filter_map(|option| setting_of(option, UNBOUNDED, 1))
}

/// The value of an option of a topic with so many partitions, as settings have it; `None` for options that mean nothing
/// here.
pub fn option_of(option: &str, config: &TopicConfig, partitions: u32) -> Option<u64> {
    let bounded = |bound: i64, unit: u64| u64::try_from(bound).map_or(UNBOUNDED, |bound| bound.saturating_mul(unit));
    match option {
        MESSAGE_EXPIRY => Some(bounded(config.retention_ms, 1000)),
        MAX_TOPIC_SIZE => Some(bounded(config.retention_bytes, u64::from(partitions.max(1)))),
        SEGMENT_SIZE => Some(config.segment_bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::DEFAULTS;
    use super::*;

    #[test]
    fn what_iggy_sets_is_what_it_reads() {
        for (option, value) in [
            (MESSAGE_EXPIRY, 7_000_000),
            (MESSAGE_EXPIRY, UNBOUNDED),
            (MAX_TOPIC_SIZE, 1 << 40),
            (MAX_TOPIC_SIZE, UNBOUNDED),
            (SEGMENT_SIZE, 1 << 20),
        ] {
            let (name, set) = setting_of(option, value, 4).unwrap();
            let config = TopicConfig::parse(&[(name.to_string(), set)].into(), DEFAULTS).unwrap();
            assert_eq!(option_of(option, &config, 4), Some(value), "{option}");
        }
        assert_eq!(setting_of("compression_algorithm", 1, 1), None);
    }

    #[test]
    fn the_size_of_a_topic_is_that_of_its_partitions_together() {
        assert_eq!(setting_of(MAX_TOPIC_SIZE, 9_000, 3), Some(("retention.bytes", "3000".into())));
        assert_eq!(setting_of(MAX_TOPIC_SIZE, 2, 3), Some(("retention.bytes", "1".into())));
    }

    #[test]
    fn nothing_expires_before_its_time_and_defaults_are_iggys() {
        assert_eq!(setting_of(MESSAGE_EXPIRY, 1, 3), Some(("retention.ms", "1".into())));
        assert_eq!(setting_of(MESSAGE_EXPIRY, 0, 3), Some(("retention.ms", "-1".into())));
        let defaults: Vec<_> = defaults().collect();
        assert_eq!(defaults, [("retention.ms", "-1".into()), ("retention.bytes", "-1".into())]);
    }
}
