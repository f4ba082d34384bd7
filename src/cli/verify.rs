//! What `ringgate verify` prints, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

use ringgate_shards::store::embedded::verify::{Finding, Findings, Report};
use serde_json::{Value, json};

/// A line for each topic and each shard's groups, then what was found, then the verdict.
pub fn verify_text(directory: &Path, report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut out, directory, report);
    out
}

fn write_text(out: &mut String, directory: &Path, report: &Report) -> std::fmt::Result {
    let directory = directory.display();
    if let Some(manifest) = &report.manifest {
        let topics = report.topics.len();
        let (cluster, starts, shards) = (&manifest.cluster_id, manifest.starts, manifest.shards);
        writeln!(out, "{directory}: cluster {cluster}, starts: {starts}, shards: {shards}, topics: {topics}")?;
    }
    for topic in &report.topics {
        let holds = &topic.holds;
        writeln!(
            out,
            "topic {} ({}): {} partitions, {} segments, {} batches, {} records, {} bytes: {}",
            topic.name,
            topic.id,
            topic.partitions,
            holds.segments,
            holds.batches,
            holds.records,
            holds.bytes,
            verdict(topic.damage)
        )?;
    }
    for shard in &report.coordinators {
        writeln!(
            out,
            "groups of shard {}: {} files, {} records, {} bytes: {}",
            shard.shard,
            shard.files,
            shard.records,
            shard.bytes,
            verdict(shard.damage)
        )?;
    }
    write_findings(out, "note", &report.notes)?;
    write_findings(out, "damage", &report.damage)?;
    writeln!(out, "{directory} is {}", verdict(report.damage.count()))
}

fn verdict(damage: u64) -> String {
    match damage {
        0 => "good".into(),
        1 => "DAMAGED in 1 place".into(),
        count => format!("DAMAGED in {count} places"),
    }
}

fn write_findings(out: &mut String, kind: &str, findings: &Findings) -> std::fmt::Result {
    for Finding { path, position, what } in findings.kept() {
        match position {
            Some(position) => writeln!(out, "{kind}: {} at byte {position}: {what}", path.display())?,
            None => writeln!(out, "{kind}: {}: {what}", path.display())?,
        }
    }
    match findings.count() - findings.kept().len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "{kind}: {more} more that are not shown"),
    }
}

/// The same for programs. `damage` and `notes` hold the first of what `damage_count` and `notes_count` count.
pub fn verify_json(directory: &Path, report: &Report) -> Value {
    let manifest = report.manifest.as_ref().map(
        |manifest| json!({"cluster_id": manifest.cluster_id, "starts": manifest.starts, "shards": manifest.shards}),
    );
    let topics: Vec<Value> = report
        .topics
        .iter()
        .map(|topic| {
            json!({
                "name": topic.name,
                "id": topic.id.to_string(),
                "partitions": topic.partitions,
                "segments": topic.holds.segments,
                "batches": topic.holds.batches,
                "records": topic.holds.records,
                "bytes": topic.holds.bytes,
                "damage": topic.damage,
            })
        })
        .collect();
    let groups: Vec<Value> = report
        .coordinators
        .iter()
        .map(|shard| {
            json!({
                "shard": shard.shard,
                "files": shard.files,
                "records": shard.records,
                "bytes": shard.bytes,
                "damage": shard.damage,
            })
        })
        .collect();
    json!({
        "version": 1,
        "directory": directory.display().to_string(),
        "clean": report.is_clean(),
        "manifest": manifest,
        "catalogue_records": report.catalogue_records,
        "topics": topics,
        "groups": groups,
        "damage": findings(&report.damage),
        "damage_count": report.damage.count(),
        "notes": findings(&report.notes),
        "notes_count": report.notes.count(),
    })
}

fn findings(findings: &Findings) -> Vec<Value> {
    findings
        .kept()
        .iter()
        .map(|finding| {
            json!({"path": finding.path.display().to_string(), "position": finding.position, "what": finding.what})
        })
        .collect()
}
