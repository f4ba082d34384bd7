//! Files that a host is given once, by hand or by a package.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::open::own_place;
use crate::plan::Profile;

/// A file of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFile {
    /// Where it belongs, below the root.
    pub path: &'static str,
    /// All of it.
    pub content: &'static str,
    /// Whether it is a program.
    pub is_program: bool,
    /// Whom it is for, and only when they say so; all where it is empty.
    pub profiles: &'static [Profile],
}

/// All of them.
pub static FILES: [HostFile; 5] = [
    HostFile {
        path: "etc/sysctl.d/60-ringgate.conf",
        content: include_str!("../files/60-ringgate.conf"),
        is_program: false,
        profiles: &[],
    },
    HostFile {
        path: "etc/systemd/system/ringgate.service",
        content: include_str!("../files/ringgate.service"),
        is_program: false,
        profiles: &[],
    },
    HostFile {
        path: "etc/systemd/system/ringgate.service.d/latency.conf",
        content: include_str!("../files/latency.conf"),
        is_program: false,
        profiles: &[Profile::Latency],
    },
    HostFile {
        path: "etc/systemd/system/ringgate-doctor.service",
        content: include_str!("../files/ringgate-doctor.service"),
        is_program: false,
        profiles: &[],
    },
    HostFile {
        path: "usr/local/sbin/ringgate-irqs",
        content: include_str!("../files/ringgate-irqs"),
        is_program: true,
        profiles: &[],
    },
];

/// Those of a profile; without one, those that are for all.
pub fn of(profile: Option<Profile>) -> impl Iterator<Item = &'static HostFile> {
    let is_for = move |file: &HostFile| profile.is_some_and(|profile| file.profiles.contains(&profile));
    FILES.iter().filter(move |file| file.profiles.is_empty() || is_for(file))
}

/// Writes those of a profile below a directory, and through no link that leads out of it. One that is there already with
/// other words in it is left, and is an error.
///
/// # Errors
/// Which file, and why not.
pub fn write(directory: &Path, profile: Option<Profile>) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    fs::create_dir_all(directory).map_err(|error| (directory.to_path_buf(), error))?;
    let host = Host::below(directory);
    let mut written = Vec::new();
    for file in of(profile) {
        let path = directory.join(file.path);
        match own_place(&host, Path::new(file.path)).and_then(|_| put(&path, file)) {
            Ok(true) => written.push(path),
            Ok(false) => {}
            Err(error) => return Err((path, error)),
        }
    }
    Ok(written)
}

/// Whether it was written; `false`: it is there as it should be.
fn put(path: &Path, file: &HostFile) -> io::Result<bool> {
    match fs::read_to_string(path) {
        Ok(text) if text == file.content => return Ok(false),
        Ok(_) => return Err(io::Error::other("is there with other content: move it away first")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, file.content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(if file.is_program { 0o755 } else { 0o644 }))?;
    Ok(true)
}
