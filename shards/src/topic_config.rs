//! The settings of one topic: what they come to, how they are changed, and how they are listed. Each is a row of
//! [`TOPIC_SETTINGS`], which says whether it means something here or is only listed.

pub mod iggy;
mod table;

use std::collections::BTreeMap;

use crate::store::embedded::limits::SEGMENT_MS;
use table::Rule;
pub use table::{ConfigType, TOPIC_SETTINGS, TopicSetting, find};

/// What a topic's settings come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicConfig {
    /// `segment.bytes`: a segment is closed before it grows past this.
    pub segment_bytes: u64,
    /// `segment.ms`: a segment is closed by the first append that comes so many milliseconds after its own first.
    pub segment_ms: i64,
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

/// The smallest `segment.ms`. Kafka takes 1, but a segment costs two files, and memory as long as it is kept: this
/// makes at most 10,080 of them in a week.
pub const SEGMENT_MS_MIN: u64 = 60_000;

/// Characters of a client's text that a refusal repeats: it must fit in an answer whose strings end at 32,767
/// bytes, and in a log line.
const SHOWN_CHARS: usize = 80;

/// What a value should have been, in words that go on from "allowed: ".
pub(crate) struct ValueError(String);

impl TopicConfig {
    /// What a topic without settings has.
    pub fn defaults(defaults: TopicDefaults) -> TopicConfig {
        TopicConfig {
            segment_bytes: defaults.segment_bytes,
            segment_ms: SEGMENT_MS,
            max_message_bytes: defaults.max_message_bytes,
            timestamp_type: TimestampType::CreateTime,
            retention_ms: defaults.retention_ms,
            retention_bytes: defaults.retention_bytes,
        }
    }

    /// Reads settings, or says which one is wrong and what is allowed; the answer is then
    /// `INVALID_CONFIG(40)`.
    pub fn parse(config: &BTreeMap<String, String>, defaults: TopicDefaults) -> Result<TopicConfig, String> {
        read(config, defaults).map(|(parsed, _)| parsed)
    }

    /// Takes one value; it as it is stored.
    fn take(&mut self, setting: &TopicSetting, value: &str) -> Result<String, ValueError> {
        if let Rule::ReadOnly(default) = setting.rule {
            return setting.read_only_value(default, value);
        }
        match setting.name {
            "segment.bytes" => {
                let bytes = number(value, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)?;
                self.segment_bytes = bytes;
                Ok(bytes.to_string())
            }
            "segment.ms" => {
                let age = number(value, SEGMENT_MS_MIN, i64::MAX as u64)?;
                self.segment_ms = age as i64;
                Ok(age.to_string())
            }
            "max.message.bytes" => {
                let bytes = number(value, 0, i32::MAX as u64)?;
                self.max_message_bytes = bytes as usize;
                Ok(bytes.to_string())
            }
            "message.timestamp.type" => {
                self.timestamp_type = match value {
                    "CreateTime" => TimestampType::CreateTime,
                    "LogAppendTime" => TimestampType::LogAppendTime,
                    _ => return Err(ValueError("CreateTime or LogAppendTime".into())),
                };
                Ok(value.to_string())
            }
            "cleanup.policy" => {
                let policies: Vec<&str> = parts(value).collect();
                if policies.contains(&"compact") {
                    return Err(ValueError("delete; compaction is not supported".into()));
                }
                if policies.is_empty() || policies.iter().any(|&policy| policy != "delete") {
                    return Err(ValueError("delete".into()));
                }
                Ok("delete".into())
            }
            "retention.ms" => {
                self.retention_ms = bound(value)?;
                Ok(self.retention_ms.to_string())
            }
            "retention.bytes" => {
                self.retention_bytes = bound(value)?;
                Ok(self.retention_bytes.to_string())
            }
            // A row that may be set and that nothing here reads: a test sees that there is none.
            _ => Err(ValueError("nothing".into())),
        }
    }
}

/// What settings come to, and how they are stored: each value in the one form that means it.
fn read(
    config: &BTreeMap<String, String>,
    defaults: TopicDefaults,
) -> Result<(TopicConfig, BTreeMap<String, String>), String> {
    let mut parsed = TopicConfig::defaults(defaults);
    let mut stored = BTreeMap::new();
    for (name, value) in config {
        let setting = find(name).ok_or_else(|| format!("Unknown topic config name: {}", shown(name)))?;
        let taken = parsed.take(setting, value.trim()).map_err(|ValueError(allowed)| {
            format!("Invalid value {:?} for configuration {name}; allowed: {allowed}", shown(value))
        })?;
        stored.insert(name.clone(), taken);
    }
    Ok((parsed, stored))
}

