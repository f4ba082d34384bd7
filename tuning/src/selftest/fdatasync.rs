//! What it takes until an append is on disk.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Outcome, Setting, Taken};

const APPEND: [u8; 4096] = [0x5a; 4096];

/// Appends at most, which bounds the file: 16 MiB.
const APPENDS_MAX: usize = 4_096;

pub(super) fn measure(setting: &Setting<'_>) -> Outcome {
    // A directory that `serve` is yet to make will be on the disk of the one that it is in.
    let data = std::path::absolute(setting.data).map_err(|error| format!("{}: {error}", setting.data.display()))?;
    let directory = data
        .ancestors()
        .find(|directory| directory.is_dir())
        .ok_or_else(|| format!("nothing of {} is a directory", data.display()))?;
    let times_ns = timed(directory, setting).map_err(|error| format!("{}: {error}", directory.display()))?;
    Taken::new(times_ns, format!("in {}", directory.display()))
}

fn timed(directory: &Path, setting: &Setting<'_>) -> std::io::Result<Vec<u64>> {
    let mut file = Temporary::new(directory)?;
    let mut times_ns = Vec::new();
    let until = Instant::now() + setting.budget(2.0);
    while times_ns.len() < APPENDS_MAX {
        let began = Instant::now();
        file.file.write_all(&APPEND)?;
        file.file.sync_data()?;
        let ended = Instant::now();
        times_ns.push((ended - began).as_nanos() as u64);
        if ended >= until {
            break;
        }
    }
    Ok(times_ns)
}

/// A file that goes when it is no longer needed, whatever happened.
struct Temporary {
    file: File,
    path: PathBuf,
}

impl Temporary {
    fn new(directory: &Path) -> std::io::Result<Temporary> {
        let path = directory.join(format!(".ringgate-selftest-{}", std::process::id()));
        let file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        Ok(Temporary { file, path })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_yet_to_be_made_stands_for_the_one_that_it_is_in() {
        let there = tempfile::tempdir().unwrap();
        let data = there.path().join("not/yet");
        let taken = measure(&Setting { cpus: &[], data: &data, share: 0.0 }).unwrap();
        assert_eq!((taken.count(), taken.about), (1, format!("in {}", there.path().display())));
    }

    #[test]
    fn a_file_goes_also_when_a_write_fails() {
        let there = tempfile::tempdir().unwrap();
        let mut temporary = Temporary::new(there.path()).unwrap();
        let path = temporary.path.clone();
        assert!(path.exists());
        // Opened for reading alone, it cannot be written.
        temporary.file = File::open(&path).unwrap();
        assert!(temporary.file.write_all(&APPEND).is_err());
        drop(temporary);
        assert!(!path.exists());
    }
}
