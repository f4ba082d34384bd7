//! What a watcher sees of groups and their offsets, in slices.

use std::collections::BTreeMap;

use ringgate_group::limits::SURVEY_SLICE;
use ringgate_group::request::*;
use ringgate_group::{State, SurveyCursor, SurveyPage};

use crate::world::*;

/// Commits for some partitions of a topic to a group of its own.
fn commits(w: &mut World, group: &str, topic: &str, partitions: std::ops::Range<i32>) {
    let mut request = OffsetCommitRequest { group_id: group.into(), ..commit_request(7) };
    request.topics[0].name = topic.into();
    let one = request.topics[0].partitions[0].clone();
    request.topics[0].partitions =
        partitions.map(|partition_index| CommitPartition { partition_index, ..one.clone() }).collect();
    let token = w.ask(1, ringgate_group::Request::OffsetCommit(request));
    w.answer(token);
}

/// All pages, with what is done to the world before each but the first.
fn surveyed(w: &mut World, mut between: impl FnMut(&mut World, usize)) -> Vec<SurveyPage> {
    let mut pages = Vec::new();
    let mut cursor = Some(SurveyCursor::default());
    while let Some(from) = cursor {
        if !pages.is_empty() {
            between(w, pages.len());
        }
        let page = w.coordinator.survey(from);
        let seen: usize = page.groups.iter().map(|group| 1 + group.offsets.len()).sum();
        assert!(seen <= SURVEY_SLICE + 1, "{seen} in one slice");
        cursor = page.next;
        pages.push(page);
        assert!(pages.len() < 1_000, "it ends");
    }
    pages
}

/// Offsets by group, as whoever follows the pages has them at the end.
fn merged(pages: &[SurveyPage]) -> BTreeMap<String, Vec<(String, i32, i64)>> {
    let mut all: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for group in pages.iter().flat_map(|page| &page.groups) {
        let of = all.entry(group.group_id.as_str().into()).or_default();
        if group.is_begin {
            of.clear();
        }
        of.extend(group.offsets.iter().map(|o| (o.topic.as_str().to_string(), o.partition, o.offset)));
    }
    all.values_mut().for_each(|offsets| offsets.sort_unstable());
    all
}

#[test]
fn a_survey_sees_every_group_with_its_members_and_state() {
    let mut w = World::new();
    w.stable(3);
    commits(&mut w, "only-commits", "t", 0..2);
    let pages = surveyed(&mut w, |_, _| {});
    let groups: Vec<_> = pages.iter().flat_map(|page| &page.groups).collect();
    let stable = groups.iter().find(|group| group.group_id.as_str() == GROUP).unwrap();
    assert_eq!((stable.state, stable.members, stable.generation), (State::Stable, 3, 1));
    assert!(stable.knows_offsets && stable.offsets.is_empty() && !stable.is_consumer);
    let only_commits = groups.iter().find(|group| group.group_id.as_str() == "only-commits").unwrap();
    assert_eq!((only_commits.state, only_commits.members, only_commits.offsets.len()), (State::Empty, 0, 2));
}

#[test]
fn offsets_of_a_large_group_come_in_slices_and_each_once() {
    let mut w = World::new();
    for topic in ["a", "b", "c"] {
        commits(&mut w, "large", topic, 0..1_000);
    }
    commits(&mut w, "small", "a", 0..1);
    let pages = surveyed(&mut w, |_, _| {});
    assert!(pages.len() > 3_000 / SURVEY_SLICE);
    let merged = merged(&pages);
    let all = |topic: &str| (0..1_000).map(move |p| (topic.to_string(), p, 7)).collect::<Vec<_>>();
    assert_eq!(merged["large"], [all("a"), all("b"), all("c")].concat());
    assert_eq!(merged["small"], [("a".to_string(), 0, 7)]);
}

#[test]
fn a_group_whose_keys_change_meanwhile_begins_again_and_one_whose_values_change_goes_on() {
    let mut w = World::new();
    commits(&mut w, "large", "a", 0..1_000);
    let pages = surveyed(&mut w, |w, nth| match nth {
        1 => commits(w, "large", "b", 0..500),
        _ => commits(w, "large", "b", 0..500),
    });
    let begins = pages.iter().flat_map(|page| &page.groups).filter(|group| group.is_begin).count();
    assert_eq!(begins, 2, "the second commit changed values only");
    assert_eq!(merged(&pages)["large"].len(), 1_500);
}

#[test]
fn one_group_is_surveyed_by_name() {
    let mut w = World::new();
    commits(&mut w, "other", "a", 0..10);
    commits(&mut w, "large", "a", 0..1_000);
    let mut pages = Vec::new();
    let mut cursor = Some(SurveyCursor::default());
    while let Some(from) = cursor {
        let page = w.coordinator.survey_group(&"large".into(), from).unwrap();
        cursor = page.next;
        pages.push(page);
    }
    let merged = merged(&pages);
    assert_eq!((merged.len(), merged["large"].len()), (1, 1_000));
    assert!(w.coordinator.survey_group(&"nosuch".into(), SurveyCursor::default()).is_none());
}
