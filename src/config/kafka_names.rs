//! The gateway's settings under Kafka's names, as DescribeConfigs lists a broker's: those that mean the same
//! here. They are read-only for clients; the gateway's own names are in the [table](super::table).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringgate_shards::topic_config::{ConfigType, TOPIC_SETTINGS, TopicDefaults};

use super::Config;
use super::table::find;

/// A setting of the gateway as Kafka names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSetting {
    /// What values it takes.
    pub config_type: ConfigType,
    /// What holds.
    pub value: String,
    /// What holds where nobody says anything.
    pub default: String,
    /// What it does.
    pub documentation: String,
}

/// All of them by Kafka's names; cheap to clone.
#[derive(Debug, Clone)]
pub struct BrokerSettings(Arc<BTreeMap<&'static str, BrokerSetting>>);

impl BrokerSettings {
    /// Of a configuration, and what topics have where they say nothing.
    pub fn of(config: &Config, topics: TopicDefaults) -> BrokerSettings {
        let mut all = BTreeMap::new();
        for setting in TOPIC_SETTINGS {
            if let Some(name) = setting.broker_name {
                let value = setting.default(topics);
                let documentation = format!("The default of the topic's {}. {}", setting.name, setting.documentation);
                all.insert(
                    name,
                    BrokerSetting { config_type: setting.config_type, default: value.clone(), value, documentation },
                );
            }
        }
        for row in ROWS {
            let documentation = match row.says {
                Says::Setting(name) => {
                    let help = find(name).map_or("", |setting| setting.help);
                    format!("ringgate's setting {name}. {help}")
                }
                Says::Text(text) => text.to_string(),
            };
            let (config_type, value) = (row.config_type, (row.value)(config, topics));
            all.insert(row.name, BrokerSetting { config_type, value, default: row.default.into(), documentation });
        }
        BrokerSettings(Arc::new(all))
    }

    /// The setting of this name.
    pub fn get(&self, name: &str) -> Option<&BrokerSetting> {
        self.0.get(name)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &BrokerSetting)> {
        self.0.iter().map(|(&name, setting)| (name, setting))
    }
}

/// What Kafka calls one of the gateway's settings; several names for a few, none for most.
pub fn names_of(setting: &str) -> impl Iterator<Item = &'static str> + '_ {
    ROWS.iter().filter(move |row| matches!(row.says, Says::Setting(name) if name == setting)).map(|row| row.name)
}

struct Row {
    /// Kafka's name.
    name: &'static str,
    config_type: ConfigType,
    /// As Kafka writes what the table has.
    default: &'static str,
    value: fn(&Config, TopicDefaults) -> String,
    says: Says,
}

enum Says {
    /// The row of the gateway's own table says what it does.
    Setting(&'static str),
    /// Nobody can change it.
    Text(&'static str),
}

const fn row(
    name: &'static str,
    config_type: ConfigType,
    default: &'static str,
    value: fn(&Config, TopicDefaults) -> String,
    says: Says,
) -> Row {
    Row { name, config_type, default, value, says }
}

use ConfigType::{Boolean, Int, Long, String as Text};
use Says::Setting;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("auto.create.topics.enable", Boolean, "true", |c, _| c.auto_create_topics.to_string(), Setting("auto_create_topics")),
    row("connections.max.idle.ms", Long, "600000", |c, _| ms(c.idle_timeout), Setting("idle_timeout")),
    row("default.replication.factor", Int, "1", |_, _| "1".into(), Says::Text("There is one copy of a partition.")),
    row("delete.topic.enable", Boolean, "true", |_, _| "true".into(), Says::Text("Topics can be deleted.")),
    row("fetch.max.bytes", Int, "57671680", |c, _| c.max_fetch_bytes.to_string(), Setting("max_fetch_bytes")),
    row("group.consumer.assignment.interval.ms", Int, "1000", |c, _| ms(c.consumer_assignment_interval), Setting("consumer_assignment_interval")),
    row("group.consumer.assignors", ConfigType::List, "uniform,range", |_, _| "uniform,range".into(), Says::Text("The assignors of consumer groups; the first is used where no member asks for one.")),
    row("group.consumer.heartbeat.interval.ms", Int, "5000", |c, _| ms(c.consumer_heartbeat_interval), Setting("consumer_heartbeat_interval")),
    row("group.consumer.max.size", Int, "20000", |c, _| c.max_members_per_group.to_string(), Setting("max_members_per_group")),
    row("group.consumer.migration.policy", Text, "bidirectional", |c, _| format!("{:?}", c.consumer_migration_policy).to_lowercase(), Setting("consumer_migration_policy")),
    row("group.consumer.regex.refresh.interval.ms", Int, "600000", |c, _| ms(c.consumer_regex_refresh_interval), Setting("consumer_regex_refresh_interval")),
    row("group.consumer.session.timeout.ms", Int, "45000", |c, _| ms(c.consumer_session_timeout), Setting("consumer_session_timeout")),
    row("group.initial.rebalance.delay.ms", Int, "3000", |c, _| ms(c.initial_rebalance_delay), Setting("initial_rebalance_delay")),
    row("group.max.session.timeout.ms", Int, "1800000", |c, _| ms(c.max_session_timeout), Setting("max_session_timeout")),
    row("group.max.size", Int, "20000", |c, _| c.max_members_per_group.to_string(), Setting("max_members_per_group")),
    row("group.min.session.timeout.ms", Int, "6000", |c, _| ms(c.min_session_timeout), Setting("min_session_timeout")),
    row("log.dirs", Text, "./ringgate-data", |c, _| c.data.display().to_string(), Setting("data")),
    row("log.retention.bytes", Long, "-1", |_, t| t.retention_bytes.to_string(), Setting("log_retention_bytes")),
    row("log.retention.check.interval.ms", Long, "300000", |c, _| ms(c.retention_check_interval), Setting("retention_check_interval")),
    row("log.retention.ms", Long, "604800000", |_, t| t.retention_ms.to_string(), Setting("log_retention")),
    row("log.segment.bytes", Int, "1073741824", |_, t| t.segment_bytes.to_string(), Setting("segment_bytes")),
    row("max.connections.per.ip", Int, "2147483647", |c, _| no_limit(c.max_connections_per_ip), Setting("max_connections_per_ip")),
    row("max.incremental.fetch.session.cache.slots", Int, "1000", |c, _| c.max_fetch_sessions.to_string(), Setting("max_fetch_sessions")),
    row("message.max.bytes", Int, "1048588", |_, t| t.max_message_bytes.to_string(), Setting("message_max_bytes")),
    row("num.partitions", Int, "1", |c, _| c.num_partitions.to_string(), Setting("num_partitions")),
    row("offset.metadata.max.bytes", Int, "4096", |c, _| c.offset_metadata_max_bytes.to_string(), Setting("offset_metadata_max_bytes")),
    row("offsets.retention.check.interval.ms", Long, "600000", |c, _| ms(c.offsets_retention_check_interval), Setting("offsets_retention_check_interval")),
    row("offsets.retention.minutes", Int, "10080", |c, _| minutes(c.offsets_retention), Setting("offsets_retention")),
    row("producer.id.expiration.ms", Int, "86400000", |c, _| ms(c.producer_id_expiration), Setting("producer_id_expiration")),
    row("socket.request.max.bytes", Int, "104857600", |c, _| c.max_frame_size.to_string(), Setting("max_frame_size")),
];

fn ms(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Whole minutes, of a part of one all; zero, which is "for ever", as many as Kafka's type has.
fn minutes(duration: Duration) -> String {
    match duration.as_secs().div_ceil(60) {
        0 => i32::MAX.to_string(),
        minutes => minutes.to_string(),
    }
}

/// Zero, which is "no limit", as Kafka has it.
fn no_limit(count: usize) -> String {
    if count == 0 { i32::MAX.to_string() } else { count.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, Host, load};

    fn settings(flags: &[(&'static str, &str)]) -> BrokerSettings {
        let flags: Flags = flags.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        let host = Host { allowed_cpus: vec![0], open_files: 20_000 };
        load(&flags, None, &[], &host).unwrap().config.api_settings("").broker_settings
    }

    #[test]
    fn without_a_word_from_anybody_every_setting_has_its_default() {
        for (name, setting) in settings(&[]).iter() {
            assert_eq!(setting.value, setting.default, "{name}");
            assert!(setting.documentation.len() > 10, "{name}: {}", setting.documentation);
        }
    }

    #[test]
    fn a_setting_is_found_under_each_of_its_names_in_kafka() {
        let names = |setting| names_of(setting).collect::<Vec<_>>();
        assert_eq!(names("max_members_per_group"), ["group.consumer.max.size", "group.max.size"]);
        assert_eq!(names("fsync"), [""; 0]);
    }

    #[test]
    fn what_is_set_is_told_in_kafkas_units() {
        let all = settings(&[
            ("log_retention", "0"),
            ("offsets_retention", "90s"),
            ("idle_timeout", "2s"),
            ("num_partitions", "7"),
            ("max_connections_per_ip", "5"),
        ]);
        let value = |name: &str| all.get(name).map(|setting| setting.value.clone()).unwrap_or_default();
        assert_eq!(value("log.retention.ms"), "-1");
        assert_eq!(value("offsets.retention.minutes"), "2");
        assert_eq!(value("connections.max.idle.ms"), "2000");
        assert_eq!((value("num.partitions"), value("max.connections.per.ip")), ("7".into(), "5".into()));
        let for_ever = settings(&[("offsets_retention", "0")]);
        assert_eq!(for_ever.get("offsets.retention.minutes").unwrap().value, "2147483647");
    }
}
