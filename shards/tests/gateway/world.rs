//! Shards that run, and a test that runs on the first of them.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use ringgate_group::GroupConfig;
use ringgate_runtime::{Config, Executors, FileThreads, Notifier, Placement, notifier};
use ringgate_shards::call::{IggyChange, IggyChangeCall, IggyChanged, IggyRefusal};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::open_files::OpenFiles;
use ringgate_shards::settings::{Fsync, ShardSettings};
use ringgate_shards::store::embedded::files::{Files, MemFiles, Open};
use ringgate_shards::store::embedded::{Engine, EngineConfig};
use ringgate_shards::topic_config::TopicDefaults;
use ringgate_shards::{Shard, describe};

/// Where the data is.
pub const DIR: &str = "/data";

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of the shards.
fn settings() -> ShardSettings {
    ShardSettings {
        fsync: Fsync::Always,
        offset_linger: Duration::ZERO,
        tail_cache_bytes: 1 << 20,
        topic_defaults: TopicDefaults {
            segment_bytes: 1 << 20,
            max_message_bytes: 1 << 20,
            retention_ms: 604_800_000,
            retention_bytes: -1,
        },
        retention_check_interval: Duration::from_secs(3600),
        offsets_retention_check_interval: Duration::from_secs(3600),
        max_decompressed_bytes: 1 << 24,
        max_partitions: 100,
        group: GroupConfig::default(),
    }
}

/// Starts so many shards over what is in `files`, runs `test` on shard 0, stops all in good order.
pub fn on_gateway<F, T>(files: &MemFiles, shards: u16, test: T)
where
    T: FnOnce(Rc<Shard>) -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let opened = Engine::open(Arc::new(files.clone()), Path::new(DIR), EngineConfig::new(shards, describe));
    let opened = opened.expect("a store");
    let config = Config { shards, placement: Placement::Unpinned, spin: Duration::ZERO };
    let mut executors = Executors::start(&config).expect("executors");
    let file_threads = FileThreads::start(2).expect("file threads");
    let open_files = Arc::new(OpenFiles::new(10_000, opened.engine.catalogue().partition_count()));
    let (mailroom, seeds) =
        ringgate_shards::start::seeds(&opened.engine, opened.stores, &settings(), &file_threads, 64, &open_files);
    let (go, waiting) = notifier();
    let started = Arc::new(Started { missing: AtomicU16::new(shards), go });
    let mut seeds: Vec<_> = seeds.into_iter().map(Some).collect();
    let (mut test, mut waiting) = (Some(test), Some(waiting));
    executors.run(|id| {
        let seed = seeds[usize::from(id)].take().expect("a seed for each shard");
        let (started, mailroom) = (started.clone(), mailroom.clone());
        let mine = if id == 0 { test.take().zip(waiting.take()) } else { None };
        move || async move {
            let running = seed.start().await;
            let shard = running.shard().clone();
            started.another();
            match mine {
                Some((test, go)) => {
                    go.notified().await;
                    ringgate_runtime::timeout(PATIENCE, test(shard)).await.expect("the test ends in time");
                    mailroom.stop();
                }
                None => shard.stopping().await,
            }
            running.finish().await;
            running.end().await;
        }
    });
    executors.join();
}

/// Counts the shards that are up.
struct Started {
    missing: AtomicU16,
    go: Notifier,
}

impl Started {
    fn another(&self) {
        if self.missing.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.go.notify();
        }
    }
}

/// Asks the controller.
pub async fn change(shard: &Rc<Shard>, change: IggyChange) -> Result<IggyChanged, IggyRefusal> {
    shard.submit_to(CONTROLLER, IggyChangeCall(change)).await.0
}

/// The keys in the files of a kind of offsets, partition by partition, as records leave them.
pub fn offsets_on_disk(files: &MemFiles, kind: &str) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    let topics = Path::new(DIR).join("topics");
    for topic in files.list(&topics).expect("topics") {
        let topic = topics.join(topic.name);
        for partition in files.list(&topic).expect("partitions") {
            let path = topic.join(partition.name).join("offsets").join(kind).join("offsets.log");
            let Ok(file) = files.open(&path, Open::Read) else { continue };
            let mut bytes = vec![0; usize::try_from(file.len().expect("a length")).expect("a short file")];
            file.read_at(0, &mut bytes).expect("a file");
            let mut keys = BTreeSet::new();
            // A frame of 10 bytes before its payload: u32 key, u8 whether it is there, u64 value.
            for record in bytes.chunks_exact(23) {
                let key = u32::from_le_bytes([record[10], record[11], record[12], record[13]]);
                if record[14] == 1 {
                    keys.insert(key)
                } else {
                    keys.remove(&key)
                };
            }
            found.push(keys.into_iter().collect());
        }
    }
    found
}
