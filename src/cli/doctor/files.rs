//! `ringgate doctor files`: the files that a host is given once.

use std::fmt::Write as _;
use std::path::Path;

use ringgate_tuning::{Profile, files};

/// Those of a profile, or those for all, one after the other, each with where it belongs.
pub(super) fn printed(profile: Option<Profile>) -> String {
    let mut text = String::new();
    for file in files::of(profile) {
        let _ = writeln!(text, "### {}\n{}", file.path, file.content);
    }
    text
}

/// Writes them below a directory, and says which.
///
/// # Errors
/// One could not be written: says which and why; those before it are there.
pub(super) fn write(directory: &Path, profile: Option<Profile>) -> Result<String, String> {
    let written = files::write(directory, profile).map_err(|(path, error)| format!("{}: {error}", path.display()))?;
    Ok(written.iter().map(|path| format!("written  {}\n", path.display())).collect())
}
