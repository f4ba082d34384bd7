//! Reading messages of some partitions, and waiting for them: what poll and fetch share.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::ShardHandle;
use ringgate_shards::call::{FetchCall, PartitionFetch, PartitionFetched, PartitionStatsCall, TopicPartition, Watch};
use ringgate_shards::iggy_code::IggyCode;
use ringgate_shards::store::mapping::to_answer;
use ringgate_shards::store::stored::StoredBatch;
use ringgate_shards::timers::Sleep;
use ringgate_shards::watches::WatchHandle;
use ringgate_wire::iggy::{IggyBatchHeader, cut};

use super::super::limits::{CONVERT_HERE_BYTES, WAIT_MAX};
use super::super::link::{Link, Waiting};
use super::room::Room;

/// A partition to be read.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which.
    pub at: TopicPartition,
    /// Who owns it.
    pub owner: ShardId,
    /// The first offset wanted. What is below the oldest message is read from that one on.
    pub from: u64,
    /// Where it is read from now: at the end of what is there while that is before the offset that is wanted.
    pub reads: u64,
    /// The most bytes of it.
    pub max_bytes: usize,
}

/// What may be read in all.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long to wait for `min_count` messages.
    pub wait: Duration,
    /// Messages of all targets together that are worth an answer.
    pub min_count: u32,
    /// The most messages.
    pub count: u32,
    /// The most bytes; the first message is read whatever its size.
    pub max_bytes: usize,
}

/// What was read of a partition.
#[derive(Debug, Clone)]
pub struct Messages {
    /// Batches of Iggy's form.
    pub batches: Vec<Bytes>,
    /// How many messages they hold.
    pub count: u32,
    /// The first offset behind them.
    pub next_offset: u64,
    /// One past the partition's last message.
    pub high_watermark: u64,
}

impl Messages {
    /// The offset of the partition's last message, 0 when it never had one.
    pub fn current_offset(&self) -> u64 {
        self.high_watermark.saturating_sub(1)
    }

    /// Bytes of the batches.
    pub fn bytes(&self) -> usize {
        self.batches.iter().map(Bytes::len).sum()
    }
}

/// What became of each target, in their order.
pub type ReadBack = Vec<Result<Messages, IggyCode>>;

/// Reads; waits until there is enough, the time is over, or some target has an error to tell.
///
/// # Errors
/// `DeferredPollCapacityExceeded(90)`: too many wait. `TransientNotAccepted(58)`: the client does not wait any more.
pub async fn read(link: &Link, request: u64, mut targets: Vec<Target>, bounds: Bounds) -> Result<ReadBack, IggyCode> {
    let mut room = Room::new(link, bounds.max_bytes);
    let mut max_bytes = room.take();
    let shard = &link.shard;
    let enough = |targets: &[Target], fetched: &[PartitionFetched], max_bytes: usize| {
        let there = targets.iter().zip(fetched).map(|(target, fetched)| available(target, fetched)).sum::<u64>();
        // What is allowed may be less than what is waited for.
        let is_full = |(target, fetched): (&Target, &PartitionFetched)| {
            target.reads == target.from && fetched.available >= target.max_bytes.min(max_bytes)
        };
        there >= u64::from(bounds.min_count)
            || fetched.iter().any(|fetched| fetched.error.is_err())
            || targets.iter().zip(fetched).any(is_full)
    };
    let mut fetched = round(shard, &mut targets, max_bytes, None).await;
    if !bounds.wait.is_zero() && !enough(&targets, &fetched, max_bytes) {
        let waiting = link.waits(request).ok_or(IggyCode::DEFERRED_POLL_CAPACITY_EXCEEDED)?;
        let mut deadline = Sleep::new(shard, bounds.wait.min(WAIT_MAX));
        loop {
            follow(&mut targets, &mut fetched);
            let read_from: Vec<u64> = targets.iter().map(|target| target.reads).collect();
            // Each owner wakes the link when it has more than now.
            let mut wanted: BTreeMap<ShardId, usize> = BTreeMap::new();
            for (target, fetched) in targets.iter().zip(&fetched) {
                *wanted.entry(target.owner).or_insert(1) += fetched.available;
            }
            let watch = WatchHandle::new(shard, wanted.keys().copied().collect());
            max_bytes = room.take();
            fetched = round(shard, &mut targets, max_bytes, Some((&watch, &wanted))).await;
            if enough(&targets, &fetched, max_bytes) || shard.is_stopping() {
                break;
            }
            if targets.iter().zip(read_from).any(|(target, before)| target.reads != before) {
                // One could not be read where it was asked for, so its owner keeps no watch.
                continue;
            }
            let came = targets.iter().zip(&fetched).fold(BTreeMap::new(), |mut came, (target, fetched)| {
                *came.entry(target.owner).or_insert(0) += fetched.available;
                came
            });
            if wanted.iter().any(|(owner, wanted)| came.get(owner).is_some_and(|came| came >= wanted)) {
                // More came meanwhile, so its owner keeps no watch.
                continue;
            }
            // It is read again, so that who waits holds nothing.
            fetched.iter_mut().for_each(|fetched| fetched.records = Vec::new());
            room.give_back();
            match woken(&watch, &mut deadline, &waiting, shard).await {
                Woken::Watch => {}
                Woken::Over => {
                    drop(watch);
                    max_bytes = room.take();
                    fetched = round(shard, &mut targets, max_bytes, None).await;
                    break;
                }
                Woken::Cancelled => return Err(IggyCode::TRANSIENT_NOT_ACCEPTED),
            }
        }
    }
    if follow(&mut targets, &mut fetched) {
        fetched = round(shard, &mut targets, max_bytes, None).await;
    }
    Ok(messages(shard, &targets, fetched, bounds.count, max_bytes).await)
}

