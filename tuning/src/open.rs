//! Opening a host's files.
//!
//! Below a root the host is whatever somebody packed up: a symbolic link there means what it meant on that host, so it is
//! followed inside the root and never out of it, and what is no plain file is refused instead of waited for.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::host::Host;

/// How often a file is tried that something else's renaming kept from being found.
const TRIES: usize = 16;

/// A file of the host. Nothing is waited for, as a FIFO without a writer would be.
fn open(host: &Host, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    // What is only looked at is never waited for, and `openat2` takes nothing more there.
    let at_once = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
    let flags = flags | at_once | OFlags::CLOEXEC;
    if host.is_live() {
        return Ok(rustix::fs::openat(CWD, host.at(path), flags, Mode::empty())?);
    }
    let root = rustix::fs::openat(CWD, host.root(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut tries = 0;
    loop {
        tries += 1;
        match rustix::fs::openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN) if tries < TRIES => {}
            opened => return Ok(opened?),
        }
    }
}

/// Whether files below the host's root can be opened at all.
///
/// # Errors
/// The kernel, or what filters its system calls, does not know the only one that keeps to a root.
pub(crate) fn can_keep_to(host: &Host) -> Result<(), String> {
    match open(host, Path::new("."), OFlags::PATH | OFlags::DIRECTORY) {
        Err(error) => not_kept_to(error.raw_os_error().map(Errno::from_raw_os_error)),
        Ok(_) => Ok(()),
    }
}

/// All other errors are for those who open something.
fn not_kept_to(errno: Option<Errno>) -> Result<(), String> {
    match errno {
        Some(errno @ (Errno::NOSYS | Errno::PERM)) => Err(format!(
            "--root takes the system call openat2, which keeps to a directory: Linux 5.6 or newer, and a seccomp profile \
             that allows it ({errno})"
        )),
        _ => Ok(()),
    }
}

fn kind(file: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}

fn plain(file: OwnedFd) -> io::Result<File> {
    match kind(&file)? {
        FileType::RegularFile => Ok(file.into()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Err(io::Error::other("is no plain file, and not read")),
    }
}

/// A plain file, to be read.
pub(crate) fn to_read(host: &Host, path: &Path) -> io::Result<File> {
    plain(open(host, path, OFlags::RDONLY)?)
}

/// A file that may also be a device where the host is this machine, whose devices are the kernel's.
pub(crate) fn device_to_read(host: &Host, path: &Path) -> io::Result<File> {
    let file = open(host, path, OFlags::RDONLY)?;
    if host.is_live() { Ok(file.into()) } else { plain(file) }
}

/// What is there, and nothing where there is nothing.
pub(crate) fn what(host: &Host, path: &Path) -> Option<FileType> {
    kind(&open(host, path, OFlags::PATH).ok()?).ok()
}

/// Where a symbolic link points; `None` when it is none.
pub(crate) fn link(host: &Host, path: &Path) -> io::Result<Option<PathBuf>> {
    if host.is_live() {
        return match std::fs::read_link(host.at(path)) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            read => read.map(Some),
        };
    }
    let link = open(host, path, OFlags::PATH | OFlags::NOFOLLOW)?;
    if kind(&link)? != FileType::Symlink {
        return Ok(None);
    }
    let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
    Ok(Some(target.to_string_lossy().into_owned().into()))
}

/// The names in a directory.
pub(crate) fn names(host: &Host, path: &Path) -> io::Result<Vec<String>> {
    let directory = Dir::new(open(host, path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
    let names = directory.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name != "." && name != "..").collect())
}

/// A plain file of this machine, to be written in place.
pub(crate) fn to_write(host: &Host, path: &Path) -> io::Result<File> {
    plain(open(host, path, OFlags::WRONLY | OFlags::NOFOLLOW).map_err(not_followed)?)
}

/// Puts another content in the place of a plain file's below a root: who looks finds the one before or the one after,
/// whole, also when this process ends in between.
pub(crate) fn replace(host: &Host, path: &Path, content: impl FnOnce(&str) -> String) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL.into()) };
    let directory = open(host, parent, OFlags::PATH | OFlags::DIRECTORY)?;
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let before = rustix::fs::openat(&directory, name, flags | OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    let before = plain(before.map_err(|errno| not_followed(errno.into()))?)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&before)?.st_mode);
    let content = content(&io::read_to_string(before)?);
    let next = format!(".{}.next", name.to_string_lossy());
    // One that was ended in between leaves it.
    let _ = rustix::fs::unlinkat(&directory, &next, AtFlags::empty());
    let made = rustix::fs::openat(&directory, &next, flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)?;
    let put = |made: OwnedFd| -> io::Result<()> {
        rustix::fs::fchmod(&made, mode)?;
        File::from(made).write_all(content.as_bytes())?;
        Ok(rustix::fs::renameat(&directory, &next, &directory, name)?)
    };
    let done = put(made);
    if done.is_err() {
        let _ = rustix::fs::unlinkat(&directory, &next, AtFlags::empty());
    }
    done
}

/// What the doctor's own files are opened with, which lie where others may have put something else.
pub(crate) fn own_file() -> std::fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// What `path` of the host is called here, when no link leads out of the root on the way there.
///
/// # Errors
/// One does.
pub fn own_place(host: &Host, path: &Path) -> io::Result<PathBuf> {
    let place = host.at(path);
    if !host.is_live() {
        let root = host.root().canonicalize()?;
        let there = place.ancestors().find_map(|above| above.canonicalize().ok());
        if !there.is_some_and(|there| there.starts_with(root)) {
            return Err(io::Error::other(format!("{} leads out of {}", place.display(), host.root().display())));
        }
    }
    Ok(place)
}

