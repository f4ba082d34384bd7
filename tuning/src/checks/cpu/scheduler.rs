//! What the scheduler and the kernel's own timers do to a shard.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{number, only_for_latency, only_of_its_own, settled, sysctl, sysctl_path};
use crate::fix::{Fix, Knob};
use crate::host::Reading;
use crate::plan::Profile;
use crate::running::shard_threads;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "timer_migration",
        area: Area::Cpu,
        why: "timers of idle CPUs move to busy ones, where they interrupt shards",
        run: |look| settled(timer_migration(look)),
    },
    Check {
        id: "nmi_watchdog",
        area: Area::Cpu,
        why: "the lockup detector interrupts every CPU and takes one of its performance counters",
        run: |look| settled(nmi_watchdog(look)),
    },
    Check {
        id: "stat_interval",
        area: Area::Cpu,
        why: "once in this many seconds every CPU stops to add up the kernel's statistics of memory",
        run: |look| settled(stat_interval(look)),
    },
    Check {
        id: "sched_rt",
        area: Area::Cpu,
        why: "a realtime thread that never sleeps takes all of a shard's CPU when nothing bounds it",
        run: |look| settled(sched_rt(look)),
    },
    Check {
        id: "autogroup",
        area: Area::Cpu,
        why: "groups made for terminals share the CPU by session, so that a shell's build weighs as much as all shards",
        run: |look| settled(autogroup(look)),
    },
    Check {
        id: "rt_prio",
        area: Area::Cpu,
        why: "a realtime shard that spins starves the kernel's threads that bring it its packets; as a nicer one it waits for others",
        run: |look| settled(rt_prio(look)),
    },
];

/// A setting of the whole machine that matters for the last percentiles only, and what it is to be.
fn one_setting(
    look: Look<'_>,
    name: &str,
    want: u64,
    is_fine: fn(u64) -> bool,
    want_text: &str,
) -> Result<Found, Found> {
    only_for_latency(look, "it costs a few microseconds now and then, which only the last percentiles show")?;
    let value = sysctl(look, name, want_text)?;
    let read = format!("{name} = {value}");
    if is_fine(value) {
        return Ok(Found::fine(read, want_text));
    }
    Ok(Found::wrong(Verdict::Advice, read, want_text, vec![Fix::Knob(Knob::sysctl(name, want))]))
}

fn timer_migration(look: Look<'_>) -> Result<Found, Found> {
    one_setting(look, "kernel.timer_migration", 0, |value| value == 0, "kernel.timer_migration = 0")
}

fn nmi_watchdog(look: Look<'_>) -> Result<Found, Found> {
    one_setting(look, "kernel.nmi_watchdog", 0, |value| value == 0, "kernel.nmi_watchdog = 0")
}

fn stat_interval(look: Look<'_>) -> Result<Found, Found> {
    one_setting(look, "vm.stat_interval", 10, |value| value >= 10, "vm.stat_interval >= 10")
}

fn sched_rt(look: Look<'_>) -> Result<Found, Found> {
    let name = "kernel.sched_rt_runtime_us";
    let want = "kernel.sched_rt_runtime_us below kernel.sched_rt_period_us, and not -1";
    let reading = look.host.read(sysctl_path(name));
    let text = match reading {
        Reading::Text(text) => text,
        reading => return Err(Found::without(&reading, "this kernel, or this container, has no such bound", want)),
    };
    let Ok(value) = text.parse::<i64>() else {
        return Err(Found::unread(format!("{name} is no number"), want));
    };
    let absent = "this kernel has no such period";
    let period = number(look, &sysctl_path("kernel.sched_rt_period_us"), absent, want).unwrap_or(1_000_000);
    let read = format!("{name} = {value}");
    if value >= 0 && value.unsigned_abs() < period {
        return Ok(Found::fine(read, want));
    }
    // Whoever has realtime threads may want it so.
    let fix = Fix::Advice(Knob::sysctl(name, 950_000).command());
    Ok(Found::wrong(Verdict::Advice, read, want, vec![fix]))
}

