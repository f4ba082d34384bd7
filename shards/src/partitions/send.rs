//! Batches of Iggy's: what may enter a partition, and the answer to SendMessages; and DeleteSegments.

use std::rc::Rc;

use bytes::Bytes;
use ringgate_wire::iggy::{IggyBatchError, IggyBatchInfo};

use super::arrive::{Appended, Arriving, Asked, Refused};
use super::attempts::Applied;
use super::delete_records::Moved;
use super::{Partition, Partitions, count};
use crate::call::{Attempt, DeleteSegmentsCall, IggyRefusal, Reply, ReplyTo, SendCall, SentBatch};
use crate::iggy_code::IggyCode;
use crate::log_driver::Reach;
use crate::settings::Fsync;
use crate::store::embedded::partition::AppendError;
use crate::{Shard, ShardHandle};

impl Partitions {
    /// Appends; answers through `to` when it is as safe as the gateway's `fsync` setting says.
    pub(crate) fn send(&self, shard: &ShardHandle, call: SendCall, to: ReplyTo) {
        let reach = if shard.settings.fsync == Fsync::Always { Reach::Durable } else { Reach::Written };
        let Some(partition) = self.get(call.at) else { return shard.reply(to, Reply::Sent(Err(no_partition()))) };
        match self.attempts.begin(call.at, call.attempt) {
            Ok(None) => {
                let asked = Asked::Send(to, call.attempt);
                partition.arrive(shard, Arriving { batch: call.batch, reach, asked });
            }
            Ok(Some(Applied::Sent(sent))) => shard.reply(to, Reply::Sent(Ok(sent))),
            Ok(Some(Applied::Offset(_))) => shard.reply(to, Reply::Sent(Err(another_request()))),
            Err(refusal) => shard.reply(to, Reply::Sent(Err(refusal))),
        }
    }

    /// Removes the oldest closed segments; answers when they are gone on disk.
    pub(crate) async fn delete_segments(
        &self,
        shard: &ShardHandle,
        call: DeleteSegmentsCall,
    ) -> Result<(), IggyRefusal> {
        let partition = self.get(call.at).ok_or_else(no_partition)?;
        let log = partition.writable().map_err(Refused::for_iggy)?.clone();
        let log_start_offset = log.with(|log| log.delete_segments(call.count as usize));
        log.kick(shard);
        self.used_less(&partition);
        let closed = |_| Refused::Closed.for_iggy();
        Moved { partition, log, log_start_offset }.settled(shard).await.map(|_| ()).map_err(closed)
    }
}

impl Partition {
    /// Appends a batch of Iggy's that was looked through.
    pub(super) fn append_iggys(
        &self,
        shard: &ShardHandle,
        batch: &Bytes,
        walked: Result<IggyBatchInfo, IggyBatchError>,
    ) -> Result<Appended, Refused> {
        let info = walked.map_err(|error| {
            let code = IggyCode(error.code());
            Refused::Iggy(IggyRefusal::new(code, error.to_string()))
        })?;
        let log = self.writable()?;
        let now_us = shard.clock.wall_us();
        // Partitions are numbered from 0 and there are at most i32::MAX of them.
        let partition = self.at.partition.unsigned_abs();
        let appended = log.with(|log| {
            let append = log.append_iggy(now_us, batch, &info, partition)?;
            let records = info.header.messages;
            Ok::<_, AppendError>(Appended { append, records, log_start_offset: log.log_start_offset() })
        });
        appended.map_err(Refused::Append)
    }

    pub(super) fn settle_send(
        &self,
        shard: &Rc<Shard>,
        to: ReplyTo,
        attempt: Attempt,
        outcome: Result<Appended, Refused>,
    ) {
        let answer = match outcome {
            Ok(Appended { append, .. }) => {
                let (base_offset, duplicate) = (append.base_offset.unsigned_abs(), append.duplicate);
                Ok(SentBatch { base_offset, duplicate })
            }
            Err(refused) => {
                count(&shard.partitions().counters.batches_refused);
                Err(refused.for_iggy())
            }
        };
        let applied = answer.as_ref().ok().copied().map(Applied::Sent);
        shard.partitions().attempts.end(self.at, attempt, applied);
        shard.reply(to, Reply::Sent(answer));
    }
}

/// The client has given two requests the same number.
pub(super) fn another_request() -> IggyRefusal {
    IggyRefusal::new(IggyCode::INVALID_COMMAND, "the request was another one before")
}

pub(super) fn no_partition() -> IggyRefusal {
    IggyRefusal::new(IggyCode::PARTITION_NOT_FOUND, "There is no such partition.")
}