/// A change of a topic's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// These and no others (Kafka's AlterConfigs, and a topic's creation).
    Replace(BTreeMap<String, String>),
    /// These, and the others stay (Kafka's IncrementalAlterConfigs, KIP-339).
    Edit(Vec<(String, ConfigEdit)>),
}

/// A change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigEdit {
    /// Takes this value.
    Set(String),
    /// Takes the default again. A name that is not set, known or not, stays so.
    Delete,
    /// A list has these, too; those that it has already stay where they are.
    Append(String),
    /// A list no longer has these.
    Subtract(String),
}

impl ConfigChange {
    /// The topic's settings after the change, checked; or what is wrong, and the answer is then
    /// `INVALID_CONFIG(40)`.
    pub fn applied(
        self,
        current: &BTreeMap<String, String>,
        defaults: TopicDefaults,
    ) -> Result<BTreeMap<String, String>, String> {
        let next = match self {
            ConfigChange::Replace(config) => config,
            ConfigChange::Edit(edits) => {
                let mut config = current.clone();
                for (name, edit) in edits {
                    edited(&mut config, name, edit, defaults)?;
                }
                config
            }
        };
        read(&next, defaults).map(|(_, stored)| stored)
    }
}

fn edited(
    config: &mut BTreeMap<String, String>,
    name: String,
    edit: ConfigEdit,
    defaults: TopicDefaults,
) -> Result<(), String> {
    let list = |config: &BTreeMap<String, String>, what: &str| match find(&name) {
        Some(setting) if setting.config_type == ConfigType::List => {
            Ok(config.get(&name).cloned().unwrap_or_else(|| setting.default(defaults)))
        }
        Some(_) => Err(format!("Can't {what} to key {name} because its type is not LIST.")),
        None => Err(format!("Unknown topic config name: {}", shown(&name))),
    };
    match edit {
        ConfigEdit::Set(value) => {
            config.insert(name, value);
        }
        ConfigEdit::Delete => {
            config.remove(&name);
        }
        ConfigEdit::Append(values) => {
            let before = list(config, "APPEND")?;
            let mut all: Vec<&str> = parts(&before).collect();
            for value in parts(&values) {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
            config.insert(name, all.join(","));
        }
        ConfigEdit::Subtract(values) => {
            let before = list(config, "SUBTRACT")?;
            let gone: Vec<&str> = parts(&values).collect();
            let left: Vec<&str> = parts(&before).filter(|part| !gone.contains(part)).collect();
            config.insert(name, left.join(","));
        }
    }
    Ok(())
}

/// One line of a topic's settings.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its row.
    pub setting: &'static TopicSetting,
    /// What holds.
    pub value: String,
    /// What holds for a topic that says nothing.
    pub default: String,
    /// Whether it was set for this topic.
    pub is_set: bool,
}

/// All settings of a topic, by name.
pub fn listing(config: &BTreeMap<String, String>, defaults: TopicDefaults) -> impl Iterator<Item = Listed> {
    TOPIC_SETTINGS.iter().map(move |setting| {
        let default = setting.default(defaults);
        let set = config.get(setting.name).cloned();
        Listed { setting, is_set: set.is_some(), value: set.unwrap_or_else(|| default.clone()), default }
    })
}

fn number(value: &str, min: u64, max: u64) -> Result<u64, ValueError> {
    match value.parse::<u64>() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(ValueError(format!("a whole number from {min} to {max}"))),
    }
}

/// A number that may be -1 for "no bound".
fn bound(value: &str) -> Result<i64, ValueError> {
    match value.parse::<i64>() {
        Ok(n) if n >= -1 => Ok(n),
        _ => Err(ValueError("a whole number from -1 (no bound) on".into())),
    }
}

