//! States and types of groups, as users write them: a broker takes any text, and answers with no group.

/// Kafka's states of classic groups, and of those of KIP-848, KIP-932 and KIP-1071.
const STATES: [&str; 8] =
    ["Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead", "NotReady"];

/// Kafka's types of groups.
const TYPES: [&str; 4] = ["classic", "consumer", "share", "streams"];

/// A state, by Kafka's name of it.
pub(super) fn state(text: &str) -> Result<String, String> {
    one_of(&STATES, text)
}

/// A type, by Kafka's name of it.
pub(super) fn group_type(text: &str) -> Result<String, String> {
    one_of(&TYPES, text)
}

fn one_of(names: &[&str], text: &str) -> Result<String, String> {
    let found = names.iter().find(|name| name.eq_ignore_ascii_case(text));
    found.map(ToString::to_string).ok_or_else(|| format!("allowed are {}", names.join(", ")))
}
