//! The control groups of a process: version 2, version 1, and both at once.

use std::io;
use std::path::{Path, PathBuf};

use super::root::Root;

/// How often and for how long a process's control groups kept it from running.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Throttled {
    pub periods: u64,
    pub seconds: f64,
}

/// A control group of CPU time and those above it, nearest first, each as a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuGroup {
    directories: Vec<PathBuf>,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl CpuGroup {
    /// The process's own; `process` is its directory in `/proc`: its id, or `self`.
    pub fn of_process(root: &Root, process: &str) -> io::Result<CpuGroup> {
        let (directories, version) = hierarchy(root, process, "cpu")?;
        Ok(CpuGroup { directories, version })
    }

    /// The tightest limit among them, in CPUs.
    pub fn limit_cpus(&self) -> Option<f64> {
        self.directories.iter().filter_map(|directory| self.limit_of(directory)).reduce(f64::min)
    }

    fn limit_of(&self, directory: &Path) -> Option<f64> {
        let read = |name: &str| Some(std::fs::read_to_string(directory.join(name)).ok()?.trim().to_owned());
        let (quota, period) = match self.version {
            Version::Two => {
                let text = read("cpu.max")?;
                let (quota, period) = text.split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
            Version::One => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        };
        // No limit is `max` in version 2 and -1 in version 1.
        let quota = quota.parse::<f64>().ok().filter(|quota| *quota > 0.0)?;
        Some(quota / period.parse::<f64>().ok().filter(|period| *period > 0.0)?)
    }

    /// Added up over those that have a limit: one above throttles as its own does. `None` when there is no limit.
    pub fn throttled(&self) -> Option<Throttled> {
        let mut limited = self.directories.iter().filter(|directory| self.limit_of(directory).is_some()).peekable();
        limited.peek()?;
        let mut sum = Throttled::default();
        for directory in limited {
            let Ok(text) = std::fs::read_to_string(directory.join("cpu.stat")) else { continue };
            let number = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
            };
            sum.periods += number("nr_throttled").unwrap_or(0);
            sum.seconds += match self.version {
                Version::Two => number("throttled_usec").unwrap_or(0) as f64 / 1e6,
                Version::One => number("throttled_time").unwrap_or(0) as f64 / 1e9,
            };
        }
        Some(sum)
    }
}

/// The tightest limit of memory, in bytes; `None` when there is none.
pub(super) fn memory_limit_bytes(root: &Root, process: &str) -> io::Result<Option<u64>> {
    let (directories, version) = hierarchy(root, process, "memory")?;
    let file = match version {
        Version::Two => "memory.max",
        Version::One => "memory.limit_in_bytes",
    };
    let limits = directories.iter().filter_map(|directory| std::fs::read_to_string(directory.join(file)).ok());
    // Version 1 writes "no limit" as the largest number of whole pages.
    let limits = limits.filter_map(|text| text.trim().parse::<u64>().ok()).filter(|limit| *limit < i64::MAX as u64 / 2);
    Ok(limits.min())
}

/// The directories of a process's group in the hierarchy that has a controller: its own and those above, up to where
/// the hierarchy is mounted.
fn hierarchy(root: &Root, process: &str, controller: &str) -> io::Result<(Vec<PathBuf>, Version)> {
    let groups = root.text(format!("proc/{process}/cgroup"))?;
    let lines = || groups.lines().filter_map(|line| line.splitn(3, ':').collect::<Vec<_>>().try_into().ok());
    // Version 1 has the controller wherever it names it, also when version 2 is mounted beside it.
    let one = lines().find(|[_, names, _]: &[&str; 3]| names.split(',').any(|name| name == controller));
    let two = lines().find(|[id, names, _]: &[&str; 3]| *id == "0" && names.is_empty());
    let (version, group) = match (one, two) {
        (Some([_, _, group]), _) => (Version::One, group),
        (None, Some([_, _, group])) => (Version::Two, group),
        (None, None) => {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no control group of {controller}")));
        }
    };
    let mounts = root.text("proc/self/mountinfo")?;
    let mount = mounts.lines().filter_map(Mount::parse).find(|mount| match version {
        Version::Two => mount.kind == "cgroup2",
        Version::One => mount.kind == "cgroup" && mount.options.split(',').any(|option| option == controller),
    });
    let Some(mount) = mount else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("the control groups of {controller} are not mounted"),
        ));
    };
    // Where a part of the hierarchy is mounted, paths begin behind that part; `/..` is outside of what can be seen.
    let below = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(group));
    let below = below.strip_prefix("/").unwrap_or(below);
    if below.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "its control group is outside of this namespace"));
    }
    let top = root.path(mount.point.trim_start_matches('/'));
    let directories = below.ancestors().map(|below| top.join(below)).collect();
    Ok((directories, version))
}

