//! Which CPUs a gateway may use, and how much of their time.

use std::thread;
use std::time::Duration;

use crate::cgroup::{ControlGroups, GroupFile};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::plan::Profile;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cgroup_cpu",
        area: Area::Kernel,
        why: "a control group that has used up its time is stopped for the rest of the period: a shard freezes for 10 to 100 \
              ms, with everything that waits for it",
        run: cgroup_cpu,
    },
    Check {
        id: "cpuset",
        area: Area::Kernel,
        why: "a shard is pinned to a CPU of its own: with fewer CPUs than shards a gateway does not start",
        run: cpuset,
    },
];

/// Between two looks at a live group: some periods of the scheduler's quota, which are 100 ms.
const BETWEEN: Duration = Duration::from_millis(500);

fn process(look: Look<'_>) -> String {
    look.plan.pid.map_or("self".to_owned(), |pid| pid.to_string())
}

fn cgroup_cpu(look: Look<'_>) -> Found {
    let shards = look.shards();
    let want = format!(
        "no quota, or one of as many CPUs as it may run on, or of more than the {shards} shards; never throttled"
    );
    let groups = ControlGroups::of(look.host, &process(look));
    let Some((quota, file)) = groups.cpu_quota(look.host) else {
        return Found::fine("no quota on CPU time", want);
    };
    let mut read = format!("{quota:.2} CPUs of time ({})", file.path);
    let throttled = throttled(look, &file);
    if let Some(throttled) = &throttled {
        read.push_str(&format!("; {}", throttled.text));
    }
    let rising = throttled.is_some_and(|throttled| throttled.is_rising);
    // Threads use no more time than the CPUs have that they run on: such a quota, as that of a pod with CPUs of its own, stops
    // them only where the kernel counts less finely than they run.
    let allowed = look.topology().map_or(0, |topology| topology.allowed.len());
    let is_all = allowed > 0 && quota >= allowed as f64;
    if is_all && !rising {
        return Found::fine(format!("{read}; it may run on {allowed}"), want);
    }
    if is_all {
        return Found::wrong(Verdict::Warning, read, want, vec![Fix::Advice(without_throttling(shards))]);
    }
    let fixes = || {
        vec![if look.host.is_container() {
            Fix::Advice(
                "give whole CPUs instead of a quota: Kubernetes: static CPU manager, and requests equal to limits in whole \
                 CPUs; docker run --cpuset-cpus=LIST without --cpus"
                    .into(),
            )
        } else {
            Fix::Unit("[Service] CPUQuota=".into())
        }]
    };
    if rising || quota < shards as f64 {
        let verdict = if look.plan.profile == Profile::Shared && !rising { Verdict::Advice } else { Verdict::Warning };
        return Found::wrong(verdict, read, want, fixes());
    }
    if quota <= shards as f64 {
        // Threads for files and the kernel's own work count as well.
        return Found::wrong(Verdict::Advice, read, want, fixes());
    }
    Found::fine(read, want)
}

/// What helps where the CPUs are the group's own already.
fn without_throttling(shards: usize) -> String {
    let fewer = match shards {
        0 | 1 => "one CPU more for the group".to_owned(),
        _ => format!("a shard fewer, whose CPU is left to the other threads: ringgate serve --shards {}", shards - 1),
    };
    format!("{fewer}; or no quota, which such CPUs do not need (Kubernetes: cpuCFSQuota: false of the kubelet)")
}

struct Throttled {
    text: String,
    is_rising: bool,
}

/// How often the group was stopped: between two looks where it is alive, else since it began.
fn throttled(look: Look<'_>, quota: &GroupFile) -> Option<Throttled> {
    let directory = quota.path.rsplit_once('/')?.0;
    let look_at = || stat(look.host.read(format!("{directory}/cpu.stat")).text()?);
    let (periods, stopped) = look_at()?;
    if !look.host.is_live() || stopped == 0 {
        let text = format!("throttled in {stopped} of {periods} periods since the group began");
        return Some(Throttled { text, is_rising: stopped.saturating_mul(100) > periods });
    }
    thread::sleep(BETWEEN);
    let (periods_now, stopped_now) = look_at()?;
    let (periods, stopped) = (periods_now.saturating_sub(periods), stopped_now.saturating_sub(stopped));
    let text =
        format!("throttled in {stopped} of {periods} periods within {BETWEEN:?}, {stopped_now} since the group began");
    Some(Throttled { text, is_rising: stopped > 0 })
}

