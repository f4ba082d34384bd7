//! Locked memory.

use super::{Limit, Version, bound, has_capability, limit, whose};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::needs;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "memlock",
    area: Area::Kernel,
    why: "each shard registers buffers on its rings, and registered memory is locked: below 512 KiB a gateway does not start, \
          and what then does not fit is read and written more slowly",
    run: memlock,
}];

/// Whoever has it is not bound by the limit once it is above the least.
const CAP_IPC_LOCK: u32 = 14;

/// From here on the kernel does not count the rings themselves.
const RINGS_FREE_SINCE: Version = Version(5, 12);

fn memlock(look: Look<'_>) -> Found {
    let shards = look.shards() as u64;
    let rings_count = Version::of(look).is_some_and(|version| version < RINGS_FREE_SINCE);
    let needed = needs::memlock_bytes(shards, rings_count);
    let want = format!("unlimited, or at least {} KiB for {shards} shards", needed >> 10);
    let Limit { soft, hard } = match limit(look, "Max locked memory") {
        Ok(limit) => limit,
        Err(why) => return Found::unread(why, want),
    };
    // A gateway that starts raises the soft limit to the hard one.
    let bytes = if look.plan.pid.is_some() { soft } else { hard };
    let read = format!("locked memory of {}: {} bytes", whose(look), bound(bytes));
    let fixes = || vec![raised(look)];
    if bytes < needs::MEMLOCK_BYTES_MIN {
        return Found::wrong(Verdict::Blocker, read, want, fixes());
    }
    if bytes < needed && !has_capability(look, CAP_IPC_LOCK) {
        return Found::wrong(Verdict::Warning, read, want, fixes());
    }
    Found::fine(read, want)
}

/// What takes the limit away.
fn raised(look: Look<'_>) -> Fix {
    let container = Fix::Advice("docker run --ulimit memlock=-1".into());
    let unit = Fix::Unit("[Service] LimitMEMLOCK=infinity".into());
    if look.host.is_container() { container } else { unit }
}

/// The same, where there is a limit that counts: for whoever locks all of its memory.
pub(in crate::checks) fn unlimited(look: Look<'_>) -> Option<Fix> {
    let limit = limit(look, "Max locked memory").ok()?;
    (limit.hard != u64::MAX && !has_capability(look, CAP_IPC_LOCK)).then(|| raised(look))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    fn severity(kernel: &str, bytes: u64, shards: usize, capabilities: &str) -> Severity {
        let limits = format!("Max locked memory         65536                {bytes}                 bytes\n");
        let (_kept, host) = host(&[
            ("/proc/sys/kernel/osrelease", kernel),
            ("/proc/self/limits", &limits),
            ("/proc/self/status", &format!("CapEff:\t{capabilities}\n")),
        ]);
        let plan = Plan { shards: Some(shards), ..Plan::default() };
        Severity::of(&memlock(Look { host: &host, plan: &plan }).verdict)
    }

    #[test]
    fn the_hard_limit_counts_and_each_shard_takes_its_part() {
        let none = "0000000000000000";
        assert_eq!(severity("6.1.0", 8 << 20, 42, none), Severity::Ok);
        assert_eq!(severity("6.1.0", 8 << 20, 43, none), Severity::Warning);
        assert_eq!(severity("5.10.0", 8 << 20, 16, none), Severity::Warning, "the rings themselves count there");
        assert_eq!(severity("6.1.0", 8 << 20, 43, "0000000000004000"), Severity::Ok, "CAP_IPC_LOCK");
        assert_eq!(severity("6.1.0", 256 << 10, 1, "000001ffffffffff"), Severity::Blocker, "not even root starts");
    }
}
