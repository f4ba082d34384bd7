//! Where `/proc` and `/sys` lie.

use std::io;
use std::path::{Path, PathBuf};

/// The directory that holds `proc` and `sys`: `/`, or a tree that a test has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Root {
        Root(PathBuf::from("/"))
    }
}

impl Root {
    /// Another one.
    pub fn at(directory: impl Into<PathBuf>) -> Root {
        Root(directory.into())
    }

    /// A path below it, given without a leading slash.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.0.join(below)
    }

    /// A file's text without the line's end; the error names the file.
    ///
    /// # Errors
    /// It is not there, or may not be read.
    pub fn text(&self, below: impl AsRef<Path>) -> io::Result<String> {
        let path = self.path(below);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// It is not there, or may not be read.
    pub fn names(&self, below: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let path = self.path(below);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(named)? {
            names.push(entry.map_err(named)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }
}

/// The text of a file does not read as it should.
pub(super) fn unexpected(what: &str, text: &str) -> io::Error {
    let shown: String = text.chars().take(80).collect();
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} reads {shown:?}"))
}