fn autogroup(look: Look<'_>) -> Result<Found, Found> {
    let (name, want) = ("kernel.sched_autogroup_enabled", "kernel.sched_autogroup_enabled = 0");
    only_of_its_own(look)?;
    let value = sysctl(look, name, want)?;
    let read = format!("{name} = {value}");
    if value == 0 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Knob(Knob::sysctl(name, 0))]))
}

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scheduled {
    nice: i64,
    policy: u64,
}

/// Of a `/proc/<pid>/stat`, whose second field is a name in parentheses that may hold anything.
fn scheduled(stat: &str) -> Option<Scheduled> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first of these is the third of the line: nice is the 19th, the policy the 41st.
    Some(Scheduled { nice: fields.get(16)?.parse().ok()?, policy: fields.get(38)?.parse().ok()? })
}

const POLICIES: [&str; 7] =
    ["SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "a policy of its own", "SCHED_IDLE", "SCHED_DEADLINE"];

fn rt_prio(look: Look<'_>) -> Result<Found, Found> {
    let want = match look.plan.profile {
        Profile::Latency => "SCHED_OTHER, of a running gateway nice -5 to -10",
        Profile::Throughput | Profile::Shared => "SCHED_OTHER",
    };
    let (threads, whose): (Vec<Option<Scheduled>>, String) = match look.plan.pid {
        Some(pid) => {
            let stat = |directory: &str| look.host.read(format!("{directory}/stat")).text().and_then(scheduled);
            let threads = shard_threads(look.host, pid);
            (threads.values().map(|thread| stat(&thread.directory)).collect(), format!("shards of process {pid}"))
        }
        None => (vec![look.process_file("stat").text().and_then(scheduled)], "what this shell starts".into()),
    };
    let threads: Vec<Scheduled> = threads.into_iter().flatten().collect();
    let Some(worst) = threads.iter().max_by_key(|thread| (thread.policy != 0, thread.nice)) else {
        return Err(Found::unread(format!("{whose}: nothing tells how they are scheduled"), want));
    };
    let policy =
        usize::try_from(worst.policy).ok().and_then(|policy| POLICIES.get(policy)).unwrap_or(&"an unknown policy");
    let read = format!("{whose}: {policy}, nice {}", worst.nice);
    if worst.policy != 0 {
        let fix = Fix::Unit("[Service] CPUSchedulingPolicy=other".into());
        return Ok(Found::wrong(Verdict::Warning, read, want, vec![fix]));
    }
    let is_nice = worst.nice > 0;
    let could_be_less = look.plan.profile == Profile::Latency && look.plan.pid.is_some() && worst.nice > -5;
    if is_nice || could_be_less {
        let nice = if look.plan.profile == Profile::Latency { -5 } else { 0 };
        let fix = Fix::Unit(format!("[Service] Nice={nice}"));
        return Ok(Found::wrong(if is_nice { Verdict::Warning } else { Verdict::Advice }, read, want, vec![fix]));
    }
    Ok(Found::fine(read, want))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_name_does_not_shift_what_stands_behind_it() {
        let numbers = "S 1 2 3 0 -1 4194304 1 1 0 0 5 6 0 0 -51 -5 12 0 100 1000 200 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 50 1 0 0 0";
        for name in ["shard-0", "a) S 1 2 (b", ""] {
            let want = Some(Scheduled { nice: -5, policy: 1 });
            assert_eq!(scheduled(&format!("4711 ({name}) {numbers}")), want, "{name}");
        }
        for stat in ["", "1", "1 (a", "1 (a) S 1", "1 (a) S x x x x x x x x x x x x x x x x x x x x"] {
            assert_eq!(scheduled(stat), None, "{stat}");
        }
    }
}
