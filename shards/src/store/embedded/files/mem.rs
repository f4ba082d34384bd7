//! A machine in memory. It can be stopped at any operation; what is then found is what was synced and,
//! chosen by a seed, some of what was not: any prefix of a file's unsynced writes, the last of them torn
//! at any byte, and any prefix of the unsynced changes of names.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Entry, File, Files, Lock, Open, parent};

/// Which operation a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A write fails half-way.
    Write,
    /// A sync fails; what it should have made lasting is lost at the next stop, though it can still be
    /// read until then (as on Linux).
    Sync,
    /// A file cannot be opened.
    Open,
    /// A rename fails.
    Rename,
}

/// The files of a machine in memory.
#[derive(Clone, Default)]
pub struct MemFiles {
    machine: Arc<Mutex<Machine>>,
}

#[derive(Default)]
struct Machine {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, Node>,
    lasting_names: BTreeMap<PathBuf, Node>,
    pending_names: Vec<NameChange>,
    locks: HashSet<PathBuf>,
    /// Operations that changed something, so far.
    operations: u64,
    stop_at: Option<u64>,
    stopped: bool,
    faults: Vec<(Fault, String)>,
    /// The wall clock.
    now_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Dir,
    File(usize),
}

#[derive(Default, Clone)]
struct Inode {
    content: Vec<u8>,
    lasting: Vec<u8>,
    pending: Vec<Change>,
    created_ms: i64,
    modified_ms: i64,
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone)]
enum NameChange {
    Made { path: PathBuf, node: Node },
    Renamed { from: PathBuf, to: PathBuf },
    Removed { path: PathBuf },
}

struct MemFile {
    machine: Arc<Mutex<Machine>>,
    inode: usize,
    path: PathBuf,
}

struct Held {
    machine: Arc<Mutex<Machine>>,
    path: PathBuf,
}

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        locked(&self.machine).locks.remove(&self.path);
    }
}

fn locked(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemFiles {
    /// A machine with an empty root directory.
    pub fn new() -> MemFiles {
        MemFiles::default()
    }

    /// Sets the wall clock, which stands still otherwise; it begins at 0.
    pub fn set_now_ms(&self, now_ms: i64) {
        locked(&self.machine).now_ms = now_ms;
    }

    /// How many operations have changed something so far.
    pub fn operations(&self) -> u64 {
        locked(&self.machine).operations
    }

    /// Stops the machine in the middle of operation `nth`, counted like [`MemFiles::operations`]: that one
    /// and all later ones fail.
    pub fn stop_at(&self, nth: u64) {
        locked(&self.machine).stop_at = Some(nth);
    }

    /// Whether the machine has been stopped by [`MemFiles::stop_at`].
    pub fn is_stopped(&self) -> bool {
        locked(&self.machine).stopped
    }

    /// Goes on after a stop as if only the process had been killed in the middle of that operation: nothing
    /// that reached the machine is lost, and nothing more of it is lasting.
    pub fn restart_process(&self) {
        let mut machine = locked(&self.machine);
        (machine.stop_at, machine.stopped) = (None, false);
    }

    /// Makes the next such operation on a path that contains `path_part` fail.
    pub fn fail_next(&self, fault: Fault, path_part: &str) {
        locked(&self.machine).faults.push((fault, path_part.to_string()));
    }

    /// Flips a bit of a file, lasting, as a failing disk might.
    pub fn flip_bit(&self, path: &Path, byte: usize) {
        let mut machine = locked(&self.machine);
        if let Some(Node::File(inode)) = machine.names.get(path).copied() {
            let inode = &mut machine.inodes[inode];
            for content in [&mut inode.content, &mut inode.lasting] {
                if let Some(byte) = content.get_mut(byte) {
                    *byte ^= 1;
                }
            }
        }
    }

    /// What is found when the machine is started again after the power went now. The old one stays as it
    /// is.
    pub fn crash(&self, seed: u64) -> MemFiles {
        let machine = locked(&self.machine);
        let mut chance = Chance(seed);
        let mut names = machine.lasting_names.clone();
        let keep = chance.up_to(machine.pending_names.len());
        for change in &machine.pending_names[..keep] {
            apply(&mut names, change);
        }
        // A name without its directory cannot be reached.
        let dirs = names.clone();
        names.retain(|path, _| path.ancestors().skip(1).all(|a| is_root(a) || dirs.get(a) == Some(&Node::Dir)));
        let inodes = machine.inodes.iter().map(|inode| inode.after_crash(&mut chance)).collect();
        let (lasting_names, now_ms) = (names.clone(), machine.now_ms);
        let found = Machine { inodes, names, lasting_names, now_ms, ..Machine::default() };
        MemFiles { machine: Arc::new(Mutex::new(found)) }
    }
}

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `most`; the ends more often than their share.
    fn up_to(&mut self, most: usize) -> usize {
        match self.next() % 4 {
            0 => 0,
            1 => most,
            _ => (self.next() % (most as u64 + 1)) as usize,
        }
    }
}

