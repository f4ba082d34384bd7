//! The offsets that Iggy's consumers keep in a partition. They hold back no retention and no DeleteSegments.

use std::cell::RefCell;
use std::rc::Rc;

use super::arrive::Refused;
use super::attempts::Applied;
use super::send::{another_request, no_partition};
use super::{Partition, Partitions, count};
use crate::ShardHandle;
use crate::call::{
    ConsumerKey, ConsumerKind, ConsumerOffset, ConsumerOffsetCall, DeletedGroup, IggyRefusal, OffsetAction,
};
use crate::iggy_code::IggyCode;
use crate::log_driver::{LogDriver, Reach};
use crate::settings::Fsync;
use crate::store::embedded::consumer_offsets::{OffsetsError, OffsetsLog};

type Driver = Rc<LogDriver<OffsetsLog>>;

/// The logs of a partition's offsets by kind; those in which nothing was stored yet are none.
#[derive(Default)]
pub(super) struct Offsets([RefCell<Option<Driver>>; 3]);

impl Offsets {
    pub(super) fn new(found: [Option<OffsetsLog>; 3]) -> Offsets {
        Offsets(found.map(|log| RefCell::new(log.map(|log| Rc::new(LogDriver::new(log))))))
    }

    fn slot(&self, kind: ConsumerKind) -> &RefCell<Option<Driver>> {
        &self.0[kind as usize - 1]
    }

    fn get(&self, kind: ConsumerKind) -> Option<Driver> {
        self.slot(kind).borrow().clone()
    }

    /// The logs that there are.
    pub(super) fn open(&self) -> impl Iterator<Item = Driver> + '_ {
        self.0.iter().filter_map(|slot| slot.borrow().clone())
    }
}

impl Partitions {
    /// Gets, stores or deletes an offset; a request that comes again is answered as before.
    pub(crate) async fn consumer_offset(
        &self,
        shard: &ShardHandle,
        call: ConsumerOffsetCall,
    ) -> Result<ConsumerOffset, IggyRefusal> {
        let (at, Some(attempt)) = (call.at, call.attempt) else { return self.offset_now(shard, call).await };
        match self.attempts.begin(at, attempt)? {
            None => {}
            Some(Applied::Offset(offset)) => return Ok(offset),
            Some(Applied::Sent(_)) => return Err(another_request()),
        }
        let changed = self.offset_now(shard, call).await;
        self.attempts.end(at, attempt, changed.as_ref().ok().copied().map(Applied::Offset));
        changed
    }

    async fn offset_now(&self, shard: &ShardHandle, call: ConsumerOffsetCall) -> Result<ConsumerOffset, IggyRefusal> {
        let ConsumerOffsetCall { at, consumer: ConsumerKey { kind, id }, action, .. } = call;
        let partition = self.get(at).ok_or_else(no_partition)?;
        // What could not be opened may hold offsets: it is not said that there are none.
        partition.writable().map_err(Refused::for_iggy)?;
        if kind != ConsumerKind::Consumer && shard.catalogue().groups(at.topic).get(id).is_none() {
            let why = format!("The topic has no consumer group {id}.");
            return Err(IggyRefusal::new(IggyCode::CONSUMER_GROUP_ID_NOT_FOUND, why));
        }
        let log = match (partition.offsets.get(kind), action) {
            (Some(log), _) => Some(log),
            (None, OffsetAction::Store(_)) => Some(self.first_offset(&partition, kind)),
            (None, _) => None,
        };
        if let Some(log) = &log {
            let changed = match action {
                OffsetAction::Get => Ok(None),
                OffsetAction::Delete => log.with(|log| log.delete(id)).map(Some),
                OffsetAction::Store(offset) => {
                    partition.check_range(kind, offset)?;
                    log.with(|log| log.store(id, offset)).map(Some)
                }
            };
            let changed = changed.map_err(|error| self.refusal(&error))?;
            if let Some(position) = changed {
                safe(shard, log, position).await?;
            }
        } else if action == OffsetAction::Delete {
            return Err(self.refusal(&OffsetsError::NotFound));
        }
        let stored = log.map_or(Ok(None), |log| log.with(|log| log.get(id)));
        let stored = stored.map_err(|error| self.refusal(&error))?;
        Ok(ConsumerOffset { stored, high_watermark: partition.end_of_messages() })
    }

    fn first_offset(&self, partition: &Partition, kind: ConsumerKind) -> Driver {
        let log = Rc::new(LogDriver::new(self.engine.new_offsets(partition.at, kind)));
        *partition.offsets.slot(kind).borrow_mut() = Some(log.clone());
        log
    }

    fn refusal(&self, error: &OffsetsError) -> IggyRefusal {
        let code = match error {
            OffsetsError::Full => {
                count(&self.counters.consumer_offsets);
                IggyCode::TOO_MANY_CONSUMER_OFFSETS
            }
            OffsetsError::NotFound => IggyCode::CONSUMER_OFFSET_NOT_FOUND,
            OffsetsError::Closed(_) => IggyCode::ERROR,
        };
        IggyRefusal::new(code, error.to_string())
    }

    /// The offsets of a consumer group that is no more go, and are gone on disk when this ends. What a crash leaves
    /// of them goes at the next start.
    pub(crate) async fn delete_group_offsets(&self, shard: &ShardHandle, deleted: DeletedGroup) {
        let partitions: Vec<Rc<Partition>> =
            self.open.borrow().values().filter(|p| p.at.topic == deleted.topic).cloned().collect();
        let mut deletions = Vec::new();
        for partition in partitions {
            for kind in [ConsumerKind::Group, ConsumerKind::ExternalGroup] {
                if let Some(log) = partition.offsets.get(kind)
                    && let Ok(position) = log.with(|log| log.delete(deleted.group))
                {
                    log.kick(shard);
                    deletions.push((log, position));
                }
            }
        }
        for (log, position) in deletions {
            if let Err(refusal) = safe(shard, &log, position).await {
                tracing::warn!(topic = %deleted.topic, group = deleted.group, why = refusal.message, "offsets of a deleted consumer group are left until the next start");
            }
        }
    }
}

/// Waits until a change is as safe as the gateway's `fsync` setting says.
async fn safe(shard: &ShardHandle, log: &Driver, position: u64) -> Result<(), IggyRefusal> {
    let reach = if shard.settings.fsync == Fsync::Always { Reach::Durable } else { Reach::Written };
    log.reached(shard, position, reach).await.map_err(|why| IggyRefusal::new(IggyCode::ERROR, why))
}

impl Partition {
    /// One past the last message.
    fn end_of_messages(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.with(|log| log.high_watermark().unsigned_abs()))
    }

    /// A consumer that reads for itself stores what it read; one that somebody else coordinates what it likes.
    fn check_range(&self, kind: ConsumerKind, offset: u64) -> Result<(), IggyRefusal> {
        let end = self.end_of_messages();
        if kind == ConsumerKind::ExternalGroup || offset < end {
            return Ok(());
        }
        Err(IggyRefusal::new(IggyCode::INVALID_OFFSET, format!("offset {offset} is not below {end}")))
    }

    /// Has the offsets that are only written put on disk.
    pub(super) fn sync_offsets(&self, shard: &ShardHandle) {
        self.offsets.open().for_each(|log| log.sync_written(shard));
    }

    /// Waits until nothing is done about offsets any more.
    pub(super) async fn offsets_idle(&self, shard: &ShardHandle) {
        let open: Vec<Driver> = self.offsets.open().collect();
        for log in open {
            log.idle(shard).await;
        }
    }
}
