//! Reading a host: the one that this runs on, or a tree of files that stands for another.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::commands::Told;
use crate::open;

/// Where a host's files are.
///
/// Below `/` it is this machine. Below any other root it is what that tree holds, and nothing of this machine is
/// looked at: what a live host is asked by other means (system calls, tools) comes from files there too.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    io_uring: Option<Probe>,
    pub(crate) told: Told,
}

/// Tries something on the machine that this runs on.
///
/// # Errors
/// Why it does not work, and what to do about it.
pub type Probe = fn() -> Result<(), String>;

/// What a file holds, or why nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Its text without white space around it.
    Text(String),
    /// There is no such file: this kernel, machine or setup has no such thing.
    Absent,
    /// It is there, but not for this user, or it failed: says which file and why.
    Unread(String),
}

impl Host {
    /// The machine that this runs on.
    pub fn live() -> Host {
        Host { root: "/".into(), io_uring: None, told: Told::default() }
    }

    /// The host whose files are below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Host {
        Host { root: root.into(), io_uring: None, told: Told::default() }
    }

    /// The same, where this kernel can keep to the root: without that, all below it would look as if it were not there.
    ///
    /// # Errors
    /// It cannot, and what that takes.
    pub fn kept_to(self) -> Result<Host, String> {
        open::can_keep_to(&self).map(|()| self)
    }

    /// With what tries io_uring on the machine that this runs on, which takes system calls.
    pub fn with_io_uring(self, probe: Probe) -> Host {
        Host { io_uring: Some(probe), ..self }
    }

    /// Where its files are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `ok`, or why io_uring does not work here. Below a root it is what `probes/io_uring` there holds.
    pub fn io_uring(&self) -> Reading {
        match self.io_uring {
            _ if !self.is_live() => self.read("/probes/io_uring"),
            Some(probe) => Reading::Text(probe().err().unwrap_or_else(|| "ok".into())),
            None => Reading::Unread("io_uring was not tried".into()),
        }
    }

    /// Whether it is the machine that this runs on.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// What `path`, an absolute one of the host, is called here. Below a root it may lead out of it: a link there is the
    /// other host's.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether there is something.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        open::what(self, path.as_ref()).is_some()
    }

    /// Whether there is a directory.
    pub fn is_directory(&self, path: impl AsRef<Path>) -> bool {
        open::what(self, path.as_ref()) == Some(rustix::fs::FileType::Directory)
    }

    /// What a small file holds.
    pub fn read(&self, path: impl AsRef<Path>) -> Reading {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        match open::to_read(self, path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => Reading::Text(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) => missing(path, &error),
        }
    }

    /// The first bytes of a file that holds no text.
    ///
    /// # Errors
    /// Why there are none.
    pub fn read_bytes(&self, path: impl AsRef<Path>, count: usize) -> Result<Vec<u8>, Reading> {
        let path = path.as_ref();
        let mut bytes = vec![0; count];
        open::device_to_read(self, path)
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map(|()| bytes)
            .map_err(|error| missing(path, &error))
    }

    /// Where a symbolic link points; in a tree without links, what the file in its place holds.
    pub fn link(&self, path: impl AsRef<Path>) -> Reading {
        let path = path.as_ref();
        match open::link(self, path) {
            Ok(Some(target)) => Reading::Text(target.to_string_lossy().into_owned()),
            Ok(None) => self.read(path),
            Err(error) => missing(path, &error),
        }
    }

    /// Names in a directory, in order of their numbers and letters; none where there is no such directory.
    ///
    /// # Errors
    /// It is there, but cannot be read: says which and why.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>, String> {
        let path = path.as_ref();
        let mut names = match open::names(self, path) {
            Ok(names) => names,
            Err(error) => match missing(path, &error) {
                Reading::Unread(why) => return Err(why),
                _ => return Ok(Vec::new()),
            },
        };
        names.sort_by_key(|name| (name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), number_at_end(name)));
        Ok(names)
    }
}

/// What stands after `name:` in a file of such lines, as `/proc/self/status` and `/proc/meminfo` are.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn number_at_end(name: &str) -> u64 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().unwrap_or(0)
}

fn missing(path: &Path, error: &io::Error) -> Reading {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Reading::Absent,
        io::ErrorKind::PermissionDenied => Reading::Unread(format!("{} may only be read by root", path.display())),
        _ => Reading::Unread(format!("{}: {error}", path.display())),
    }
}

impl Reading {
    /// The text, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Reading::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A host of these files, and the directory that goes with it.
    pub(crate) fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let directory = tempfile::tempdir().unwrap();
        let host = Host::below(directory.path());
        for (path, text) in files {
            let path = host.at(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (directory, host)
    }

    #[test]
    fn what_is_absent_is_told_apart_from_what_cannot_be_read() {
        let (_kept, host) = host(&[("/proc/a/b", " text\n")]);
        assert_eq!(host.read("/proc/a/b"), Reading::Text("text".into()));
        assert_eq!(host.read("/proc/a/c"), Reading::Absent);
        assert_eq!(host.read("/proc/a/b/c"), Reading::Absent);
        assert!(matches!(host.read("/proc/a"), Reading::Unread(why) if why.contains("/proc/a")));
        assert_eq!(host.read_bytes("/proc/a/b", 3).unwrap(), b" te");
        assert!(matches!(host.read_bytes("/proc/a/b", 100), Err(Reading::Unread(_))));
        assert_eq!(host.list("/proc/none"), Ok(Vec::new()));
    }

    #[test]
    fn names_are_listed_by_their_numbers() {
        let (_kept, host) = host(&[("/c/cpu10", ""), ("/c/cpu9", ""), ("/c/b", "")]);
        assert_eq!(host.list("/c").unwrap(), ["b", "cpu9", "cpu10"]);
    }
}
