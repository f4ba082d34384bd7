//! What stands between a system call and the kernel, and the allocator, which saves many of them.

use super::Version;
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::host::{Reading, field};
use crate::plan::Profile;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "seccomp_audit",
        area: Area::Kernel,
        why: "rules of auditd make every system call take the kernel's slow way, and so does an old seccomp filter",
        run: seccomp_audit,
    },
    Check {
        id: "allocator",
        area: Area::Kernel,
        why: "an allocator that sorts its free memory now and then stops a shard for milliseconds",
        run: |_| {
            Found::fine(
                "mimalloc, compiled into the gateway: the host's allocator is not used",
                "one with heaps for each thread",
            )
        },
    },
];

/// From here on what a filter always allows is looked up instead of run.
const FAST_FILTERS_SINCE: Version = Version(5, 11);

fn seccomp_audit(look: Look<'_>) -> Found {
    let want = "no audit rules for system calls, and no seccomp filter on a kernel before 5.11";
    let status = look.process_file("status");
    let seccomp = match &status {
        Reading::Text(text) => field(text, "Seccomp").unwrap_or("0").to_owned(),
        Reading::Absent => return Found::unread(format!("there is no {}", look.process_path("status")), want),
        Reading::Unread(why) => return Found::unread(why.clone(), want),
    };
    let is_slow = Version::of(look).is_some_and(|version| version < FAST_FILTERS_SINCE);
    let filter = if seccomp == "2" { "a seccomp filter" } else { "no seccomp filter" };
    let rules = audit_rules(look);
    let read = format!("{filter}; {}", rules.as_ref().map_or_else(|why| why.clone(), |rules| rules.text()));
    let worse = if look.plan.profile == Profile::Latency { Verdict::Warning } else { Verdict::Advice };
    if let Ok(AuditRules::OfCalls(rules)) = rules {
        let fix = format!(
            "auditctl -A never,exit -F exe=/usr/local/bin/ringgate (first of all, before the {rules} others), and the same in \
             /etc/audit/rules.d/"
        );
        return Found::wrong(worse, read, want, vec![Fix::Advice(fix)]);
    }
    if seccomp == "2" && is_slow {
        return Found::wrong(Verdict::Advice, read, want, vec![Fix::Advice("a kernel of 5.11 or newer".into())]);
    }
    Found::fine(read, want)
}

enum AuditRules {
    /// The kernel was started without it.
    Off,
    /// No rule is about system calls.
    None,
    /// So many are.
    OfCalls(usize),
}

impl AuditRules {
    fn text(&self) -> String {
        match self {
            AuditRules::Off => "auditing is off (audit=0)".into(),
            AuditRules::None => "no audit rules for system calls".into(),
            AuditRules::OfCalls(1) => "1 audit rule for system calls".into(),
            AuditRules::OfCalls(rules) => format!("{rules} audit rules for system calls"),
        }
    }
}

/// What auditd asks of the kernel, or why nobody knows.
fn audit_rules(look: Look<'_>) -> Result<AuditRules, String> {
    if look.host.boot_parameter("audit").is_some_and(|value| value == "0" || value == "off") {
        return Ok(AuditRules::Off);
    }
    match look.host.command(&["auditctl", "-l"]) {
        Reading::Text(rules) => Ok(parse_rules(&rules)),
        Reading::Absent => Err("auditctl is not installed, so nobody asks the kernel to audit".into()),
        Reading::Unread(_) => Err("audit rules may only be read by root".into()),
    }
}

fn parse_rules(text: &str) -> AuditRules {
    let mut rules = 0;
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let list = words.iter().position(|word| *word == "-a" || *word == "-A").and_then(|at| words.get(at + 1));
        match list.copied() {
            // No process is audited at all.
            Some("never,task" | "task,never") => return AuditRules::None,
            Some("always,exit" | "exit,always") => rules += 1,
            _ => {}
        }
    }
    if rules == 0 { AuditRules::None } else { AuditRules::OfCalls(rules) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_for_system_calls_count() {
        let count = |text: &str| match parse_rules(text) {
            AuditRules::OfCalls(rules) => rules,
            _ => 0,
        };
        assert_eq!(count("No rules"), 0);
        assert_eq!(count("-w /etc/passwd -p wa -k identity"), 0);
        assert_eq!(count("-a always,exit -F arch=b64 -S execve -k exec\n-a exit,always -S all"), 2);
        assert_eq!(count("-a always,exit -S all\n-a never,task"), 0);
    }
}