/// The kernel says of a link that is not to be followed that there are too many.
fn not_followed(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) if number == Errno::LOOP.raw_os_error() => {
            io::Error::other("is a symbolic link, which is not followed where something is written")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::host::Reading;
    use crate::host::tests::host;

    #[test]
    fn links_are_followed_inside_the_root_and_never_out_of_it() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "mine").unwrap();
        let (_kept, host) = host(&[("/sys/devices/a/b", "value\n"), ("/etc/secret", "theirs\n")]);
        let absolute = outside.path().join("secret");
        for (link, target) in [("/sys/in", "devices/a"), ("/sys/above", "../../../../../../etc"), ("/sys/root", "/etc")]
        {
            symlink(target, host.at(link)).unwrap();
        }
        symlink(&absolute, host.at("/sys/out")).unwrap();
        symlink(outside.path(), host.at("/sys/all")).unwrap();
        assert_eq!(host.read("/sys/in/b"), Reading::Text("value".into()));
        assert_eq!(host.read("/sys/above/secret"), Reading::Text("theirs".into()), "the root's own");
        assert_eq!(host.read("/sys/root/secret"), Reading::Text("theirs".into()));
        assert_eq!(host.read("/sys/out"), Reading::Absent);
        assert_eq!(host.read("/sys/all/secret"), Reading::Absent);
        assert_eq!(host.list("/sys/all"), Ok(vec![]));
        assert_eq!(host.list("/sys/in"), Ok(vec!["b".into()]));
        assert!(!host.exists("/sys/out") && host.exists("/sys/in/b"));
        assert_eq!(host.link("/sys/out"), Reading::Text(absolute.to_string_lossy().into()), "said, not followed");
        assert_eq!(host.read_bytes("/sys/out", 1), Err(Reading::Absent));
    }

    #[test]
    fn a_kernel_that_cannot_keep_to_a_root_is_told_from_a_root_without_files() {
        let (_kept, host) = host(&[]);
        assert!(
            host.clone().kept_to().is_ok()
                && Host::below("/nowhere").kept_to().is_ok()
                && Host::live().kept_to().is_ok()
        );
        for errno in [Errno::NOSYS, Errno::PERM] {
            let refusal = not_kept_to(Some(errno)).unwrap_err();
            assert!(refusal.contains("Linux 5.6") && refusal.contains("seccomp"), "{refusal}");
        }
        assert_eq!(not_kept_to(Some(Errno::NOENT)), Ok(()));
    }

    #[test]
    fn what_is_no_plain_file_is_not_waited_for() {
        let (_kept, host) = host(&[("/proc/a", "")]);
        rustix::fs::mknodat(CWD, host.at("/proc/fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let told =
            |reading: &Reading| matches!(reading, Reading::Unread(why) if why.contains("/proc/fifo: is no plain"));
        assert!(told(&host.read("/proc/fifo")), "{:?}", host.read("/proc/fifo"));
        assert!(told(&host.read_bytes("/proc/fifo", 4).unwrap_err()));
        assert!(replace(&host, Path::new("/proc/fifo"), |_| "1".into()).is_err());
        assert!(to_write(&host, Path::new("/proc/fifo")).is_err());
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode_and_nothing_is_left_beside_it() {
        let (_kept, host) =
            host(&[("/proc/sys/vm/swappiness", "60\n"), ("/proc/sys/vm/.swappiness.next", "left short")]);
        let path = host.at("/proc/sys/vm/swappiness");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        // A second name of the file that was there: whoever has it open goes on reading what it held.
        let before = host.at("/proc/before");
        std::fs::hard_link(&path, &before).unwrap();
        replace(&host, Path::new("/proc/sys/vm/swappiness"), |before| before.replace("60", "1")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
        assert_eq!(std::fs::read_to_string(&before).unwrap(), "60\n");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(host.list("/proc/sys/vm"), Ok(vec!["swappiness".into()]));
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        let mine = outside.path().join("swappiness");
        std::fs::write(&mine, "mine\n").unwrap();
        let (_kept, host) = host(&[("/proc/sys/a", "")]);
        symlink(outside.path(), host.at("/proc/sys/vm")).unwrap();
        symlink(&mine, host.at("/proc/sys/link")).unwrap();
        assert!(replace(&host, Path::new("/proc/sys/vm/swappiness"), |_| "1".into()).is_err());
        let error = replace(&host, Path::new("/proc/sys/link"), |_| "1".into()).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine\n");
        assert!(host.at("/proc/sys/link").is_symlink());
    }

    #[test]
    fn the_doctors_own_files_stay_inside_the_root() {
        let outside = tempfile::tempdir().unwrap();
        let (_kept, host) = host(&[("/etc/x", ""), ("/var/x", "")]);
        symlink(outside.path(), host.at("/var/lib")).unwrap();
        symlink("/etc", host.at("/var/etc")).unwrap();
        assert_eq!(own_place(&host, Path::new("/etc/sysctl.d")).unwrap(), host.at("/etc/sysctl.d"));
        for path in ["/var/lib/ringgate-doctor/journal.json", "/var/etc"] {
            let error = own_place(&host, Path::new(path)).unwrap_err();
            assert!(error.to_string().contains("leads out of"), "{error}");
        }
    }
}
