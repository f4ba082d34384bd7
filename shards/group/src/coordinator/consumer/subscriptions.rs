//! What the members of a consumer group subscribe to, by name and by pattern, and how the group notices that
//! topics come, go and grow.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::ConsumerGroup;
use super::heartbeat::Refused;
use super::member::Member;
use super::topic_names::TopicNames;
use crate::coordinator::ctx::{At, Ctx};
use crate::limits::{
    Limit, NAMED_TOPIC_BYTES, PARTITION_BYTES, PATTERN_BYTES, PATTERNS_PER_GROUP_MAX, REGEX_BYTES_MAX,
    REGEX_COMPILED_BYTES_MAX, REGEX_REFRESH_MS_MIN, REGEX_RESOLVE_MS_MIN,
};
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::topics::Topics;
use crate::{Effect, ErrorCode, Text};

/// A pattern that members subscribe to.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    /// How many members use it.
    members: usize,
    /// The topics that it names, once for all of its members; `None` until that is known.
    topics: Option<TopicNames>,
}

impl Pattern {
    fn bytes(&self, regex: &Text) -> usize {
        PATTERN_BYTES + regex.len() + self.topics.as_ref().map_or(0, TopicNames::bytes)
    }
}

/// A pattern and the topics that it names.
pub type ResolvedRegex = (Text, TopicNames);

/// Why a pattern is refused.
pub(super) struct Unfit {
    /// It is none that could not be, but it is too large.
    pub is_too_large: bool,
    pub message: String,
}

/// A pattern that matches whole topic names, or what is wrong with it. RE2's syntax is what the `regex` crate has as
/// well (no look-around, no back references), but for `\Q...\E`.
fn compile(pattern: &str) -> Result<regex::Regex, Unfit> {
    if pattern.len() > REGEX_BYTES_MAX {
        let message = format!("SubscribedTopicRegex has {} bytes, allowed are {REGEX_BYTES_MAX}", pattern.len());
        return Err(Unfit { is_too_large: true, message });
    }
    let built =
        regex::RegexBuilder::new(&format!("^(?:{})$", unquoted(pattern))).size_limit(REGEX_COMPILED_BYTES_MAX).build();
    built.map_err(|error| Unfit {
        is_too_large: matches!(error, regex::Error::CompiledTooBig(_)),
        message: format!("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}"),
    })
}

