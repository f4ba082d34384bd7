//! What the doctor found, for programs.

use ringgate_tuning::{Check, Finding, Fix, Host, Plan, checks, report};
use serde_json::{Value, json};

/// The form of what is printed: counted up when a reader of an older one would misread it.
const VERSION: u32 = 1;

/// Everything that was found.
pub(super) fn report(host: &Host, plan: &Plan, findings: &[Finding]) -> String {
    let value = json!({
        "version": VERSION,
        "profile": plan.profile.name(),
        "root": host.root().to_string_lossy(),
        "pid": plan.pid,
        "worst": report::worst(findings).name(),
        "checks": findings.iter().map(finding).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

/// Which checks there are.
pub(super) fn list() -> String {
    let check = |check: &Check| json!({"id": check.id, "area": check.area.name(), "why": check.why});
    let value = json!({"version": VERSION, "checks": checks::all().map(check).collect::<Vec<_>>()});
    format!("{value:#}\n")
}

fn finding(finding: &Finding) -> Value {
    let (check, found) = (finding.check, &finding.found);
    json!({
        "id": check.id,
        "area": check.area.name(),
        "severity": finding.severity().name(),
        "read": found.read,
        "want": found.want,
        "why": check.why,
        "reason": finding.reason(),
        "fixes": found.fixes.iter().map(fix).collect::<Vec<_>>(),
    })
}

fn fix(fix: &Fix) -> Value {
    match fix {
        Fix::Knob(knob) => json!({
            "kind": fix.kind(),
            "path": knob.path.to_string_lossy(),
            "value": knob.value,
            "command": knob.command(),
        }),
        _ => json!({"kind": fix.kind(), "text": fix.text()}),
    }
}
