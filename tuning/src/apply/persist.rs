//! Files that give a host the same values at its next boot.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::journal::Journal;
use super::{Refused, WantedKnob};
use crate::fix::Knob;
use crate::host::Host;
use crate::open::own_file;

/// The first line of each file that is written here, by which it is known again.
const MARK: &str = "# Written by `ringgate doctor --persist`; the next run of it replaces this file.";

/// Where sysctls go, below `/etc`: read after the file that [`files`](crate::files) has for any host, since what is right on
/// this one is in it.
pub const SYSCTL: &str = "sysctl.d/61-ringgate-doctor.conf";
/// Where all else goes, below `/etc`.
pub const TMPFILES: &str = "tmpfiles.d/61-ringgate-doctor.conf";

/// What the next boot has under other numbers or names, or does not have yet when such files are read: interrupts, and cards
/// with their queues. A value written for one would go to another.
const OF_THIS_BOOT: [&str; 2] = ["/proc/irq", "/sys/class/net"];

/// Whether a value can be written down for the next boot.
pub fn lasts(knob: &Knob) -> bool {
    !OF_THIS_BOOT.iter().any(|below| knob.path.starts_with(below))
}

/// A file as it is to be at the next boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootFile {
    /// Where it is.
    pub path: PathBuf,
    text: String,
}

/// What is to hold after the next boot: what is wanted, and what was applied in this boot; some of it may not [last](lasts).
///
/// # Errors
/// The journal is in use or cannot be read.
pub fn knobs(host: &Host, wanted: &[WantedKnob], journal: &Path) -> Result<Vec<Knob>, Refused> {
    let boot_id = super::boot_id(host);
    let mut knobs: Vec<Knob> = wanted.iter().map(|wanted| wanted.knob.clone()).collect();
    for change in &Journal::open(journal)?.changes {
        if change.boot_id == boot_id && !knobs.iter().any(|knob| knob.path == change.path) {
            knobs.push(Knob { path: change.path.clone(), value: change.new.clone() });
        }
    }
    Ok(knobs)
}

/// The files below `directory` (`/etc` of the host, for one) that give the values of `knobs`, beside those that an earlier run
/// left there; of those that [last](lasts) alone. Nothing is written yet, so that whoever is refused has changed nothing.
///
/// # Errors
/// A file is there that was not written here, or none can be written there.
pub fn files(directory: &Path, knobs: &[Knob]) -> Result<Vec<BootFile>, Refused> {
    let (mut sysctls, mut others) = (Vec::new(), Vec::new());
    for knob in knobs.iter().filter(|knob| lasts(knob)) {
        match knob.sysctl_name() {
            Some(name) => sysctls.push((name, knob.value.replace('\t', " "))),
            None => others.push((escaped(&knob.path.display().to_string()), escaped(&knob.value))),
        }
    }
    let mut files = Vec::new();
    files.extend(file(directory.join(SYSCTL), sysctls, |name, value| format!("{name} = {value}"))?);
    files.extend(file(directory.join(TMPFILES), others, |path, value| format!("w {path} - - - - {value}"))?);
    Ok(files)
}

fn file(
    path: PathBuf,
    values: Vec<(String, String)>,
    line: fn(&str, &str) -> String,
) -> Result<Option<BootFile>, Refused> {
    if values.is_empty() {
        return Ok(None);
    }
    let failed = |why: String| Refused::File { path: path.clone(), why };
    let before = match own_file().read(true).open(&path).and_then(io::read_to_string) {
        Ok(text) if !text.starts_with(MARK) => {
            return Err(failed(
                "was not written by `ringgate doctor --persist`: move it away, or persist elsewhere".into(),
            ));
        }
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error.to_string())),
    };
    may_be_made(&path).map_err(|error| failed(error.to_string()))?;
    // A line begins with all that names its value.
    let replaced = |old: &str| values.iter().any(|(name, _)| old.starts_with(&line(name, "")));
    let kept = before.lines().skip(1).filter(|old| !replaced(old)).map(str::to_owned);
    let lines: Vec<String> = kept.chain(values.iter().map(|(name, value)| line(name, value))).collect();
    let text = format!("{MARK}\n{}\n", lines.join("\n"));
    Ok(Some(BootFile { path, text }))
}

/// Whether this user may write into the first directory above that is there, and its file system takes it.
fn may_be_made(path: &Path) -> io::Result<()> {
    match path.ancestors().skip(1).find(|above| above.exists()) {
        Some(above) => Ok(rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK)?),
        None => Ok(()),
    }
}