/// A line of `mountinfo` (proc_pid_mountinfo(5)).
struct Mount<'a> {
    root: String,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (before, behind) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut behind = behind.split(' ');
        Some(Mount {
            root: before.next()?.to_owned(),
            point: before.next()?,
            kind: behind.next()?,
            options: behind.nth(1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(directory.path());
        (directory, root)
    }

    const TWO: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const ONE: &str = "33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:8 - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn in_version_2_a_limit_above_the_processs_own_group_counts() {
        let (_tree, root) = tree(&[
            ("proc/7/cgroup", "0::/a.slice/b.service\n"),
            ("proc/self/mountinfo", TWO),
            ("sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a.slice/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 2500000\n"),
            ("sys/fs/cgroup/a.slice/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a.slice/b.service/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n"),
            ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n"),
        ]);
        let group = CpuGroup::of_process(&root, "7").unwrap();
        assert_eq!(group.limit_cpus(), Some(1.5));
        assert_eq!(group.throttled(), Some(Throttled { periods: 4, seconds: 2.5 }));
        assert_eq!(memory_limit_bytes(&root, "7").unwrap(), Some(1 << 30));
    }

    #[test]
    fn in_version_1_the_controller_is_where_it_is_named_also_beside_version_2() {
        let (_tree, root) = tree(&[
            ("proc/7/cgroup", "5:cpu,cpuacct:/docker/x\n4:cpuset:/\n0::/elsewhere\n"),
            ("proc/self/mountinfo", &format!("{TWO}{ONE}")),
            ("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.stat",
                "nr_periods 9\nnr_throttled 2\nthrottled_time 1500000000\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        let group = CpuGroup::of_process(&root, "7").unwrap();
        assert_eq!(group.limit_cpus(), Some(0.5));
        assert_eq!(group.throttled(), Some(Throttled { periods: 2, seconds: 1.5 }));
        // Memory is under version 2 then, where this tree sets no limit.
        assert_eq!(memory_limit_bytes(&root, "7").unwrap(), None);
    }

    #[test]
    fn without_a_limit_nothing_is_said_of_throttling() {
        let (_tree, root) = tree(&[
            ("proc/7/cgroup", "0::/\n"),
            ("proc/self/mountinfo", TWO),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 5\n"),
        ]);
        let group = CpuGroup::of_process(&root, "7").unwrap();
        assert_eq!((group.limit_cpus(), group.throttled()), (None, None));
    }

    #[test]
    fn where_a_part_of_the_hierarchy_is_mounted_paths_begin_behind_it() {
        let mounted = "33 25 0:29 /docker/x /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
        let (_tree, root) = tree(&[
            ("proc/7/cgroup", "5:cpu:/docker/x/inner\n"),
            ("proc/self/mountinfo", mounted),
            ("sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(CpuGroup::of_process(&root, "7").unwrap().limit_cpus(), Some(2.0));
    }

    #[test]
    fn a_group_out_of_sight_is_an_error_that_says_so() {
        let (_tree, root) = tree(&[("proc/7/cgroup", "0::/../../x\n"), ("proc/self/mountinfo", TWO)]);
        let error = CpuGroup::of_process(&root, "7").unwrap_err();
        assert!(error.to_string().contains("outside of this namespace"), "{error}");
    }
}
