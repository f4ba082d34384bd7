//! Flags of the scenarios that move records.

use std::time::Duration;

use super::parse::{bytes, duration, share};
use crate::batch::{Codec, KeyChoice, Sizes};
use crate::consumer::{Settings, Verify};
use crate::plan::UsageError;
use crate::producer::{Acks, Batching};
use crate::scenario::records::RecordsPlan;

/// Flags of records and of producers.
#[derive(Debug, Clone, clap::Args)]
pub struct RecordArgs {
    /// Topics, which the run makes and deletes
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Records")]
    pub topics: usize,
    /// Partitions of each topic
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Records")]
    pub partitions: usize,
    /// A setting of the topics, such as retention.ms=60000
    #[arg(long, value_parser = setting, value_name = "NAME=VALUE", help_heading = "Records")]
    pub topic_config: Vec<(String, String)>,
    /// Leave the topics there, and the group of consumers
    #[arg(long, help_heading = "Records")]
    pub keep_topics: bool,
    /// Bytes of a record's value: 1024 or 1KiB, a range such as 100..2000, or @FILE for the lines of a file
    #[arg(long, default_value = "1024", value_name = "SIZE", help_heading = "Records")]
    pub record_bytes: Sizes,
    /// How much of a value is random, so that no codec can take it away
    #[arg(long, value_parser = share, default_value = "50%", value_name = "SHARE", help_heading = "Records")]
    pub random_share: f64,
    /// Record keys; without, batches go to one partition after the other
    #[arg(long, value_enum, default_value = "none", value_name = "KIND", help_heading = "Records")]
    pub keys: KeysArg,
    /// How many different keys there are
    #[arg(long, default_value_t = 10_000, value_name = "N", help_heading = "Records")]
    pub key_count: usize,
    /// Under --keys zipf: the key of rank r is as frequent as 1/r^S
    #[arg(long, default_value_t = 1.0, value_name = "S", help_heading = "Records")]
    pub key_skew: f64,
    /// Who must have a record before it is acknowledged: nobody, the leader, all in-sync replicas
    #[arg(long, value_enum, default_value = "all", help_heading = "Producers")]
    pub acks: AcksArg,
    /// Bytes of a batch, before compression
    #[arg(long, value_parser = bytes, default_value = "16KiB", value_name = "BYTES", help_heading = "Producers")]
    pub batch_bytes: usize,
    /// Records of a batch at most [default: as many as fit]
    #[arg(long, value_name = "N", help_heading = "Producers")]
    pub batch_records: Option<usize>,
    /// How long a record waits for others; its latency counts from its own moment all the same
    #[arg(long, value_parser = duration, default_value = "5ms", value_name = "TIME", help_heading = "Producers")]
    pub linger: Duration,
    /// What batches are compressed with: none, gzip, snappy, lz4, zstd
    #[arg(long, default_value = "none", value_name = "CODEC", help_heading = "Producers")]
    pub compression: Codec,
    /// With a producer id and sequences, so that nothing that is sent again is there twice [default: yes with --acks all]
    #[arg(long, value_enum, value_name = "YES", help_heading = "Producers")]
    pub idempotent: Option<YesArg>,
}

/// `--keys`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum KeysArg {
    /// No keys
    None,
    /// One key after the other
    RoundRobin,
    /// Few keys often, many rarely
    Zipf,
}

/// `--acks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AcksArg {
    /// Nobody: only the sending is measured
    #[value(name = "0")]
    None,
    /// The leader
    #[value(name = "1")]
    Leader,
    /// All in-sync replicas
    #[value(name = "all", alias = "-1")]
    All,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum YesArg {
    /// Yes
    Yes,
    /// No
    No,
}