/// Targets whose offset was not there yet are read on from the end, up to that offset: what has come before it is not
/// theirs and counts for nothing. Whether there are any.
fn follow(targets: &mut [Target], fetched: &mut [PartitionFetched]) -> bool {
    let mut followed = false;
    for (target, fetched) in targets.iter_mut().zip(fetched).filter(|(_, fetched)| !fetched.error.is_err()) {
        let reads = target.from.min(u64::try_from(fetched.high_watermark).unwrap_or(0));
        if reads > target.reads {
            (target.reads, fetched.available, followed) = (reads, 0, true);
            fetched.records.clear();
        }
    }
    followed
}

/// Messages of a target that can be read.
fn available(target: &Target, fetched: &PartitionFetched) -> u64 {
    u64::try_from(fetched.high_watermark).unwrap_or(0).saturating_sub(target.from)
}

enum Woken {
    Watch,
    Over,
    Cancelled,
}

async fn woken(watch: &WatchHandle, deadline: &mut Sleep, waiting: &Waiting<'_>, shard: &ShardHandle) -> Woken {
    let (mut woken, mut stopping, mut cancelled) =
        (pin!(watch.woken()), pin!(shard.stopping()), pin!(waiting.cancelled()));
    std::future::poll_fn(|cx| {
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Woken::Cancelled);
        }
        if woken.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Woken::Watch);
        }
        if Pin::new(&mut *deadline).poll(cx).is_ready() || stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Woken::Over);
        }
        Poll::Pending
    })
    .await
}

/// Asks all owners once.
async fn round(
    shard: &ShardHandle,
    targets: &mut [Target],
    max_bytes: usize,
    watch: Option<(&WatchHandle, &BTreeMap<ShardId, usize>)>,
) -> Vec<PartitionFetched> {
    let mut fetched = ask(shard, targets, max_bytes, watch).await;
    // There is no such thing as out of range: what is below is read from the oldest message on, and above it is
    // nothing yet.
    let outside: Vec<usize> =
        (0..targets.len()).filter(|&nth| fetched[nth].error == ErrorCode::OFFSET_OUT_OF_RANGE).collect();
    for nth in outside {
        let target = &mut targets[nth];
        let call = PartitionStatsCall { partitions: vec![target.at] };
        if let Some(Ok(stats)) = shard.submit_to(target.owner, call).await.0.pop() {
            target.from = target.from.max(stats.log_start_offset);
            target.reads = target.from.min(stats.high_watermark);
            if let Some(again) = ask(shard, std::slice::from_ref(target), max_bytes, None).await.pop() {
                fetched[nth] = again;
            }
        }
    }
    fetched
}

