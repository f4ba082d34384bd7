//! One member of a group.

use std::sync::Arc;

use bytes::Bytes;

use super::ctx::At;
use crate::limits::{CLIENT_NAME_BYTES_MAX, MEMBER_BYTES, NEW_MEMBER_SESSION_MS};
use crate::record::MemberMetadata;
use crate::request::{JoinGroupRequest, Protocol};
use crate::text::detached;
use crate::{ConnectionId, ReplyToken, Text};

/// A join that waits for the rest of the group.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParkedJoin {
    pub token: ReplyToken,
    pub connection: ConnectionId,
    pub api_version: i16,
}

/// A sync that waits for the leader's.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParkedSync {
    pub token: ReplyToken,
    pub connection: ConnectionId,
}

/// What a join says of its member, with allocations of its own.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocols: Arc<[Protocol]>,
}

impl Offer {
    /// Copies what is kept out of the request's buffer, but not what `known` already has.
    pub fn of(request: &JoinGroupRequest, max_rebalance_timeout_ms: i32, known: Option<&Member>) -> Offer {
        let wanted = match request.rebalance_timeout_ms {
            ms if request.api_version == 0 || ms <= 0 => request.session_timeout_ms,
            ms => ms,
        };
        let protocols = match known {
            Some(member) if *member.offer.protocols == *request.protocols => member.offer.protocols.clone(),
            _ => request
                .protocols
                .iter()
                .map(|p| Protocol { name: p.name.detached(), metadata: detached(&p.metadata) })
                .collect(),
        };
        Offer {
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: wanted.min(max_rebalance_timeout_ms),
            protocols,
        }
    }

    pub fn bytes(&self) -> usize {
        self.protocols.iter().map(|p| size_of::<Protocol>() + p.name.len() + p.metadata.len()).sum()
    }

    /// The distinct names, in order.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        let all = &self.protocols;
        all.iter()
            .enumerate()
            .filter(|(n, p)| !all[..*n].iter().any(|earlier| earlier.name == p.name))
            .map(|(_, p)| &p.name)
    }

    pub fn metadata(&self, protocol: Option<&Text>) -> Bytes {
        let chosen = |p: &&Protocol| Some(&p.name) == protocol;
        self.protocols.iter().find(chosen).map_or_else(Bytes::new, |p| p.metadata.clone())
    }

    pub fn same_names(&self, other: &Offer) -> bool {
        self.protocols.iter().map(|p| &p.name).eq(other.protocols.iter().map(|p| &p.name))
    }
}

#[derive(Debug)]
pub(super) struct Member {
    /// Never that of another member, not even of a later one in this slot.
    pub uid: u64,
    pub member_id: Text,
    pub group_instance_id: Option<Text>,
    pub client_id: Text,
    pub client_host: Text,
    pub offer: Offer,
    /// Counts while `assignment_epoch` is the group's.
    pub assignment: Bytes,
    pub assignment_epoch: u64,
    pub join: Option<ParkedJoin>,
    pub sync: Option<ParkedSync>,
    /// Its first join is not answered yet.
    pub is_new: bool,
    /// The generation for which it was asked to sync and has not.
    pub owes_sync_for: Option<i32>,
    /// When its session last started anew.
    pub seen_ms: u64,
    /// Until when its timer is armed, if it is: never later than its deadline.
    pub armed_ms: Option<u64>,
}

impl Member {
    pub fn new(uid: u64, member_id: Text, request: &JoinGroupRequest, offer: Offer, at: At) -> Member {
        Member {
            uid,
            member_id,
            group_instance_id: request.group_instance_id.as_ref().map(Text::detached),
            client_id: cut(&request.client_id),
            client_host: cut(&request.client_host),
            offer,
            assignment: Bytes::new(),
            assignment_epoch: 0,
            join: None,
            sync: None,
            is_new: true,
            owes_sync_for: None,
            seen_ms: at.ms,
            armed_ms: None,
        }
    }

    /// A member as a record has it.
    pub fn restored(uid: u64, kept: MemberMetadata, assignment_epoch: u64) -> Member {
        let rebalance_timeout_ms = match kept.rebalance_timeout_ms {
            ms if ms <= 0 => kept.session_timeout_ms,
            ms => ms,
        };
        Member {
            uid,
            member_id: kept.member_id,
            group_instance_id: kept.group_instance_id,
            client_id: kept.client_id,
            client_host: kept.client_host,
            offer: Offer {
                session_timeout_ms: kept.session_timeout_ms,
                rebalance_timeout_ms,
                protocols: kept.protocols,
            },
            assignment: kept.assignment,
            assignment_epoch,
            join: None,
            sync: None,
            is_new: false,
            owes_sync_for: None,
            seen_ms: 0,
            armed_ms: None,
        }
    }

    pub fn metadata(&self, assignment_epoch: u64) -> MemberMetadata {
        MemberMetadata {
            member_id: self.member_id.clone(),
            group_instance_id: self.group_instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            session_timeout_ms: self.offer.session_timeout_ms,
            rebalance_timeout_ms: self.offer.rebalance_timeout_ms,
            protocols: self.offer.protocols.clone(),
            assignment: self.assignment(assignment_epoch),
        }
    }

    pub fn assignment(&self, assignment_epoch: u64) -> Bytes {
        if self.assignment_epoch == assignment_epoch { self.assignment.clone() } else { Bytes::new() }
    }

    pub fn is_static(&self) -> bool {
        self.group_instance_id.is_some()
    }

    /// Waiting for the group counts as being alive, but not before the first join was answered (1.2).
    pub fn is_alive_by_waiting(&self) -> bool {
        !self.is_new && (self.join.is_some() || self.sync.is_some())
    }

    /// When the member is given up; `sessions_from_ms` is when all sessions of the group last started anew.
    pub fn deadline_ms(&self, sessions_from_ms: u64) -> u64 {
        if self.is_new {
            return self.seen_ms.saturating_add(NEW_MEMBER_SESSION_MS);
        }
        let timeout = u64::try_from(self.offer.session_timeout_ms).unwrap_or_default();
        self.seen_ms.max(sessions_from_ms).saturating_add(timeout)
    }

    /// Bytes that it takes from the gateway's budget.
    pub fn bytes(&self) -> usize {
        let instance = self.group_instance_id.as_ref().map_or(0, Text::len);
        let texts = self.member_id.len() + instance + self.client_id.len() + self.client_host.len();
        MEMBER_BYTES + texts + self.offer.bytes() + self.assignment.len()
    }
}

/// A copy of a client's own name for itself, cut where it is very long.
pub(super) fn cut(name: &Text) -> Text {
    if name.len() <= CLIENT_NAME_BYTES_MAX {
        return name.detached();
    }
    let name = name.as_str();
    Text::from(&name[..name.floor_char_boundary(CLIENT_NAME_BYTES_MAX)])
}