impl Inode {
    fn after_crash(&self, chance: &mut Chance) -> Inode {
        let mut content = self.lasting.clone();
        let keep = chance.up_to(self.pending.len());
        for change in &self.pending[..keep] {
            change.apply(&mut content, usize::MAX);
        }
        if let Some(torn) = self.pending.get(keep) {
            let len = match torn {
                Change::Write { bytes, .. } => chance.up_to(bytes.len()),
                Change::Truncate(_) => 0,
            };
            if len > 0 {
                torn.apply(&mut content, len);
            }
        }
        // A file system keeps the time together with the length.
        Inode { lasting: content.clone(), content, pending: Vec::new(), ..*self }
    }

    fn change(&mut self, now_ms: i64, change: Change) {
        self.modified_ms = now_ms;
        change.apply(&mut self.content, usize::MAX);
        self.pending.push(change);
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>, most: usize) {
        match self {
            Change::Write { at, bytes } => {
                let bytes = &bytes[..bytes.len().min(most)];
                if content.len() < at + bytes.len() {
                    content.resize(at + bytes.len(), 0);
                }
                content[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Change::Truncate(len) => content.resize(*len, 0),
        }
    }
}

fn is_root(path: &Path) -> bool {
    path.as_os_str().is_empty() || path == Path::new("/")
}

fn apply(names: &mut BTreeMap<PathBuf, Node>, change: &NameChange) {
    match change {
        NameChange::Made { path, node } => {
            names.insert(path.clone(), *node);
        }
        NameChange::Removed { path } => {
            names.remove(path);
        }
        NameChange::Renamed { from, to } => {
            let moved: Vec<_> =
                names.iter().filter(|(p, _)| p.starts_with(from)).map(|(p, n)| (p.clone(), *n)).collect();
            for (path, node) in moved {
                names.remove(&path);
                let rest = path.strip_prefix(from).unwrap_or(Path::new(""));
                let new = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                names.insert(new, node);
            }
        }
    }
}

impl NameChange {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            NameChange::Made { path, .. } | NameChange::Removed { path } => parent(path) == dir,
            NameChange::Renamed { from, to } => parent(from) == dir || parent(to) == dir,
        }
    }
}

