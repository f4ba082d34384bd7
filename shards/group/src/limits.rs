//! Every bound of the coordinator: unit, reason, default. Users set those of [`GroupConfig`].

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Bytes of a group id, as for topic names (249) less room for a suffix; the embedded store and Iggy's
/// group names (`kafka.cg.<group>`, 255) both fit it. Longer: 24.
pub const GROUP_ID_BYTES_MAX: usize = 246;

/// Bytes of a member id or instance id. Kafka's are an instance or client id and a uuid. An instance id
/// over this is refused (42); no member has such an id.
pub const MEMBER_ID_BYTES_MAX: usize = 1024;

/// Bytes kept of a client id or host, both of which only DescribeGroups and member ids show.
pub const CLIENT_NAME_BYTES_MAX: usize = 256;

/// Assignors of one member. Clients know 1 to 5. More: 42.
pub const PROTOCOLS_PER_MEMBER_MAX: usize = 16;

/// Bytes of a protocol type or of an assignor's name; both are short names. Longer: 42.
pub const PROTOCOL_NAME_BYTES_MAX: usize = 255;

/// Session of a member whose first join is parked, ms: Kafka's constant of 5 minutes.
pub const NEW_MEMBER_SESSION_MS: u64 = 5 * 60 * 1000;

/// Members looked at between two effects, at well under 1 us each.
pub const WORK_SLICE_MEMBERS: usize = 16;

/// Records of one write, where a step makes more: what takes a write in takes some 300 ns for each.
pub const RECORDS_PER_WRITE: usize = 256;

/// Partitions of a commit looked at between two effects, at some 300 ns each.
pub const COMMIT_SLICE_PARTITIONS: usize = 128;

/// Members and partitions together up to which an assignment is made on the shard itself; some 100 us.
pub const ASSIGNED_INLINE_MAX: usize = 512;

/// Bytes of a member's pattern of topic names. Longer: 128.
pub const REGEX_BYTES_MAX: usize = 1024;

/// Bytes that a compiled pattern may take. Larger: 128.
pub const REGEX_COMPILED_BYTES_MAX: usize = 1 << 20;

/// Patterns of a group: its members mostly have one, and two while a fleet goes from one to the next. More: 42.
pub const PATTERNS_PER_GROUP_MAX: usize = 16;

/// Ms between two resolutions of a group's patterns when the topics have changed (Kafka's constant of 10 s).
pub const REGEX_REFRESH_MS_MIN: u64 = 10_000;

/// Ms between two resolutions of a group's patterns while some pattern was never resolved.
pub const REGEX_RESOLVE_MS_MIN: u64 = 1_000;

/// Groups looked at by one slice of a listing or of a sweep; under 200 us.
pub const LIST_SLICE_GROUPS: usize = 512;

/// Groups and offsets together that one slice of a survey looks at, at up to 0.2 us each.
pub const SURVEY_SLICE: usize = 512;

/// Groups looked at between two effects of a sweep.
pub const SWEEP_SLICE_GROUPS: usize = 64;

/// Bytes counted for a group beside its id and members: what its maps and fields take, as measured
/// (docs/coordinator-cost.md).
pub const GROUP_BYTES: usize = 1536;

/// Bytes counted for a member beside its texts and blobs, as measured.
pub const MEMBER_BYTES: usize = 768;

/// Bytes counted for a topic that a consumer group's members name, beside its name: its place in the group, and
/// what its text takes, as measured. A member's own list takes a [`Text`](crate::Text) for each.
pub const NAMED_TOPIC_BYTES: usize = 224;

/// Bytes counted for a pattern of a group beside its text and the names of its topics.
pub const PATTERN_BYTES: usize = 256;

/// Bytes counted for a partition that a consumer group shares out: its place in a target, in what a member has, with
/// the epoch since which, and among the owners, as measured.
pub const PARTITION_BYTES: usize = 256;

/// Bytes counted for a committed offset beside its metadata, as measured.
pub const OFFSET_BYTES: usize = 128;

/// Members of a record that are looked at for its size: each may cost a miss of every cache, and 10,000 of them
/// would take a millisecond.
pub const MEMBERS_SIZED_MAX: usize = 256;

/// Bytes of one batch of records before the next begins: one write of a few ms.
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Requests of other shards that are served in one go before everything else gets its turn: long enough to pay for
/// the wake-up, short enough (about 64 x 5 us) not to be felt.
pub const MAILBOX_REQUESTS_MAX: usize = 64;

/// Replies and other notices taken in one go, each of which only wakes somebody: under 1 us. A rebalance of 10,000
/// members that another shard coordinates brings as many at a time.
pub const MAILBOX_NOTICES_MAX: usize = 256;

