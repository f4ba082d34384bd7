//! `ringgate-bench report` and `ringgate-bench merge`, without their flags.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{RUNS_MAX, Run, html};
use crate::measure::Latencies;
use crate::result::{self, HistogramError, Hlog, ReadError, hlog};

/// A report or a merged log could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A run's histogram cannot be read.
    #[error("{}: {error}", path.display())]
    Histogram {
        /// The run.
        path: PathBuf,
        /// What is wrong.
        error: HistogramError,
    },
    /// A log cannot be read.
    #[error("{}: {error}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// What is wrong.
        error: hlog::HlogError,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// Writes one page for the runs in these directories (or these `result.json`) and gives its path: `out`, or
/// `report.html` in the only run's directory, or in the working directory.
pub fn report(directories: &[PathBuf], out: Option<&Path>) -> Result<PathBuf, CommandError> {
    if directories.is_empty() || directories.len() > RUNS_MAX {
        return Err(CommandError::Usage(format!("report: {} runs, 1 to {RUNS_MAX} are possible", directories.len())));
    }
    let mut read = Vec::new();
    for directory in directories {
        let result = result::read(directory)?;
        for (series, latency) in &result.latencies {
            latency.latencies(series).map_err(|error| CommandError::Histogram { path: directory.clone(), error })?;
        }
        read.push((result, result::read_environment(directory)?));
    }
    let runs: Vec<_> =
        read.iter().map(|(result, environment)| Run { result, environment: environment.as_ref() }).collect();
    let page = html(&runs, None).map_err(|error| CommandError::Histogram { path: directories[0].clone(), error })?;
    let out = match (out, directories) {
        (Some(out), _) => out.to_owned(),
        (None, [only]) if only.is_dir() => only.join("report.html"),
        (None, _) => PathBuf::from("report.html"),
    };
    result::whole(&out, |file| file.write_all(page.as_bytes()))
        .map_err(|error| CommandError::File { path: out.clone(), error })?;
    Ok(out)
}

/// Merges the histograms of these logs by tag into one log of a line for each tag, and gives the merged latencies.
/// Percentiles of the whole come from these; those of the parts cannot be averaged.
pub fn merge(logs: &[PathBuf], out: &Path) -> Result<BTreeMap<String, Latencies>, CommandError> {
    if logs.is_empty() {
        return Err(CommandError::Usage("merge: no log to merge".into()));
    }
    let mut merged = BTreeMap::new();
    let mut span: Option<(SystemTime, SystemTime)> = None;
    for path in logs {
        let log = fs::read(path).map_err(|error| CommandError::File { path: path.clone(), error })?;
        let bad = |error| CommandError::Log { path: path.clone(), error };
        hlog::merge(&log, &mut merged).map_err(bad)?;
        if let Some((from, to)) = hlog::span(&log).map_err(bad)? {
            let (first, last) = span.unwrap_or((from, to));
            span = Some((first.min(from), last.max(to)));
        }
    }
    let (from, to) = span.unwrap_or((UNIX_EPOCH, UNIX_EPOCH));
    let length = to.duration_since(from).unwrap_or_default();
    let mut log = Hlog::new();
    for (series, latencies) in &merged {
        log.line(Duration::ZERO, length, series, latencies);
    }
    let names = logs.iter().map(|path| format!("merged: {}", path.display()));
    let comments: Vec<_> = names.map(|name| name.replace(['\n', '\r'], " ")).collect();
    result::whole(out, |file| log.write(from, &comments, file))
        .map_err(|error| CommandError::File { path: out.to_owned(), error })?;
    Ok(merged)
}
