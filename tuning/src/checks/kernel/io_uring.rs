//! Whether io_uring may be used here, and whether it works.

use super::{Version, has_capability};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{number, settled, shown};
use crate::fix::{Fix, Knob};
use crate::host::{Reading, field};

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "uring_enabled",
        area: Area::Kernel,
        why: "without io_uring no shard starts, and hardened distributions forbid it to all or to all but a group",
        run: |look| settled(enabled(look)),
    },
    Check {
        id: "uring_probe",
        area: Area::Kernel,
        why: "seccomp profiles of containers refuse io_uring's system calls whatever the kernel allows",
        run: |look| settled(probe(look)),
    },
];

const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

const WANT: &str = "kernel.io_uring_disabled = 0, or 1 and this user in kernel.io_uring_group";

/// Whoever has it may use io_uring where only a group may.
const CAP_SYS_ADMIN: u32 = 21;

/// The kernel that brought the switch; distributions have it in older ones as well.
const SWITCH_SINCE: Version = Version(6, 6);

fn enabled(look: Look<'_>) -> Result<Found, Found> {
    let absent = match Version::of(look) {
        Some(version) if version >= SWITCH_SINCE => "this kernel is built without io_uring, or hides its settings",
        _ => "this kernel has no switch for io_uring: it came with Linux 6.6",
    };
    let disabled = number(look, SWITCH, absent, WANT)?;
    let read = format!("kernel.io_uring_disabled = {disabled}");
    let open = Fix::Knob(Knob::sysctl("kernel.io_uring_disabled", 0));
    match disabled {
        0 => Ok(Found::fine(read, WANT)),
        1 if has_capability(look, CAP_SYS_ADMIN) => Ok(Found::fine(format!("{read}, and this is root"), WANT)),
        1 => {
            let group = look.host.read("/proc/sys/kernel/io_uring_group");
            let group: Option<u64> = group.text().and_then(|text| text.parse().ok());
            let groups = groups(look);
            if group.is_some_and(|group| groups.contains(&group)) {
                return Ok(Found::fine(format!("{read}, and this user is in the group that may"), WANT));
            }
            let group = group.map_or_else(|| "none".into(), |group| group.to_string());
            // To open it to the user's own group leaves it closed to all others.
            let fix = match groups.first() {
                Some(&own) if own > 0 => Fix::Knob(Knob::sysctl("kernel.io_uring_group", own)),
                _ => open,
            };
            let read = format!("{read}, kernel.io_uring_group = {group}, and this user is not in it");
            Ok(Found::wrong(Verdict::Blocker, read, WANT, vec![fix]))
        }
        _ => Ok(Found::wrong(Verdict::Blocker, format!("{read}: forbidden to all"), WANT, vec![open])),
    }
}

/// The group that files are accessed by, and all others that the process is in.
fn groups(look: Look<'_>) -> Vec<u64> {
    let status = look.process_file("status");
    let Some(text) = status.text() else { return Vec::new() };
    // Of the real, effective, saved and file system's group, io_uring asks for the effective one.
    let effective = field(text, "Gid").and_then(|gids| gids.split_whitespace().nth(1));
    let others = field(text, "Groups").into_iter().flat_map(str::split_whitespace);
    effective.into_iter().chain(others).filter_map(|gid| gid.parse().ok()).collect()
}

fn probe(look: Look<'_>) -> Result<Found, Found> {
    let want = "a ring can be made";
    if let (Some(pid), true) = (look.plan.pid, look.host.is_live()) {
        // What this process may says nothing about another one, which has its rings or would not run.
        return Err(Found::not_applicable(format!("process {pid} runs, and has its rings")));
    }
    let said = match look.host.io_uring() {
        Reading::Text(said) => said,
        Reading::Absent => return Err(Found::unread("io_uring was not tried", want)),
        Reading::Unread(why) => return Err(Found::unread(why, want)),
    };
    if said == "ok" {
        return Ok(Found::fine("a ring was made", want));
    }
    let why = if said.is_empty() { "no ring could be made".into() } else { said };
    let fix = if look.host.is_container() {
        "docker run --security-opt seccomp=PROFILE.json, with io_uring_setup, io_uring_enter and io_uring_register allowed \
         in it; Kubernetes: securityContext.seccompProfile of type Localhost"
    } else {
        "see `uring_enabled`; where it is fine, a seccomp filter of the service refuses the calls: systemd's \
         SystemCallFilter must name io_uring_setup, io_uring_enter and io_uring_register"
    };
    let read = if why.len() > 300 { shown(&why) } else { why };
    Ok(Found::wrong(Verdict::Blocker, read, want, vec![Fix::Advice(fix.into())]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    /// With `kernel.io_uring_disabled = 1`, of a process with such a status.
    fn restricted(group: &str, status: &str) -> (Severity, Vec<Fix>) {
        let (_kept, host) =
            host(&[(SWITCH, "1\n"), ("/proc/sys/kernel/io_uring_group", group), ("/proc/self/status", status)]);
        let found = settled(enabled(Look { host: &host, plan: &Plan::default() }));
        (Severity::of(&found.verdict), found.fixes)
    }

    #[test]
    fn where_only_a_group_may_its_members_and_root_may() {
        let user = "Gid:\t1000\t1000\t1000\t1000\nGroups:\t27 990 \nCapEff:\t0000000000000000\n";
        assert_eq!(restricted("990\n", user).0, Severity::Ok);
        assert_eq!(restricted("1000\n", user).0, Severity::Ok);
        assert_eq!(
            restricted("-1\n", &user.replace("CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff")).0,
            Severity::Ok
        );
        let opened_to_its_group = Fix::Knob(Knob::sysctl("kernel.io_uring_group", 1000));
        assert_eq!(restricted("-1\n", user), (Severity::Blocker, vec![opened_to_its_group.clone()]));
        assert_eq!(restricted("0\n", user), (Severity::Blocker, vec![opened_to_its_group]));
        let opened_to_all = Fix::Knob(Knob::sysctl("kernel.io_uring_disabled", 0));
        assert_eq!(restricted("27\n", "Gid:\t0\t0\t0\t0\nGroups:\t\n"), (Severity::Blocker, vec![opened_to_all]));
    }
}