impl RecordArgs {
    /// What they come to, not checked yet.
    pub fn plan(&self) -> RecordsPlan {
        let default = RecordsPlan::default();
        let acks = match self.acks {
            AcksArg::None => Acks::None,
            AcksArg::Leader => Acks::Leader,
            AcksArg::All => Acks::All,
        };
        RecordsPlan {
            topics: self.topics,
            partitions: self.partitions,
            topic_config: self.topic_config.clone(),
            keep_topics: self.keep_topics,
            sizes: self.record_bytes.clone(),
            random_share: self.random_share,
            keys: match self.keys {
                KeysArg::None => KeyChoice::None,
                KeysArg::RoundRobin => KeyChoice::RoundRobin,
                KeysArg::Zipf => KeyChoice::Zipf { skew: self.key_skew },
            },
            key_count: self.key_count,
            acks,
            batching: Batching {
                bytes: self.batch_bytes,
                records: self.batch_records.unwrap_or(default.batching.records),
                linger: self.linger,
            },
            codec: self.compression,
            idempotent: self.idempotent.map_or(acks == Acks::All, |idempotent| idempotent == YesArg::Yes),
        }
    }

    /// What `--rate` comes to in records per second: a rate of records, or of bytes (100MB/s) where all records have one size.
    ///
    /// # Errors
    /// It is neither.
    pub fn rate(&self, text: &str) -> Result<f64, UsageError> {
        let of_bytes = text.strip_suffix("/s").filter(|rate| rate.ends_with('B')).and_then(|rate| bytes(rate).ok());
        match (of_bytes, &self.record_bytes) {
            (Some(rate), Sizes::Fixed(size)) if rate > 0 && *size > 0 => Ok(rate as f64 / *size as f64),
            _ => super::rate(text).map_err(|allowed| UsageError {
                flag: "rate",
                value: text.to_string(),
                allowed: format!("{allowed}; or bytes per second of records of one size: 100MB/s"),
            }),
        }
    }
}

/// Flags of consumers.
#[derive(Debug, Clone, clap::Args)]
pub struct FetchArgs {
    /// For how long a broker waits for --fetch-min-bytes
    #[arg(long, value_parser = duration, default_value = "500ms", value_name = "TIME", help_heading = "Consumers")]
    pub fetch_max_wait: Duration,
    /// Bytes that a broker waits for
    #[arg(long, value_parser = bytes, default_value = "1", value_name = "BYTES", help_heading = "Consumers")]
    pub fetch_min_bytes: usize,
    /// Bytes of an answer to Fetch, about
    #[arg(long, value_parser = bytes, default_value = "50MiB", value_name = "BYTES", help_heading = "Consumers")]
    pub fetch_max_bytes: usize,
    /// Bytes of one partition in it, about
    #[arg(long, value_parser = bytes, default_value = "1MiB", value_name = "BYTES", help_heading = "Consumers")]
    pub partition_bytes: usize,
    /// What is looked at of what comes: batches' headers, also their CRCs, also every record
    #[arg(long, value_enum, default_value = "headers", value_name = "WHAT", help_heading = "Consumers")]
    pub verify: VerifyArg,
}

/// `--verify`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum VerifyArg {
    /// Headers of batches
    Headers,
    /// Also their CRCs
    Crc,
    /// Also every record, decompressed
    Records,
}

impl FetchArgs {
    /// What they come to.
    ///
    /// # Errors
    /// A number of bytes is more than Kafka's protocol can say.
    pub fn settings(&self) -> Result<Settings, UsageError> {
        let bytes = |flag, bytes: usize| {
            i32::try_from(bytes).map_err(|_| UsageError {
                flag,
                value: bytes.to_string(),
                allowed: format!("at most {} bytes", i32::MAX),
            })
        };
        Ok(Settings {
            max_wait: self.fetch_max_wait,
            min_bytes: bytes("fetch-min-bytes", self.fetch_min_bytes)?,
            max_bytes: bytes("fetch-max-bytes", self.fetch_max_bytes)?,
            partition_bytes: bytes("partition-bytes", self.partition_bytes)?,
            verify: match self.verify {
                VerifyArg::Headers => Verify::Headers,
                VerifyArg::Crc => Verify::Crc,
                VerifyArg::Records => Verify::Records,
            },
            ..Settings::default()
        })
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a name and a value: retention.ms=60000")?;
    Ok((name.to_string(), value.to_string()))
}
