//! Batches of Iggy's, from the shard that is asked to the log of the owner and back.

use std::rc::Rc;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_shards::Shard;
use ringgate_shards::call::{
    Asking, Attempt, DeleteSegmentsCall, FetchCall, IggyRefusal, ListOffsetsCall, PartitionFetch, PartitionFetched,
    PartitionListOffsets, PartitionProduce, ProduceCall, SendCall, SentBatch, TopicPartition,
};
use ringgate_shards::catalogue::{KAFKA, Topic};
use ringgate_shards::iggy_code::IggyCode;
use ringgate_shards::store::embedded::files::MemFiles;
use ringgate_shards::store::stored::StoredBatch;
use ringgate_wire::iggy::{IggyBatchBuilder, IggyProducer, messages};
use ringgate_wire::records::BatchBuilder;

use crate::iggy_changes::{stream, topic};
use crate::world::on_gateway;

/// One message for each payload; `producer` is (id, epoch, first sequence).
pub fn batch(payloads: &[&str], producer: Option<(u64, u16, u32)>) -> Bytes {
    let producer = producer.map(|(id, epoch, base_sequence)| IggyProducer { id, epoch, base_sequence });
    let mut builder = IggyBatchBuilder::new(1 << 24).producer(producer);
    for payload in payloads {
        builder.push(0, 1_000_000, payload.as_bytes(), &[]).unwrap();
    }
    builder.finish(0, 0, 0).unwrap()
}

/// Of a request that was never made before.
fn attempt() -> Attempt {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    Attempt { session: 1, request: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) }
}

pub async fn send(shard: &Rc<Shard>, topic: &Topic, partition: i32, batch: Bytes) -> Result<SentBatch, IggyRefusal> {
    let at = TopicPartition { topic: topic.id, partition };
    shard.submit_to(topic.owner(shard.route(), partition), SendCall { at, batch, attempt: attempt() }).await.0
}

async fn fetch(shard: &Rc<Shard>, topic: &Topic, partition: i32, fetch_offset: i64) -> PartitionFetched {
    let at = TopicPartition { topic: topic.id, partition };
    let wanted =
        PartitionFetch { at, fetch_offset, max_bytes: 1 << 20, current_leader_epoch: -1, last_fetched_epoch: -1 };
    let call = FetchCall { partitions: vec![wanted], max_bytes: 1 << 20, max_disk_bytes: 1 << 20, watch: None };
    shard.submit_to(topic.owner(shard.route(), partition), call).await.0.remove(0)
}

fn payloads(batch: &StoredBatch) -> Vec<String> {
    let StoredBatch::Iggy { batch, .. } = batch else { panic!("it is Iggy's") };
    messages(batch).unwrap().map(|message| String::from_utf8(message.unwrap().payload.to_vec()).unwrap()).collect()
}

#[test]
fn what_iggy_sends_and_kafka_produces_is_in_one_row_and_there_after_a_restart() {
    let files = MemFiles::new();
    on_gateway(&files, 2, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 2).await;
        for partition in 0..2 {
            let sent = send(&shard, &orders, partition, batch(&["a", "b"], None)).await.unwrap();
            assert_eq!((sent.base_offset, sent.duplicate), (0, false));
            let mut builder = BatchBuilder::new(1 << 20);
            builder.push(5, None, Some(b"c"), &[]).unwrap();
            let at = TopicPartition { topic: orders.id, partition };
            let part = PartitionProduce { at, records: builder.finish(0, -1).unwrap() };
            let asking = Asking::default();
            let call = ProduceCall { acks: -1, zstd: true, asker: asking.asker(), partitions: vec![part] };
            let produced = shard.submit_to(orders.owner(shard.route(), partition), call).await.0.remove(0);
            assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, 2));
            let sent = send(&shard, &orders, partition, batch(&["d"], None)).await.unwrap();
            assert_eq!(sent.base_offset, 3);
        }
    });
    on_gateway(&files, 3, async |shard| {
        let orders = shard.catalogue().topic("orders").unwrap().clone();
        for partition in 0..2 {
            let fetched = fetch(&shard, &orders, partition, 0).await;
            assert_eq!((fetched.high_watermark, fetched.records.len()), (4, 3));
            assert_eq!(payloads(&fetched.records[0]), ["a", "b"]);
            assert!(matches!(fetched.records[1], StoredBatch::Kafka(_)));
            assert_eq!(payloads(&fetched.records[2]), ["d"]);
            let at = TopicPartition { topic: orders.id, partition };
            let look = PartitionListOffsets { at, timestamp: 6, current_leader_epoch: -1 };
            let call = ListOffsetsCall { partitions: vec![look] };
            let found = shard.submit_to(orders.owner(shard.route(), partition), call).await.0.remove(0);
            assert_eq!((found.offset, found.timestamp), (0, 1000), "the first message is of second 1");
        }
    });
}

