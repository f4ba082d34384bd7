//! What a run leaves.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::plan::UsageError;

/// A moment as it stands in a directory's name: `20260103T040506Z`.
pub fn stamp(now: SystemTime) -> String {
    humantime::format_rfc3339_seconds(now).to_string().replace(['-', ':'], "")
}

/// Makes the directory that runs go to, before anything else is done.
///
/// # Errors
/// It cannot be made.
pub fn make_directory(out: &Path) -> Result<(), UsageError> {
    fs::create_dir_all(out).map_err(|error| UsageError {
        flag: "out",
        value: out.display().to_string(),
        allowed: format!("a directory that can be written to: {error}"),
    })
}
