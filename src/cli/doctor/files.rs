//! `ringgate doctor files`: the files that a host is given once.

use std::fmt::Write as _;
use std::path::Path;

use ringgate_tuning::files::{self, FILES};

/// All of them, one after the other, each with where it belongs.
pub(super) fn printed() -> String {
    let mut text = String::new();
    for file in FILES {
        let _ = writeln!(text, "### {}\n{}", file.path, file.content);
    }
    text
}

/// Writes them below a directory, and says which.
///
/// # Errors
/// One could not be written: says which and why; those before it are there.
pub(super) fn write(directory: &Path) -> Result<String, String> {
    let written = files::write(directory).map_err(|(path, error)| format!("{}: {error}", path.display()))?;
    Ok(written.iter().map(|path| format!("written  {}\n", path.display())).collect())
}
