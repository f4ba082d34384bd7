//! Which members may commit and fetch offsets (4.2 rows 9 to 12, 4.5; KIP-1251).

use super::ConsumerGroup;
use crate::ErrorCode;
use crate::request::{OffsetCommitRequest, OffsetFetchRequest};

/// The first version with member epochs.
const MEMBER_EPOCH_SINCE: i16 = 9;

impl ConsumerGroup {
    /// A member commits with the epoch it has, or with one that it had since it has had all the partitions: what
    /// it read before the epoch moved on is its own to commit.
    pub fn check_commit(&self, request: &OffsetCommitRequest) -> Result<(), ErrorCode> {
        let epoch = request.generation_id_or_member_epoch;
        if self.members.is_empty() && epoch < 0 {
            return Ok(());
        }
        let slot = self.ids.get(&request.member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let member = self.member(*slot);
        if member.classic.is_none() && request.api_version < MEMBER_EPOCH_SINCE {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        if epoch == member.holding.epoch {
            return Ok(());
        }
        let mut partitions = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(move |partition| (topic.topic_id, partition.partition_index))
        });
        let had_all = epoch < member.holding.epoch && partitions.all(|partition| member.had_since(partition, epoch));
        if had_all { Ok(()) } else { Err(self.stale(*slot)) }
    }

    /// Whoever says who it is must be who it says.
    pub fn check_fetch(&self, request: &OffsetFetchRequest) -> Result<(), ErrorCode> {
        let Some(member_id) = &request.member_id else {
            return if request.member_epoch < 0 { Ok(()) } else { Err(ErrorCode::UNKNOWN_MEMBER_ID) };
        };
        let slot = self.ids.get(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if self.member(*slot).holding.epoch == request.member_epoch { Ok(()) } else { Err(self.stale(*slot)) }
    }

    /// An epoch that is not the member's, in the terms of its protocol.
    fn stale(&self, slot: u32) -> ErrorCode {
        match self.member(slot).classic {
            Some(_) => ErrorCode::ILLEGAL_GENERATION,
            None => ErrorCode::STALE_MEMBER_EPOCH,
        }
    }
}