impl BootFile {
    /// Puts it in its place.
    ///
    /// # Errors
    /// The file system refuses; what was there is there still.
    pub fn write(&self) -> io::Result<()> {
        fs::create_dir_all(self.path.parent().unwrap_or(Path::new("/")))?;
        let next = self.path.with_extension("conf.next");
        let mut file = own_file().create(true).truncate(true).write(true).open(&next)?;
        file.write_all(self.text.as_bytes())?;
        fs::rename(&next, &self.path)
    }
}

/// As tmpfiles.d takes it: without specifiers.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(path: &str, value: &str) -> Knob {
        Knob { path: path.into(), value: value.into() }
    }

    fn persist(directory: &Path, knobs: &[Knob]) -> Result<Vec<PathBuf>, Refused> {
        let files = files(directory, knobs)?;
        files.iter().for_each(|file| file.write().unwrap());
        Ok(files.into_iter().map(|file| file.path).collect())
    }

    #[test]
    fn sysctls_and_the_rest_go_into_files_of_their_own() {
        let etc = tempfile::tempdir().unwrap();
        let knobs = [
            knob("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t16777216"),
            knob("/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "0"),
            knob("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        ];
        let written = persist(etc.path(), &knobs).unwrap();
        assert_eq!(written, [etc.path().join(SYSCTL), etc.path().join(TMPFILES)]);
        assert_eq!(
            fs::read_to_string(&written[0]).unwrap(),
            format!("{MARK}\nnet.ipv4.tcp_rmem = 4096 131072 16777216\nnet.ipv4.conf.eth0/100.rp_filter = 0\n")
        );
        assert_eq!(
            fs::read_to_string(&written[1]).unwrap(),
            format!("{MARK}\nw /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n")
        );
    }

    #[test]
    fn what_has_another_number_at_the_next_boot_is_left_out() {
        let etc = tempfile::tempdir().unwrap();
        let of_this_boot = [
            knob("/proc/irq/131/smp_affinity_list", "3"),
            knob("/sys/class/net/eth0/queues/rx-0/rps_cpus", "f"),
            knob("/sys/class/net/eth0/queues/tx-0/xps_cpus", "1"),
        ];
        assert!(persist(etc.path(), &of_this_boot).unwrap().is_empty());
        let all = [&of_this_boot[..], &[knob("/sys/kernel/mm/ksm/run", "0")]].concat();
        let written = persist(etc.path(), &all).unwrap();
        assert_eq!(written, [etc.path().join(TMPFILES)]);
        assert_eq!(fs::read_to_string(&written[0]).unwrap(), format!("{MARK}\nw /sys/kernel/mm/ksm/run - - - - 0\n"));
    }

    #[test]
    fn a_later_run_adds_to_an_earlier_one_and_replaces_its_values() {
        let etc = tempfile::tempdir().unwrap();
        persist(etc.path(), &[knob("/proc/sys/vm/swappiness", "10"), knob("/proc/sys/vm/stat_interval", "10")])
            .unwrap();
        let more = [knob("/proc/sys/vm/swappiness", "1"), knob("/proc/sys/kernel/numa_balancing", "0")];
        let written = persist(etc.path(), &more).unwrap();
        assert_eq!(
            fs::read_to_string(&written[0]).unwrap(),
            format!("{MARK}\nvm.stat_interval = 10\nvm.swappiness = 1\nkernel.numa_balancing = 0\n")
        );
    }

    #[test]
    fn a_file_of_somebody_else_stays() {
        let etc = tempfile::tempdir().unwrap();
        let path = etc.path().join(SYSCTL);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "vm.swappiness = 30\n").unwrap();
        assert!(matches!(persist(etc.path(), &[knob("/proc/sys/vm/swappiness", "1")]), Err(Refused::File { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "vm.swappiness = 30\n");
    }
    #[test]
    fn what_is_for_any_host_is_another_file_and_is_read_before_this_one() {
        let given: Vec<&str> = crate::files::FILES.iter().filter_map(|file| file.path.strip_prefix("etc/")).collect();
        for persisted in [SYSCTL, TMPFILES] {
            assert!(!given.contains(&persisted), "{persisted}");
        }
        let sysctls: Vec<&&str> = given.iter().filter(|path| path.starts_with("sysctl.d/")).collect();
        assert!(!sysctls.is_empty() && sysctls.iter().all(|given| **given < SYSCTL), "{sysctls:?}");
    }
}
