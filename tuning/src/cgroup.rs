//! The control groups that a process is in, of both versions, from its own up to the root: the least that any of them grants
//! is what it has.

use crate::host::Host;

/// Where they are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// Of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlGroups {
    /// Its path in the hierarchy of version 2.
    v2: Option<String>,
    /// Its paths in those of version 1, with the controllers of each.
    v1: Vec<(Vec<String>, String)>,
}

/// A file of a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFile {
    /// Where it is.
    pub path: String,
    /// What it holds.
    pub text: String,
    /// Whether it is a file of version 1.
    pub is_v1: bool,
}

impl ControlGroups {
    /// Of `self` or of a process id.
    pub fn of(host: &Host, process: &str) -> ControlGroups {
        host.read(format!("/proc/{process}/cgroup")).text().map_or_else(ControlGroups::default, ControlGroups::parse)
    }

    /// Of what `/proc/self/cgroup` holds.
    fn parse(text: &str) -> ControlGroups {
        let mut groups = ControlGroups::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
            if controllers.is_empty() {
                groups.v2 = Some(path.to_owned());
            } else {
                groups.v1.push((controllers.split(',').map(str::to_owned).collect(), path.to_owned()));
            }
        }
        groups
    }

    /// The file of a controller in the process's own group and in each one above it, the own one first: `v1` where a
    /// hierarchy of version 1 has the controller, otherwise `v2`.
    pub fn files(&self, host: &Host, controller: &str, v2: &str, v1: &str) -> Vec<GroupFile> {
        let is_here = |path: &str| host.is_directory(path);
        match self.v1.iter().find(|(controllers, _)| controllers.iter().any(|one| one == controller)) {
            Some((controllers, path)) => {
                // Mounted by the names of all its controllers, or of this one.
                let mounts = [format!("{MOUNT}/{}", controllers.join(",")), format!("{MOUNT}/{controller}")];
                let mount = mounts.iter().find(|mount| is_here(mount)).cloned().unwrap_or_default();
                above(host, &mount, path, v1, true)
            }
            None => {
                let mount = [format!("{MOUNT}/unified"), MOUNT.to_owned()].into_iter().find(|mount| is_here(mount));
                above(host, &mount.unwrap_or_default(), self.v2.as_deref().unwrap_or("/"), v2, false)
            }
        }
    }

    /// CPUs' worth of time that the groups grant, and the file that says the least; none where there is no bound.
    pub fn cpu_quota(&self, host: &Host) -> Option<(f64, GroupFile)> {
        let files = self.files(host, "cpu", "cpu.max", "cpu.cfs_quota_us");
        let granted = files.into_iter().filter_map(|file| {
            let quota = if file.is_v1 {
                let period = host.read(file.path.replace("cpu.cfs_quota_us", "cpu.cfs_period_us"));
                granted(&format!("{} {}", file.text, period.text()?))
            } else {
                granted(&file.text)
            };
            Some((quota?, file))
        });
        granted.min_by(|(one, _), (other, _)| one.total_cmp(other))
    }
}

/// The files of a name in a group and above it. Where the group's path means nothing, which is so in a container that sees
/// only its own part of the hierarchy, that part's root is the own group.
fn above(host: &Host, mount: &str, group: &str, name: &str, is_v1: bool) -> Vec<GroupFile> {
    let mut parts: Vec<&str> = group.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    if !host.is_directory(format!("{mount}/{}", parts.join("/"))) {
        parts.clear();
    }
    let mut files = Vec::new();
    loop {
        let directory = if parts.is_empty() { mount.to_owned() } else { format!("{mount}/{}", parts.join("/")) };
        let path = format!("{directory}/{name}");
        if let Some(text) = host.read(&path).text() {
            files.push(GroupFile { text: text.to_owned(), path, is_v1 });
        }
        if parts.pop().is_none() {
            return files;
        }
    }
}

/// Of `150000 100000` it is 1.5; of `max 100000`, and of `-1 100000`, none.
fn granted(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (quota >= 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;

    fn quota(files: &[(&str, &str)]) -> Option<(f64, String)> {
        let (_kept, host) = host(files);
        ControlGroups::of(&host, "self").cpu_quota(&host).map(|(quota, file)| (quota, file.path))
    }

    #[test]
    fn the_least_of_all_groups_above_counts() {
        let least = quota(&[
            ("/proc/self/cgroup", "0::/system.slice/ringgate.service\n"),
            ("/sys/fs/cgroup/system.slice/ringgate.service/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(least, Some((1.5, "/sys/fs/cgroup/system.slice/cpu.max".into())));
    }

    #[test]
    fn version_1_is_read_where_it_has_the_controller_though_version_2_is_there_too() {
        let files = [
            ("/proc/self/cgroup", "4:cpu,cpuacct:/a\n1:name=systemd:/\n0::/\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/unified/cpu.max", "10000 100000\n"),
        ];
        assert_eq!(quota(&files), Some((0.5, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us".into())));
    }

    #[test]
    fn a_path_of_the_host_means_the_root_in_a_container() {
        let files =
            [("/proc/self/cgroup", "0::/../../kubepods/pod1/c2\n"), ("/sys/fs/cgroup/cpu.max", "200000 100000\n")];
        assert_eq!(quota(&files), Some((2.0, "/sys/fs/cgroup/cpu.max".into())));
    }

    #[test]
    fn no_bound_is_none() {
        assert_eq!(quota(&[]), None);
        assert_eq!(quota(&[("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/cpu.max", "max 100000")]), None);
        for text in ["", "max", "-1 100000", "1 0", "1 x"] {
            assert_eq!(granted(text), None, "{text}");
        }
    }
}
