//! Files on a disk.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::{Entry, File, Files, Lock, Open};
use crate::store::embedded::limits::WRITE_BUFFERS;

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskFiles;

struct DiskFile(std::fs::File);

struct Held {
    /// The lock goes with the descriptor.
    _file: std::fs::File,
}

impl Lock for Held {}

impl Files for DiskFiles {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(how != Open::Read);
        options.create(matches!(how, Open::Create | Open::Empty)).truncate(how == Open::Empty);
        let file = options.open(path).map_err(|error| named(error, "open", path))?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to).map_err(|error| named(error, "rename", from))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path).map_err(|error| named(error, "remove", path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path).map_err(|error| named(error, "remove", path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other.map_err(|error| named(error, "create", path)),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(|error| named(error, "list", dir))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(Entry { name, is_dir: entry.file_type()?.is_dir() });
        }
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| named(error, "sync", dir))
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn Lock>> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(|error| named(error, "open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut says = String::new();
                let _ = file.take(1024).read_to_string(&mut says);
                return Err(io::Error::new(io::ErrorKind::WouldBlock, says.trim().to_string()));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(named(error, "lock", path)),
        }
        file.set_len(0)?;
        file.write_all(holder.as_bytes())?;
        Ok(Box::new(Held { _file: file }))
    }
}

impl File for DiskFile {
    fn write_at(&self, mut position: u64, buffers: &[Bytes]) -> io::Result<()> {
        for some in buffers.chunks(WRITE_BUFFERS) {
            let mut slices: Vec<IoSlice<'_>> = some.iter().map(|b| IoSlice::new(b)).collect();
            let mut left = &mut slices[..];
            // Empty buffers alone would make a write of no bytes look like a full disk.
            IoSlice::advance_slices(&mut left, 0);
            while !left.is_empty() {
                match rustix::io::pwritev(&self.0, left, position) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => {
                        position += n as u64;
                        IoSlice::advance_slices(&mut left, n);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while got < buffer.len() {
            match self.0.read_at(&mut buffer[got..], position + got as u64) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(got)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn created_ms(&self) -> io::Result<i64> {
        let metadata = self.0.metadata()?;
        Ok(since_1970(metadata.created().or_else(|_| metadata.modified())?))
    }

    fn modified_ms(&self) -> io::Result<i64> {
        Ok(since_1970(self.0.metadata()?.modified()?))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// In ms. A time before 1970 is one that somebody set.
fn since_1970(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Says which file it was.
fn named(error: io::Error, verb: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {verb} {}: {error}", path.display()))
}
