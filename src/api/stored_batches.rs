//! What a partition holds, as Kafka's clients read it: batches that came by Iggy's protocol are converted.

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_shards::ShardHandle;
use ringgate_shards::limits::WALK_SLICE;
use ringgate_shards::store::mapping::{OnUnknown, to_kafka};
use ringgate_shards::store::stored::StoredBatch;
use ringgate_wire::iggy::cut;

/// Record batches of Kafka's, read from `fetch_offset` on. Records end before a message that is not understood.
///
/// # Errors
/// `CORRUPT_MESSAGE(2)`: the one at `fetch_offset` is not understood.
pub(super) async fn for_kafka(
    shard: &ShardHandle,
    batches: Vec<StoredBatch>,
    fetch_offset: i64,
) -> Result<Vec<Bytes>, ErrorCode> {
    let iggys = |batch: &&StoredBatch| matches!(batch, StoredBatch::Iggy { .. });
    let bytes: usize = batches.iter().filter(iggys).map(StoredBatch::len).sum();
    match bytes {
        0 => Ok(batches.into_iter().map(StoredBatch::into_bytes).collect()),
        1..=WALK_SLICE => converted(&batches, fetch_offset),
        _ => shard.elsewhere(move || converted(&batches, fetch_offset)).await,
    }
}

fn converted(batches: &[StoredBatch], fetch_offset: i64) -> Result<Vec<Bytes>, ErrorCode> {
    let mut records = Vec::with_capacity(batches.len());
    for batch in batches {
        let (batch, leader_epoch) = match batch {
            StoredBatch::Kafka(batch) => {
                records.push(batch.clone());
                continue;
            }
            StoredBatch::Iggy { batch, leader_epoch } => (batch, *leader_epoch),
        };
        let unreadable = |why: String| {
            tracing::error!(why, "a stored batch of Iggy's cannot be read");
            ErrorCode::CORRUPT_MESSAGE
        };
        // What lies before the offset is not asked for: a message there that is not understood holds nobody up who
        // has gone past it.
        let from = u64::try_from(fetch_offset).unwrap_or(0);
        let wanted = cut(batch, from, u32::MAX, usize::MAX).map_err(|error| unreadable(error.to_string()))?;
        let Some(batch) = wanted else { continue };
        let kafka = to_kafka(&batch, leader_epoch, OnUnknown::Stop).map_err(unreadable)?;
        records.extend(kafka.batches);
        if let Some(unknown) = kafka.stopped_at {
            if unknown.offset <= fetch_offset {
                tracing::debug!(offset = unknown.offset, why = unknown.why, "a message of Iggy's is not understood");
                return Err(ErrorCode::CORRUPT_MESSAGE);
            }
            break;
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringgate_wire::iggy::{HEADER_KIND_RAW, HEADER_KIND_STRING, IggyBatchBuilder, UserHeader, put_user_header};
    use ringgate_wire::records::{BatchHeader, OpenBatch};

    fn user_header(name: &str, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_user_header(
            &mut out,
            &UserHeader { name_kind: HEADER_KIND_STRING, name: name.as_bytes(), value_kind: HEADER_KIND_RAW, value },
        );
        out
    }

    /// Messages with these payloads and user headers, from `base_offset` on.
    fn iggy(base_offset: u64, messages: &[(&[u8], Vec<u8>)]) -> StoredBatch {
        let mut builder = IggyBatchBuilder::new(1 << 20);
        for (payload, headers) in messages {
            builder.push(0, 7_000_000, payload, headers).unwrap();
        }
        StoredBatch::Iggy { batch: builder.finish(0, base_offset, 9_000_000).unwrap(), leader_epoch: 3 }
    }

    #[test]
    fn records_have_the_offsets_times_and_epoch_of_the_messages() {
        let read = converted(&[iggy(5, &[(b"a", vec![]), (b"b", vec![])])], 5).unwrap();
        let header = BatchHeader::parse(&read[0]).unwrap();
        assert_eq!((header.base_offset, header.last_offset(), header.partition_leader_epoch), (5, 6, 3));
        let open = OpenBatch::open(&read[0], 1 << 20).unwrap();
        let seen: Vec<_> =
            open.records().map(|r| r.unwrap()).map(|r| (r.timestamp, r.value.unwrap().to_vec())).collect();
        assert_eq!(seen, [(7000, b"a".to_vec()), (7000, b"b".to_vec())]);
    }

    #[test]
    fn what_comes_before_a_message_that_is_not_understood_is_read_and_then_an_error() {
        let strange = user_header("kafka.v", &[99]);
        let batch = [iggy(5, &[(b"a", vec![]), (b"b", strange), (b"c", vec![])])];
        let read = converted(&batch, 5).unwrap();
        assert_eq!(read.iter().map(|b| BatchHeader::parse(b).unwrap().last_offset()).collect::<Vec<_>>(), [5]);
        assert_eq!(converted(&batch, 6), Err(ErrorCode::CORRUPT_MESSAGE));
        assert_eq!(converted(&batch, 5).map(|read| read.len()), Ok(1), "nothing behind it");
    }

    #[test]
    fn who_has_gone_past_a_message_that_is_not_understood_reads_what_follows_it() {
        let strange = user_header("kafka.v", &[99]);
        let batch = [iggy(5, &[(b"a", vec![]), (b"b", strange), (b"c", vec![]), (b"d", vec![])])];
        for (fetch_offset, left) in [(7, 2), (8, 1)] {
            let read = converted(&batch, fetch_offset).unwrap();
            let header = BatchHeader::parse(&read[0]).unwrap();
            assert_eq!((header.base_offset, header.last_offset(), header.records), (fetch_offset, 8, left));
        }
    }
}