/// The pattern with what stands between `\Q` and `\E`, or the end, escaped character by character: so does Java's
/// `Pattern.quote` write names.
fn unquoted(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains("\\Q") {
        return Cow::Borrowed(pattern);
    }
    let (mut plain, mut rest) = (String::with_capacity(pattern.len()), pattern);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        rest = match escape.strip_prefix("\\Q") {
            Some(quoted) => {
                let (literal, behind) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                plain.push_str(&regex::escape(literal));
                behind
            }
            // The escaped character goes along: it may be a backslash.
            None => {
                let end = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                plain.push_str(&escape[..end]);
                &escape[end..]
            }
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The topics that each pattern names. Takes a time that grows with both, and belongs off the shard.
pub fn resolve(patterns: &[Text], topics: &dyn Topics) -> Vec<ResolvedRegex> {
    let mut all = Vec::new();
    topics.for_each_name(&mut |name| all.push(name));
    let names_of = |pattern: &Text| {
        let names = match compile(pattern.as_str()) {
            Ok(regex) => all.iter().copied().filter(|name| regex.is_match(name)).collect(),
            Err(_) => Vec::new(),
        };
        (pattern.clone(), TopicNames::new(names))
    };
    patterns.iter().map(names_of).collect()
}

impl ConsumerGroup {
    /// What is wrong with a pattern that nobody in the group uses yet.
    pub(super) fn check_pattern(&self, pattern: &Text) -> Result<(), Unfit> {
        if self.patterns.contains_key(pattern) { Ok(()) } else { compile(pattern.as_str()).map(drop) }
    }

    /// Whether there may be one more pattern, where a member comes with one that nobody in the group has yet.
    pub fn check_patterns(
        &self,
        ctx: &mut Ctx,
        slot: Option<u32>,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<(), Refused> {
        let Some(regex) = request.subscribed_topic_regex.as_ref().filter(|regex| !regex.is_empty()) else {
            return Ok(());
        };
        if self.patterns.contains_key(regex) {
            return Ok(());
        }
        // One that nobody but the member itself has goes when it comes with another.
        let own = slot.and_then(|slot| self.member(slot).regex.as_ref()).and_then(|regex| self.patterns.get(regex));
        let goes = usize::from(own.is_some_and(|pattern| pattern.members == 1));
        if self.patterns.len() - goes >= PATTERNS_PER_GROUP_MAX {
            ctx.limits_hit.count(Limit::PatternsPerGroup);
            let message = format!("The members of the group have {PATTERNS_PER_GROUP_MAX} patterns of topics already.");
            return Err((ErrorCode::INVALID_REQUEST, Some(message)));
        }
        if ctx.totals.patterns() - goes >= ctx.config.max_total_patterns {
            ctx.limits_hit.count(Limit::TotalPatterns);
            return Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, None));
        }
        Ok(())
    }

    /// How many bytes more than now a member may come to take by what it wishes for: at most, for a topic that it
    /// names twice counts twice. The partitions of what nobody named before are among them.
    pub fn wishes_bytes(&self, ctx: &Ctx, slot: Option<u32>, request: &ConsumerGroupHeartbeatRequest) -> usize {
        let of_regex = |regex: &Text| match self.patterns.contains_key(regex) {
            true => regex.len(),
            false => PATTERN_BYTES + 2 * regex.len(),
        };
        let names = request.subscribed_topic_names.as_ref().map(|names| self.names_bytes(ctx, names));
        let regex = request.subscribed_topic_regex.as_ref().map(of_regex);
        let rack = request.rack_id.as_ref().map(Text::len);
        let member = slot.map(|slot| self.member(slot));
        let had = |bytes: fn(&Member) -> usize| member.map_or(0, bytes);
        let more = |now: Option<usize>, had: usize| now.unwrap_or_default().saturating_sub(had);
        more(names, had(|member| member.names.len() * size_of::<Text>()))
            + more(regex, had(|member| member.regex.as_ref().map_or(0, Text::len)))
            + more(rack, had(|member| member.rack_id.as_ref().map_or(0, Text::len)))
    }

    /// What a member takes that names these topics. The partitions of those that nobody named before are among it.
    pub(super) fn names_bytes(&self, ctx: &Ctx, names: &[Text]) -> usize {
        let of_name = |name: &Text| {
            if self.names.contains_key(name) {
                return size_of::<Text>();
            }
            let partitions = ctx.topics.topic(name.as_str()).map_or(0, |(_, partitions)| partitions.max(0) as usize);
            size_of::<Text>() + NAMED_TOPIC_BYTES + name.len() + partitions * PARTITION_BYTES
        };
        names.iter().map(of_name).sum()
    }

    /// Sorted, each once, with the group's own texts where it has them: members mostly name the same topics.
    pub(super) fn shared(&self, names: &[Text]) -> Arc<[Text]> {
        let known = |name: &Text| match self.names.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => name.detached(),
        };
        let mut shared: Vec<Text> = names.iter().map(known).collect();
        shared.sort_unstable();
        shared.dedup();
        shared.into()
    }

    pub(super) fn subscribe(&mut self, ctx: &mut Ctx, names: &[Text], regex: Option<&Text>) {
        for name in names {
            let count = self.names.entry(name.clone()).or_insert_with(|| {
                ctx.totals.add_bytes(NAMED_TOPIC_BYTES + name.len());
                0
            });
            *count += 1;
        }
        if let Some(regex) = regex {
            let pattern = self.patterns.entry(regex.clone()).or_insert_with(|| {
                let pattern = Pattern::default();
                ctx.totals.add_pattern();
                ctx.totals.add_bytes(pattern.bytes(regex));
                pattern
            });
            pattern.members += 1;
        }
    }

    pub(super) fn unsubscribe(&mut self, ctx: &mut Ctx, names: &[Text], regex: Option<&Text>) {
        for name in names {
            if let Some(count) = self.names.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(name);
                    ctx.totals.remove_bytes(NAMED_TOPIC_BYTES + name.len());
                }
            }
        }
        if let Some(regex) = regex
            && let Some(pattern) = self.patterns.get_mut(regex)
        {
            pattern.members -= 1;
            if pattern.members == 0 {
                ctx.totals.remove_bytes(pattern.bytes(regex));
                ctx.totals.resolve_pattern(pattern.topics.as_ref().map_or(0, TopicNames::bytes), 0);
                ctx.totals.remove_pattern();
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
    fn topics_of(&self, regex: Option<&Text>) -> impl Iterator<Item = &str> {
        let pattern = regex.and_then(|regex| self.patterns.get(regex));
        pattern.and_then(|pattern| pattern.topics.as_ref()).into_iter().flat_map(TopicNames::iter)
    }

    /// The names that a member subscribes to one way or the other; some of them perhaps twice.
    pub(super) fn names_of<'a>(&'a self, member: &'a Member) -> impl Iterator<Item = &'a str> {
        member.names.iter().map(Text::as_str).chain(self.topics_of(member.regex.as_ref()))
    }

    /// Whether a member may have partitions of a topic: it subscribes to it, or nobody can tell that it does not, as
    /// with a pattern whose topics are not known yet. What is of a topic that is gone goes with the next targets.
    pub(super) fn may_have(&self, topics: &dyn Topics, member: &Member, topic: u128) -> bool {
        let Some(name) = topics.name_of(topic) else { return true };
        let matches = |regex| {
            let known = self.patterns.get(regex).and_then(|pattern| pattern.topics.as_ref());
            known.is_none_or(|topics| topics.contains(name))
        };
        member.names.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
            || member.regex.as_ref().is_some_and(matches)
    }

    /// Whether some member subscribes to a topic. Where a pattern's topics are not known yet, any may be one.
    pub fn is_subscribed(&self, topic: &Text) -> bool {
        let matches = |pattern: &Pattern| pattern.topics.as_ref().is_none_or(|topics| topics.contains(topic.as_str()));
        self.names.contains_key(topic) || self.patterns.values().any(matches)
    }

    /// Of all topics that somebody subscribes to: ids and sizes.
    fn hash_topics(&self, topics: &dyn Topics) -> u64 {
        let matched = self.patterns.keys().flat_map(|regex| self.topics_of(Some(regex)));
        let all: BTreeSet<&str> = self.names.keys().map(Text::as_str).chain(matched).collect();
        let mut seen = Vec::new();
        for name in all {
            if let Some((id, partitions)) = topics.topic(name) {
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

    /// The topics of patterns are known. Targets follow with the next heartbeats. Those that there is no room for are
    /// as if nobody had looked: they are looked for again.
    pub fn resolved(&mut self, ctx: &mut Ctx, resolved: Vec<ResolvedRegex>) {
        self.resolving = false;
        // After a start they are what they were, as far as anybody knows, and only the topics are compared.
        let were_known = std::mem::replace(&mut self.patterns_known, true);
        let mut wishes_changed = false;
        for (regex, names) in resolved {
            let Some(pattern) = self.patterns.get_mut(&regex) else { continue };
            if pattern.topics.as_ref() == Some(&names) {
                continue;
            }
            let (before, after) = (pattern.topics.as_ref().map_or(0, TopicNames::bytes), names.bytes());
            if after > before && !ctx.reserve(after - before) {
                continue;
            }
            ctx.totals.remove_bytes(before.saturating_sub(after));
            ctx.totals.resolve_pattern(before, after);
            // Also where others subscribe to the same topics already, so that the topics of all are no others.
            wishes_changed |= were_known;
            pattern.topics = Some(names);
        }
        // What is compared next includes them.
        self.topics_seen = None;
        self.notice_changes(ctx, wishes_changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_taken_by_its_letters_as_re2_does() {
        let is_match = |pattern: &str, topic: &str| compile(pattern).map(|regex| regex.is_match(topic)).ok();
        for (pattern, is, is_not) in [
            (r"\Qorders.\E.*", "orders.eu", "ordersXeu"),
            (r"a\Q.*\E", "a.*", "ab"),
            (r"\Q.", ".", "a"),
            (r"\Qab\E+", "abb", "abab"),
            (r"\Q\E\Q[\E|\d", "[", "d"),
            (r"\\Q", r"\Q", "Q"),
            (r"\Q\\E\.", r"\.", r"\a"),
        ] {
            assert_eq!((is_match(pattern, is), is_match(pattern, is_not)), (Some(true), Some(false)), "{pattern}");
        }
        for pattern in [r"\E", r"a\", r"\Q.\E("] {
            assert_eq!(is_match(pattern, "a"), None, "{pattern}");
        }
    }
}
