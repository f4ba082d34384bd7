//! The store as a whole: partitions in depth, faults, and crashes at every operation.

mod consumer_offsets;
mod crash;
mod iggy;
mod logs;
mod partitions;
mod retention;
mod verify;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ringgate_wire::iggy::{BATCH_HEADER_BYTES, IggyBatchBuilder, IggyBatchInfo, IggyProducer, IggyWalker};
use ringgate_wire::records::{BatchBuilder, BatchHeader, BatchInfo, Walker};

use super::files::{DiskFiles, Files, MemFiles};
use super::partition::{PartitionConfig, PartitionLog, Read};
use crate::log_driver::JobLog;
use crate::store::stored::StoredBatch;

/// A batch as a producer sends it, looked through.
#[derive(Clone)]
struct Sent {
    records: Bytes,
    info: BatchInfo,
}

/// One record for each timestamp, with this value; `producer` is (id, epoch, first sequence).
fn batch(timestamps: &[i64], value: &str, producer: Option<(i64, i16, i32)>) -> Sent {
    let mut builder = BatchBuilder::new(1 << 20);
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    for timestamp in timestamps {
        builder.push(*timestamp, Some(b"key"), Some(value.as_bytes()), &[]).unwrap();
    }
    walked(builder.finish(0, -1).unwrap())
}

fn walked(records: Bytes) -> Sent {
    let mut walker = Walker::new(records.clone(), 1 << 24);
    let info = loop {
        if let Some(walked) = walker.step(1 << 20) {
            break walked.unwrap();
        }
    };
    Sent { records, info }
}

/// Does all jobs until none is left.
fn settle(log: &mut impl JobLog) {
    settle_with(log, Vec::new());
}

/// Does these jobs, which are out, and all others until none is left.
fn settle_with<L: JobLog>(log: &mut L, mut jobs: Vec<L::Job>) {
    loop {
        while let Some(job) = log.poll_job() {
            jobs.push(job);
        }
        if jobs.is_empty() {
            return;
        }
        for job in jobs.drain(..) {
            log.handle_done(L::run(job));
        }
    }
}

/// A batch of Iggy's as a producer sends it, looked through.
#[derive(Clone)]
struct Message {
    batch: Bytes,
    info: IggyBatchInfo,
}

/// One message for each origin time in us, with this payload; `producer` is (id, epoch, first sequence).
fn messages(origins_us: &[u64], payload: &str, producer: Option<(u64, u16, u32)>) -> Message {
    let producer = producer.map(|(id, epoch, base_sequence)| IggyProducer { id, epoch, base_sequence });
    let mut builder = IggyBatchBuilder::new(1 << 20).producer(producer);
    for (nth, origin) in origins_us.iter().enumerate() {
        builder.push(nth as u128 + 1, *origin, payload.as_bytes(), &[]).unwrap();
    }
    let batch = builder.finish(0, 0, 0).unwrap();
    let info = IggyWalker::new(batch.clone()).step(1 << 20).expect("it is short").unwrap();
    Message { batch, info }
}

/// What `read` gives, from memory or by its job.
fn stored(log: &PartitionLog, offset: i64, max_bytes: usize) -> Vec<StoredBatch> {
    match log.read(offset, max_bytes, true) {
        Read::Cached(batches) => batches,
        Read::Disk(job) => job.run().unwrap(),
        Read::Empty | Read::OutOfRange => Vec::new(),
    }
}

/// The bytes of that.
fn read(log: &PartitionLog, offset: i64, max_bytes: usize) -> Vec<Bytes> {
    stored(log, offset, max_bytes).iter().map(|batch| batch.bytes().clone()).collect()
}

/// Base offset, last offset and the bytes behind the header of every batch, each read on its own.
fn content(log: &PartitionLog) -> Vec<(i64, i64, Bytes)> {
    let mut found = Vec::new();
    let mut offset = log.log_start_offset();
    while offset < log.high_watermark() {
        let batches = stored(log, offset, 1);
        assert_eq!(batches.len(), 1, "one batch when even that is over the budget");
        let header_bytes = match &batches[0] {
            StoredBatch::Kafka(batch) => {
                assert!(BatchHeader::parse(batch).unwrap().crc_is_right(batch));
                61
            }
            StoredBatch::Iggy { batch, .. } => {
                let walked = IggyWalker::new(batch.clone()).step(1 << 20).expect("it is short");
                walked.expect("it has its place and the right checksums");
                BATCH_HEADER_BYTES
            }
        };
        let (base, last) = batches[0].offsets().unwrap();
        assert!((base..=last).contains(&offset));
        found.push((base, last, batches[0].bytes().slice(header_bytes..)));
        offset = last + 1;
    }
    assert_eq!(offset, log.high_watermark());
    found
}

/// Small files, so that a short test sees many of them.
fn small() -> PartitionConfig {
    PartitionConfig { checkpoint_bytes: 1500, ..PartitionConfig::with_segment_bytes(700) }
}

/// Runs a test on files in memory and on a disk. It gets an existing directory.
fn on_both(test: impl Fn(Arc<dyn Files>, &Path)) {
    let memory = MemFiles::new();
    memory.create_dir(Path::new("/d")).unwrap();
    test(Arc::new(memory), Path::new("/d"));
    let dir = tempfile::tempdir().unwrap();
    test(Arc::new(DiskFiles), dir.path());
}
