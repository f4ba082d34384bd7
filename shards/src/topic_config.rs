//! The settings of one topic: which mean something here, which are only listed.

use std::collections::BTreeMap;

/// What a topic's settings come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// `segment.bytes`: a segment is closed before it grows past this.
    pub segment_bytes: u64,
    /// `max.message.bytes`: the largest record batch that is taken, its header included.
    pub max_message_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `retention.ms`: a segment whose newest record is older than this many milliseconds goes, by its own
    /// timestamp, or by the time of the last append when no record has one; -1: none does.
    pub retention_ms: i64,
    /// `retention.bytes`: the oldest segments go while a partition has this many bytes without them; -1: no
    /// bound.
    pub retention_bytes: i64,
}

/// Whose clock stamps a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The broker's, when the batch is appended.
    LogAppendTime,
}

/// What holds where a topic says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicDefaults {
    /// See [`TopicConfig::segment_bytes`].
    pub segment_bytes: u64,
    /// See [`TopicConfig::max_message_bytes`].
    pub max_message_bytes: usize,
    /// See [`TopicConfig::retention_ms`].
    pub retention_ms: i64,
    /// See [`TopicConfig::retention_bytes`].
    pub retention_bytes: i64,
}

/// The smallest `segment.bytes` (Kafka 4 takes no less than 1 MiB).
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The largest `segment.bytes`: Kafka's type is a signed 32-bit integer.
pub const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// Settings of Kafka that ringgate lists with Kafka's default and does not let be changed.
pub const READ_ONLY: &[(&str, &str)] = &[
    ("compression.type", "producer"),
    ("delete.retention.ms", "86400000"),
    ("file.delete.delay.ms", "60000"),
    ("flush.messages", "9223372036854775807"),
    ("flush.ms", "9223372036854775807"),
    ("follower.replication.throttled.replicas", ""),
    ("index.interval.bytes", "4096"),
    ("leader.replication.throttled.replicas", ""),
    ("max.compaction.lag.ms", "9223372036854775807"),
    ("message.timestamp.after.max.ms", "3600000"),
    ("message.timestamp.before.max.ms", "9223372036854775807"),
    ("min.cleanable.dirty.ratio", "0.5"),
    ("min.compaction.lag.ms", "0"),
    ("min.insync.replicas", "1"),
    ("preallocate", "false"),
    ("segment.index.bytes", "10485760"),
    ("segment.jitter.ms", "0"),
    ("segment.ms", "604800000"),
    ("unclean.leader.election.enable", "false"),
];

impl TopicConfig {
    /// What a topic without settings has.
    pub fn defaults(defaults: TopicDefaults) -> TopicConfig {
        TopicConfig {
            segment_bytes: defaults.segment_bytes,
            max_message_bytes: defaults.max_message_bytes,
            timestamp_type: TimestampType::CreateTime,
            retention_ms: defaults.retention_ms,
            retention_bytes: defaults.retention_bytes,
        }
    }

    /// Reads settings, or says which one is wrong and what is allowed; the answer is then
    /// `INVALID_CONFIG(40)`.
    pub fn parse(config: &BTreeMap<String, String>, defaults: TopicDefaults) -> Result<TopicConfig, String> {
        let mut parsed = TopicConfig::defaults(defaults);
        for (name, value) in config {
            match name.as_str() {
                "segment.bytes" => {
                    parsed.segment_bytes = number(name, value, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)?;
                }
                "max.message.bytes" => {
                    parsed.max_message_bytes = number(name, value, 0, i32::MAX as u64)? as usize;
                }
                "message.timestamp.type" => {
                    parsed.timestamp_type = match value.as_str() {
                        "CreateTime" => TimestampType::CreateTime,
                        "LogAppendTime" => TimestampType::LogAppendTime,
                        _ => return Err(refused(name, value, "CreateTime or LogAppendTime")),
                    };
                }
                "cleanup.policy" => match value.as_str() {
                    "delete" => {}
                    "compact" | "compact,delete" | "delete,compact" => {
                        return Err(refused(name, value, "delete; compaction is not supported"));
                    }
                    _ => return Err(refused(name, value, "delete")),
                },
                "retention.ms" => parsed.retention_ms = bound(name, value)?,
                "retention.bytes" => parsed.retention_bytes = bound(name, value)?,
                other => match READ_ONLY.iter().find(|(known, _)| *known == other) {
                    Some((_, default)) if default == value => {}
                    Some((_, default)) => {
                        return Err(refused(name, value, &format!("{default:?} only: the setting is read-only")));
                    }
                    None => return Err(format!("Unknown topic config name: {name}")),
                },
            }
        }
        Ok(parsed)
    }
}

/// One line of a topic's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Kafka's name.
    pub name: &'static str,
    /// What holds.
    pub value: String,
    /// Whether it can be set for a topic at all.
    pub read_only: bool,
    /// Whether it was set for this topic.
    pub is_set: bool,
}

