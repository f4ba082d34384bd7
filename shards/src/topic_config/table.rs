//! Every setting of a topic that clients may name: Kafka 4's, apart from those of tiered storage.

use super::{TopicDefaults, ValueError};

/// Kafka's types of settings, by Kafka's numbers (KIP-569).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    /// `true` or `false`.
    Boolean = 1,
    /// Any text.
    String = 2,
    /// A signed number of 32 bits.
    Int = 3,
    /// A signed number of 64 bits.
    Long = 5,
    /// A floating-point number.
    Double = 6,
    /// Texts with commas between them.
    List = 7,
}

/// A row of the table.
#[derive(Debug)]
pub struct TopicSetting {
    /// Kafka's name of it for a topic.
    pub name: &'static str,
    /// Kafka's name of the broker's setting that gives its default.
    pub broker_name: Option<&'static str>,
    /// What values it takes.
    pub config_type: ConfigType,
    /// What it does, in a sentence or two.
    pub documentation: &'static str,
    pub(super) rule: Rule,
}

/// Where a setting's default comes from, and whether it may be anything else.
#[derive(Debug)]
pub(super) enum Rule {
    /// May be set; the default is the gateway's own setting.
    Gateway(fn(TopicDefaults) -> String),
    /// May be set; the default is Kafka's.
    Settable(&'static str),
    /// Kafka's default always holds.
    ReadOnly(&'static str),
}

impl TopicSetting {
    /// Whether a topic may have no other value than the default.
    pub fn read_only(&self) -> bool {
        matches!(self.rule, Rule::ReadOnly(_))
    }

    /// What holds for a topic that says nothing.
    pub fn default(&self, defaults: TopicDefaults) -> String {
        match self.rule {
            Rule::Gateway(of) => of(defaults),
            Rule::Settable(default) | Rule::ReadOnly(default) => default.to_string(),
        }
    }

    /// The default as it is stored, when `value` means the same.
    pub(super) fn read_only_value(&self, default: &'static str, value: &str) -> Result<String, ValueError> {
        let same = match self.config_type {
            ConfigType::Boolean => value.eq_ignore_ascii_case(default),
            ConfigType::Int | ConfigType::Long => value.parse::<i64>().ok() == default.parse().ok(),
            ConfigType::Double => value.parse::<f64>().ok() == default.parse().ok(),
            ConfigType::String | ConfigType::List => value == default,
        };
        if same {
            Ok(default.to_string())
        } else {
            Err(ValueError(format!("{default:?} only: ringgate does not let {} be changed", self.name)))
        }
    }
}

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static TopicSetting> {
    TOPIC_SETTINGS.iter().find(|setting| setting.name == name)
}

const fn row(
    name: &'static str,
    broker_name: &'static str,
    config_type: ConfigType,
    rule: Rule,
    documentation: &'static str,
) -> TopicSetting {
    let broker_name = if broker_name.is_empty() { None } else { Some(broker_name) };
    TopicSetting { name, broker_name, config_type, documentation, rule }
}

use ConfigType::{Boolean, Double, Int, List, Long, String as Text};
use Rule::{Gateway, ReadOnly, Settable};

/// All of them, by name.
#[rustfmt::skip]
pub static TOPIC_SETTINGS: &[TopicSetting] = &[
    row("cleanup.policy", "log.cleanup.policy", List, Settable("delete"),
        "What becomes of old segments: delete removes them by retention.ms and retention.bytes."),
    row("compression.type", "compression.type", Text, ReadOnly("producer"),
        "Batches stay compressed as the producer sent them."),
    row("delete.retention.ms", "log.cleaner.delete.retention.ms", Long, ReadOnly("86400000"),
        "How long compaction would keep tombstones; topics are not compacted."),
    row("file.delete.delay.ms", "log.segment.delete.delay.ms", Long, ReadOnly("60000"),
        "Segments are removed at once."),
    row("flush.messages", "log.flush.interval.messages", Long, ReadOnly("9223372036854775807"),
        "When files are synced is the gateway's setting fsync."),
    row("flush.ms", "log.flush.interval.ms", Long, ReadOnly("9223372036854775807"),
        "When files are synced is the gateway's setting fsync."),
    row("follower.replication.throttled.replicas", "", List, ReadOnly(""),
        "There is one copy of a partition, so nothing is replicated."),
    row("index.interval.bytes", "log.index.interval.bytes", Int, ReadOnly("4096"),
        "Bytes of records between two entries of a segment's index."),
    row("leader.replication.throttled.replicas", "", List, ReadOnly(""),
        "There is one copy of a partition, so nothing is replicated."),
    row("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", Long, ReadOnly("9223372036854775807"),
        "How late compaction may come; topics are not compacted."),
    row("max.message.bytes", "message.max.bytes", Int, Gateway(|d| d.max_message_bytes.to_string()),
        "The largest record batch that is taken, compressed as it is and its header included."),
    row("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", Long, ReadOnly("3600000"),
        "How far ahead of the gateway's clock a record's timestamp may be (CreateTime)."),
    row("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", Long, ReadOnly("9223372036854775807"),
        "How far behind the gateway's clock a record's timestamp may be."),
    row("message.timestamp.type", "log.message.timestamp.type", Text, Settable("CreateTime"),
        "Whose clock stamps records: CreateTime, the producer's; LogAppendTime, the gateway's."),
    row("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", Double, ReadOnly("0.5"),
        "When compaction would begin; topics are not compacted."),
    row("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", Long, ReadOnly("0"),
        "How early compaction may come; topics are not compacted."),
    row("min.insync.replicas", "min.insync.replicas", Int, ReadOnly("1"),
        "There is one copy of a partition."),
    row("preallocate", "log.preallocate", Boolean, ReadOnly("false"),
        "Segments grow as they are written."),
    row("retention.bytes", "log.retention.bytes", Long, Gateway(|d| d.retention_bytes.to_string()),
        "The oldest segments go while a partition has this many bytes without them; -1: no bound."),
    row("retention.ms", "log.retention.ms", Long, Gateway(|d| d.retention_ms.to_string()),
        "A segment goes when its newest record is older than this; -1: none does."),
    row("segment.bytes", "log.segment.bytes", Int, Gateway(|d| d.segment_bytes.to_string()),
        "A segment is closed before it grows past this."),
    row("segment.index.bytes", "log.index.size.max.bytes", Int, ReadOnly("10485760"),
        "Indexes grow with their segments."),
    row("segment.jitter.ms", "log.roll.jitter.ms", Long, ReadOnly("0"),
        "Nothing is taken off segment.ms."),
    row("segment.ms", "log.roll.ms", Long, Settable("604800000"),
        "A segment is closed by the first record that comes so long after its own first, by the gateway's clock."),
    row("unclean.leader.election.enable", "unclean.leader.election.enable", Boolean, ReadOnly("false"),
        "There is one copy of a partition, so nobody is elected."),
];
