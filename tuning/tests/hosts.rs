//! Every check on hosts that nobody has here, each a tree of files below `hosts/`, held against what `outcomes/` says
//! that it finds there. After a change of checks or trees, `OUTCOMES_WRITE=1 cargo test -p ringgate-tuning --test hosts`
//! writes the outcomes anew: read their difference before it is committed.

use std::path::PathBuf;

use ringgate_tuning::{Area, Finding, Host, Plan, Profile, Severity, fix, report};

const HOSTS: [&str; 4] = ["bare_metal", "vm", "container", "no_io_uring"];

fn here(path: String) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", &path].iter().collect()
}

fn findings(host: &str, profile: Profile) -> Vec<Finding> {
    let plan = Plan { profile, data: "/var/lib/ringgate".into(), ..Plan::default() };
    report::findings(&Host::below(here(format!("hosts/{host}"))), &plan, |_| true)
}

/// All that a finding says but why its check is there.
fn written(finding: &Finding) -> String {
    let (id, found) = (finding.check.id, &finding.found);
    let mut text = match (finding.severity(), finding.reason()) {
        (severity, Some(reason)) => format!("{} {id}: {reason}\n", severity.name()),
        (severity, None) => format!("{} {id}: {} | wanted: {}\n", severity.name(), found.read, found.want),
    };
    for fix in fix::texts(&found.fixes) {
        text.push_str(&format!("    {fix}\n"));
    }
    text
}

/// Where what was found differs from the file that says what is found.
fn held_against(path: PathBuf, found: &str) -> Option<String> {
    if std::env::var_os("OUTCOMES_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
        return None;
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    let missing: Vec<&str> = wanted.lines().filter(|line| !found.lines().any(|other| other == *line)).collect();
    let added: Vec<&str> = found.lines().filter(|line| !wanted.lines().any(|other| other == *line)).collect();
    let difference = format!("{}:\n- {}\n+ {}", path.display(), missing.join("\n- "), added.join("\n+ "));
    (wanted != found).then_some(difference)
}

#[test]
fn each_host_has_the_findings_that_are_written_down() {
    let mut differences = Vec::new();
    for host in HOSTS {
        let findings = findings(host, Profile::Latency);
        for area in Area::ALL {
            let text: String = findings.iter().filter(|finding| finding.check.area == area).map(written).collect();
            if !text.is_empty() {
                differences.extend(held_against(here(format!("outcomes/{host}/{}.txt", area.name())), &text));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_gateway_that_runs_is_looked_at_instead_of_this_process() {
    let host = Host::below(here("hosts/bare_metal".into()));
    let plan = Plan { pid: Some(4711), data: "/var/lib/ringgate".into(), ..Plan::default() };
    let running = report::findings(&host, &plan, |_| true);
    let before = findings("bare_metal", Profile::Latency);
    let differ = running.iter().zip(&before).filter(|(running, before)| running.found != before.found);
    let text: String = differ.map(|(running, _)| written(running)).collect();
    assert_eq!(held_against(here("outcomes/bare_metal/running.txt".into()), &text), None);
}

#[test]
fn each_profile_has_the_severities_that_are_written_down() {
    let mut differences = Vec::new();
    for host in HOSTS {
        for profile in [Profile::Throughput, Profile::Shared] {
            let (latency, other) = (findings(host, Profile::Latency), findings(host, profile));
            let differ = latency.iter().zip(&other).filter(|(a, b)| a.severity() != b.severity());
            let text: String = differ
                .map(|(a, b)| format!("{}: {} instead of {}\n", a.check.id, b.severity().name(), a.severity().name()))
                .collect();
            differences.extend(held_against(here(format!("outcomes/{host}/{}.txt", profile.name())), &text));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn what_is_wrong_says_what_was_read_what_is_wanted_and_what_mends_it() {
    for host in HOSTS {
        for profile in Profile::ALL {
            for finding in findings(host, profile) {
                let (id, found) = (finding.check.id, &finding.found);
                if finding.is_wrong() {
                    assert!(!found.read.is_empty() && !found.want.is_empty(), "{id} on {host}: {found:?}");
                    assert!(!found.fixes.is_empty(), "{id} on {host} has no fix: {found:?}");
                }
                if finding.severity() == Severity::Ok {
                    assert!(found.fixes.is_empty(), "{id} on {host} is fine, and is to be mended: {found:?}");
                }
                assert!(finding.reason().is_none_or(|reason| !reason.is_empty()), "{id} on {host}");
            }
        }
    }
}

#[test]
fn an_id_names_one_check() {
    let mut ids: Vec<&str> = ringgate_tuning::checks::all().map(|check| check.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
