//! The data directory's frame: who may use it, and what in it is current.
//!
//! ```text
//! LOCK                   held by the process that uses the directory
//! MANIFEST               text: format, cluster id, layout, catalogue file, start counter, CRC-32C
//! catalogue-<n>.log      what streams, topics and consumer groups of topics there are
//! topics/<topic uuid>/<partition>/
//! layout-<n>/shard-<k>/  groups and committed offsets
//! ```
//!
//! What is not named by MANIFEST is not part of the store. MANIFEST is replaced at once, so every change of
//! layout or catalogue file happens whole or not at all.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use uuid::Uuid;

use super::files::{self, Files, Lock, Open, is_aside};

/// The format that this version writes, and the newest one it reads.
pub const FORMAT: u32 = 2;
/// The first format whose catalogue has streams, and topics with numbers.
pub(crate) const FORMAT_OF_STREAMS: u32 = 2;

/// The file that says what is current.
pub(crate) const MANIFEST: &str = "MANIFEST";
const LOCK: &str = "LOCK";
/// The hash of the password of the Iggy listener's user, which the front of the house writes.
pub const IGGY_ROOT_PASSWORD: &str = "iggy-root-password";
/// The directory of the partitions.
pub(crate) const TOPICS: &str = "topics";

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("{} is in use by another ringgate ({holder})", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// What that process says of itself.
        holder: String,
    },
    /// A newer version wrote it.
    #[error(
        "{} has format {found}, written by a newer ringgate; this one reads up to format {FORMAT}",
        path.display()
    )]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It holds something else.
    #[error("{} holds {entry:?} and no MANIFEST: it is not a ringgate data directory, or it has lost its MANIFEST", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// One of the names in it.
        entry: String,
    },
    /// A file cannot be read or written, or is damaged; the message names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What MANIFEST says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The format in which the directory is.
    pub(crate) format: u32,
    /// Kafka's form of a cluster id: 22 characters of base64url.
    pub(crate) cluster_id: String,
    /// The number of the current layout; 0 when there is none.
    pub(crate) layout: u64,
    /// The number of shards that it is for.
    pub(crate) shards: u16,
    /// The number of the current catalogue file; 0 when there is none.
    pub(crate) catalogue: u64,
    /// How often the directory was opened.
    pub(crate) starts: i32,
}

impl Manifest {
    fn new() -> Manifest {
        Manifest { format: FORMAT, cluster_id: new_cluster_id(), layout: 0, shards: 0, catalogue: 0, starts: 0 }
    }

    fn parse(path: &Path, text: &str) -> Result<Manifest, OpenError> {
        let bad = |what: &str| OpenError::Io(files::damaged(&path.join(MANIFEST), what));
        let mut lines = text.lines();
        let mut field = |name: &str| -> Result<String, OpenError> {
            let line = lines.next().and_then(|line| line.strip_prefix(name)).and_then(|line| line.strip_prefix(' '));
            line.map(str::to_string).ok_or_else(|| bad(&format!("no line {name:?}")))
        };
        // Read before the rest, which a newer format may have changed.
        let found = number(&field("ringgate-format")?).ok_or_else(|| bad("the format is no number"))?;
        if found > FORMAT {
            return Err(OpenError::NewerFormat { path: path.to_path_buf(), found });
        }
        let manifest = Manifest {
            format: found,
            cluster_id: field("cluster")?,
            layout: number(&field("layout")?).ok_or_else(|| bad("the layout is no number"))?,
            shards: number(&field("shards")?).ok_or_else(|| bad("shards is no number"))?,
            catalogue: number(&field("catalogue")?).ok_or_else(|| bad("the catalogue is no number"))?,
            starts: number(&field("starts")?).ok_or_else(|| bad("starts is no number"))?,
        };
        if manifest.to_string() != text {
            return Err(bad("its CRC does not fit"));
        }
        Ok(manifest)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Manifest { format, cluster_id, layout, shards, catalogue, starts } = self;
        let body = format!(
            "ringgate-format {format}\ncluster {cluster_id}\nlayout {layout}\nshards {shards}\n\
             catalogue {catalogue}\nstarts {starts}\n"
        );
        writeln!(f, "{body}crc32c {:08x}", crc32c::crc32c(body.as_bytes()))
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// A random id as Kafka writes it: base64url without padding, not beginning with a dash.
fn new_cluster_id() -> String {
    cluster_id_text(u128::from_be_bytes(*Uuid::new_v4().as_bytes()))
}

/// These bits in Kafka's form of a cluster's id: 22 characters that begin with no dash.
pub(crate) fn cluster_id_text(bits: u128) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digit = |nth: u32| {
        // 21 digits of 6 bits from the top, and the last 2 bits padded with zeros.
        let six = if nth < 21 { bits >> (122 - 6 * nth) } else { bits << 4 };
        match char::from(ALPHABET[(six & 63) as usize]) {
            '-' if nth == 0 => '_',
            digit => digit,
        }
    };
    (0..22).map(digit).collect()
}

/// A data directory that this process alone uses.
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: Box<dyn Lock>,
}

impl DataDir {
    /// Locks the directory, which is made if need be, and reads what is current in it.
    pub(crate) fn open(files: &dyn Files, path: &Path) -> Result<(DataDir, Manifest), OpenError> {
        if files.open(&path.join(MANIFEST), Open::Read).is_err() {
            make_with_parents(files, path)?;
        }
        let holder = format!("process {}", std::process::id());
        let dir = DataDir { path: path.to_path_buf(), _lock: DataDir::lock(files, path, &holder)? };
        let manifest = match DataDir::manifest(files, path)? {
            Some(manifest) => manifest,
            None => {
                DataDir::check_is_new(files, path)?;
                Manifest::new()
            }
        };
        Ok((dir, manifest))
    }

