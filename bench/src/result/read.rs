//! A run's directory, read back.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::model::{Environment, RunResult, SCHEMA};

/// A run's files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// Reads a `result.json`, or that of a run's directory.
pub fn read(path: &Path) -> Result<RunResult, ReadError> {
    let path = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let told: Schema = json(&path)?;
    if told.schema != SCHEMA {
        let why = format!("its schema is {:?}, this reads {SCHEMA:?}", told.schema);
        return Err(ReadError { path, why });
    }
    json(&path)
}

/// Reads the `env.json` of a run's directory (or beside its `result.json`), if there is one.
pub fn read_environment(path: &Path) -> Result<Option<Environment>, ReadError> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let path = directory.join("env.json");
    if path.exists() { json(&path).map(Some) } else { Ok(None) }
}

#[derive(serde::Deserialize)]
struct Schema {
    schema: String,
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, ReadError> {
    let failed = |why: String| ReadError { path: path.to_owned(), why };
    let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))
}
