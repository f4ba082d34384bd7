//! What the topic APIs share.

use kafka_protocol::messages::{BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::View;

/// Everything that may be done to a topic (KIP-430).
pub(super) const TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;

/// Everything that may be done to the cluster (KIP-430).
pub(super) const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// The longest topic name (Kafka's rule: it names a directory).
const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Why no topic may have this name, if so (Kafka's rule); the answer is then `INVALID_TOPIC_EXCEPTION(17)`.
pub fn name_error(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("Topic name is invalid: the empty string is not allowed".into());
    }
    if name == "." || name == ".." {
        return Some("Topic name is invalid: '.' or '..' is not allowed".into());
    }
    if name.len() > TOPIC_NAME_BYTES_MAX {
        return Some(format!("Topic name is invalid: its {} characters are more than 249", name.len()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (!name.chars().all(allowed)).then(|| {
        format!("Topic name is invalid: '{name}' has characters other than ASCII alphanumerics, '.', '_' and '-'")
    })
}

/// Why a partition of a manual assignment cannot have these replicas, if so; the answer is then
/// `INVALID_REPLICA_ASSIGNMENT(39)`.
pub(super) fn replicas_error(view: &View<'_>, partition: i32, replicas: &[BrokerId]) -> Option<String> {
    if replicas.is_empty() || replicas.len() > 1 && !view.settings.accept_any_replication_factor {
        let given = replicas.len();
        return Some(format!("partition {partition} is assigned to {given} brokers; there is one copy here"));
    }
    let unknown = replicas.iter().find(|id| view.advertised.shard_of(id.0).is_none())?;
    Some(format!("partition {partition} is assigned to broker {}, which is not there", unknown.0))
}

/// A name as the codec has it.
pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_string()))
}

#[cfg(test)]
mod tests {
    use super::name_error;

    #[test]
    fn kafkas_rules_for_topic_names_hold() {
        for good in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
            assert_eq!(name_error(good), None, "{good}");
        }
        for bad in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
            assert!(name_error(bad).is_some(), "{bad}");
        }
    }
}
