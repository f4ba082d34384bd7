//! What becomes of the gateway when the host has no memory left.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::network::gateway;
use crate::fix::Fix;
use crate::host::Reading;
use crate::plan::Profile;

use super::service::Service;

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "oom_score",
        area: Area::Process,
        why: "when memory is out the kernel ends the process with the highest score: better any other than the one that \
              all clients are connected to",
        run: oom_score,
    },
    Check {
        id: "hugetlb",
        area: Area::Process,
        why: "memory that is reserved for huge pages is nobody else's, and the gateway asks for none of them",
        run: hugetlb,
    },
];

/// Below everything that did not ask for it.
const SCORE: i64 = -500;

fn oom_score(look: Look<'_>) -> Found {
    let shared = look.plan.profile == Profile::Shared;
    let most = if shared { 0 } else { SCORE };
    let want = format!("oom_score_adj <= {most}");
    let (reading, whose) = match Service::planned(look) {
        Some(service) => {
            let score = service.get("OOMScoreAdjust").unwrap_or("0").to_owned();
            (Reading::Text(score), format!("OOMScoreAdjust of {}", service.name))
        }
        None => {
            let (reading, whose) = gateway::file(look, "oom_score_adj");
            (reading, whose.to_owned())
        }
    };
    let Some(score) = reading.text().and_then(|text| text.parse::<i64>().ok()) else {
        return Found::without(&reading, "this kernel keeps no such score", want);
    };
    let read = format!("oom_score_adj = {score} ({whose})");
    if score <= most {
        return Found::fine(read, want);
    }
    let verdict = if score > 0 { Verdict::Warning } else { Verdict::Advice };
    let fix =
        if shared { "[Service] OOMScoreAdjust=0".to_owned() } else { format!("[Service] OOMScoreAdjust={SCORE}") };
    let groups = look.process_file("cgroup");
    let fix = match groups.text().is_some_and(|text| text.contains("kubepods")) {
        true => Fix::Advice("requests that equal the limits (a Guaranteed pod), which get -997".into()),
        false => Fix::Unit(fix),
    };
    Found::wrong(verdict, read, want, vec![fix])
}

/// Of the host's memory, in percent: more is missed.
const RESERVED_PERCENT_MAX: u64 = 10;

fn hugetlb(look: Look<'_>) -> Found {
    let want = format!("at most {RESERVED_PERCENT_MAX} % of memory, if others on this host use it");
    let reading = look.host.read("/proc/meminfo");
    let kib = |name: &str| {
        let value = crate::host::field(reading.text()?, name)?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    };
    // All sizes together since 4.19.
    let reserved = kib("Hugetlb").or_else(|| Some(kib("HugePages_Total")?.saturating_mul(kib("Hugepagesize")?)));
    let (Some(total), Some(reserved)) = (kib("MemTotal"), reserved) else {
        return Found::without(&reading, "this kernel has no huge pages", want);
    };
    let read = match reserved {
        0 => "none reserved".to_owned(),
        _ => format!("{} MiB reserved of {} MiB", reserved >> 10, total >> 10),
    };
    if reserved.saturating_mul(100) <= total.saturating_mul(RESERVED_PERCENT_MAX) {
        return Found::fine(read, want);
    }
    let fix =
        "sysctl -w vm.nr_hugepages=0 (and hugepages= of the kernel's command line), unless another program uses them";
    Found::wrong(Verdict::Advice, read, want, vec![Fix::Advice(fix.into())])
}
