//! What the members of a consumer group subscribe to, by name and by pattern, and how the group notices that
//! topics come, go and grow.

use std::collections::BTreeSet;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::ConsumerGroup;
use super::heartbeat::Refused;
use super::member::Member;
use crate::coordinator::ctx::{At, Ctx};
use crate::limits::{REGEX_BYTES_MAX, REGEX_COMPILED_BYTES_MAX, REGEX_REFRESH_MS_MIN, REGEX_RESOLVE_MS_MIN};
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::topics::Topics;
use crate::{Effect, ErrorCode, Text};

/// A pattern that members subscribe to.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    /// How many members use it.
    members: usize,
    /// The topics that it names, sorted; `None` until that is known.
    topics: Option<Arc<[Text]>>,
}

/// The topics that a pattern names.
pub(in crate::coordinator) type ResolvedRegex = (Text, Vec<Text>);

/// A pattern that matches whole topic names, or what is wrong with it. RE2's syntax is what the `regex` crate has
/// as well: no look-around, no back references.
fn compile(pattern: &str) -> Result<regex::Regex, String> {
    if pattern.len() > REGEX_BYTES_MAX {
        return Err(format!("SubscribedTopicRegex has {} bytes, allowed are {REGEX_BYTES_MAX}", pattern.len()));
    }
    regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(REGEX_COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| format!("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}"))
}

/// The topics that each pattern names. Takes a time that grows with both, and belongs off the shard.
pub fn resolve(patterns: &[Text], topics: &dyn Topics) -> Vec<ResolvedRegex> {
    let names_of = |pattern: &Text| {
        let mut names = Vec::new();
        if let Ok(regex) = compile(pattern.as_str()) {
            topics.for_each_name(&mut |name| {
                if regex.is_match(name) {
                    names.push(Text::from(name));
                }
            });
        }
        names.sort_unstable();
        (pattern.clone(), names)
    };
    patterns.iter().map(names_of).collect()
}

impl ConsumerGroup {
    /// What is wrong with a pattern that nobody in the group uses yet.
    pub(super) fn check_pattern(&self, pattern: &Text) -> Result<(), String> {
        if self.patterns.contains_key(pattern) { Ok(()) } else { compile(pattern.as_str()).map(drop) }
    }

