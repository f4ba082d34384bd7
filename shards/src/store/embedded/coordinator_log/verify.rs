//! A look through one shard's log of groups and offsets that changes nothing.

use std::io;
use std::path::Path;

use bytes::Buf;

use super::{Describe, LogRecord, log_path, number_of, snapshot_path};
use crate::store::embedded::files::{self, Files};
use crate::store::embedded::frame::{self, Frame};
use crate::store::embedded::verify::{CoordinatorReport, Expected, Report, walk};

/// Reads the log in `dir`; `belongs` says whether a group is this shard's.
pub(in crate::store::embedded) fn verify(
    report: &mut Report,
    files: &dyn Files,
    dir: &Path,
    describe: Describe,
    belongs: impl Fn(&str) -> bool,
) -> CoordinatorReport {
    let mut found = CoordinatorReport::default();
    let entries = match files.list(dir) {
        Ok(entries) => entries,
        Err(error) => {
            let what = match error.kind() {
                io::ErrorKind::NotFound => "it is missing".to_string(),
                _ => format!("it cannot be read: {error}"),
            };
            report.damage(dir, None, what);
            return found;
        }
    };
    let mut snapshots = Vec::new();
    let mut logs = Vec::new();
    for entry in &entries {
        if let Some(number) = number_of(&entry.name, ".log") {
            logs.push(number);
        } else if let Some(number) = number_of(&entry.name, ".snapshot") {
            snapshots.push(number);
        } else if files::is_aside(&entry.name) {
            report.note(
                &dir.join(&entry.name),
                None,
                "left by a write that was not finished: the next start removes it",
            );
        } else {
            report.note(&dir.join(&entry.name), None, "not a file of ringgate's");
        }
    }
    let snapshot = snapshots.pop();
    let first = snapshot.unwrap_or(0);
    for older in snapshots {
        report.note(&snapshot_path(dir, older), None, "a newer snapshot stands for it: the next start removes it");
    }
    for older in logs.extract_if(.., |number| *number < first) {
        report.note(&log_path(dir, older), None, "a snapshot stands for it: the next start removes it");
    }

    let mut records = 0;
    let mut record = |report: &mut Report, path: &Path, frame: &Frame| {
        records += 1;
        let Some(record) = LogRecord::of(frame) else {
            report.damage(path, Some(frame.position), "not a record of groups or offsets");
            return;
        };
        match describe(record.kind, record.version, &record.payload) {
            Err(why) => report.damage(path, Some(frame.position), why),
            Ok(described) if !belongs(described.group.as_str()) => {
                let group = described.group.as_str();
                report.damage(path, Some(frame.position), format!("group {group:?} belongs to another shard"));
            }
            Ok(_) => {}
        }
    };
    if let Some(number) = snapshot {
        let path = snapshot_path(dir, number);
        let mut end: Option<(Option<u64>, u64)> = None;
        let mut before = 0;
        let walked = walk(report, files, &path, Expected::default(), |report, frame| {
            if let Some((_, at)) = end {
                report.damage(&path, Some(frame.position), format!("something follows its end at {at}"));
            } else if frame.kind == frame::KIND_SNAPSHOT_END {
                end = Some(((&frame.payload[..]).try_get_u64_le().ok(), frame.position));
            } else {
                before += 1;
                record(report, &path, frame);
            }
        });
        match end {
            // What is broken has been said.
            _ if walked.is_broken => {}
            None => report.damage(&path, None, "it has no end"),
            Some((says, at)) if says != Some(before) => {
                report.damage(&path, Some(at), format!("its end does not count the {before} records before it"));
            }
            Some(_) => {}
        }
        found.files += 1;
        found.bytes += walked.len;
    }
    // A layout begins with a snapshot, and later ones are made when the next file is there already.
    if snapshot.is_none() {
        report.damage(dir, None, "its snapshot is missing");
    }
    if first > 0 && logs.is_empty() {
        report.damage(&log_path(dir, first), None, "it is missing");
    }
    let last = logs.last().copied();
    let mut next = first;
    for number in logs {
        // Most of a long row missing is one thing and not many.
        if number != next {
            let count = number - next;
            report.damage(&log_path(dir, next), None, format!("it is missing, {count} in a row"));
        }
        next = number + 1;
        let path = log_path(dir, number);
        let expected = Expected { lasting: 0, is_last: Some(number) == last };
        let walked = walk(report, files, &path, expected, |report, frame| record(report, &path, frame));
        found.files += 1;
        found.bytes += walked.len;
    }
    found.records = records;
    found
}
