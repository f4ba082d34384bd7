//! Faults put in on purpose between the world and the coordinator: what the checks are worth, the tests of
//! mutations tell.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ringgate_group::request::HeartbeatRequest;
use ringgate_group::{
    Batch, Batcher, ConnectionId, Coordinator, DeletedTopic, Effect, ErrorCode, GroupConfig, Now, PartitionSet,
    PersistId, Record, ReplyToken, Request, ResolvedRegex, Response, StoreError, Text, TimerKey, Totals,
};

use super::topics::Catalogue;

/// What is wrong with a coordinator, or with what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    None,
    /// Timers of join phases are lost.
    JoinTimerMissed,
    /// Sessions are never over.
    SessionTimerMissed,
    /// Writes count as done when they are asked for.
    AcknowledgedBeforeDurable,
    /// Writes that failed count as done.
    FailedWriteAcknowledged,
    /// Whoever led first leads for ever.
    LeaderNotReelected,
    LostReply,
    DoubleReply,
    /// Every other generation has the number of the one before.
    GenerationNotRaised,
    /// What a closed connection has parked stays.
    ClosedConnectionNotTold,
    /// Sessions end though heartbeats came.
    SessionNotRestarted,
    /// Of several writes of a key in a batch the first wins.
    FirstWriteWins,
    /// Commits of an older generation are taken.
    FencedCommitAccepted,
    /// Whoever had an instance id before may still use it.
    StaticMemberNotFenced,
    /// Subscriptions are forgotten, so their offsets expire.
    SubscribedTopicExpires,
    PendingIdNeverExpires,
    /// Members of consumer groups need not give back before others get.
    RevocationNotAwaited,
    /// Groups are not loaded after a start.
    GroupsNotLoaded,
    /// An epoch of the consumer protocol goes back by one.
    EpochGoesBack,
    /// A shard makes room in its mailbox and tells nobody.
    StarvingSenderNotTold,
    /// What fits into a mailbox goes there, past what did not.
    BacklogOvertaken,
    /// A topic that was deleted and made again has the id, and so the offsets, of the old one.
    RecreatedTopicTakenForOld,
    /// Whoever speaks the classic protocol in a consumer group is kept as one that does not.
    ClassicMemberKeptAsConsumer,
    /// There is room for any number of groups and members, whatever is set.
    BoundsNotHeld,
}

impl Mutation {
    /// All that break something.
    pub const ALL: [Mutation; 23] = [
        Mutation::JoinTimerMissed,
        Mutation::SessionTimerMissed,
        Mutation::AcknowledgedBeforeDurable,
        Mutation::FailedWriteAcknowledged,
        Mutation::LeaderNotReelected,
        Mutation::LostReply,
        Mutation::DoubleReply,
        Mutation::GenerationNotRaised,
        Mutation::ClosedConnectionNotTold,
        Mutation::SessionNotRestarted,
        Mutation::FirstWriteWins,
        Mutation::FencedCommitAccepted,
        Mutation::StaticMemberNotFenced,
        Mutation::SubscribedTopicExpires,
        Mutation::PendingIdNeverExpires,
        Mutation::RevocationNotAwaited,
        Mutation::GroupsNotLoaded,
        Mutation::EpochGoesBack,
        Mutation::StarvingSenderNotTold,
        Mutation::BacklogOvertaken,
        Mutation::RecreatedTopicTakenForOld,
        Mutation::ClassicMemberKeptAsConsumer,
        Mutation::BoundsNotHeld,
    ];
}

/// A coordinator and its batches, as the world deals with them.
pub struct Core {
    coordinator: Coordinator,
    batcher: Batcher,
    mutation: Mutation,
    /// An effect that is to come once more.
    again: Option<Effect>,
    replies: u64,
    groups: HashMap<Text, Known>,
    asked: HashMap<ReplyToken, (Text, Option<Text>)>,
    filling: HashSet<Bytes>,
    early: HashSet<PersistId>,
    catalogue: Catalogue,
}

/// What a mutation knows of a group.
#[derive(Debug, Default)]
struct Known {
    first_leader: Option<Text>,
    generation: i32,
    member_id: Text,
    /// Instance ids and who has them now; ids and the instance that they once had.
    instances: HashMap<Text, Text>,
    instance_of: HashMap<Text, Text>,
}

impl Core {
    pub fn new(
        config: GroupConfig,
        totals: Arc<Totals>,
        linger: Duration,
        random: impl FnMut() -> u128 + 'static,
        mutation: Mutation,
    ) -> Core {
        let config = match mutation {
            Mutation::BoundsNotHeld => GroupConfig {
                max_groups: usize::MAX,
                max_total_members: usize::MAX,
                max_members_per_group: usize::MAX,
                ..config
            },
            _ => config,
        };
        Core {
            coordinator: Coordinator::new(config, totals, random),
            batcher: Batcher::new(linger),
            mutation,
            again: None,
            replies: 0,
            groups: HashMap::new(),
            asked: HashMap::new(),
            filling: HashSet::new(),
            early: HashSet::new(),
            catalogue: Catalogue::default(),
        }
    }

