//! What the gateway's systemd unit gives it.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::cpu_set::CpuSet;
use crate::fix::Fix;
use crate::needs;

use super::service::Service;

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "unit_affinity",
        area: Area::Process,
        why: "the gateway pins its shards itself; CPUAffinity takes CPUs from what it may pin them to",
        run: |look| with(look, affinity),
    },
    Check {
        id: "unit_scheduling",
        area: Area::Process,
        why: "a real-time shard keeps the kernel's own threads from its CPU, those that bring its packets among them",
        run: |look| with(look, scheduling),
    },
    Check {
        id: "unit_limits",
        area: Area::Process,
        why: "io_uring needs locked memory, and each connection and partition an open file; services get few",
        run: |look| with(look, limits),
    },
    Check {
        id: "unit_cpus",
        area: Area::Process,
        why: "shards that are more than the CPUs which the service may use wait for each other",
        run: |look| with(look, cpus),
    },
];

fn with(look: Look<'_>, check: fn(Look<'_>, &Service) -> Found) -> Found {
    match Service::of(look) {
        Ok(service) => check(look, &service),
        Err(why) => Found::not_applicable(why),
    }
}

fn affinity(look: Look<'_>, service: &Service) -> Found {
    let isolated = look.host.read("/sys/devices/system/cpu/isolated");
    let isolated = isolated.text().and_then(CpuSet::list).unwrap_or_default();
    let want = match isolated.is_empty() {
        true => "CPUAffinity unset".to_owned(),
        // Nothing that systemd starts runs there unless it is told to.
        false => format!("CPUAffinity unset, or with the isolated CPUs {isolated}"),
    };
    let Some(value) = service.get("CPUAffinity") else {
        return Found::fine(format!("{}: CPUAffinity unset", service.name), want);
    };
    let read = format!("{}: CPUAffinity={value}", service.name);
    let cpus = CpuSet::list(&value.split_whitespace().collect::<Vec<_>>().join(",")).unwrap_or_default();
    if !isolated.is_empty() && isolated.iter().all(|cpu| cpus.contains(cpu)) {
        return Found::fine(read, want);
    }
    Found::wrong(Verdict::Advice, read, want, vec![Fix::Unit("[Service] CPUAffinity=".into())])
}

fn scheduling(_look: Look<'_>, service: &Service) -> Found {
    let want = "CPUSchedulingPolicy=other";
    let policy = service.get("CPUSchedulingPolicy").unwrap_or("other");
    // `systemctl show` has the kernel's number.
    let name = match policy {
        "0" => "other",
        "1" => "fifo",
        "2" => "rr",
        "3" => "batch",
        "5" => "idle",
        name => name,
    };
    let read = format!("{}: CPUSchedulingPolicy={name}", service.name);
    if name == "other" {
        return Found::fine(read, want);
    }
    Found::wrong(Verdict::Warning, read, want, vec![Fix::Unit("[Service] CPUSchedulingPolicy=other".into())])
}

fn limits(look: Look<'_>, service: &Service) -> Found {
    let shards = look.shards() as u64;
    // What the rings of old kernels take as well is `memlock`'s to say.
    let memlock = needs::memlock_bytes(shards, false);
    let files = needs::open_files(shards, look.plan.connections);
    let want = format!("LimitMEMLOCK=infinity (at least {memlock}), LimitNOFILE >= {files} and one for each partition");
    let value = |name: &str| service.get(name).map(|text| (text, hard_limit(text)));
    let mut read = Vec::new();
    let mut fixes = Vec::new();
    for (name, least, fix) in [("LimitMEMLOCK", memlock, "infinity"), ("LimitNOFILE", files, "1048576")] {
        match value(name) {
            Some((text, limit)) => {
                read.push(format!("{name}={text}"));
                if limit.is_none_or(|limit| limit < least) {
                    fixes.push(Fix::Unit(format!("[Service] {name}={fix}")));
                }
            }
            None => {
                read.push(format!("{name} unset"));
                fixes.push(Fix::Unit(format!("[Service] {name}={fix}")));
            }
        }
    }
    let read = format!("{}: {}", service.name, read.join(", "));
    let verdict = if fixes.is_empty() { Verdict::Fine } else { Verdict::Warning };
    Found::wrong(verdict, read, want, fixes)
}

/// Of `infinity`, `1048576`, `8M`, `1024:524288` (soft and hard) the hard one.
fn hard_limit(text: &str) -> Option<u64> {
    let hard = text.rsplit(':').next()?.trim();
    if hard == "infinity" {
        return Some(u64::MAX);
    }
    let digits = hard.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &hard[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn cpus(look: Look<'_>, service: &Service) -> Found {
    // Without a number `serve` takes as many as it may use.
    let want = match look.plan.shards {
        Some(shards) => format!("AllowedCPUs unset, or at least {shards} for as many shards"),
        None => "AllowedCPUs unset, or those that the shards are to have".to_owned(),
    };
    let Some(value) = service.get("AllowedCPUs") else {
        return Found::fine(format!("{}: AllowedCPUs unset", service.name), want);
    };
    let read = format!("{}: AllowedCPUs={value}", service.name);
    let Some(cpus) = CpuSet::list(&value.split_whitespace().collect::<Vec<_>>().join(",")) else {
        return Found::unread(format!("{read} is no list of CPUs"), want);
    };
    if look.plan.shards.is_none_or(|shards| cpus.len() >= shards) {
        return Found::fine(read, want);
    }
    Found::wrong(Verdict::Warning, read, want, vec![Fix::Unit("[Service] AllowedCPUs=".into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_in_each_way_that_systemd_takes_it() {
        assert_eq!(hard_limit("infinity"), Some(u64::MAX));
        assert_eq!(hard_limit("1024:524288"), Some(524_288));
        assert_eq!(hard_limit("8M"), Some(8 << 20));
        for text in ["", "x", "8Q", "M", "99999999999999T"] {
            assert_eq!(hard_limit(text), None, "{text}");
        }
    }
}
