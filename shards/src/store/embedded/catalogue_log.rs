//! The log of the catalogue: what topics there are. One file of frames, replayed at start and written anew
//! then when most of it is of the past.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use uuid::Uuid;

use super::append_files::{AppendFiles, Chunk, FileDone, FileJob, Last};
use super::files::{Files, Open, damaged, parent};
use super::frame::{self, Frame, Scanner, Step, Tail};
use crate::catalogue::Topic;
use crate::log_driver::JobLog;

const VERSION: u8 = 1;

/// A change of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogueRecord {
    /// A topic was created.
    Created(Arc<Topic>),
    /// A topic was deleted; what is left of its partitions may be removed.
    Deleted(Uuid),
    /// A topic has this many partitions now.
    PartitionsAdded {
        /// The topic's id.
        topic: Uuid,
        /// More than before.
        partitions: i32,
    },
    /// A topic has these settings now.
    ConfigChanged {
        /// The topic's id.
        topic: Uuid,
        /// All of its settings.
        config: BTreeMap<String, String>,
    },
}

/// What a replay found.
pub(super) struct Replayed {
    pub(super) log: CatalogueLog,
    /// The topics that there are, oldest first.
    pub(super) topics: Vec<Arc<Topic>>,
    /// Records in the file.
    pub(super) records: usize,
}

/// The log of the catalogue. Positions count records.
pub struct CatalogueLog {
    appended: AppendFiles,
}

/// Blocking work on the catalogue's file.
pub struct Job(FileJob);

/// How a [`Job`] went.
pub struct JobDone(FileDone);

impl CatalogueLog {
    /// Replays the file, which exists. A torn tail is cut; damage is an error. Blocks.
    pub(super) fn open(files: Arc<dyn Files>, path: &Path) -> io::Result<Replayed> {
        let file = files.open(path, Open::Write)?;
        let len = file.len()?;
        let mut scanner = Scanner::new(file.clone(), 0, len);
        let mut topics = Topics::default();
        let mut records = 0;
        loop {
            match scanner.step()? {
                Step::End => break,
                Step::Frame(frame) => {
                    let record = CatalogueRecord::decode(&frame);
                    let record = record.ok_or_else(|| damaged(path, format!("no record at {}", frame.position)))?;
                    topics.apply(record);
                    records += 1;
                }
                Step::Broken(at) => {
                    if let Tail::Damaged { resumes_at } = scanner.tail()? {
                        return Err(damaged(path, format!("no frame at {at}, and whole ones from {resumes_at} on")));
                    }
                    tracing::warn!(path = %path.display(), at, bytes = len - at, "cut a torn tail");
                    file.truncate(at)?;
                    break;
                }
            }
        }
        // What a killed process wrote may not be on disk.
        file.sync()?;
        files.sync_dir(parent(path))?;
        let last = Last { file, end: scanner.position() };
        let log = CatalogueLog { appended: AppendFiles::new(files, last, records as u64) };
        Ok(Replayed { log, topics: topics.in_order(), records })
    }

    /// Writes a file that says that there are these topics. It is on disk when this returns. Blocks.
    pub(super) fn write(files: &dyn Files, path: &Path, topics: &[Arc<Topic>]) -> io::Result<()> {
        let file = files.open(path, Open::Empty)?;
        let frames: Vec<Bytes> = topics.iter().map(|t| CatalogueRecord::Created(t.clone()).encode()).collect();
        file.write_at(0, &frames)?;
        file.sync()?;
        files.sync_dir(parent(path))
    }

    /// Appends records; the position at which they are all durable. `Err` when the log is closed.
    pub fn append(&mut self, records: Vec<CatalogueRecord>) -> Result<u64, String> {
        if let Some(why) = self.appended.failure() {
            return Err(format!("the catalogue's log is closed until a restart: {why}"));
        }
        let mut end = self.appended.pushed();
        for record in records {
            end += 1;
            self.appended.push(Chunk { bytes: record.encode(), starts: None }, end);
        }
        Ok(end)
    }
}

impl JobLog for CatalogueLog {
    type Job = Job;
    type Done = JobDone;

    fn poll_job(&mut self) -> Option<Job> {
        self.appended.poll_job().map(Job)
    }

    fn run(job: Job) -> JobDone {
        JobDone(job.0.run())
    }

    fn handle_done(&mut self, done: JobDone) {
        self.appended.handle_done(done.0);
    }

    fn request_sync(&mut self) {
        self.appended.request_sync();
    }

    fn written(&self) -> u64 {
        self.appended.written()
    }

    fn durable(&self) -> u64 {
        self.appended.synced()
    }

    fn is_closed(&self) -> bool {
        self.appended.is_closed()
    }
}

/// The topics that a row of records leaves.
#[derive(Default)]
pub(super) struct Topics {
    by_id: HashMap<Uuid, (usize, Topic)>,
    created: usize,
}

impl Topics {
    pub(super) fn apply(&mut self, record: CatalogueRecord) {
        match record {
            CatalogueRecord::Created(topic) => {
                self.by_id.insert(topic.id, (self.created, Arc::unwrap_or_clone(topic)));
                self.created += 1;
            }
            CatalogueRecord::Deleted(id) => {
                self.by_id.remove(&id);
            }
            CatalogueRecord::PartitionsAdded { topic, partitions } => {
                if let Some((_, topic)) = self.by_id.get_mut(&topic) {
                    topic.partitions = partitions;
                }
            }
            CatalogueRecord::ConfigChanged { topic, config } => {
                if let Some((_, topic)) = self.by_id.get_mut(&topic) {
                    topic.config = config;
                }
            }
        }
    }