    /// Locks the directory for `holder`, which others are told.
    pub(crate) fn lock(files: &dyn Files, path: &Path, holder: &str) -> Result<Box<dyn Lock>, OpenError> {
        match files.lock(&path.join(LOCK), holder) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(OpenError::InUse { path: path.to_path_buf(), holder: error.to_string() })
            }
            other => Ok(other?),
        }
    }

    /// What MANIFEST says; `None` when there is none.
    pub(crate) fn manifest(files: &dyn Files, path: &Path) -> Result<Option<Manifest>, OpenError> {
        match files::read_whole(files, &path.join(MANIFEST)) {
            Ok(bytes) => Manifest::parse(path, &String::from_utf8_lossy(&bytes)).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Without MANIFEST there may only be what a first start leaves that did not get that far.
    pub(crate) fn check_is_new(files: &dyn Files, path: &Path) -> Result<(), OpenError> {
        for entry in files.list(path)? {
            let name = entry.name.as_str();
            let first_start = matches!(name, LOCK | "lost+found" | "catalogue-1.log" | "layout-1") || is_aside(name);
            let empty_topics = name == TOPICS && files.list(&path.join(TOPICS))?.is_empty();
            if !first_start && !empty_topics {
                return Err(OpenError::NotOurs { path: path.to_path_buf(), entry: entry.name });
            }
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts another MANIFEST in force, on disk.
    pub(crate) fn switch(&self, files: &dyn Files, manifest: &Manifest) -> io::Result<()> {
        files::replace(files, &self.path.join(MANIFEST), Bytes::from(manifest.to_string()))
    }

    pub(crate) fn catalogue(&self, number: u64) -> PathBuf {
        self.path.join(format!("catalogue-{number}.log"))
    }

    pub(crate) fn layout(&self, number: u64) -> PathBuf {
        self.path.join(format!("layout-{number}"))
    }

    /// Removes what the manifest does not name: what is left of earlier layouts and catalogue files.
    pub(crate) fn sweep(&self, files: &dyn Files, manifest: &Manifest) -> io::Result<()> {
        for entry in files.list(&self.path)? {
            let path = self.path.join(&entry.name);
            let old_layout = entry.name.starts_with("layout-") && path != self.layout(manifest.layout);
            let old_catalogue = entry.name.starts_with("catalogue-") && path != self.catalogue(manifest.catalogue);
            if old_layout && entry.is_dir {
                files::remove_tree(files, &path)?;
            } else if (old_catalogue || is_aside(&entry.name)) && !entry.is_dir {
                files.remove_file(&path)?;
            }
        }
        Ok(())
    }
}

/// Makes a directory and those above it that are missing, and all their names lasting: whoever made them
/// may have been killed before it came to that.
fn make_with_parents(files: &dyn Files, path: &Path) -> io::Result<()> {
    let above = match files::parent(path) {
        above if above.as_os_str().is_empty() => Path::new("."),
        above => above,
    };
    if above != path && above != Path::new(".") {
        make_with_parents(files, above)?;
    }
    if files.list(path).is_err() {
        files.create_dir(path)?;
    }
    match files.sync_dir(above) {
        // Above the directories that are ours there may be some that must not be opened.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::files::MemFiles;

    fn manifest() -> Manifest {
        Manifest {
            format: 1,
            cluster_id: "abcdefghijklmnopqrstuv".into(),
            layout: 3,
            shards: 4,
            catalogue: 2,
            starts: 17,
        }
    }

    #[test]
    fn the_manifest_is_text_with_a_crc() {
        let text = manifest().to_string();
        assert_eq!(
            text,
            "ringgate-format 1\ncluster abcdefghijklmnopqrstuv\nlayout 3\nshards 4\ncatalogue 2\nstarts 17\n\
             crc32c 7741188e\n"
        );
        assert_eq!(Manifest::parse(Path::new("/d"), &text).unwrap(), manifest());
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            assert!(Manifest::parse(Path::new("/d"), &changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_newer_format_is_refused_even_when_nothing_else_is_understood() {
        let error = Manifest::parse(Path::new("/d"), "ringgate-format 3\nwhatever\n").unwrap_err();
        assert!(matches!(error, OpenError::NewerFormat { found: 3, .. }));
        assert!(error.to_string().contains("format 3"));
    }

    #[test]
    fn cluster_ids_have_kafkas_form() {
        let ids: Vec<String> = (0..100).map(|_| new_cluster_id()).collect();
        for id in &ids {
            assert_eq!(id.len(), 22);
            assert!(!id.starts_with('-') && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            assert!("AQgw".contains(id.chars().next_back().unwrap()), "2 bits and 4 zeros");
        }
        assert_ne!(ids[0], ids[1]);
    }

    #[test]
    fn a_second_process_is_told_who_is_there() {
        let files = MemFiles::new();
        let path = Path::new("/var/lib/ringgate");
        let (held, _) = DataDir::open(&files, path).unwrap();
        let error = DataDir::open(&files, path).err().unwrap();
        let me = format!("process {}", std::process::id());
        assert!(matches!(&error, OpenError::InUse { holder, .. } if *holder == me), "{error}");
        drop(held);
        DataDir::open(&files, path).unwrap();
    }

    #[test]
    fn a_directory_of_something_else_is_left_alone() {
        let files = MemFiles::new();
        files.create_dir(Path::new("/home")).unwrap();
        files.open(Path::new("/home/thesis.tex"), Open::Create).unwrap();
        let error = DataDir::open(&files, Path::new("/home")).err().unwrap();
        assert!(matches!(&error, OpenError::NotOurs { entry, .. } if entry == "thesis.tex"), "{error}");
    }
}