    /// Whether there is room in the gateway for what a known member wishes for now. A new one has it reserved.
    pub(super) fn check_room(&self, ctx: &mut Ctx, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refused> {
        let slot = match &request.instance_id {
            Some(instance_id) => self.instances.get(instance_id),
            None => self.ids.get(&request.member_id),
        };
        let (Some(slot), Some(names)) = (slot, &request.subscribed_topic_names) else { return Ok(()) };
        let bytes = |names: &[Text]| names.iter().map(|name| size_of::<Text>() + name.len()).sum::<usize>();
        let more = bytes(names).saturating_sub(bytes(&self.member(*slot).names));
        if more > 0 {
            if !ctx.reserve(more) {
                return Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, None));
            }
            // It is counted where the member is.
            ctx.totals.remove_bytes(more);
        }
        Ok(())
    }

    pub(super) fn subscribe(&mut self, names: &[Text], regex: Option<&Text>) {
        for name in names {
            *self.names.entry(name.clone()).or_default() += 1;
        }
        if let Some(regex) = regex {
            self.patterns.entry(regex.clone()).or_default().members += 1;
        }
    }

    pub(super) fn unsubscribe(&mut self, names: &[Text], regex: Option<&Text>) {
        for name in names {
            if let Some(count) = self.names.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(name);
                }
            }
        }
        if let Some(regex) = regex
            && let Some(pattern) = self.patterns.get_mut(regex)
        {
            pattern.members -= 1;
            if pattern.members == 0 {
                self.patterns.remove(regex);
            }
        }
    }

    /// Whether a pattern's topics are known.
    pub(super) fn is_resolved(&self, regex: &Text) -> bool {
        self.patterns.get(regex).is_some_and(|pattern| pattern.topics.is_some())
    }

    /// Whether all patterns' topics are known.
    fn all_resolved(&self) -> bool {
        self.patterns.values().all(|pattern| pattern.topics.is_some())
    }

    /// The topics of a pattern, as far as they are known.
    pub(super) fn topics_of(&self, regex: &Text) -> &[Text] {
        self.patterns.get(regex).and_then(|pattern| pattern.topics.as_deref()).unwrap_or_default()
    }

    /// The names that a member subscribes to one way or the other.
    pub(super) fn names_of(&self, member: &Member) -> BTreeSet<Text> {
        let matched = member.regex.as_ref().map(|regex| self.topics_of(regex)).unwrap_or_default();
        member.names.iter().chain(matched).cloned().collect()
    }

    /// Whether a member may have partitions of a topic: it subscribes to it, or nobody can tell that it does not, as
    /// with a pattern whose topics are not known yet. What is of a topic that is gone goes with the next targets.
    pub(super) fn may_have(&self, topics: &dyn Topics, member: &Member, topic: u128) -> bool {
        let Some(name) = topics.name_of(topic) else { return true };
        let matches = |regex| {
            let known = self.patterns.get(regex).and_then(|pattern| pattern.topics.as_ref());
            known.is_none_or(|topics| topics.binary_search_by(|known| known.as_str().cmp(name)).is_ok())
        };
        member.names.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
            || member.regex.as_ref().is_some_and(matches)
    }

    /// Whether some member subscribes to a topic. Where a pattern's topics are not known yet, any may be one.
    pub fn is_subscribed(&self, topic: &Text) -> bool {
        let matches =
            |pattern: &super::Pattern| pattern.topics.as_ref().is_none_or(|topics| topics.binary_search(topic).is_ok());
        self.names.contains_key(topic) || self.patterns.values().any(matches)
    }

    /// Of all topics that somebody subscribes to: ids and sizes.
    fn hash_topics(&self, topics: &dyn Topics) -> u64 {
        let matched = self.patterns.values().filter_map(|pattern| pattern.topics.as_deref()).flatten();
        let all: BTreeSet<&Text> = self.names.keys().chain(matched).collect();
        let mut seen = Vec::new();
        for name in all {
            if let Some((id, partitions)) = topics.topic(name.as_str()) {
                seen.extend_from_slice(&id.to_le_bytes());
                seen.extend_from_slice(&partitions.to_le_bytes());
            }
        }
        // It is kept, so it must not depend on the build.
        XxHash3_64::oneshot(&seen)
    }

    /// Raises the epoch when the members' wishes have changed, or the topics they wish for. Both are compared only
    /// when there is a reason to: the topics when the catalogue is a newer one.
    pub(super) fn notice_changes(&mut self, ctx: &Ctx, subscriptions_changed: bool) {
        let version = ctx.topics.version();
        let must_bump = subscriptions_changed || self.epoch == 0;
        if !must_bump && self.topics_seen == Some(version) {
            return;
        }
        // Topics that patterns name are not known after a start: comparing without them would find a change.
        if !must_bump && !self.all_resolved() {
            return;
        }
        self.topics_seen = Some(version);
        let hash = self.hash_topics(&*ctx.topics);
        if must_bump || hash != self.topics_hash {
            self.topics_hash = hash;
            self.bump();
        }
    }

    /// Asks for the topics of the patterns, where they are not known or may be others by now (6.9).
    pub(super) fn resolve_if_due(&mut self, ctx: &mut Ctx, at: At) {
        if self.resolving || self.patterns.is_empty() {
            return;
        }
        let is_due = match self.resolved_at_ms.map(|resolved_at_ms| at.ms.saturating_sub(resolved_at_ms)) {
            None => true,
            Some(age_ms) if !self.all_resolved() => age_ms >= REGEX_RESOLVE_MS_MIN,
            Some(age_ms) => {
                let refresh_ms = ctx.config.consumer_regex_refresh_interval.as_millis();
                let has_news = self.topics_resolved != Some(ctx.topics.version());
                age_ms >= REGEX_REFRESH_MS_MIN && (has_news || u128::from(age_ms) >= refresh_ms)
            }
        };
        if is_due {
            self.resolving = true;
            self.resolved_at_ms = Some(at.ms);
            self.topics_resolved = Some(ctx.topics.version());
            let patterns = self.patterns.keys().cloned().collect();
            ctx.effects.push_back(Effect::ResolveRegex {
                group: self.this.slot,
                uid: self.this.uid,
                patterns,
                topics: ctx.topics.clone(),
            });
        }
    }

    /// The topics of patterns are known. Targets follow with the next heartbeats.
    pub fn resolved(&mut self, ctx: &Ctx, resolved: Vec<ResolvedRegex>) {
        self.resolving = false;
        // After a start they are what they were, as far as anybody knows, and only the topics are compared.
        let were_known = std::mem::replace(&mut self.patterns_known, true);
        let mut wishes_changed = false;
        for (regex, names) in resolved {
            if let Some(pattern) = self.patterns.get_mut(&regex) {
                // Also where others subscribe to the same topics already, so that the topics of all are no others.
                wishes_changed |= were_known && pattern.topics.as_deref() != Some(&names);
                pattern.topics = Some(names.into());
            }
        }
        // What is compared next includes them.
        self.topics_seen = None;
        self.notice_changes(ctx, wishes_changed);
    }
}