    pub fn load(&mut self, now: Now, record: Record) {
        if self.mutation == Mutation::GroupsNotLoaded && matches!(record, Record::Group(_)) {
            return;
        }
        self.coordinator.load(now, record);
    }

    pub fn finish_loading(&mut self, now: Now) {
        self.coordinator.finish_loading(now);
    }

    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    pub fn request(&mut self, now: Now, token: ReplyToken, connection: ConnectionId, mut request: Request) {
        match (self.mutation, &mut request) {
            (Mutation::LeaderNotReelected | Mutation::GenerationNotRaised, Request::Join(join)) => {
                self.asked.insert(token, (join.group_id.clone(), None));
            }
            (Mutation::FencedCommitAccepted, Request::Join(join)) => {
                self.asked.insert(token, (join.group_id.clone(), None));
            }
            (Mutation::StaticMemberNotFenced, Request::Join(join)) => {
                self.asked.insert(token, (join.group_id.clone(), join.group_instance_id.clone()));
            }
            (Mutation::SubscribedTopicExpires, Request::Join(join)) => {
                for protocol in &mut join.protocols {
                    protocol.metadata = renamed(&protocol.metadata, b"c-", b"d-");
                }
            }
            (Mutation::FencedCommitAccepted, Request::OffsetCommit(commit)) => {
                if let Some(known) = self.groups.get(&commit.group_id)
                    && (0..known.generation).contains(&commit.generation_id_or_member_epoch)
                {
                    commit.generation_id_or_member_epoch = known.generation;
                    commit.member_id = known.member_id.clone();
                    commit.group_instance_id = None;
                }
            }
            (Mutation::GenerationNotRaised, Request::Sync(sync)) => {
                sync.generation_id = self.true_generation(&sync.group_id, sync.generation_id);
            }
            (Mutation::GenerationNotRaised, Request::Heartbeat(heartbeat)) => {
                heartbeat.generation_id = self.true_generation(&heartbeat.group_id, heartbeat.generation_id);
            }
            (Mutation::GenerationNotRaised, Request::OffsetCommit(commit)) => {
                let said = commit.generation_id_or_member_epoch;
                commit.generation_id_or_member_epoch = self.true_generation(&commit.group_id, said);
            }
            (Mutation::StaticMemberNotFenced, Request::Heartbeat(heartbeat)) => {
                let now_known_as = self.known_as(&heartbeat.group_id, &heartbeat.member_id);
                heartbeat.member_id = now_known_as.unwrap_or_else(|| heartbeat.member_id.clone());
            }
            (Mutation::StaticMemberNotFenced, Request::OffsetCommit(commit)) => {
                let now_known_as = self.known_as(&commit.group_id, &commit.member_id);
                commit.member_id = now_known_as.unwrap_or_else(|| commit.member_id.clone());
            }
            (Mutation::RevocationNotAwaited, Request::ConsumerGroupHeartbeat(heartbeat)) => {
                heartbeat.topic_partitions = Some(PartitionSet::EMPTY);
            }
            _ => {}
        }
        self.coordinator.handle_request(now, token, connection, request);
    }

    fn true_generation(&self, group: &Text, said: i32) -> i32 {
        match self.groups.get(group) {
            Some(known) if said >= 0 && said == halved(known.generation) => known.generation,
            _ => said,
        }
    }

    fn known_as(&self, group: &Text, member_id: &Text) -> Option<Text> {
        let known = self.groups.get(group)?;
        known.instances.get(known.instance_of.get(member_id)?).cloned()
    }

    pub fn heartbeat_seen(&mut self, now: Now, request: &HeartbeatRequest) {
        self.coordinator.handle_heartbeat_seen(now, request);
    }

    pub fn timer(&mut self, mut now: Now, key: TimerKey) {
        match (self.mutation, key) {
            (Mutation::JoinTimerMissed, TimerKey::Join { .. })
            | (Mutation::SessionTimerMissed, TimerKey::Session { .. })
            | (Mutation::PendingIdNeverExpires, TimerKey::Pending { .. }) => return,
            (Mutation::SessionNotRestarted, TimerKey::Session { .. }) => now.mono_ms += 3_600_000,
            _ => {}
        }
        self.coordinator.handle_timer(now, key);
    }

    pub fn connection_closed(&mut self, now: Now, connection: ConnectionId) {
        if self.mutation != Mutation::ClosedConnectionNotTold {
            self.coordinator.handle_connection_closed(now, connection);
        }
    }

    pub fn topics(&mut self, topics: Arc<Catalogue>) {
        if self.mutation == Mutation::RecreatedTopicTakenForOld {
            self.catalogue.take_for_old(&topics);
            return self.coordinator.handle_topics(Arc::new(self.catalogue.clone()));
        }
        self.coordinator.handle_topics(topics);
    }