const _: () = assert!(MAILBOX_REQUESTS_MAX > 0 && MAILBOX_NOTICES_MAX > 0);
const _: () = assert!(WORK_SLICE_MEMBERS > 0 && SWEEP_SLICE_GROUPS <= LIST_SLICE_GROUPS);
const _: () = assert!(GROUP_ID_BYTES_MAX + "kafka.cg.".len() <= 255);

/// The bounds that users set. Checked by whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// Shorter session timeouts are refused (26). 6 s: a member must survive a short pause.
    pub min_session_timeout: Duration,
    /// Longer ones are refused (26). 30 min.
    pub max_session_timeout: Duration,
    /// Longer rebalance timeouts are cut to it. 30 min.
    pub max_rebalance_timeout: Duration,
    /// How long an empty group waits for further members when the first joins. 3 s.
    pub initial_rebalance_delay: Duration,
    /// Members of a group; 81 past it. 20,000.
    pub max_members_per_group: usize,
    /// Bytes of one join's metadata together, and of one assignment; 42 past it. 1 MiB.
    pub max_member_blob_bytes: usize,
    /// Groups of the gateway; past it the oldest empty one without offsets goes, or 15. 100,000.
    pub max_groups: usize,
    /// Members of the gateway with ids that have not joined yet; 15 past it. 200,000.
    pub max_total_members: usize,
    /// Bytes that groups of the gateway hold; 15 past it. 1 GiB.
    pub max_group_memory: usize,
    /// Patterns of topics of all groups, each group's counted by themselves; 15 past it. 10,000: all of them are
    /// looked through anew when topics come.
    pub max_total_patterns: usize,
    /// UTF-16 units of the metadata of one commit; 12 past it. 4096.
    pub offset_metadata_max: usize,
    /// How long offsets outlive their group's last member; zero: for ever. 7 d.
    pub offsets_retention: Duration,
    /// Silence after which a member of a consumer group (KIP-848) is given up. 45 s.
    pub consumer_session_timeout: Duration,
    /// How often members of consumer groups are told to heartbeat. 5 s.
    pub consumer_heartbeat_interval: Duration,
    /// How often a consumer group's partitions are assigned anew at most. 1 s.
    pub consumer_assignment_interval: Duration,
    /// How old the topics that a pattern names may be. 10 min.
    pub consumer_regex_refresh_interval: Duration,
    /// Whether groups may change their protocol while they have members.
    pub consumer_migration_policy: MigrationPolicy,
}

/// Whether a group may change its protocol while it has members (Kafka's `group.consumer.migration.policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationPolicy {
    /// Up and down.
    #[default]
    Bidirectional,
    /// From the classic protocol to the consumer protocol only.
    Upgrade,
    /// From the consumer protocol to the classic one only.
    Downgrade,
    /// Never.
    Disabled,
}

impl Default for GroupConfig {
    fn default() -> GroupConfig {
        GroupConfig {
            min_session_timeout: Duration::from_secs(6),
            max_session_timeout: Duration::from_secs(30 * 60),
            max_rebalance_timeout: Duration::from_secs(30 * 60),
            initial_rebalance_delay: Duration::from_secs(3),
            max_members_per_group: 20_000,
            max_member_blob_bytes: 1 << 20,
            max_groups: 100_000,
            max_total_members: 200_000,
            max_group_memory: 1 << 30,
            max_total_patterns: 10_000,
            offset_metadata_max: 4096,
            offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
            consumer_session_timeout: Duration::from_secs(45),
            consumer_heartbeat_interval: Duration::from_secs(5),
            consumer_assignment_interval: Duration::from_secs(1),
            consumer_regex_refresh_interval: Duration::from_secs(10 * 60),
            consumer_migration_policy: MigrationPolicy::default(),
        }
    }
}

/// What all shards of a gateway hold together. Touched only when a group, a member or a pending id comes
/// or goes or changes what it stores.
#[derive(Debug, Default)]
pub struct Totals {
    groups: AtomicUsize,
    members: AtomicUsize,
    bytes: AtomicUsize,
    /// Groups that were refused on shards that had none to give up.
    places_wanted: AtomicUsize,
    patterns: AtomicUsize,
    pattern_topics: AtomicUsize,
}

impl Totals {
    /// Groups.
    pub fn groups(&self) -> usize {
        self.groups.load(Relaxed)
    }

    /// Members and ids that have not joined yet.
    pub fn members(&self) -> usize {
        self.members.load(Relaxed)
    }

    /// Bytes, as counted.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Patterns of topics, each group's by themselves.
    pub fn patterns(&self) -> usize {
        self.patterns.load(Relaxed)
    }