impl Machine {
    /// Counts an operation; `Err` when the machine stops in it or has stopped.
    fn operation(&mut self) -> io::Result<()> {
        if self.stopped {
            return Err(io::Error::other("the machine has stopped"));
        }
        self.operations += 1;
        if self.stop_at.is_some_and(|nth| self.operations >= nth) {
            self.stopped = true;
            return Err(io::Error::other("the machine stops here"));
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, path: &Path) -> io::Result<()> {
        let text = path.to_string_lossy();
        match self.faults.iter().position(|(f, part)| *f == fault && text.contains(part)) {
            Some(at) => {
                self.faults.remove(at);
                Err(io::Error::other(format!("injected: {fault:?} of {text}")))
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, inode: usize, change: Change) {
        self.inodes[inode].change(self.now_ms, change);
    }

    fn name(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.pending_names.push(change);
    }

    fn need_dir(&self, dir: &Path) -> io::Result<()> {
        match self.names.get(dir) {
            Some(Node::Dir) => Ok(()),
            _ if is_root(dir) => Ok(()),
            _ => Err(not_found(dir)),
        }
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

impl Files for MemFiles {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut machine = locked(&self.machine);
        if machine.stopped {
            return Err(io::Error::other("the machine has stopped"));
        }
        machine.fault(Fault::Open, path)?;
        let inode = match machine.names.get(path).copied() {
            Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(inode)) => {
                if how == Open::Empty && !machine.inodes[inode].content.is_empty() {
                    machine.operation()?;
                    machine.change(inode, Change::Truncate(0));
                }
                inode
            }
            None if matches!(how, Open::Create | Open::Empty) => {
                machine.need_dir(parent(path))?;
                machine.operation()?;
                let now_ms = machine.now_ms;
                machine.inodes.push(Inode { created_ms: now_ms, modified_ms: now_ms, ..Inode::default() });
                let inode = machine.inodes.len() - 1;
                machine.name(NameChange::Made { path: path.to_path_buf(), node: Node::File(inode) });
                inode
            }
            None => return Err(not_found(path)),
        };
        Ok(Arc::new(MemFile { machine: self.machine.clone(), inode, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        if !machine.names.contains_key(from) {
            return Err(not_found(from));
        }
        machine.operation()?;
        machine.fault(Fault::Rename, from)?;
        machine.name(NameChange::Renamed { from: from.to_path_buf(), to: to.to_path_buf() });
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        if !matches!(machine.names.get(path), Some(Node::File(_))) {
            return Err(not_found(path));
        }
        machine.operation()?;
        machine.name(NameChange::Removed { path: path.to_path_buf() });
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        if machine.names.get(path) != Some(&Node::Dir) {
            return Err(not_found(path));
        }
        if machine.names.keys().any(|p| parent(p) == path) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        machine.operation()?;
        machine.name(NameChange::Removed { path: path.to_path_buf() });
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        match machine.names.get(path) {
            Some(Node::Dir) => return Ok(()),
            Some(Node::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            None => {}
        }
        machine.need_dir(parent(path))?;
        machine.operation()?;
        machine.name(NameChange::Made { path: path.to_path_buf(), node: Node::Dir });
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let machine = locked(&self.machine);
        machine.need_dir(dir)?;
        let inside = machine.names.iter().filter(|(path, _)| parent(path) == dir && path.as_path() != dir);
        let mut entries: Vec<Entry> = inside
            .map(|(path, node)| Entry {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                is_dir: *node == Node::Dir,
            })
            .collect();
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        machine.need_dir(dir)?;
        machine.operation()?;
        machine.fault(Fault::Sync, dir)?;
        let (now, later) = std::mem::take(&mut machine.pending_names).into_iter().partition(|c| c.is_in(dir));
        machine.pending_names = later;
        let now: Vec<NameChange> = now;
        for change in &now {
            apply(&mut machine.lasting_names, change);
        }
        Ok(())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn Lock>> {
        let file = self.open(path, Open::Create)?;
        let mut machine = locked(&self.machine);
        if !machine.locks.insert(path.to_path_buf()) {
            drop(machine);
            let says = super::read_whole(self, path)?;
            let says = String::from_utf8_lossy(&says).into_owned();
            return Err(io::Error::new(io::ErrorKind::WouldBlock, says));
        }
        drop(machine);
        let held = Held { machine: self.machine.clone(), path: path.to_path_buf() };
        file.truncate(0)?;
        file.write_at(0, &[Bytes::copy_from_slice(holder.as_bytes())])?;
        Ok(Box::new(held))
    }
}

impl File for MemFile {
    fn write_at(&self, position: u64, buffers: &[Bytes]) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        let bytes: Vec<u8> = buffers.concat();
        let at = position as usize;
        if machine.stopped {
            return machine.operation();
        }
        // A write in which the machine stops may have got anywhere.
        let stops = machine.operation();
        let fails = machine.fault(Fault::Write, &self.path);
        let len = if fails.is_err() { bytes.len() / 2 } else { bytes.len() };
        machine.change(self.inode, Change::Write { at, bytes: bytes[..len].to_vec() });
        stops.and(fails)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let machine = locked(&self.machine);
        let content = &machine.inodes[self.inode].content;
        let from = content.len().min(position as usize);
        let len = buffer.len().min(content.len() - from);
        buffer[..len].copy_from_slice(&content[from..from + len]);
        Ok(len)
    }

    fn sync(&self) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        machine.operation()?;
        if let Err(error) = machine.fault(Fault::Sync, &self.path) {
            machine.inodes[self.inode].pending.clear();
            return Err(error);
        }
        let inode = &mut machine.inodes[self.inode];
        for change in std::mem::take(&mut inode.pending) {
            change.apply(&mut inode.lasting, usize::MAX);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut machine = locked(&self.machine);
        machine.operation()?;
        machine.change(self.inode, Change::Truncate(len as usize));
        Ok(())
    }

    fn created_ms(&self) -> io::Result<i64> {
        Ok(locked(&self.machine).inodes[self.inode].created_ms)
    }

    fn modified_ms(&self) -> io::Result<i64> {
        Ok(locked(&self.machine).inodes[self.inode].modified_ms)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.machine).inodes[self.inode].content.len() as u64)
    }
}