/// All settings of a topic, by name.
pub fn listing(config: &BTreeMap<String, String>, defaults: TopicDefaults) -> Vec<Listed> {
    let settable = [
        ("cleanup.policy", "delete".to_string()),
        ("max.message.bytes", defaults.max_message_bytes.to_string()),
        ("message.timestamp.type", "CreateTime".to_string()),
        ("retention.bytes", defaults.retention_bytes.to_string()),
        ("retention.ms", defaults.retention_ms.to_string()),
        ("segment.bytes", defaults.segment_bytes.to_string()),
    ];
    let settable = settable.into_iter().map(|(name, default)| Listed {
        name,
        value: config.get(name).cloned().unwrap_or(default),
        read_only: false,
        is_set: config.contains_key(name),
    });
    let fixed = READ_ONLY.iter().map(|&(name, value)| Listed {
        name,
        value: value.to_string(),
        read_only: true,
        is_set: config.contains_key(name),
    });
    let mut all: Vec<Listed> = settable.chain(fixed).collect();
    all.sort_by_key(|listed| listed.name);
    all
}

fn number(name: &str, value: &str, min: u64, max: u64) -> Result<u64, String> {
    match value.trim().parse::<u64>() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(refused(name, value, &format!("a whole number from {min} to {max}"))),
    }
}

/// A number that may be -1 for "no bound".
fn bound(name: &str, value: &str) -> Result<i64, String> {
    match value.trim().parse::<i64>() {
        Ok(n) if n >= -1 => Ok(n),
        _ => Err(refused(name, value, "a whole number from -1 (no bound) on")),
    }
}

fn refused(name: &str, value: &str, allowed: &str) -> String {
    format!("Invalid value {value:?} for configuration {name}; allowed: {allowed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: TopicDefaults = TopicDefaults {
        segment_bytes: 1 << 30,
        max_message_bytes: 1_048_588,
        retention_ms: 604_800_000,
        retention_bytes: -1,
    };

    fn parse(pairs: &[(&str, &str)]) -> Result<TopicConfig, String> {
        TopicConfig::parse(&pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(), DEFAULTS)
    }

    #[test]
    fn a_topic_without_settings_has_the_defaults() {
        let config = parse(&[]).unwrap();
        assert_eq!((config.segment_bytes, config.max_message_bytes), (1 << 30, 1_048_588));
        assert_eq!(config.timestamp_type, TimestampType::CreateTime);
        assert_eq!((config.retention_ms, config.retention_bytes), (604_800_000, -1));
    }

    #[test]
    fn what_means_something_is_taken_within_its_range() {
        let config = parse(&[("segment.bytes", "1048576"), ("message.timestamp.type", "LogAppendTime")]).unwrap();
        assert_eq!((config.segment_bytes, config.timestamp_type), (1 << 20, TimestampType::LogAppendTime));
        assert!(parse(&[("segment.bytes", "1048575")]).unwrap_err().contains("1048576"));
        assert!(parse(&[("max.message.bytes", "-1")]).unwrap_err().contains("max.message.bytes"));
    }

    #[test]
    fn retention_is_taken_from_minus_1_on_and_listed() {
        let config = parse(&[("retention.ms", "-1"), ("retention.bytes", "0")]).unwrap();
        assert_eq!((config.retention_ms, config.retention_bytes), (-1, 0));
        let most = i64::MAX.to_string();
        let config = parse(&[("retention.ms", &most), ("retention.bytes", &most)]).unwrap();
        assert_eq!((config.retention_ms, config.retention_bytes), (i64::MAX, i64::MAX));
        for name in ["retention.ms", "retention.bytes"] {
            for wrong in ["-2", "", "7d", "9223372036854775808"] {
                assert!(parse(&[(name, wrong)]).unwrap_err().contains(name), "{name} = {wrong:?}");
            }
        }
        let set = BTreeMap::from([("retention.ms".to_string(), "1000".to_string())]);
        let listed = listing(&set, DEFAULTS);
        let line = |name: &str| listed.iter().find(|line| line.name == name).map(|l| (l.value.as_str(), l.is_set));
        assert_eq!(line("retention.ms"), Some(("1000", true)));
        assert_eq!(line("retention.bytes"), Some(("-1", false)));
        assert!(listed.is_sorted_by_key(|line| line.name));
    }

    #[test]
    fn compaction_an_unknown_name_and_a_read_only_setting_off_its_default_are_refused() {
        assert!(parse(&[("cleanup.policy", "compact")]).unwrap_err().contains("compaction"));
        assert!(parse(&[("no.such.thing", "1")]).unwrap_err().contains("no.such.thing"));
        assert!(parse(&[("min.insync.replicas", "2")]).unwrap_err().contains("read-only"));
        assert!(parse(&[("min.insync.replicas", "1"), ("cleanup.policy", "delete")]).is_ok());
    }
}