    /// Those of the bytes that are of the topics of patterns, which are not known yet after a start.
    pub fn pattern_topics_bytes(&self) -> usize {
        self.pattern_topics.load(Relaxed)
    }

    pub(crate) fn try_add_group(&self, max: usize) -> bool {
        try_add(&self.groups, 1, max)
    }

    pub(crate) fn add_group(&self) {
        self.groups.fetch_add(1, Relaxed);
    }

    pub(crate) fn remove_group(&self) {
        self.groups.fetch_sub(1, Relaxed);
    }

    /// A group was refused, and no other of its shard can make room for it. So many are remembered.
    pub(crate) fn want_place(&self, max: usize) {
        try_add(&self.places_wanted, 1, max);
    }

    /// Whether a group is to be given up for one of another shard.
    pub(crate) fn take_wanted_place(&self) -> bool {
        self.places_wanted.fetch_update(Relaxed, Relaxed, |wanted| wanted.checked_sub(1)).is_ok()
    }

    pub(crate) fn try_add_member(&self, max: usize) -> bool {
        try_add(&self.members, 1, max)
    }

    pub(crate) fn add_member(&self) {
        self.members.fetch_add(1, Relaxed);
    }

    pub(crate) fn remove_member(&self) {
        self.members.fetch_sub(1, Relaxed);
    }

    pub(crate) fn add_pattern(&self) {
        self.patterns.fetch_add(1, Relaxed);
    }

    pub(crate) fn remove_pattern(&self) {
        self.patterns.fetch_sub(1, Relaxed);
    }

    /// The bytes of a pattern's topics, which are counted already, are so many and not as many as before.
    pub(crate) fn resolve_pattern(&self, before: usize, bytes: usize) {
        self.pattern_topics.fetch_add(bytes, Relaxed);
        self.pattern_topics.fetch_sub(before, Relaxed);
    }

    pub(crate) fn try_add_bytes(&self, bytes: usize, max: usize) -> bool {
        try_add(&self.bytes, bytes, max)
    }

    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove_bytes(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

fn try_add(counter: &AtomicUsize, by: usize, max: usize) -> bool {
    let fits = |current: usize| current.checked_add(by).filter(|sum| *sum <= max);
    counter.fetch_update(Relaxed, Relaxed, fits).is_ok()
}

/// A bound that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Limit {
    /// [`GROUP_ID_BYTES_MAX`].
    GroupId,
    /// `min_session_timeout`, `max_session_timeout`.
    SessionTimeout,
    /// `max_rebalance_timeout`: the timeout was cut.
    RebalanceTimeout,
    /// [`PROTOCOLS_PER_MEMBER_MAX`].
    ProtocolsPerMember,
    /// `max_member_blob_bytes`, and the bounds on names.
    MemberBlob,
    /// `max_members_per_group`.
    MembersPerGroup,
    /// `max_groups`.
    Groups,
    /// `max_total_members`.
    TotalMembers,
    /// `max_group_memory`.
    GroupMemory,
    /// `offset_metadata_max`.
    OffsetMetadata,
    /// [`PATTERNS_PER_GROUP_MAX`].
    PatternsPerGroup,
    /// `max_total_patterns`.
    TotalPatterns,
    /// [`REGEX_BYTES_MAX`], [`REGEX_COMPILED_BYTES_MAX`].
    PatternBytes,
}

const LIMIT_NAMES: [&str; 13] = [
    "group_id_bytes",
    "session_timeout",
    "max_rebalance_timeout",
    "protocols_per_member",
    "max_member_blob_bytes",
    "max_members_per_group",
    "max_groups",
    "max_total_members",
    "max_group_memory",
    "offset_metadata_max_bytes",
    "patterns_per_group",
    "max_total_patterns",
    "pattern_bytes",
];

const _: () = assert!(Limit::PatternBytes as usize + 1 == LIMIT_NAMES.len());

/// How often each bound was met on one shard.
#[derive(Debug, Clone, Default)]
pub struct LimitsHit([u64; LIMIT_NAMES.len()]);

impl LimitsHit {
    pub(crate) fn count(&mut self, limit: Limit) {
        self.0[limit as usize] += 1;
    }

    /// How often this one was.
    pub fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        LIMIT_NAMES.iter().copied().zip(self.0.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_added() {
        let totals = Totals::default();
        assert!(totals.try_add_bytes(60, 100));
        assert!(!totals.try_add_bytes(41, 100));
        assert_eq!(totals.bytes(), 60);
        assert!(totals.try_add_bytes(40, 100));
        assert!(!totals.try_add_bytes(usize::MAX, 100));
    }
}
