//! Settings as clients are told them: of a topic and of a node, with where each value comes from.

use std::collections::BTreeMap;

use ringgate_group::route::ShardId;
use ringgate_shards::topic_config::{self, ConfigType};

use super::{ApiSettings, View};
use crate::config::BrokerSetting;

/// Kafka's types of resources that have settings, by Kafka's numbers.
pub(super) mod resource {
    /// A topic.
    pub(in super::super) const TOPIC: i8 = 2;
    /// A node, or with the empty name all of them.
    pub(in super::super) const BROKER: i8 = 4;
    /// The log levels of a node (KIP-412).
    pub(in super::super) const BROKER_LOGGER: i8 = 8;
    /// A subscription to clients' metrics (KIP-714).
    pub(in super::super) const CLIENT_METRICS: i8 = 16;
    /// A group of the newer protocol (KIP-848).
    pub(in super::super) const GROUP: i8 = 32;
}

/// Where a value comes from, by Kafka's numbers (KIP-226).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum ConfigSource {
    /// It was set for the topic.
    Topic = 1,
    /// The gateway was started with it.
    StaticBroker = 4,
    /// Nobody said anything.
    Default = 5,
}

/// A setting of a resource.
#[derive(Debug, Clone)]
pub(super) struct ConfigEntry<'a> {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) read_only: bool,
    pub(super) config_type: ConfigType,
    pub(super) documentation: &'a str,
    /// Every value that there is for it, the one that holds first.
    pub(super) synonyms: Vec<Synonym>,
}

/// A value that there is for a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Synonym {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) source: ConfigSource,
}

impl ConfigEntry<'_> {
    /// Where the value comes from that holds.
    pub(super) fn source(&self) -> ConfigSource {
        self.synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source)
    }
}

/// All settings of a topic that has these, by name.
pub(super) fn of_topic(
    config: &BTreeMap<String, String>,
    settings: &ApiSettings,
) -> impl Iterator<Item = ConfigEntry<'static>> {
    topic_config::listing(config, settings.topic_defaults).map(|listed| {
        let name = listed.setting.name;
        let mut synonyms = Vec::new();
        if listed.is_set {
            synonyms.push(Synonym { name, value: listed.value.clone(), source: ConfigSource::Topic });
        }
        if let Some(broker_name) = listed.setting.broker_name
            && let Some(broker) = settings.broker_settings.get(broker_name)
        {
            synonyms.extend(broker_synonyms(broker_name, broker));
        }
        ConfigEntry {
            name,
            value: listed.value,
            read_only: listed.setting.read_only(),
            config_type: listed.setting.config_type,
            documentation: listed.setting.documentation,
            synonyms,
        }
    })
}

/// All settings of a node, by name.
pub(super) fn of_node<'a>(view: &View<'a>, shard: ShardId) -> Vec<ConfigEntry<'a>> {
    let settings = view.settings.broker_settings.iter().map(|(name, setting)| ConfigEntry {
        name,
        value: setting.value.clone(),
        read_only: true,
        config_type: setting.config_type,
        documentation: &setting.documentation,
        synonyms: broker_synonyms(name, setting).collect(),
    });
    let mut all: Vec<ConfigEntry<'_>> = settings.collect();
    let mut own = |name, value: String, config_type, documentation| {
        let synonyms = vec![Synonym { name, value: value.clone(), source: ConfigSource::StaticBroker }];
        all.push(ConfigEntry { name, value, read_only: true, config_type, documentation, synonyms });
    };
    let node = view.advertised.node_of(shard, view.local);
    // IPv6 addresses go in brackets in a listener's name.
    let host = if node.host.contains(':') { format!("[{}]", node.host) } else { node.host };
    let listener = format!("PLAINTEXT://{host}:{}", node.port);
    own("advertised.listeners", listener, ConfigType::List, "Where clients reach this node.");
    own("broker.id", node.id.to_string(), ConfigType::Int, "This node: gateway_id x 1000 + shard.");
    own("node.id", node.id.to_string(), ConfigType::Int, "This node: gateway_id x 1000 + shard.");
    all.sort_by_key(|entry| entry.name);
    all
}

/// The node of this name, or why there is none here; the answer is then `INVALID_REQUEST(42)`. A node has one name: if
/// `+1000` and `01000` were others, a request could ask for everything about it without end.
pub(super) fn node_of(view: &View<'_>, name: &str) -> Result<ShardId, String> {
    let name_shown = topic_config::shown(name);
    let id: i32 = name.parse().map_err(|_| format!("Node id must be an integer, but it is: {name_shown}"))?;
    if id.to_string() != name {
        return Err(format!("Node id must be an integer without a plus or leading zeros, but it is: {name_shown}"));
    }
    view.advertised.shard_of(id).ok_or_else(|| format!("Unexpected broker id {id}: it is not a node of this gateway"))
}

fn broker_synonyms(name: &'static str, setting: &BrokerSetting) -> impl Iterator<Item = Synonym> {
    let given = (setting.value != setting.default).then(|| Synonym {
        name,
        value: setting.value.clone(),
        source: ConfigSource::StaticBroker,
    });
    given.into_iter().chain([Synonym { name, value: setting.default.clone(), source: ConfigSource::Default }])
}