/// The elements of a list.
fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// As much of a client's text as a refusal repeats.
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const DEFAULTS: TopicDefaults = TopicDefaults {
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
        assert_eq!(parse(&[("segment.ms", "60000")]).unwrap().segment_ms, 60_000);
        for wrong in ["59999", "-1", "9223372036854775808"] {
            assert!(parse(&[("segment.ms", wrong)]).unwrap_err().contains("60000"));
        }
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
        let listed: Vec<Listed> = listing(&set, DEFAULTS).collect();
        let line = |name: &str| listed.iter().find(|l| l.setting.name == name).map(|l| (l.value.as_str(), l.is_set));
        assert_eq!(line("retention.ms"), Some(("1000", true)));
        assert_eq!(line("retention.bytes"), Some(("-1", false)));
        assert!(listed.is_sorted_by_key(|line| line.setting.name));
    }

    #[test]
    fn compaction_an_unknown_name_and_a_read_only_setting_off_its_default_are_refused() {
        for compacted in ["compact", "compact,delete", "delete, compact"] {
            assert!(parse(&[("cleanup.policy", compacted)]).unwrap_err().contains("compaction"));
        }
        for policy in ["", ",", "wrong", "delete,wrong"] {
            assert!(parse(&[("cleanup.policy", policy)]).unwrap_err().contains("allowed: delete"), "{policy}");
        }
        assert!(parse(&[("no.such.thing", "1")]).unwrap_err().contains("no.such.thing"));
        assert!(parse(&[("min.insync.replicas", "2")]).unwrap_err().contains("does not let"));
        assert!(parse(&[("min.insync.replicas", "1"), ("cleanup.policy", "delete")]).is_ok());
        assert!(parse(&[("preallocate", "FALSE"), ("min.cleanable.dirty.ratio", "0.50")]).is_ok());
        assert!(parse(&[("preallocate", "true")]).is_err());
    }

    #[test]
    fn every_default_is_a_value_that_is_taken_and_stays_as_it_is() {
        for setting in TOPIC_SETTINGS {
            let default = setting.default(DEFAULTS);
            let (parsed, stored) = read(&BTreeMap::from([(setting.name.into(), default.clone())]), DEFAULTS).unwrap();
            assert_eq!(parsed, TopicConfig::defaults(DEFAULTS), "{}", setting.name);
            assert_eq!(stored, BTreeMap::from([(setting.name.to_string(), default)]));
        }
    }

    fn applied(current: &[(&str, &str)], edits: &[(&str, ConfigEdit)]) -> Result<Vec<(String, String)>, String> {
        let current = current.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let edits = edits.iter().map(|(name, edit)| (name.to_string(), edit.clone())).collect();
        Ok(ConfigChange::Edit(edits).applied(&current, DEFAULTS)?.into_iter().collect())
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn an_edit_leaves_the_others_and_a_replacement_does_not() {
        let current = [("retention.ms", "5"), ("segment.bytes", "1048576")];
        let set = ConfigEdit::Set(" 007 ".into());
        let after = applied(&current, &[("retention.ms", set), ("segment.bytes", ConfigEdit::Delete)]).unwrap();
        assert_eq!(after, [pair("retention.ms", "7")]);
        let stays = applied(&current, &[("no.such", ConfigEdit::Delete)]).unwrap();
        assert_eq!(stays, [pair("retention.ms", "5"), pair("segment.bytes", "1048576")]);
        let current = current.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let replaced = ConfigChange::Replace(BTreeMap::from([pair("retention.bytes", "9")]));
        assert_eq!(replaced.applied(&current, DEFAULTS).unwrap(), BTreeMap::from([pair("retention.bytes", "9")]));
    }

    #[test]
    fn lists_alone_are_appended_to_and_subtracted_from() {
        let append = |value: &str| ConfigEdit::Append(value.into());
        let subtract = |value: &str| ConfigEdit::Subtract(value.into());
        assert_eq!(applied(&[], &[("cleanup.policy", append("delete"))]), Ok(vec![pair("cleanup.policy", "delete")]));
        assert!(applied(&[], &[("cleanup.policy", append("compact"))]).unwrap_err().contains("compaction"));
        assert!(applied(&[], &[("cleanup.policy", subtract("delete"))]).unwrap_err().contains("allowed: delete"));
        assert_eq!(
            applied(&[], &[("cleanup.policy", subtract("compact"))]),
            Ok(vec![pair("cleanup.policy", "delete")])
        );
        for edit in [append("1"), subtract("1")] {
            assert!(applied(&[], &[("retention.ms", edit.clone())]).unwrap_err().contains("not LIST"));
            assert!(applied(&[], &[("no.such", edit)]).unwrap_err().contains("Unknown"));
        }
    }

    #[test]
    fn a_refusal_repeats_a_long_value_in_part() {
        let long = "\u{1F980}".repeat(40_000);
        for wrong in [parse(&[("retention.ms", &long)]), parse(&[(&long, "1")])] {
            assert!(wrong.unwrap_err().len() < 2_000);
        }
        assert!(applied(&[], &[(&long, ConfigEdit::Append(String::new()))]).unwrap_err().len() < 2_000);
    }
}
