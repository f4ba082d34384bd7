//! What clients read of a partition: records as Kafka's batches, its bounds, offsets by time.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_wire::iggy::{IggyBatchHeader, messages};

use super::append::{Refused, heavy};
use super::limits::{POLL_BYTES_MIN, POLL_MESSAGES_MAX, RETRY_FIRST};
use super::poll::{From, Poll, Polled, poll};
use super::reaction::{Backoff, OnFetch, on_fetch};
use super::{Clients, Failure, IggyTopic};
use crate::store::mapping::{OnUnknown, to_kafka};

/// The leader epoch of all records: Iggy has none.
pub(crate) const LEADER_EPOCH: i32 = 0;

/// A partition, as reads name it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The topic.
    pub topic: IggyTopic,
    /// The partition's number.
    pub partition: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// Kafka's batches.
    pub batches: Vec<Bytes>,
    /// The offset behind the partition's last record.
    pub high_watermark: i64,
    /// The offset behind the last one that was read, those that were left out included; `from` when there was none.
    pub next: i64,
    /// The first offset that is still there, where the read has told it.
    pub log_start: Option<i64>,
}

/// Reads from an offset on; waits up to `wait` for records when there are none.
///
/// # Errors
/// `OFFSET_OUT_OF_RANGE(1)` and the codes of [`on_fetch`]. `CORRUPT_MESSAGE(2)`: the first message is not understood.
pub(crate) async fn read(
    clients: &Clients,
    place: Place,
    from: i64,
    bytes_max: usize,
    wait: Duration,
    deadline: Instant,
) -> Result<Records, Refused> {
    let Ok(from_offset) = u64::try_from(from) else {
        return Err((ErrorCode::OFFSET_OUT_OF_RANGE, format!("offset {from}")));
    };
    let ask = Ask { from: From::Offset(from_offset), messages_max: POLL_MESSAGES_MAX, bytes_max, wait };
    let polled = asked(clients, &place, ask, deadline).await?;
    if polled.messages == 0 {
        return nothing(clients, &place, from, &polled, deadline).await;
    }
    let on_unknown = clients.settings().unknown_messages;
    let high_watermark = offset(polled.current_offset).saturating_add(1);
    let topic = place.topic.clone();
    let batches = polled.batches;
    let read = heavy(batches.len(), move || converted(&batches, from, high_watermark, on_unknown, &topic)).await?;
    match read {
        Read::Records(records) => Ok(records),
        Read::Later(first) => {
            let (log_start, _) = bounds(clients, &place, deadline).await?;
            if log_start > from {
                let message = format!("offset {from} is before the first that is there, {log_start}");
                return Err((ErrorCode::OFFSET_OUT_OF_RANGE, message));
            }
            // Records are not passed over for a server that has lost its place.
            let message = format!("{place} has offset {from} and was read from {first} on");
            Err((ErrorCode::NOT_LEADER_OR_FOLLOWER, message))
        }
    }
}

/// What came of a poll.
enum Read {
    Records(Records),
    /// It begins at this offset, behind the one that was asked for.
    Later(i64),
}

/// There was nothing to read: at the end, or because the offset is not there.
async fn nothing(
    clients: &Clients,
    place: &Place,
    from: i64,
    polled: &Polled,
    deadline: Instant,
) -> Result<Records, Refused> {
    let end = offset(polled.current_offset).saturating_add(1);
    if polled.current_offset > 0 && from == end {
        return Ok(Records { high_watermark: end, next: from, ..Records::default() });
    }
    if from == 0 && polled.current_offset == 0 {
        return Ok(Records { log_start: Some(0), ..Records::default() });
    }
    let (log_start, high_watermark) = bounds(clients, place, deadline).await?;
    if from < log_start || from > high_watermark {
        let message = format!("offset {from} is not within {log_start} to {high_watermark}");
        return Err((ErrorCode::OFFSET_OUT_OF_RANGE, message));
    }
    // There was nothing at the time of the read. What has come since counts as there when it is read.
    Ok(Records { high_watermark: from, next: from, log_start: Some(log_start), ..Records::default() })
}

