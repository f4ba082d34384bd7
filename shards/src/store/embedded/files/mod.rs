//! The files of the store behind one small blocking trait, so that the same code runs on a disk and on a
//! machine in memory that can be stopped at any operation.
//!
//! What must stay true: nothing else in the store touches the file system; a write is lasting after
//! [`File::sync`], a name after [`Files::sync_dir`] of its directory, and neither before.

mod disk;
mod mem;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

pub use disk::DiskFiles;
pub use mem::{Fault, MemFiles};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It must exist; it is only read.
    Read,
    /// It must exist.
    Write,
    /// It is made when it does not exist.
    Create,
    /// It is made, or emptied.
    Empty,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The last part of its path.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A file system. Every call may block.
pub trait Files: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Gives a file or directory another name, in place of a file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory that is empty.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory whose parent exists; it is fine when it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, sorted. `NotFound` when it does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// Makes the names in a directory lasting.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes a lock that no other process (and no other caller here) can hold, until it is dropped. The
    /// file then says who holds it. `WouldBlock` when it is held; the message is what the file says.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn Lock>>;
}

/// An open file.
pub trait File: Send + Sync {
    /// Writes all of the buffers, one after the other, from `position` on.
    fn write_at(&self, position: u64, buffers: &[Bytes]) -> io::Result<()>;
    /// Reads from `position` on until the buffer is full or the file ends, and says how much that was.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Makes what was written before the call lasting (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file off.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// When it was made, in ms since 1970; where the file system does not keep that, when it was last written.
    fn created_ms(&self) -> io::Result<i64>;
    /// When it was last written or cut off, in ms since 1970.
    fn modified_ms(&self) -> io::Result<i64>;
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
    /// Whether there are none.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// An exclusive lock, held until dropped.
pub trait Lock: Send + Sync {}

/// Reads up to `len` bytes from `position` on; fewer when the file ends before.
pub(crate) fn read(file: &dyn File, position: u64, len: usize) -> io::Result<Bytes> {
    let mut buffer = BytesMut::zeroed(len);
    let got = file.read_at(position, &mut buffer)?;
    buffer.truncate(got);
    Ok(buffer.freeze())
}

/// Reads a whole small file.
pub(crate) fn read_whole(files: &dyn Files, path: &Path) -> io::Result<Bytes> {
    let file = files.open(path, Open::Read)?;
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    read(&*file, 0, len)
}

/// Puts a file in place at once and for good: whoever looks finds the old content or the new.
pub(crate) fn replace(files: &dyn Files, path: &Path, content: Bytes) -> io::Result<()> {
    let aside = aside(path);
    let file = files.open(&aside, Open::Empty)?;
    file.write_at(0, &[content])?;
    file.sync()?;
    files.rename(&aside, path)?;
    files.sync_dir(parent(path))
}

/// Where [`replace`] writes first. A leftover of that name is no part of the store.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    path.with_file_name(name)
}

/// Whether a name is one of [`aside`]'s.
pub(crate) fn is_aside(name: &str) -> bool {
    name.ends_with(".tmp")
}

/// The directory that holds a path.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Removes a directory and all in it; it is fine when it does not exist.
pub(crate) fn remove_tree(files: &dyn Files, dir: &Path) -> io::Result<()> {
    let entries = match files.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let path = dir.join(&entry.name);
        if entry.is_dir { remove_tree(files, &path)? } else { files.remove_file(&path)? }
    }
    files.remove_dir(dir)
}

/// The names in a directory; none when it does not exist.
pub(crate) fn list_if_there(files: &dyn Files, dir: &Path) -> io::Result<Vec<Entry>> {
    match files.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// An error that says that stored bytes are not what was written.
pub(crate) fn damaged(path: &Path, what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {what}", path.display()))
}