/// Periods, and those in which the group was stopped, of a `cpu.stat`.
fn stat(text: &str) -> Option<(u64, u64)> {
    let number = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .and_then(|number| number.trim().parse().ok())
    };
    Some((number("nr_periods")?, number("nr_throttled")?))
}

fn cpuset(look: Look<'_>) -> Found {
    let want = match look.plan.shards {
        Some(shards) => format!("at least {shards} CPUs, one for each shard"),
        None => "CPUs of its own for each shard".into(),
    };
    let topology = match look.topology() {
        Ok(topology) => topology,
        Err(why) => return Found::unread(why, want),
    };
    let (allowed, online) = (&topology.allowed, &topology.online);
    let mut read = format!("may run on CPUs {allowed}");
    if allowed != online {
        read.push_str(&format!(" of {online}"));
    }
    let groups = ControlGroups::of(look.host, &process(look));
    let files = groups.files(look.host, "cpuset", "cpuset.cpus.effective", "cpuset.effective_cpus");
    let granted = files.first().filter(|file| crate::CpuSet::list(&file.text).is_some_and(|cpus| cpus != *online));
    if let Some(file) = granted {
        read.push_str(&format!(" ({} = {})", file.path, file.text));
    }
    let shards = look.shards();
    if shards > allowed.len() {
        let fix = if granted.is_some() {
            format!("ringgate serve --shards {}, or more CPUs in the group's cpuset", allowed.len().max(1))
        } else {
            format!("ringgate serve --shards {}, or --cpus none", allowed.len().max(1))
        };
        return Found::wrong(Verdict::Blocker, read, want, vec![Fix::Advice(fix)]);
    }
    Found::fine(read, want)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_tells_its_periods_in_both_versions() {
        let v2 = "usage_usec 1\nuser_usec 1\nnr_periods 120\nnr_throttled 7\nthrottled_usec 9\n";
        assert_eq!(stat(v2), Some((120, 7)));
        assert_eq!(stat("nr_periods 5\nnr_throttled 0\nthrottled_time 0\n"), Some((5, 0)));
        assert_eq!(stat("usage_usec 1\n"), None);
        assert_eq!(stat("nr_periods x\nnr_throttled 1"), None);
    }
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    /// A container that may run on `allowed`, is granted `quota` hundredths of a CPU, and was stopped in so many of 6,000 periods.
    fn of(allowed: &str, quota: u64, stopped: u64, shards: Option<usize>) -> (Severity, String) {
        let (_kept, host) = host(&[
            ("/.dockerenv", ""),
            ("/proc/self/status", &format!("Cpus_allowed_list:\t{allowed}\n")),
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/devices/system/cpu/online", "0-63\n"),
            ("/sys/fs/cgroup/cpu.max", &format!("{} 100000\n", quota * 1000)),
            ("/sys/fs/cgroup/cpu.stat", &format!("nr_periods 6000\nnr_throttled {stopped}\n")),
        ]);
        let found = cgroup_cpu(Look { host: &host, plan: &Plan { shards, ..Plan::default() } });
        (Severity::of(&found.verdict), crate::fix::texts(&found.fixes).concat())
    }

    #[test]
    fn a_pod_with_cpus_of_its_own_is_fine_with_the_quota_that_comes_with_them() {
        assert_eq!(of("2-5", 400, 0, None), (Severity::Ok, String::new()));
        assert_eq!(of("2-5", 400, 3, None).0, Severity::Ok, "less than one period of a hundred");
        let (severity, fix) = of("2-5", 400, 600, None);
        assert_eq!(severity, Severity::Warning);
        assert!(fix.contains("--shards 3;") && !fix.contains("static CPU manager"), "{fix}");
        let (_, fix) = of("2", 100, 600, None);
        assert!(!fix.contains("--shards"), "{fix}");
    }

    #[test]
    fn a_quota_on_cpus_that_others_have_too_is_told() {
        let whole = "static CPU manager";
        let (severity, fix) = of("0-63", 400, 0, Some(4));
        assert!(severity == Severity::Advice && fix.contains(whole), "{severity:?} {fix}");
        let (severity, fix) = of("2-5", 350, 0, None);
        assert!(severity == Severity::Warning && fix.contains(whole), "{severity:?} {fix}");
        assert_eq!(of("0-63", 500, 0, Some(4)).0, Severity::Ok);
    }
}
