//! One member of a consumer group.

use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::reconcile::{Holding, MemberState};
use crate::assignor::Assignor;
use crate::coordinator::member::cut;
use crate::limits::MEMBER_BYTES;
use crate::record::{ClassicMember, ConsumerMember};
use crate::request::{ConsumerGroupHeartbeatRequest, Protocol};
use crate::{PartitionSet, Text, TopicIdPartition};

/// The epoch of a static member that is away for a while (KIP-848).
pub(super) const AWAY_EPOCH: i32 = -2;

/// What a member is that speaks the classic protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::coordinator) struct Classic {
    pub session_timeout_ms: i32,
    /// Of its first protocol's metadata, and so of its assignment.
    pub version: i16,
    /// All it offers, in its order.
    pub protocols: Arc<[Protocol]>,
}

impl Classic {
    /// The distinct names, in order.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        let all = &self.protocols;
        let is_first = |(n, p): &(usize, &Protocol)| !all[..*n].iter().any(|earlier| earlier.name == p.name);
        all.iter().enumerate().filter(is_first).map(|(_, p)| &p.name)
    }

    fn bytes(&self) -> usize {
        self.protocols.iter().map(|p| size_of::<Protocol>() + p.name.len() + p.metadata.len()).sum()
    }
}

#[derive(Debug)]
pub(in crate::coordinator) struct Member {
    /// Never that of another member.
    pub uid: u64,
    pub member_id: Text,
    pub instance_id: Option<Text>,
    pub rack_id: Option<Text>,
    pub client_id: Text,
    pub client_host: Text,
    pub rebalance_timeout_ms: i32,
    /// Sorted, each once.
    pub names: Arc<[Text]>,
    pub regex: Option<Text>,
    pub server_assignor: Option<Assignor>,
    pub holding: Holding,
    pub previous_epoch: i32,
    pub target: PartitionSet,
    /// As of which member epoch it has each of its partitions, those it gives back included (KIP-1251). Sorted.
    pub since: Vec<(TopicIdPartition, i32)>,
    /// When it was last heard of.
    pub seen_ms: u64,
    /// Until when its session timer is armed, if it is.
    pub armed_ms: Option<u64>,
    /// Until when it has to give back what it was told to; or, a classic one, to join or to sync.
    pub act_by_ms: Option<u64>,
    /// Set while it speaks the classic protocol.
    pub classic: Option<Classic>,
    /// Its digest, as the group counts it.
    pub counted_digest: u64,
}

impl Member {
    /// A member that has just come, and has said nothing yet.
    pub fn new(uid: u64, member_id: Text, instance_id: Option<Text>) -> Member {
        Member {
            uid,
            member_id,
            instance_id,
            rack_id: None,
            client_id: Text::EMPTY,
            client_host: Text::EMPTY,
            rebalance_timeout_ms: -1,
            names: Arc::default(),
            regex: None,
            server_assignor: None,
            holding: Holding {
                state: MemberState::Stable,
                epoch: 0,
                assigned: PartitionSet::EMPTY,
                revoking: PartitionSet::EMPTY,
            },
            previous_epoch: -1,
            target: PartitionSet::EMPTY,
            since: Vec::new(),
            seen_ms: 0,
            armed_ms: None,
            act_by_ms: None,
            classic: None,
            counted_digest: 0,
        }
    }

    /// A member as a record has it.
    pub fn restored(uid: u64, kept: ConsumerMember) -> Member {
        Member {
            uid,
            member_id: kept.member_id,
            instance_id: kept.instance_id,
            rack_id: kept.rack_id,
            client_id: kept.client_id,
            client_host: kept.client_host,
            rebalance_timeout_ms: kept.rebalance_timeout_ms,
            names: kept.subscribed_topic_names,
            regex: kept.subscribed_topic_regex,
            server_assignor: kept.server_assignor.as_ref().and_then(|name| Assignor::named(name.as_str())),
            holding: Holding { state: kept.state, epoch: kept.epoch, assigned: kept.assigned, revoking: kept.revoking },
            previous_epoch: kept.previous_epoch,
            target: kept.target,
            since: kept.since,
            seen_ms: 0,
            armed_ms: None,
            act_by_ms: None,
            classic: kept.classic.map(|kept| Classic {
                session_timeout_ms: kept.session_timeout_ms,
                version: kept.version,
                protocols: kept.protocols,
            }),
            counted_digest: 0,
        }
    }

