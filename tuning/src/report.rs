//! What all checks found, counted.

use crate::check::{Check, Found, Look, Verdict};
use crate::checks;
use crate::host::Host;
use crate::plan::Plan;

/// A check, and what it found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The check.
    pub check: &'static Check,
    /// What it found.
    pub found: Found,
}

/// Runs those checks that `wanted` says yes to, in the order in which they are listed.
pub fn findings(host: &Host, plan: &Plan, wanted: impl Fn(&Check) -> bool) -> Vec<Finding> {
    let look = Look { host, plan };
    checks::all().filter(|check| wanted(check)).map(|check| Finding { check, found: (check.run)(look) }).collect()
}

/// The gateway that the checks should look at: the one that the plan names, or that listens on its port; `None` where none
/// runs, or this user may not know which.
pub fn gateway(host: &Host, plan: &Plan) -> Option<u32> {
    checks::gateway(Look { host, plan })
}

/// How bad a finding is, from best to worst; what means nothing here and what nobody knows come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Means nothing on this host.
    NotApplicable,
    /// Nobody knows.
    Unread,
    /// As wanted.
    Ok,
    /// Could be better.
    Advice,
    /// Costs latency, throughput or connections that a user would miss.
    Warning,
    /// A gateway does not start, or fails under its load.
    Blocker,
}

impl Severity {
    /// All, from best to worst.
    pub const ALL: [Severity; 6] = [
        Severity::NotApplicable,
        Severity::Unread,
        Severity::Ok,
        Severity::Advice,
        Severity::Warning,
        Severity::Blocker,
    ];

    /// Of a verdict.
    pub fn of(verdict: &Verdict) -> Severity {
        match verdict {
            Verdict::Fine => Severity::Ok,
            Verdict::Advice => Severity::Advice,
            Verdict::Warning => Severity::Warning,
            Verdict::Blocker => Severity::Blocker,
            Verdict::NotApplicable(_) => Severity::NotApplicable,
            Verdict::Unread(_) => Severity::Unread,
        }
    }

    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::NotApplicable => "not_applicable",
            Severity::Unread => "unread",
            Severity::Ok => "ok",
            Severity::Advice => "advice",
            Severity::Warning => "warning",
            Severity::Blocker => "blocker",
        }
    }

    /// As people have it.
    pub fn words(self) -> &'static str {
        match self {
            Severity::NotApplicable => "not applicable",
            Severity::Unread => "not read",
            _ => self.name(),
        }
    }
}

impl Finding {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        Severity::of(&self.found.verdict)
    }

    /// Why it means nothing here, or why nobody knows.
    pub fn reason(&self) -> Option<&str> {
        match &self.found.verdict {
            Verdict::NotApplicable(why) | Verdict::Unread(why) => Some(why),
            _ => None,
        }
    }

    /// Whether there is something to be mended.
    pub fn is_wrong(&self) -> bool {
        self.severity() >= Severity::Advice
    }
}

/// The worst of them; fine when there are none.
pub fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(Finding::severity).max().unwrap_or(Severity::Ok).max(Severity::Ok)
}

/// How many there are of a severity.
pub fn count(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity() == severity).count()
}
