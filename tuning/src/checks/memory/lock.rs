//! Memory that cannot be taken away.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::kernel;
use crate::checks::settings::settled;
use crate::fix::Fix;
use crate::host::field;
use crate::plan::Profile;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "mlock",
    area: Area::Memory,
    why: "memory that is locked cannot be taken away, whatever others do, and is not read back in the middle of a request",
    run: |look| settled(mlock(look)),
}];

fn mlock(look: Look<'_>) -> Result<Found, Found> {
    let want = "what the gateway has used is locked (`serve --lock-memory`)";
    if look.plan.profile == Profile::Shared {
        return Err(Found::not_applicable("the machine has other users, whose memory it would be, too"));
    }
    let Some(pid) = look.plan.pid else {
        return Err(Found::not_applicable(
            "no gateway runs here to be looked at; `ringgate serve --lock-memory` locks what it has used",
        ));
    };
    let status = look.process_file("status");
    let locked = status.text().and_then(|text| field(text, "VmLck")?.split_whitespace().next()?.parse::<u64>().ok());
    let Some(kib) = locked else {
        return Err(Found::unread(format!("{} does not say VmLck", look.process_path("status")), want));
    };
    let read = format!("process {pid}: {kib} KiB of address space locked");
    if kib > 0 {
        return Ok(Found::fine(read, want));
    }
    let mut fixes = vec![Fix::Advice("ringgate serve --lock-memory (lock_memory = true)".into())];
    fixes.extend(kernel::unlimited_memlock(look));
    Ok(Found::wrong(Verdict::Advice, read, want, fixes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    fn found(locked: &str, limit: &str, plan: Plan) -> (Severity, Vec<String>) {
        let limits = format!("Max locked memory         {limit}              {limit}               bytes\n");
        let status = format!("VmLck:\t{locked} kB\nCapEff:\t0000000000000000\n");
        let (_kept, host) = host(&[("/proc/7/status", &status), ("/proc/7/limits", &limits)]);
        let found = settled(mlock(Look { host: &host, plan: &plan }));
        (Severity::of(&found.verdict), found.fixes.iter().map(Fix::text).collect())
    }

    #[test]
    fn a_gateway_that_locks_nothing_is_told_how_to_and_what_it_takes() {
        let running = || Plan { pid: Some(7), ..Plan::default() };
        assert_eq!(found("90000", "unlimited", running()), (Severity::Ok, vec![]));
        let serve = "ringgate serve --lock-memory (lock_memory = true)".to_owned();
        assert_eq!(found("0", "unlimited", running()), (Severity::Advice, vec![serve.clone()]));
        let unit = "[Service] LimitMEMLOCK=infinity".to_owned();
        assert_eq!(found("0", "8388608", running()), (Severity::Advice, vec![serve, unit]));
        assert_eq!(found("x", "8388608", running()).0, Severity::Unread);
        assert_eq!(found("0", "8388608", Plan::default()).0, Severity::NotApplicable, "nothing runs");
        let shared = Plan { profile: Profile::Shared, ..running() };
        assert_eq!(found("0", "8388608", shared).0, Severity::NotApplicable);
    }
}
