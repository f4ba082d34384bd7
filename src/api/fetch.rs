//! Fetch (API 1): reads record batches, waiting for some to arrive when there are too few.
//!
//! A Fetch that spans owners asks all of them at once, each under the whole byte budget (shared out as far as
//! the disk must be read); the parts are joined in the order of the request (or session), and whole batches
//! over the budget are dropped. Below
//! `min_bytes` it leaves one watch per owner and asks again at the first wake-up that may suffice, or at
//! the deadline. No handler or owner holds anything while it waits.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use kafka_protocol::messages::FetchRequest;
use ringgate_group::ErrorCode;
use ringgate_group::route::ShardId;
use ringgate_shards::ShardHandle;
use ringgate_shards::call::{FetchCall, PartitionFetch, PartitionFetched, Watch};
use ringgate_shards::timers::Sleep;
use ringgate_shards::turn::Turn;
use ringgate_shards::watches::WatchHandle;
use ringgate_wire::fetch;
use ringgate_wire::records::{BatchHeader, Compression};

use super::fetch_sessions::{Asked, Key, Mode, TopicKey, Wanted};
use super::stored_batches::for_kafka;
use super::{ErrorCounts, Operation, Outcome, RequestContext, Resource};
use crate::net::limit_hits::Limit;

/// The first version that names topics by id (KIP-516).
const TOPIC_IDS_SINCE: i16 = 13;
/// The first version whose clients know zstd (KIP-110).
const ZSTD_SINCE: i16 = 10;

/// One partition of the request: whom to ask, or what is wrong with it.
struct Asking {
    key: Key,
    plan: Result<(ShardId, PartitionFetch), ErrorCode>,
}

/// What is known of one partition when the answer is made.
pub(super) struct Answered {
    pub(super) key: Key,
    pub(super) fetched: Fetched,
}

/// A partition's part of the answer.
pub(super) struct Fetched {
    pub(super) error: ErrorCode,
    pub(super) high_watermark: i64,
    pub(super) log_start_offset: i64,
    pub(super) diverging_epoch: Option<(i32, i64)>,
    pub(super) records: Vec<bytes::Bytes>,
    /// As [`PartitionFetched::available`].
    pub(super) available: usize,
}

impl Fetched {
    fn failed(error: ErrorCode) -> Fetched {
        Fetched {
            error,
            high_watermark: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            records: Vec::new(),
            available: 0,
        }
    }
}

/// Serves a Fetch.
pub async fn handle(ctx: &RequestContext, request: FetchRequest) -> Outcome {
    let by_id = ctx.api_version >= TOPIC_IDS_SINCE;
    let asked = Asked { session_id: request.session_id, session_epoch: request.session_epoch, by_id };
    let sessions = &ctx.connection.fetch_sessions;
    let session = sessions.borrow_mut().handle(
        Instant::now(),
        ctx.connection.id,
        asked,
        wanted(&request, by_id),
        &forgotten(&request, by_id),
    );
    let (mode, wanted) = match session {
        Ok(it) => it,
        Err(error) => return encode(ctx, error, 0, Vec::new()),
    };

    let mut turn = Turn::default();
    let mut asking = Vec::with_capacity(wanted.len());
    for (key, wanted) in wanted {
        asking.push(plan(ctx, key, wanted));
        turn.partition().await;
    }
    let (settings, limit_hits) = (&ctx.connection.settings, &ctx.connection.limit_hits);
    let asked_bytes = usize::try_from(request.max_bytes).unwrap_or(0);
    if asked_bytes > settings.max_fetch_bytes {
        limit_hits.count(Limit::MaxFetchBytes);
    }
    let max_bytes = asked_bytes.min(settings.max_fetch_bytes);
    // While clients leave too much unread, each gets a batch at a time: they go on, and memory holds.
    let max_bytes = if ctx.connection.unsent.get() < settings.max_unsent_bytes {
        max_bytes
    } else {
        limit_hits.count(Limit::MaxInFlightBytes);
        1
    };
    let min_bytes = usize::try_from(request.min_bytes).unwrap_or(0).min(max_bytes.max(1));
    if request.max_wait_ms > settings.max_fetch_wait_ms {
        limit_hits.count(Limit::MaxFetchWait);
    }
    let max_wait_ms = request.max_wait_ms.min(settings.max_fetch_wait_ms);
    let max_wait = Duration::from_millis(u64::try_from(max_wait_ms).unwrap_or(0));

    // A session moves who got records to its back. Without one a Fetch begins with who was passed over in
    // the one before: every partition gets its turn, also when the client takes turns of its own, to which
    // a start that only moved on would keep step.
    let start = match (mode, &*ctx.connection.passed_over.borrow()) {
        (Mode::Sessionless, Some(key)) => asking.iter().position(|a| a.key == *key).unwrap_or(0),
        _ => 0,
    };
    asking.rotate_left(start);
    let mut fetched = read(ctx, &asking, min_bytes, max_bytes, max_wait).await;
    if mode == Mode::Sessionless {
        *ctx.connection.passed_over.borrow_mut() = passed_over(&asking, &fetched);
    }
    asking.rotate_right(start);
    fetched.rotate_right(start);
    if ctx.api_version < ZSTD_SINCE {
        fetched.iter_mut().for_each(end_before_zstd);
    }

    let mut turn = Turn::default();
    let mut answered = Vec::with_capacity(asking.len());
    for (asking, fetched) in asking.into_iter().zip(fetched) {
        let with_data = fetched.error.is_err() || fetched.diverging_epoch.is_some() || !fetched.records.is_empty();
        let news = sessions.borrow_mut().is_news(
            mode,
            &asking.key,
            fetched.high_watermark,
            fetched.log_start_offset,
            with_data,
        );
        if news {
            answered.push(Answered { key: asking.key, fetched });
        }
        turn.partition().await;
    }
    let session_id = match mode {
        Mode::Sessionless => 0,
        Mode::Full(id) | Mode::Incremental(id) => id,
    };
    encode(ctx, ErrorCode::NONE, session_id, answered)
}

