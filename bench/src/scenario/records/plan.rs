//! Parameters of records and of producers.

use std::time::Duration;

use crate::batch::{Codec, KeyChoice, STAMP_BYTES, Sizes};
use crate::limits::{KEYS_MAX, PARTITIONS_MAX, PRODUCE_REQUEST_BYTES_MAX};
use crate::plan::{Common, UsageError};
use crate::producer::{Acks, Batching};
use crate::result::Parameter;

/// Parameters of records and of producers, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordsPlan {
    /// How many topics are made.
    pub topics: usize,
    /// Of each.
    pub partitions: usize,
    /// Their settings beside the target's defaults.
    pub topic_config: Vec<(String, String)>,
    /// Leave them there.
    pub keep_topics: bool,
    /// Of values.
    pub sizes: Sizes,
    /// Of values, that no codec can take away.
    pub random_share: f64,
    /// How keys are chosen.
    pub keys: KeyChoice,
    /// Among how many.
    pub key_count: usize,
    /// Who must have a record.
    pub acks: Acks,
    /// When batches are full.
    pub batching: Batching,
    /// What they are compressed with.
    pub codec: Codec,
    /// With a producer id and sequences.
    pub idempotent: bool,
}

impl Default for RecordsPlan {
    /// As Kafka's own producer has it since 4.0, for one topic with one partition and records of 1 KiB of which half
    /// can be compressed.
    fn default() -> RecordsPlan {
        RecordsPlan {
            topics: 1,
            partitions: 1,
            topic_config: Vec::new(),
            keep_topics: false,
            sizes: Sizes::Fixed(1_024),
            random_share: 0.5,
            keys: KeyChoice::None,
            key_count: 10_000,
            acks: Acks::All,
            batching: Batching { bytes: 16 << 10, records: 1 << 20, linger: Duration::from_millis(5) },
            codec: Codec(ringgate_wire::records::Compression::None),
            idempotent: true,
        }
    }
}

impl RecordsPlan {
    /// All partitions of all topics.
    pub fn all_partitions(&self) -> usize {
        self.topics * self.partitions
    }

    /// Checks the whole, with what all scenarios have.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(self, common: &Common) -> Result<RecordsPlan, UsageError> {
        let refuse = |flag, value: String, allowed: String| Err(UsageError { flag, value, allowed });
        for (flag, count) in [
            ("topics", self.topics),
            ("partitions", self.partitions),
            ("key-count", self.key_count),
            ("batch-records", self.batching.records),
        ] {
            if count == 0 {
                return refuse(flag, "0".into(), "at least 1".into());
            }
        }
        let all = self.topics.saturating_mul(self.partitions);
        if all > PARTITIONS_MAX {
            return refuse(
                "partitions",
                self.partitions.to_string(),
                format!("at most {PARTITIONS_MAX} over all topics"),
            );
        }
        if self.key_count > KEYS_MAX {
            return refuse("key-count", self.key_count.to_string(), format!("at most {KEYS_MAX}"));
        }
        let bytes = self.batching.bytes;
        if bytes == 0 || bytes > PRODUCE_REQUEST_BYTES_MAX {
            return refuse("batch-bytes", bytes.to_string(), format!("1 to {PRODUCE_REQUEST_BYTES_MAX}"));
        }
        if let KeyChoice::Zipf { skew } = self.keys
            && !(0.0..=10.0).contains(&skew)
        {
            return refuse("key-skew", skew.to_string(), "0 to 10; 1 is what words of a language have".into());
        }
        if self.idempotent && self.acks != Acks::All {
            let acks = self.acks.number().to_string();
            return refuse("acks", acks, "all, since the producer is idempotent; see --idempotent".into());
        }
        if self.idempotent && common.in_flight > 5 {
            let allowed = "at most 5, which is what a broker remembers of an idempotent producer; see --idempotent";
            return refuse("in-flight", common.in_flight.to_string(), allowed.into());
        }
        Ok(self)
    }

    /// As [`RecordsPlan::check`], for records that carry a stamp.
    ///
    /// # Errors
    /// As there; or a value has no room for it.
    pub fn check_stamped(self, common: &Common) -> Result<RecordsPlan, UsageError> {
        let allowed =
            format!("at least {STAMP_BYTES} bytes, which tell whose record it is and when it was meant to be sent");
        if matches!(self.sizes, Sizes::Lines(_)) || self.sizes.least() < STAMP_BYTES {
            return Err(UsageError { flag: "record-bytes", value: self.sizes.to_string(), allowed });
        }
        self.check(common)
    }

    /// As a reader would write them.
    pub fn parameters(&self) -> Vec<Parameter> {
        let default = RecordsPlan::default();
        let acks = |acks| match acks {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        };
        let (keys, skew) = match self.keys {
            KeyChoice::None => ("none", None),
            KeyChoice::RoundRobin => ("round-robin", None),
            KeyChoice::Zipf { skew } => ("zipf", Some(skew)),
        };
        let mut parameters = vec![
            parameter("topics", &self.topics, &default.topics),
            parameter("partitions", &self.partitions, &default.partitions),
            parameter("record-bytes", &self.sizes, &default.sizes),
            parameter("random-share", &percent(self.random_share), &percent(default.random_share)),
            parameter("keys", &keys, &"none"),
            parameter("acks", &acks(self.acks), &acks(default.acks)),
            parameter("batch-bytes", &self.batching.bytes, &default.batching.bytes),
            parameter("batch-records", &self.batching.records, &default.batching.records),
            parameter("linger", &time(self.batching.linger), &time(default.batching.linger)),
            parameter("compression", &self.codec, &default.codec),
            parameter("idempotent", &yes(self.idempotent), &yes(default.idempotent)),
        ];
        if keys != "none" {
            parameters.push(parameter("key-count", &self.key_count, &default.key_count));
        }
        if let Some(skew) = skew {
            parameters.push(parameter("key-skew", &skew, &1.0));
        }
        for (name, value) in &self.topic_config {
            parameters.push(parameter("topic-config", &format!("{name}={value}"), &""));
        }
        parameters
    }
}

fn percent(share: f64) -> String {
    format!("{}%", share * 100.0)
}

fn time(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}

fn yes(set: bool) -> &'static str {
    if set { "yes" } else { "no" }
}

/// A parameter, and whether it is the default.
pub fn parameter(name: &str, value: &impl ToString, default: &(impl ToString + ?Sized)) -> Parameter {
    let value = value.to_string();
    Parameter { name: name.into(), default: value == default.to_string(), value }
}
