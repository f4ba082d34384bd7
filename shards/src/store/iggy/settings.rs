//! What the Iggy store needs of the configuration, already checked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::topics::GROUPS_TOPIC;
use crate::store::mapping::OnUnknown;

/// Settings of the Iggy store.
#[derive(Debug, Clone)]
pub struct IggySettings {
    /// `host:port` of servers, tried in turn until one answers; the others of its cluster are then known.
    pub servers: Vec<String>,
    /// As whom to sign in.
    pub credentials: Credentials,
    /// SDK clients of a lane that write records: as many writes of one partition's neighbours are in flight.
    pub send_clients: usize,
    /// SDK clients of a lane that keep offsets.
    pub offset_clients: usize,
    /// How long a call may take, retries included.
    pub timeout: Duration,
    /// How long a call may still take when the gateway stops: short enough that what waits is answered in time.
    pub timeout_at_stop: Duration,
    /// How often topics are looked up.
    pub metadata_refresh: Duration,
    /// What readers get instead of a message that is not understood.
    pub unknown_messages: OnUnknown,
    /// Kafka names of topics that are not in the stream `kafka`, or have another name there.
    pub topics: Vec<(Arc<str>, IggyTopic)>,
}

/// A user's name and password. The password is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:********", self.username)
    }
}

/// Where a topic is in Iggy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IggyTopic {
    /// The stream's name.
    pub stream: Arc<str>,
    /// The topic's name.
    pub topic: Arc<str>,
}

impl fmt::Display for IggyTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.topic)
    }
}

/// The stream whose topics are Kafka's.
pub(crate) const KAFKA_STREAM: &str = "kafka";

impl IggySettings {
    /// Where Iggy has the topic of this Kafka name.
    pub(crate) fn place_of(&self, name: &Arc<str>) -> IggyTopic {
        match self.topics.iter().find(|(kafka, _)| kafka == name) {
            Some((_, mapped)) => mapped.clone(),
            None => IggyTopic { stream: KAFKA_STREAM.into(), topic: name.clone() },
        }
    }

    /// Kafka's name of a topic; `None` when Kafka's clients do not see it.
    pub(crate) fn name_of(&self, at: &IggyTopic) -> Option<Arc<str>> {
        if let Some((name, _)) = self.topics.iter().find(|(_, mapped)| mapped == at) {
            return Some(name.clone());
        }
        let is_kafkas = &*at.stream == KAFKA_STREAM
            && &*at.topic != GROUPS_TOPIC
            && is_topic_name(&at.topic)
            // The map says that this name is another topic's.
            && self.topics.iter().all(|(name, _)| *name != at.topic);
        is_kafkas.then(|| at.topic.clone())
    }
}

/// Kafka's rule for topic names.
pub fn is_topic_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=249).contains(&name.len()) && name.chars().all(allowed) && name != "." && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stream: &str, topic: &str) -> IggyTopic {
        IggyTopic { stream: stream.into(), topic: topic.into() }
    }

    #[test]
    fn topics_have_kafkas_names_unless_the_map_says_otherwise() {
        let settings = IggySettings {
            servers: vec!["localhost:8090".into()],
            credentials: Credentials { username: "iggy".into(), password: "p".into() },
            send_clients: 2,
            offset_clients: 4,
            timeout: Duration::from_secs(1),
            timeout_at_stop: Duration::from_secs(1),
            metadata_refresh: Duration::from_secs(1),
            unknown_messages: OnUnknown::Stop,
            topics: vec![("orders".into(), at("shop", "orders v2")), ("gone".into(), at("kafka", "old"))],
        };
        for (kafka, iggy) in [("plain", at("kafka", "plain")), ("orders", at("shop", "orders v2"))] {
            assert_eq!(settings.place_of(&kafka.into()), iggy);
            assert_eq!(settings.name_of(&iggy).as_deref(), Some(kafka));
        }
        for unseen in [at("kafka", "orders"), at("shop", "plain"), at("kafka", GROUPS_TOPIC), at("kafka", "a b")] {
            assert_eq!(settings.name_of(&unseen), None, "{unseen}");
        }
        assert_eq!(settings.name_of(&at("kafka", "old")).as_deref(), Some("gone"));
    }
}
