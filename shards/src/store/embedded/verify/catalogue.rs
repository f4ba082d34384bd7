//! The catalogue's log: whether it can be replayed, and to topics that can be.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::{Expected, Report, walk};
use crate::catalogue::Topic;
use crate::store::embedded::catalogue_log::{CatalogueRecord, Topics};
use crate::store::embedded::files::Files;

/// Reads the catalogue's file; the topics that there are, oldest first.
pub(super) fn verify(report: &mut Report, files: &dyn Files, path: &Path) -> Vec<Arc<Topic>> {
    let mut topics = Topics::default();
    let mut partitions: HashMap<Uuid, i32> = HashMap::new();
    let mut unknown = 0u64;
    let walked = walk(report, files, path, Expected { lasting: 0, is_last: true }, |report, frame| {
        let Some(record) = CatalogueRecord::decode(frame) else {
            report.damage(path, Some(frame.position), "not a record of the catalogue");
            unknown += 1;
            return;
        };
        if let Some(what) = contradiction(&record, &mut partitions) {
            report.damage(path, Some(frame.position), what);
        }
        topics.apply(record);
    });
    report.catalogue_records = walked.frames - unknown;
    let topics = topics.in_order();
    let mut names = BTreeSet::new();
    for topic in &topics {
        if !names.insert(&topic.name) {
            report.damage(path, None, format!("two topics have the name {:?}", topic.name));
        }
    }
    topics
}

/// What a record says that does not fit to those before it.
fn contradiction(record: &CatalogueRecord, partitions: &mut HashMap<Uuid, i32>) -> Option<String> {
    match record {
        CatalogueRecord::Created(topic) => {
            if partitions.insert(topic.id, topic.partitions).is_some() {
                return Some(format!("topic {} is created again", topic.id));
            }
            (topic.partitions < 1).then(|| format!("topic {} has {} partitions", topic.id, topic.partitions))
        }
        CatalogueRecord::Deleted(id) => {
            partitions.remove(id).is_none().then(|| format!("topic {id} is deleted and does not exist"))
        }
        CatalogueRecord::PartitionsAdded { topic, partitions: more } => match partitions.get_mut(topic) {
            None => Some(format!("topic {topic} gets partitions and does not exist")),
            Some(before) if *before >= *more => Some(format!("topic {topic} goes from {before} to {more} partitions")),
            Some(before) => {
                *before = *more;
                None
            }
        },
        CatalogueRecord::ConfigChanged { topic, .. } => {
            (!partitions.contains_key(topic)).then(|| format!("topic {topic} gets settings and does not exist"))
        }
    }
}