fn converted(
    batches: &Bytes,
    from: i64,
    high_watermark: i64,
    on_unknown: OnUnknown,
    topic: &IggyTopic,
) -> Result<Read, Refused> {
    let corrupt = |why: String| (ErrorCode::CORRUPT_MESSAGE, format!("{topic}: {why}"));
    let mut records = Records { high_watermark, next: from, ..Records::default() };
    let mut left = batches.clone();
    while !left.is_empty() {
        let header = IggyBatchHeader::parse(&left).map_err(|error| corrupt(error.to_string()))?;
        if header.size > left.len() {
            return Err(corrupt(format!("a batch of {} bytes has {}", header.size, left.len())));
        }
        let batch = left.split_to(header.size);
        let first = messages(&batch).ok().and_then(|mut all| all.next()).and_then(Result::ok);
        match first.map(|first| offset(first.offset)) {
            Some(first) if first > records.next && records.next == from => return Ok(Read::Later(first)),
            // What lies between is read the next time.
            Some(first) if first > records.next => break,
            _ => {}
        }
        let kafka = to_kafka(&batch, LEADER_EPOCH, on_unknown).map_err(corrupt)?;
        for skipped in &kafka.skipped {
            tracing::warn!(%topic, offset = skipped.offset, why = skipped.why, "a message is not understood and left out");
        }
        records.next = end_of(&batch).unwrap_or(records.next);
        records.batches.extend(kafka.batches);
        if let Some(unknown) = kafka.stopped_at {
            tracing::error!(%topic, offset = unknown.offset, why = unknown.why, "a message is not understood");
            if records.batches.is_empty() {
                return Err(corrupt(format!(
                    "the message at offset {} is not understood: {}",
                    unknown.offset, unknown.why
                )));
            }
            records.next = unknown.offset;
            break;
        }
    }
    Ok(Read::Records(records))
}

/// The offset behind a batch's last message.
fn end_of(batch: &[u8]) -> Option<i64> {
    let last = messages(batch).ok()?.filter_map(Result::ok).last()?;
    Some(offset(last.offset).saturating_add(1))
}

/// The first offset that is still there, and the one behind the last.
pub(crate) async fn bounds(clients: &Clients, place: &Place, deadline: Instant) -> Result<(i64, i64), Refused> {
    let ask = Ask { from: From::First, messages_max: 1, bytes_max: POLL_BYTES_MIN, wait: Duration::ZERO };
    let first = asked(clients, place, ask, deadline).await?;
    let high_watermark = match (first.messages, first.current_offset) {
        (0, 0) => 0,
        (_, last) => offset(last).saturating_add(1),
    };
    let log_start = match messages(&first.batches).ok().and_then(|mut all| all.next()) {
        Some(Ok(message)) => offset(message.offset),
        _ => high_watermark,
    };
    Ok((log_start, high_watermark))
}

/// A message's time and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// When it was appended, in ms.
    pub timestamp_ms: i64,
    /// Its offset.
    pub offset: i64,
}

/// The first message that was appended at this time or later.
pub(crate) async fn by_time(
    clients: &Clients,
    place: &Place,
    timestamp_ms: i64,
    deadline: Instant,
) -> Result<Option<Found>, Refused> {
    let us = u64::try_from(timestamp_ms).unwrap_or(0).saturating_mul(1000);
    one(clients, place, From::AppendTime(us), deadline).await
}

/// The last message.
pub(crate) async fn last(clients: &Clients, place: &Place, deadline: Instant) -> Result<Option<Found>, Refused> {
    one(clients, place, From::Last, deadline).await
}

async fn one(clients: &Clients, place: &Place, from: From, deadline: Instant) -> Result<Option<Found>, Refused> {
    let ask = Ask { from, messages_max: 1, bytes_max: POLL_BYTES_MIN, wait: Duration::ZERO };
    let polled = asked(clients, place, ask, deadline).await?;
    if polled.messages == 0 {
        return Ok(None);
    }
    let corrupt = |why: String| (ErrorCode::CORRUPT_MESSAGE, why);
    let mut all = messages(&polled.batches).map_err(|error| corrupt(error.to_string()))?;
    let timestamp_ms = offset(all.header().base_timestamp_us / 1000);
    match all.next() {
        Some(Ok(message)) => Ok(Some(Found { timestamp_ms, offset: offset(message.offset) })),
        Some(Err(error)) => Err(corrupt(error.to_string())),
        None => Err(corrupt("a batch without a message".into())),
    }
}

#[derive(Clone, Copy)]
struct Ask {
    from: From,
    messages_max: u32,
    bytes_max: usize,
    wait: Duration,
}

