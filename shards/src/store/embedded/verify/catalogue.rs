//! The catalogue's log: whether it can be replayed, and to what.

use std::collections::BTreeSet;
use std::path::Path;

use uuid::Uuid;

use super::{Expected, Report, walk};
use crate::catalogue::{Catalogue, KAFKA};
use crate::store::embedded::catalogue_log::CatalogueRecord;
use crate::store::embedded::files::Files;

/// Reads the catalogue's file; what there is.
pub(super) fn verify(report: &mut Report, files: &dyn Files, path: &Path) -> Catalogue {
    let mut catalogue = Catalogue::default();
    let mut unknown = 0u64;
    let walked = walk(report, files, path, Expected { lasting: 0, is_last: true }, |report, frame| {
        let Some(record) = CatalogueRecord::decode(frame) else {
            report.damage(path, Some(frame.position), "not a record of the catalogue");
            unknown += 1;
            return;
        };
        if let Some(what) = contradiction(&record, &catalogue) {
            report.damage(path, Some(frame.position), what);
        }
        catalogue.apply(record);
    });
    report.catalogue_records = walked.frames - unknown;
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for topic in catalogue.in_order() {
        if !names.insert((topic.stream, &topic.name)) {
            report.damage(path, None, format!("two topics have the name {:?}", topic.name));
        }
        if !numbers.insert(topic.number) {
            report.damage(path, None, format!("two topics have the number {}", topic.number));
        }
    }
    catalogue
}

/// What a record says that does not fit to those before it.
fn contradiction(record: &CatalogueRecord, there: &Catalogue) -> Option<String> {
    let missing =
        |id: &Uuid, what: &str| there.any_topic(*id).is_none().then(|| format!("topic {id} {what} and does not exist"));
    let group_of = |topic: &Uuid| there.groups(*topic);
    match record {
        CatalogueRecord::StreamCreated(stream) => {
            let is_again = stream.number != KAFKA && there.stream(stream.number).is_some();
            is_again.then(|| format!("stream {} is created again", stream.number))
        }
        CatalogueRecord::StreamDeleted(KAFKA) => Some("the stream of Kafka's topics is deleted".into()),
        CatalogueRecord::StreamDeleted(number) => {
            there.stream(*number).is_none().then(|| format!("stream {number} is deleted and does not exist"))
        }
        CatalogueRecord::Created(topic) | CatalogueRecord::Unnumbered(topic) => {
            if there.any_topic(topic.id).is_some() {
                return Some(format!("topic {} is created again", topic.id));
            }
            if there.stream(topic.stream).is_none() {
                return Some(format!("topic {} is created in stream {}, which does not exist", topic.id, topic.stream));
            }
            (topic.partitions < 1).then(|| format!("topic {} has {} partitions", topic.id, topic.partitions))
        }
        CatalogueRecord::Deleted(id) => missing(id, "is deleted"),
        CatalogueRecord::PartitionsAdded { topic, partitions: more } => match there.any_topic(*topic) {
            None => missing(topic, "gets partitions"),
            Some(before) if before.partitions >= *more => {
                Some(format!("topic {topic} goes from {} to {more} partitions", before.partitions))
            }
            Some(_) => None,
        },
        CatalogueRecord::ConfigChanged { topic, .. } => missing(topic, "gets settings"),
        CatalogueRecord::OptionsChanged { topic, .. } => missing(topic, "gets options"),
        CatalogueRecord::GroupCreated { topic, group } => missing(topic, "gets a consumer group").or_else(|| {
            let is_there = group_of(topic).get(group.id).is_some();
            is_there.then(|| format!("consumer group {} of topic {topic} is created again", group.id))
        }),
        CatalogueRecord::GroupDeleted { topic, id } => missing(topic, "loses a consumer group").or_else(|| {
            let is_there = group_of(topic).get(*id).is_some();
            (!is_there).then(|| format!("consumer group {id} of topic {topic} is deleted and does not exist"))
        }),
        CatalogueRecord::GroupIds { topic, .. } => missing(topic, "gets ids of consumer groups"),
        CatalogueRecord::Counters { .. } => None,
    }
}