    pub fn topics_deleted(&mut self, now: Now, topics: Vec<DeletedTopic>) {
        if self.mutation != Mutation::RecreatedTopicTakenForOld {
            self.coordinator.handle_topics_deleted(now, topics);
        }
    }

    pub fn expiry(&mut self, now: Now) {
        self.coordinator.handle_expiry(now);
    }

    pub fn stall(&mut self, ms: u64) {
        self.coordinator.handle_stall(ms);
    }

    pub fn assignment_computed(
        &mut self,
        now: Now,
        (group, uid): (u32, u64),
        asked: Vec<(u32, u64)>,
        targets: Vec<PartitionSet>,
    ) {
        self.coordinator.handle_assignment_computed(now, group, uid, asked, targets);
    }

    pub fn regex_resolved(&mut self, now: Now, (group, uid): (u32, u64), resolved: Vec<ResolvedRegex>) {
        self.coordinator.handle_regex_resolved(now, group, uid, resolved);
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        let mut effect = self.coordinator.poll_effect()?;
        if let Effect::Reply { token, response } = &mut effect {
            self.replies += 1;
            let nth = self.replies;
            self.bend(*token, response);
            match self.mutation {
                Mutation::LostReply if nth.is_multiple_of(97) => return Some(Effect::Worked),
                Mutation::DoubleReply if nth.is_multiple_of(97) => {
                    self.again = Some(Effect::Reply { token: *token, response: response.clone() });
                }
                _ => {}
            }
        }
        Some(effect)
    }

    /// What a mutation makes of an answer.
    fn bend(&mut self, token: ReplyToken, response: &mut Response) {
        match response {
            Response::Join(answer) if answer.error_code == ErrorCode::NONE => {
                if self.mutation == Mutation::SubscribedTopicExpires {
                    for member in &mut answer.members {
                        member.metadata = renamed(&member.metadata, b"d-", b"c-");
                    }
                }
                let Some((group, instance)) = self.asked.remove(&token) else { return };
                let known = self.groups.entry(group).or_default();
                known.generation = answer.generation_id;
                known.member_id = answer.member_id.clone();
                match self.mutation {
                    Mutation::LeaderNotReelected => {
                        let leader = known.first_leader.get_or_insert_with(|| answer.leader.clone());
                        if *leader != answer.leader {
                            answer.leader = leader.clone();
                            answer.members.clear();
                        }
                    }
                    Mutation::GenerationNotRaised => answer.generation_id = halved(answer.generation_id),
                    Mutation::StaticMemberNotFenced => {
                        if let Some(instance) = instance {
                            known.instance_of.insert(answer.member_id.clone(), instance.clone());
                            known.instances.insert(instance, answer.member_id.clone());
                        }
                    }
                    _ => {}
                }
            }
            Response::ConsumerGroupHeartbeat(answer)
                if self.mutation == Mutation::EpochGoesBack
                    && answer.member_epoch > 3
                    && self.replies.is_multiple_of(5) =>
            {
                answer.member_epoch -= 1;
            }
            _ => {}
        }
    }

    /// Whether anything is to be written.
    pub fn push(&mut self, now_us: u64, id: PersistId, mut records: Vec<Record>) {
        if self.mutation == Mutation::ClassicMemberKeptAsConsumer {
            for record in &mut records {
                if let Record::ConsumerMember { member, .. } = record {
                    member.classic = None;
                }
            }
        }
        if self.mutation == Mutation::FirstWriteWins {
            let filling = &mut self.filling;
            records.retain(|record| filling.insert(record.key()));
        }
        self.batcher.push(now_us, id, records);
    }

    /// Writes that are taken for done before they are.
    pub fn done_early(&mut self, now: Now, id: PersistId) {
        if self.mutation == Mutation::AcknowledgedBeforeDurable {
            self.early.insert(id);
            self.coordinator.handle_persisted(now, id, Ok(()));
        }
    }

    pub fn poll_batch(&mut self, now_us: u64) -> Option<Batch> {
        let batch = self.batcher.poll_batch(now_us);
        if batch.is_some() {
            self.filling.clear();
        }
        batch
    }

    pub fn next_deadline_us(&self) -> Option<u64> {
        self.batcher.next_deadline_us()
    }

    pub fn written(&mut self, now: Now, mut result: Result<(), StoreError>) {
        if self.mutation == Mutation::FailedWriteAcknowledged {
            result = Ok(());
        }
        let Some(written) = self.batcher.handle_written(result) else { return };
        for id in written.ids {
            if !self.early.remove(&id) {
                self.coordinator.handle_persisted(now, id, written.result);
            }
        }
    }
}

/// 1, 1, 2, 2, 3, 3: generations of which every other one was not raised.
fn halved(generation: i32) -> i32 {
    (generation + 1) / 2
}

fn renamed(bytes: &Bytes, from: &[u8], to: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(from.len() - 1) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    bytes.into()
}