    pub(super) fn in_order(self) -> Vec<Arc<Topic>> {
        let mut topics: Vec<_> = self.by_id.into_values().collect();
        topics.sort_by_key(|(nth, _)| *nth);
        topics.into_iter().map(|(_, topic)| Arc::new(topic)).collect()
    }
}

impl CatalogueRecord {
    fn encode(&self) -> Bytes {
        let begin = |kind| frame::begin(kind, VERSION, 128);
        frame::seal(match self {
            CatalogueRecord::Created(topic) => {
                let mut out = begin(frame::KIND_TOPIC_CREATED);
                out.put_slice(topic.id.as_bytes());
                put_text(&mut out, &topic.name);
                out.put_i32_le(topic.partitions);
                out.put_i64_le(topic.created_at_ms);
                put_config(&mut out, &topic.config);
                out
            }
            CatalogueRecord::Deleted(topic) => {
                let mut out = begin(frame::KIND_TOPIC_DELETED);
                out.put_slice(topic.as_bytes());
                out
            }
            CatalogueRecord::PartitionsAdded { topic, partitions } => {
                let mut out = begin(frame::KIND_PARTITIONS_ADDED);
                out.put_slice(topic.as_bytes());
                out.put_i32_le(*partitions);
                out
            }
            CatalogueRecord::ConfigChanged { topic, config } => {
                let mut out = begin(frame::KIND_CONFIG_CHANGED);
                out.put_slice(topic.as_bytes());
                put_config(&mut out, config);
                out
            }
        })
    }

    /// Reads a record; `None` when it is none.
    pub(super) fn decode(frame: &Frame) -> Option<CatalogueRecord> {
        if frame.version != VERSION {
            return None;
        }
        let mut from = &frame.payload[..];
        let topic = Uuid::from_slice(from.split_off(..16)?).ok()?;
        let record = match frame.kind {
            frame::KIND_TOPIC_CREATED => CatalogueRecord::Created(Arc::new(Topic {
                id: topic,
                name: text(&mut from)?.into(),
                partitions: from.try_get_i32_le().ok()?,
                created_at_ms: from.try_get_i64_le().ok()?,
                config: config(&mut from)?,
            })),
            frame::KIND_TOPIC_DELETED => CatalogueRecord::Deleted(topic),
            frame::KIND_PARTITIONS_ADDED => {
                CatalogueRecord::PartitionsAdded { topic, partitions: from.try_get_i32_le().ok()? }
            }
            frame::KIND_CONFIG_CHANGED => CatalogueRecord::ConfigChanged { topic, config: config(&mut from)? },
            _ => return None,
        };
        from.is_empty().then_some(record)
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u32_le(text.len() as u32);
    out.put_slice(text.as_bytes());
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    let len = from.try_get_u32_le().ok()? as usize;
    std::str::from_utf8(from.split_off(..len)?).ok()
}

fn put_config(out: &mut BytesMut, config: &BTreeMap<String, String>) {
    out.put_u32_le(config.len() as u32);
    for (name, value) in config {
        put_text(out, name);
        put_text(out, value);
    }
}

fn config(from: &mut &[u8]) -> Option<BTreeMap<String, String>> {
    let count = from.try_get_u32_le().ok()?;
    (0..count).map(|_| Some((text(from)?.to_string(), text(from)?.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Arc<Topic> {
        Arc::new(Topic {
            id: Uuid::new_v4(),
            name: name.into(),
            partitions: 3,
            config: [("segment.bytes".to_string(), "1048576".to_string())].into(),
            created_at_ms: 1_700_000_000_000,
        })
    }

    #[test]
    fn records_are_read_as_they_were_written_and_every_cut_is_noticed() {
        let topic = topic("orders");
        let config = [("a".to_string(), "b".to_string()), ("c".to_string(), String::new())].into();
        for record in [
            CatalogueRecord::Created(topic.clone()),
            CatalogueRecord::Deleted(topic.id),
            CatalogueRecord::PartitionsAdded { topic: topic.id, partitions: 9 },
            CatalogueRecord::ConfigChanged { topic: topic.id, config },
        ] {
            let mut frame = frame::decode(&record.encode()).unwrap();
            assert_eq!(CatalogueRecord::decode(&frame), Some(record));
            let payload = frame.payload.clone();
            for cut in 0..payload.len() {
                frame.payload = payload.slice(..cut);
                assert_eq!(CatalogueRecord::decode(&frame), None, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_replay_gives_the_topics_as_they_were_last_changed_in_order_of_creation() {
        let (a, b, c) = (topic("a"), topic("b"), topic("c"));
        let mut topics = Topics::default();
        for topic in [&c, &a, &b] {
            topics.apply(CatalogueRecord::Created(topic.clone()));
        }
        topics.apply(CatalogueRecord::Deleted(a.id));
        topics.apply(CatalogueRecord::PartitionsAdded { topic: b.id, partitions: 5 });
        topics.apply(CatalogueRecord::ConfigChanged { topic: c.id, config: BTreeMap::new() });
        let topics = topics.in_order();
        let seen: Vec<_> = topics.iter().map(|t| (&*t.name, t.partitions, t.config.len())).collect();
        assert_eq!(seen, [("c", 3, 0), ("b", 5, 1)]);
    }
}