#[test]
fn a_batch_that_is_sent_again_gets_its_first_offset_and_what_is_wrong_its_code() {
    on_gateway(&MemFiles::new(), 2, async |shard| {
        let lab = stream(&shard, "lab").await;
        let runs = topic(&shard, lab.number, "runs", 1).await;
        let first = batch(&["a", "b"], Some((7, 0, 0)));
        assert!(!send(&shard, &runs, 0, first.clone()).await.unwrap().duplicate);
        let again = send(&shard, &runs, 0, first).await.unwrap();
        assert_eq!((again.base_offset, again.duplicate), (0, true));
        let mut damaged = batch(&["abc"], None).to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        for (partition, batch, code) in [
            (0, batch(&["x"], Some((7, 0, 9))), IggyCode::PRODUCER_SEQUENCE_OUT_OF_ORDER),
            (0, batch(&["x"], Some((8, 0, 9))), IggyCode::PRODUCER_UNKNOWN),
            (0, damaged.into(), IggyCode::INVALID_BATCH_CHECKSUM),
            (0, Bytes::from_static(b"nothing"), IggyCode::INVALID_COMMAND),
            (1, batch(&["x"], None), IggyCode::PARTITION_NOT_FOUND),
        ] {
            assert_eq!(send(&shard, &runs, partition, batch).await.unwrap_err().code, code);
        }
        assert_eq!(fetch(&shard, &runs, 0, 0).await.high_watermark, 2, "nothing more was written");
    });
}

#[test]
fn large_and_small_batches_keep_the_order_in_which_they_were_sent() {
    on_gateway(&MemFiles::new(), 2, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 1).await;
        let large = "x".repeat(60_000);
        let (owner, at) = (orders.owner(shard.route(), 0), orders.partition(0).unwrap());
        let sent: Vec<_> = (0..10)
            .map(|nth| {
                // The large ones take many slices to look through.
                let batch = if nth % 2 == 0 { batch(&[large.as_str(); 20], None) } else { batch(&["small"], None) };
                shard.submit_to(owner, SendCall { at, batch, attempt: attempt() })
            })
            .collect();
        let mut offsets = Vec::new();
        for sent in sent {
            offsets.push(sent.await.0.unwrap().base_offset);
        }
        assert_eq!(offsets, [0, 20, 21, 41, 42, 62, 63, 83, 84, 104]);
    });
}

#[test]
fn deleted_segments_are_gone_after_a_restart_and_the_last_one_stays() {
    let files = MemFiles::new();
    on_gateway(&files, 2, async |shard| {
        let orders = topic(&shard, KAFKA, "orders", 1).await;
        // Segments of 1 MiB: two of these are one.
        let large = "x".repeat(400_000);
        for _ in 0..6 {
            send(&shard, &orders, 0, batch(&[&large], None)).await.unwrap();
        }
        let (owner, at) = (orders.owner(shard.route(), 0), orders.partition(0).unwrap());
        shard.submit_to(owner, DeleteSegmentsCall { at, count: 1 }).await.0.unwrap();
        assert_eq!(fetch(&shard, &orders, 0, 0).await.log_start_offset, 2, "a segment has two");
        shard.submit_to(owner, DeleteSegmentsCall { at, count: 99 }).await.0.unwrap();
        let missing = TopicPartition { partition: 7, ..at };
        let refused = shard.submit_to(owner, DeleteSegmentsCall { at: missing, count: 1 }).await.0;
        assert_eq!(refused.unwrap_err().code, IggyCode::PARTITION_NOT_FOUND);
    });
    on_gateway(&files, 1, async |shard| {
        let orders = shard.catalogue().topic("orders").unwrap().clone();
        let fetched = fetch(&shard, &orders, 0, 0).await;
        assert_eq!((fetched.log_start_offset, fetched.high_watermark), (4, 6));
        assert_eq!(fetched.error, ErrorCode::OFFSET_OUT_OF_RANGE);
    });
}
