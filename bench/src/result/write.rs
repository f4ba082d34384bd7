//! A run's directory.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::hlog::Hlog;
use super::model::{Environment, RunResult};
use super::{csv, hgrm};
use crate::report;

/// Writes `run-<id>/` in `out`, which is made if there is none, and gives its path: `result.json`, `series.csv`,
/// `latency.hlog`, `latency.hgrm` (the primary operation's response times), `latency-<series>.hgrm` of the others,
/// `env.json` and `report.html`. Each file appears whole, and `result.json` last: where it is, the others are.
pub fn write(out: &Path, result: &RunResult, log: &Hlog, environment: &Environment) -> io::Result<PathBuf> {
    let directory = out.join(format!("run-{}", result.id));
    fs::create_dir_all(&directory).map_err(|error| told(&directory, error))?;
    whole(&directory.join("series.csv"), |file| csv::write(result, file))?;
    let began = began(result)?;
    let comments = [format!("ringgate-bench {}, run {}", result.scenario, result.id)];
    whole(&directory.join("latency.hlog"), |file| log.write(began, &comments, file))?;
    let primary = format!("{}.rt", result.primary);
    for (series, latency) in &result.latencies {
        let name = if *series == primary { "latency.hgrm".into() } else { format!("latency-{series}.hgrm") };
        let latencies = latency.latencies(series).map_err(|error| invalid(error.to_string()))?;
        whole(&directory.join(name), |file| hgrm::write(&latencies.histogram, file))?;
    }
    whole(&directory.join("env.json"), |file| json(environment, file))?;
    let page = report::html(&[report::Run { result, environment: Some(environment) }], None)
        .map_err(|error| invalid(error.to_string()))?;
    whole(&directory.join("report.html"), |file| file.write_all(page.as_bytes()))?;
    whole(&directory.join("result.json"), |file| json(result, file))?;
    Ok(directory)
}

/// Writes a file so that it is there whole or not at all: beside it, then renamed.
pub fn whole(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let mut file = BufWriter::new(File::create(&beside).map_err(|error| told(&beside, error))?);
    let written = content(&mut file).and_then(|()| file.flush()).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        told(path, error)
    })
}

fn json(value: &impl serde::Serialize, file: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *file, value)?;
    file.write_all(b"\n")
}

/// When the schedule began.
fn began(result: &RunResult) -> io::Result<SystemTime> {
    humantime::parse_rfc3339(&result.started_at)
        .map_err(|error| invalid(format!("started_at {:?}: {error}", result.started_at)))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The error with the path in front.
fn told(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