/// Polls until there is an answer or its time is over.
async fn asked(clients: &Clients, place: &Place, mut ask: Ask, deadline: Instant) -> Result<Polled, Refused> {
    let mut backoff = Backoff::from(RETRY_FIRST);
    let mut made_anew = false;
    loop {
        let what = Poll {
            topic: place.topic.clone(),
            partition: place.partition,
            from: ask.from,
            messages_max: ask.messages_max,
            bytes_max: ask.bytes_max,
            wait: ask.wait,
            timeout: deadline.saturating_duration_since(Instant::now()),
        };
        let failure: Failure = match poll(clients, what).await {
            Ok(polled) => return Ok(polled),
            Err(failure) => failure,
        };
        let refuse = |error: ErrorCode| Err((error, failure.to_string()));
        match on_fetch(failure) {
            OnFetch::Again => {}
            OnFetch::Recreated if !made_anew => made_anew = true,
            OnFetch::Recreated => return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            OnFetch::Less if ask.bytes_max > POLL_BYTES_MIN => ask.bytes_max = (ask.bytes_max / 2).max(POLL_BYTES_MIN),
            OnFetch::Less => return refuse(ErrorCode::MESSAGE_TOO_LARGE),
            OnFetch::Refuse(error) => return refuse(error),
        }
        let next = Instant::now() + backoff.next();
        if next >= deadline {
            return refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        tokio::time::sleep_until(next.into()).await;
    }
}

fn offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use ringgate_wire::iggy::{HEADER_KIND_RAW, IggyBatchBuilder, UserHeader, put_user_header};

    use super::*;

    /// A stored batch of native messages.
    fn native(base_offset: u64, messages: usize) -> Bytes {
        with_headers(base_offset, messages, &[])
    }

    fn with_headers(base_offset: u64, messages: usize, user_headers: &[u8]) -> Bytes {
        let mut builder = IggyBatchBuilder::new(1 << 20);
        (0..messages).for_each(|nth| builder.push(nth as u128, 0, b"payload", user_headers).expect("it fits"));
        builder.finish(0, base_offset, 1_000_000).expect("a batch")
    }

    /// A message whose mapping nobody knows.
    fn unknown(base_offset: u64) -> Bytes {
        let mut header = BytesMut::new();
        let kind = HEADER_KIND_RAW;
        put_user_header(&mut header, &UserHeader { name_kind: kind, name: b"kafka.v", value_kind: kind, value: &[99] });
        with_headers(base_offset, 1, &header)
    }

    fn polled(batches: &[Bytes], from: i64, on_unknown: OnUnknown) -> Result<Read, Refused> {
        let topic = IggyTopic { stream: "kafka".into(), topic: "t".into() };
        converted(&batches.concat().into(), from, 100, on_unknown, &topic)
    }

    fn records(read: Result<Read, Refused>) -> (usize, i64) {
        match read {
            Ok(Read::Records(records)) => (records.batches.len(), records.next),
            Ok(Read::Later(first)) => panic!("it begins at {first}"),
            Err((error, why)) => panic!("{error}: {why}"),
        }
    }

    #[test]
    fn batches_that_go_on_from_each_other_are_read_to_their_end() {
        let batches = [native(5, 3), native(8, 1), native(9, 2)];
        assert_eq!(records(polled(&batches, 5, OnUnknown::Stop)), (3, 11));
        assert_eq!(records(polled(&batches, 7, OnUnknown::Stop)), (3, 11), "also from the middle of the first");
    }

    #[test]
    fn an_answer_that_begins_later_is_no_answer() {
        assert!(matches!(polled(&[native(6, 1)], 5, OnUnknown::Stop), Ok(Read::Later(6))));
    }

    #[test]
    fn what_lies_behind_a_gap_is_not_read_yet() {
        let batches = [native(5, 3), native(9, 1)];
        assert_eq!(records(polled(&batches, 5, OnUnknown::Stop)), (1, 8));
    }

    #[test]
    fn a_message_that_is_not_understood_ends_the_read_or_is_left_out() {
        let batches = [native(5, 2), unknown(7), native(8, 1)];
        assert_eq!(records(polled(&batches, 5, OnUnknown::Stop)), (1, 7));
        assert_eq!(records(polled(&batches, 5, OnUnknown::Skip)), (2, 9));
        let refused = polled(&batches[1..], 7, OnUnknown::Stop).err().map(|(error, _)| error);
        assert_eq!(refused, Some(ErrorCode::CORRUPT_MESSAGE), "at the message itself it is an error");
    }

    #[test]
    fn what_is_no_batch_is_an_error_and_no_end() {
        let cut = native(5, 2).slice(..300);
        for broken in [cut, Bytes::from_static(&[0; 300])] {
            let refused = polled(&[broken], 5, OnUnknown::Skip).err().map(|(error, _)| error);
            assert_eq!(refused, Some(ErrorCode::CORRUPT_MESSAGE));
        }
    }
}