fn wanted(request: &FetchRequest, by_id: bool) -> Vec<(Key, Wanted)> {
    let mut wanted = Vec::new();
    for topic in &request.topics {
        let name = topic_key(by_id, topic.topic.as_str(), topic.topic_id);
        wanted.extend(topic.partitions.iter().map(|p| {
            let what = Wanted {
                fetch_offset: p.fetch_offset,
                max_bytes: p.partition_max_bytes,
                current_leader_epoch: p.current_leader_epoch,
                last_fetched_epoch: p.last_fetched_epoch,
            };
            ((name.clone(), p.partition), what)
        }));
    }
    wanted
}

fn forgotten(request: &FetchRequest, by_id: bool) -> Vec<Key> {
    let mut forgotten = Vec::new();
    for topic in &request.forgotten_topics_data {
        let name = topic_key(by_id, topic.topic.as_str(), topic.topic_id);
        forgotten.extend(topic.partitions.iter().map(|&p| (name.clone(), p)));
    }
    forgotten
}

fn topic_key(by_id: bool, name: &str, id: uuid::Uuid) -> TopicKey {
    if by_id { TopicKey::Id(id) } else { TopicKey::Name(name.into()) }
}

fn plan(ctx: &RequestContext, key: Key, wanted: Wanted) -> Asking {
    let catalogue = ctx.shard().catalogue();
    let (topic, missing) = match &key.0 {
        TopicKey::Name(name) => (catalogue.topic(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        TopicKey::Id(id) => (catalogue.topic_by_id(*id), ErrorCode::UNKNOWN_TOPIC_ID),
    };
    let plan = match topic {
        None => Err(missing),
        Some(topic) if !ctx.allowed(Operation::Read, Resource::Topic(&topic.name)) => {
            Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        }
        Some(topic) => match topic.partition(key.1) {
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Some(at) => Ok((
                topic.owner(ctx.shard().route(), key.1),
                PartitionFetch {
                    at,
                    fetch_offset: wanted.fetch_offset,
                    max_bytes: usize::try_from(wanted.max_bytes).unwrap_or(0),
                    current_leader_epoch: wanted.current_leader_epoch,
                    last_fetched_epoch: wanted.last_fetched_epoch,
                },
            )),
        },
    };
    Asking { key, plan }
}

/// Reads until there is enough, some partition has an error to tell, or the time is up.
async fn read(
    ctx: &RequestContext,
    asking: &[Asking],
    min_bytes: usize,
    max_bytes: usize,
    max_wait: Duration,
) -> Vec<Fetched> {
    let shard = ctx.shard();
    let by_owner = by_owner(asking);
    let budget = OwnerBudget::of(by_owner.len(), min_bytes, max_bytes);
    let settles = |fetched: &[Fetched]| {
        // What is unknown here is not waited for, and does not keep the others from waiting (as in Kafka): a
        // client with one deleted topic among others would ask without a pause.
        let asked = fetched.iter().zip(asking).filter(|(_, asking)| asking.plan.is_ok());
        let failed = asked.clone().any(|(f, _)| f.error.is_err() || f.diverging_epoch.is_some());
        failed || fetched.iter().map(|f| f.available).sum::<usize>() >= min_bytes
    };
    if max_wait.is_zero() || by_owner.is_empty() || min_bytes == 0 {
        return round(shard, asking, &by_owner, budget, None).await;
    }

    // With one owner the first question may leave the watch; with several it must be known first how
    // much each of them has.
    let owners: Vec<ShardId> = by_owner.iter().map(|(owner, _)| *owner).collect();
    let mut watch = (owners.len() == 1).then(|| (WatchHandle::new(shard, owners.clone()), vec![min_bytes]));
    let mut deadline: Option<Sleep> = None;
    loop {
        let fetched = round(shard, asking, &by_owner, budget, watch.as_ref().map(|(w, min)| (w, &min[..]))).await;
        if settles(&fetched) || shard.is_stopping() {
            return fetched;
        }
        let deadline = deadline.get_or_insert_with(|| Sleep::new(shard, max_wait));
        let watched = watch.as_ref().filter(|(_, min)| !is_reached(&fetched, &by_owner, min));
        let Some((handle, _)) = watched else {
            watch = Some((WatchHandle::new(shard, owners.clone()), shares(&fetched, &by_owner, min_bytes)));
            continue;
        };
        ctx.waiting();
        if !woken_before(handle, deadline, shard).await {
            watch.take();
            return round(shard, asking, &by_owner, budget, None).await;
        }
        watch = Some((
            WatchHandle::new(shard, owners.clone()),
            if owners.len() == 1 { vec![min_bytes] } else { shares(&fetched, &by_owner, min_bytes) },
        ));
    }
}

/// What each owner may answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnerBudget {
    max_bytes: usize,
    max_disk_bytes: usize,
}

impl OwnerBudget {
    /// Each owner has the whole of `max_bytes`, but what has to be read from disk is shared out: it takes
    /// memory until the answers are joined, and most of it would be dropped then. An owner can still give
    /// `min_bytes`, so that nobody waits for what is there.
    fn of(owners: usize, min_bytes: usize, max_bytes: usize) -> OwnerBudget {
        let max_disk_bytes = max_bytes.div_ceil(owners.max(1)).max(min_bytes);
        OwnerBudget { max_bytes, max_disk_bytes }
    }
}

/// What each owner must have for a wake-up: what it has, and an equal share of what is missing. While
/// none of them reaches that, there is too little in all.
fn shares(fetched: &[Fetched], by_owner: &[(ShardId, Vec<usize>)], min_bytes: usize) -> Vec<usize> {
    let have: usize = fetched.iter().map(|f| f.available).sum();
    let share = min_bytes.saturating_sub(have).div_ceil(by_owner.len()).max(1);
    let of = |indexes: &[usize]| indexes.iter().map(|&i| fetched[i].available).sum::<usize>() + share;
    by_owner.iter().map(|(_, indexes)| of(indexes)).collect()
}

/// Whether an owner has what a wake-up was to wait for, and so keeps no watch: records came between two rounds.
fn is_reached(fetched: &[Fetched], by_owner: &[(ShardId, Vec<usize>)], min_bytes: &[usize]) -> bool {
    let has = |indexes: &[usize]| indexes.iter().map(|&i| fetched[i].available).sum::<usize>();
    by_owner.iter().zip(min_bytes).any(|((_, indexes), min)| has(indexes) >= *min)
}

/// `false` when the time is up or the gateway stops.
async fn woken_before(watch: &WatchHandle, deadline: &mut Sleep, shard: &ShardHandle) -> bool {
    let (mut woken, mut stopping) = (pin!(watch.woken()), pin!(shard.stopping()));
    let mut deadline = pin!(deadline);
    std::future::poll_fn(|cx| {
        if woken.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        if deadline.as_mut().poll(cx).is_ready() || stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}

/// The owners to be asked, each with the indexes of its partitions.
fn by_owner(asking: &[Asking]) -> Vec<(ShardId, Vec<usize>)> {
    let mut owners: Vec<(ShardId, Vec<usize>)> = Vec::new();
    let mut at: HashMap<ShardId, usize> = HashMap::new();
    for (index, asking) in asking.iter().enumerate() {
        if let Ok((owner, _)) = &asking.plan {
            let slot = *at.entry(*owner).or_insert_with(|| {
                owners.push((*owner, Vec::new()));
                owners.len() - 1
            });
            owners[slot].1.push(index);
        }
    }
    owners
}

/// Asks all owners once and joins their answers in the order of the request.
async fn round(
    shard: &ShardHandle,
    asking: &[Asking],
    by_owner: &[(ShardId, Vec<usize>)],
    budget: OwnerBudget,
    watch: Option<(&WatchHandle, &[usize])>,
) -> Vec<Fetched> {
    let OwnerBudget { max_bytes, max_disk_bytes } = budget;
    let calls: Vec<_> = by_owner
        .iter()
        .enumerate()
        .map(|(nth, (owner, indexes))| {
            let partitions = indexes.iter().filter_map(|&i| asking[i].plan.as_ref().ok().map(|(_, p)| p.clone()));
            let watch = watch.map(|(handle, min_bytes)| Watch { id: handle.id(), min_bytes: min_bytes[nth] });
            let call = FetchCall { partitions: partitions.collect(), max_bytes, max_disk_bytes, watch };
            shard.submit_to(*owner, call)
        })
        .collect();
    let mut joined: Vec<Fetched> =
        asking.iter().map(|a| Fetched::failed(*a.plan.as_ref().err().unwrap_or(&ErrorCode::NONE))).collect();
    for ((_, indexes), call) in by_owner.iter().zip(calls) {
        for (&index, fetched) in indexes.iter().zip(call.await.0) {
            let from = asking[index].plan.as_ref().map_or(0, |(_, wanted)| wanted.fetch_offset);
            joined[index] = from_owner(shard, fetched, from).await;
        }
    }
    if by_owner.len() > 1 {
        keep_to_budget(&mut joined, max_bytes);
    }
    joined
}

async fn from_owner(shard: &ShardHandle, fetched: PartitionFetched, fetch_offset: i64) -> Fetched {
    let (records, error) = match for_kafka(shard, fetched.records, fetch_offset).await {
        Ok(records) => (records, fetched.error),
        Err(error) => (Vec::new(), error),
    };
    Fetched {
        error,
        high_watermark: fetched.high_watermark,
        log_start_offset: fetched.log_start_offset,
        diverging_epoch: fetched.diverging_epoch,
        records,
        available: fetched.available,
    }
}

/// Drops whole batches over the budget; the first batch of all always stays (KIP-74).
fn keep_to_budget(joined: &mut [Fetched], max_bytes: usize) {
    let mut left = max_bytes;
    let mut first = true;
    for fetched in joined {
        let mut full = false;
        fetched.records.retain(|batch| {
            let fits = !full && (batch.len() <= left || first);
            full |= !fits;
            if fits {
                left = left.saturating_sub(batch.len());
                first = false;
            }
            fits
        });
    }
}

/// Leaves what comes before the first zstd batch, which a client of an old version could not read; when
/// nothing does, `UNSUPPORTED_COMPRESSION_TYPE(76)` tells it why it gets nothing.
fn end_before_zstd(fetched: &mut Fetched) {
    let is_zstd = |batch: &bytes::Bytes| {
        BatchHeader::parse(batch).is_some_and(|header| header.compression() == Some(Compression::Zstd))
    };
    match fetched.records.iter().position(is_zstd) {
        None => {}
        Some(0) => *fetched = Fetched::failed(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        Some(nth) => fetched.records.truncate(nth),
    }
}

/// The first partition that had records to give and gave none, since others had used the bytes up.
fn passed_over(asking: &[Asking], fetched: &[Fetched]) -> Option<Key> {
    let mut both = asking.iter().zip(fetched);
    let found = both.find(|(asking, fetched)| match &asking.plan {
        Ok((_, wanted)) => {
            let answers = fetched.error.is_err() || fetched.diverging_epoch.is_some() || !fetched.records.is_empty();
            !answers && fetched.high_watermark > wanted.fetch_offset
        }
        Err(_) => false,
    });
    found.map(|(asking, _)| asking.key.clone())
}

fn encode(ctx: &RequestContext, error: ErrorCode, session_id: i32, answered: Vec<Answered>) -> Outcome {
    let mut errors = ErrorCounts::default();
    errors.count(error.0);
    let mut topics: Vec<fetch::Topic> = Vec::new();
    let mut at: HashMap<TopicKey, usize> = HashMap::new();
    for Answered { key: (topic, partition), fetched } in answered {
        errors.count(fetched.error.0);
        let index = *at.entry(topic.clone()).or_insert_with(|| {
            let (name, id) = match topic {
                TopicKey::Name(name) => (name.to_string(), uuid::Uuid::nil()),
                TopicKey::Id(id) => (String::new(), id),
            };
            topics.push(fetch::Topic { name, id, partitions: Vec::new() });
            topics.len() - 1
        });
        topics[index].partitions.push(fetch::Partition {
            partition,
            error_code: fetched.error.0,
            high_watermark: fetched.high_watermark,
            // There are no transactions, so what is written is stable.
            last_stable_offset: fetched.high_watermark,
            log_start_offset: fetched.log_start_offset,
            diverging_epoch: fetched.diverging_epoch,
            records: fetched.records,
        });
    }
    ctx.count_errors(errors);
    let response = fetch::Response { error_code: error.0, session_id };
    match fetch::encode(ctx.api_version, ctx.correlation_id, response, topics) {
        Some(segments) => Outcome::Respond(segments),
        None => Outcome::Close("a Fetch response of more than 2 GiB".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn read(batches: &[usize]) -> Fetched {
        let records = batches.iter().map(|size| Bytes::from(vec![0; *size])).collect();
        Fetched { records, available: batches.iter().sum(), ..Fetched::failed(ErrorCode::NONE) }
    }

    fn sizes(joined: &[Fetched]) -> Vec<Vec<usize>> {
        joined.iter().map(|f| f.records.iter().map(Bytes::len).collect()).collect()
    }

    #[test]
    fn whole_batches_over_the_budget_are_dropped_in_order() {
        let mut joined = [read(&[40, 40]), read(&[30, 10]), read(&[10])];
        keep_to_budget(&mut joined, 100);
        assert_eq!(sizes(&joined), [vec![40, 40], vec![], vec![10]]);
    }

    #[test]
    fn the_first_batch_of_all_comes_though_it_is_larger_than_the_budget() {
        let mut joined = [read(&[]), read(&[500, 1]), read(&[1])];
        keep_to_budget(&mut joined, 100);
        assert_eq!(sizes(&joined), [vec![], vec![500], vec![]]);
    }

    #[test]
    fn records_end_before_the_first_zstd_batch_for_who_cannot_read_it() {
        let batch = |codec: u8| {
            let mut builder = ringgate_wire::records::BatchBuilder::new(1 << 10);
            builder.push(1, None, None, &[]).expect("room");
            let mut batch = builder.finish(0, 0).expect("a record").to_vec();
            batch[22] = codec;
            Bytes::from(batch)
        };
        let ended = |codecs: &[u8]| {
            let records = codecs.iter().map(|codec| batch(*codec)).collect();
            let mut fetched = Fetched { records, ..Fetched::failed(ErrorCode::NONE) };
            end_before_zstd(&mut fetched);
            (fetched.error.0, fetched.records.len())
        };
        assert_eq!(ended(&[]), (0, 0));
        assert_eq!(ended(&[0, 1, 2, 3]), (0, 4));
        assert_eq!(ended(&[0, 1, 4, 0]), (0, 2));
        assert_eq!(ended(&[4, 0]), (76, 0));
    }

    #[test]
    fn several_owners_share_what_may_be_read_from_disk_and_each_can_still_give_what_is_waited_for() {
        let disk = |owners, min_bytes| OwnerBudget::of(owners, min_bytes, 100).max_disk_bytes;
        assert_eq!((disk(1, 1), disk(2, 1), disk(3, 1), disk(200, 1)), (100, 50, 34, 1));
        assert_eq!((disk(4, 80), disk(4, 100), disk(0, 0)), (80, 100, 100));
        assert_eq!(OwnerBudget::of(4, 1, 100).max_bytes, 100);
    }

    #[test]
    fn while_no_owner_has_reached_its_share_there_is_too_little_in_all() {
        let by_owner = [(ShardId(0), vec![0, 2]), (ShardId(1), vec![1])];
        let fetched = [read(&[10]), read(&[5]), read(&[7])];
        let shares = shares(&fetched, &by_owner, 100);
        assert_eq!(shares, [17 + 39, 5 + 39]);
        assert!(shares.iter().map(|share| share - 1).sum::<usize>() < 100);
        assert!(!is_reached(&fetched, &by_owner, &shares));
        assert!(is_reached(&[read(&[10]), read(&[44]), read(&[7])], &by_owner, &shares));
    }
}