    /// What is kept of it.
    pub fn record(&self) -> ConsumerMember {
        ConsumerMember {
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
            rack_id: self.rack_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            subscribed_topic_names: self.names.clone(),
            subscribed_topic_regex: self.regex.clone(),
            server_assignor: self.server_assignor.map(|assignor| Text::from_static(assignor.name())),
            state: self.holding.state,
            epoch: self.holding.epoch,
            previous_epoch: self.previous_epoch,
            assigned: self.holding.assigned.clone(),
            revoking: self.holding.revoking.clone(),
            target: self.target.clone(),
            since: self.since.clone(),
            classic: self.classic.as_ref().map(|classic| ClassicMember {
                session_timeout_ms: classic.session_timeout_ms,
                version: classic.version,
                protocols: classic.protocols.clone(),
            }),
        }
    }

    /// Takes over what a heartbeat says of everything but subscription and assignor; null and -1 say nothing.
    /// Returns whether anything is new.
    pub fn update(&mut self, request: &ConsumerGroupHeartbeatRequest, max_rebalance_timeout_ms: i32) -> bool {
        let mut changed = false;
        if let Some(rack_id) = &request.rack_id {
            changed |= replace(&mut self.rack_id, Some(rack_id.detached()));
        }
        if request.rebalance_timeout_ms != -1 {
            changed |= replace(
                &mut self.rebalance_timeout_ms,
                request.rebalance_timeout_ms.clamp(0, max_rebalance_timeout_ms),
            );
        }
        // Every request brings them; most of the time they are the same.
        if self.client_id.as_str() != cut_str(&request.client_id) {
            changed |= replace(&mut self.client_id, cut(&request.client_id));
        }
        if self.client_host.as_str() != cut_str(&request.client_host) {
            changed |= replace(&mut self.client_host, cut(&request.client_host));
        }
        changed
    }

    /// Puts the next step in the place of where it stands.
    pub fn advance(&mut self, next: Holding) {
        let epoch_of = |partition: TopicIdPartition| {
            let known = self.since.binary_search_by_key(&partition, |(partition, _)| *partition);
            known.map_or(next.epoch, |at| self.since[at].1)
        };
        let held = next.assigned.union(&next.revoking);
        let since: Vec<_> = held.iter().map(|partition| (partition, epoch_of(partition))).collect();
        if next.epoch != self.holding.epoch {
            self.previous_epoch = self.holding.epoch;
        }
        self.since = since;
        self.holding = next;
    }

    /// Whether it may commit offsets of this partition with an epoch that it had earlier (KIP-1251).
    pub fn had_since(&self, partition: TopicIdPartition, epoch: i32) -> bool {
        let known = self.since.binary_search_by_key(&partition, |(partition, _)| *partition);
        known.is_ok_and(|at| epoch >= self.since[at].1)
    }

    pub fn is_away(&self) -> bool {
        self.holding.epoch == AWAY_EPOCH
    }

    /// Of whom it is, what it wishes for and what it shall have. A static member is the same one under any id.
    pub fn digest(&self) -> u64 {
        let id = self.instance_id.as_ref().unwrap_or(&self.member_id);
        let mut all = Vec::with_capacity(64 + self.target.len() * size_of::<TopicIdPartition>());
        all.extend_from_slice(&(self.names.len() as u32).to_le_bytes());
        for text in [id].into_iter().chain(self.names.iter()).chain(self.regex.as_ref()) {
            all.extend_from_slice(&(text.len() as u32).to_le_bytes());
            all.extend_from_slice(text.as_str().as_bytes());
        }
        for (topic, partition) in self.target.iter() {
            all.extend_from_slice(&topic.to_le_bytes());
            all.extend_from_slice(&partition.to_le_bytes());
        }
        // It is kept, so it must not depend on the build.
        XxHash3_64::oneshot(&all)
    }

    /// Bytes that it takes from the gateway's budget, beside those of the topics that it names and of its
    /// partitions: these are counted where its group has them.
    pub fn bytes(&self) -> usize {
        let optional = |text: &Option<Text>| text.as_ref().map_or(0, Text::len);
        let texts = self.member_id.len()
            + self.client_id.len()
            + self.client_host.len()
            + optional(&self.instance_id)
            + optional(&self.rack_id)
            + optional(&self.regex)
            + self.names.len() * size_of::<Text>();
        MEMBER_BYTES + texts + self.classic.as_ref().map_or(0, Classic::bytes)
    }
}

fn replace<T: PartialEq>(place: &mut T, value: T) -> bool {
    let changed = *place != value;
    *place = value;
    changed
}

fn cut_str(name: &Text) -> &str {
    let name = name.as_str();
    &name[..name.floor_char_boundary(crate::limits::CLIENT_NAME_BYTES_MAX.min(name.len()))]
}