async fn ask(
    shard: &ShardHandle,
    targets: &[Target],
    max_bytes: usize,
    watch: Option<(&WatchHandle, &BTreeMap<ShardId, usize>)>,
) -> Vec<PartitionFetched> {
    let mut by_owner: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
    for (nth, target) in targets.iter().enumerate() {
        by_owner.entry(target.owner).or_default().push(nth);
    }
    // What has to come from disk takes memory until the answers are joined, so it is shared out.
    let max_disk_bytes = max_bytes.div_ceil(by_owner.len().max(1));
    let calls: Vec<_> = by_owner
        .iter()
        .map(|(owner, numbers)| {
            let partitions = numbers.iter().map(|&nth| PartitionFetch {
                at: targets[nth].at,
                fetch_offset: i64::try_from(targets[nth].reads).unwrap_or(i64::MAX),
                max_bytes: targets[nth].max_bytes,
                current_leader_epoch: -1,
                last_fetched_epoch: -1,
            });
            let watch =
                watch.and_then(|(watch, wanted)| Some(Watch { id: watch.id(), min_bytes: *wanted.get(owner)? }));
            shard.submit_to(*owner, FetchCall { partitions: partitions.collect(), max_bytes, max_disk_bytes, watch })
        })
        .collect();
    let mut fetched: Vec<PartitionFetched> = targets
        .iter()
        .map(|target| PartitionFetched::failed(target.at, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
        .collect();
    for (numbers, call) in by_owner.values().zip(calls) {
        for (&nth, answer) in numbers.iter().zip(call.await.0) {
            fetched[nth] = answer;
        }
    }
    fetched
}

/// What was read, in Iggy's form and within the bounds.
async fn messages(
    shard: &ShardHandle,
    targets: &[Target],
    fetched: Vec<PartitionFetched>,
    count: u32,
    max_bytes: usize,
) -> ReadBack {
    let (mut count_left, mut bytes_left) = (count, max_bytes);
    let mut read = Vec::with_capacity(targets.len());
    for (target, fetched) in targets.iter().zip(fetched) {
        let high_watermark = match fetched.error {
            ErrorCode::NONE => u64::try_from(fetched.high_watermark).unwrap_or(0),
            error => {
                read.push(Err(code(error)));
                continue;
            }
        };
        let (from, partition) = (target.from, target.at.partition.unsigned_abs());
        let is_first = read.iter().all(|read| matches!(read, Ok(Messages { count: 0, .. }) | Err(_)));
        let budget = Budget { count: count_left, bytes: bytes_left.min(target.max_bytes), is_first };
        let decompressed = shard.max_decompressed_bytes();
        let records = fetched.records;
        let bytes: usize = records.iter().map(StoredBatch::len).sum();
        let converted = if bytes <= CONVERT_HERE_BYTES {
            convert(&records, partition, from, budget, decompressed)
        } else {
            shard.elsewhere(move || convert(&records, partition, from, budget, decompressed)).await
        };
        let converted = converted.map(|(batches, count, next_offset)| {
            let bytes: usize = batches.iter().map(Bytes::len).sum();
            count_left -= count.min(count_left);
            bytes_left = bytes_left.saturating_sub(bytes);
            Messages { batches, count, next_offset, high_watermark }
        });
        read.push(converted);
    }
    read
}

/// What may still be read.
#[derive(Clone, Copy)]
struct Budget {
    count: u32,
    bytes: usize,
    /// Nothing was read before: the first message comes whatever its size.
    is_first: bool,
}

/// The batches from an offset on, their messages and the first offset behind them.
fn convert(
    stored: &[StoredBatch],
    partition: u32,
    from: u64,
    budget: Budget,
    decompressed_max: usize,
) -> Result<(Vec<Bytes>, u32, u64), IggyCode> {
    let (mut batches, mut read, mut bytes, mut next) = (Vec::new(), 0, 0, from);
    for batch in stored {
        let of_iggy = match batch {
            StoredBatch::Iggy { batch, .. } => vec![batch.clone()],
            StoredBatch::Kafka(batch) => match to_answer(batch, partition.into(), decompressed_max) {
                Ok(batches) => batches,
                Err(why) if batches.is_empty() => {
                    tracing::warn!(%why, "a stored record batch cannot be read by Iggy's clients");
                    return Err(IggyCode::CANNOT_READ_MESSAGE);
                }
                // What comes before it is read first.
                Err(_) => return Ok((batches, read, next)),
            },
        };
        for batch in of_iggy {
            let left = budget.bytes.saturating_sub(bytes);
            if read >= budget.count {
                return Ok((batches, read, next));
            }
            let unreadable = |_| IggyCode::CANNOT_READ_MESSAGE;
            let Some(piece) = cut(&batch, from, budget.count - read, left).map_err(unreadable)? else { continue };
            if piece.len() > left && !(batches.is_empty() && budget.is_first) {
                return Ok((batches, read, next));
            }
            let whole = IggyBatchHeader::parse(&batch).map_err(unreadable)?;
            let header = IggyBatchHeader::parse(&piece).map_err(unreadable)?;
            next = match whole.base_offset + u64::from(whole.messages) {
                // Cut at its end: the frames that are left say where the next one is.
                _ if piece.len() < batch.len() => last_offset(&piece).map_or(next, |last| last + 1),
                end => end,
            };
            read += header.messages;
            bytes += piece.len();
            batches.push(piece);
        }
    }
    Ok((batches, read, next))
}

fn last_offset(batch: &[u8]) -> Option<u64> {
    ringgate_wire::iggy::messages(batch).ok()?.last()?.ok().map(|message| message.offset)
}

/// Iggy's code for why a partition cannot be read.
fn code(error: ErrorCode) -> IggyCode {
    match error {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => IggyCode::PARTITION_NOT_FOUND,
        _ => IggyCode::CANNOT_READ_MESSAGE,
    }
}
