//! `docs/doctor.md` says of every check what the code does. After a change of checks or of the trees below `hosts/`,
//! `OUTCOMES_WRITE=1 cargo test -p ringgate-tuning --test reference` writes the page anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use ringgate_tuning::{Area, Check, Finding, Fix, Host, Plan, Profile, Severity, checks, fix, report};

/// Their trees, and what people call them.
const HOSTS: [(&str, &str); 4] = [
    ("bare_metal", "bare metal"),
    ("vm", "virtual machine"),
    ("container", "container"),
    ("no_io_uring", "io_uring off"),
];

const HEAD: &str = "\
# What the doctor looks at

`ringgate doctor` looks at the host and says of each property below what it read, what is wanted, why, and the exact fix.
Looking changes nothing and needs no root; what only root may read is told as not read. How to carry it out, and undo it, is
[Tuning the host](tuning.md). What is wanted depends on `--profile`:

| Profile | What matters |
| --- | --- |
| `latency` (default) | the least delay, on a machine of the gateway's own |
| `throughput` | most bytes for the CPU, on a machine of the gateway's own |
| `shared` | the machine has other users: what would take from them is left alone |

and on the gateway that is planned: `--shards`, `--connections`, `--port`, `--other-ports`, `--data`. Where one listens on that port already, or
`--pid` names one, limits and CPUs are those of its process, which the first line and `pid` in the JSON name. A finding
is a blocker (a gateway does not start, or fails under its load), a warning (it costs latency, throughput or connections that a
user would miss) or advice. A property may also mean nothing here, as the speed of a virtual machine's processors does, or be
unread; both come with the reason. `--only ID,...` looks at some, `--list` names all, `--json` is for programs, `--root DIR`
reads the `proc/` and `sys/` of another host, which takes Linux 5.6 or newer here. Exit code 0: nothing worse than advice; 1: a
warning; 2: a blocker.

What mends a finding is of one of five kinds:

| Kind | `--json` | What it takes |
| --- | --- | --- |
| running kernel | `knob` | a value that the kernel takes at once and forgets at the next boot |
| boot | `boot` | a parameter of the kernel's command line, and a reboot |
| unit | `unit` | a line of the service's unit file, and a restart of the service |
| link | `nic` | a command that may take a network link down for a moment |
| decision | `advice` | a command or setting that is yours to decide on |

The wishes and examples below are those of the latency profile and of four hosts that the tests know: bare metal with two NUMA
nodes, a virtual machine, a container, and a machine on which io_uring is off. This page is written by
`OUTCOMES_WRITE=1 cargo test -p ringgate-tuning --test reference`.
";

fn here(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), path].iter().collect()
}

/// What each host says, profile by profile.
fn all_findings() -> Vec<(&'static str, Profile, Vec<Finding>)> {
    let of = |tree, host, profile| {
        let plan = Plan { profile, data: "/var/lib/ringgate".into(), ..Plan::default() };
        let tree = Host::below(here("tests/hosts").join(tree));
        (host, profile, report::findings(&tree, &plan, |_| true))
    };
    HOSTS.into_iter().flat_map(|(tree, host)| Profile::ALL.map(|profile| of(tree, host, profile))).collect()
}

/// Text in which nothing is taken for a mark of Markdown or HTML.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if matches!(c, '<' | '*' | '[' | ']') {
            plain.push('\\');
        }
        plain.push(c);
    }
    plain
}

fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

fn entry(check: &Check, all: &[(&str, Profile, Vec<Finding>)]) -> String {
    let of_check: Vec<(&str, Profile, &Finding)> = all
        .iter()
        .flat_map(|(host, profile, findings)| findings.iter().map(|finding| (*host, *profile, finding)))
        .filter(|(_, _, finding)| finding.check.id == check.id)
        .collect();
    let mut text = format!("### `{}`\n\nWhy: {}.\n\n", check.id, plain(check.why));
    let latency = || of_check.iter().filter(|(_, profile, _)| *profile == Profile::Latency);
    if let Some((_, _, finding)) = latency().chain(&of_check).find(|(_, _, finding)| !finding.found.want.is_empty()) {
        let _ = writeln!(text, "- Wanted: {}", plain(&finding.found.want));
    }
    if let Some((host, _, finding)) = latency().chain(&of_check).find(|(_, _, finding)| finding.is_wrong()) {
        let severity = match finding.severity() {
            Severity::Advice => "advice",
            severity => &format!("a {}", severity.name()),
        };
        let _ = writeln!(text, "- Found ({host}), as {severity}: {}", code(&finding.found.read));
        let mut kinds: Vec<&str> = finding.found.fixes.iter().map(Fix::kind_in_words).collect();
        kinds.dedup();
        let fixes: Vec<String> = fix::texts(&finding.found.fixes).iter().map(|fix| code(fix)).collect();
        let _ = writeln!(text, "- Fix ({}): {}", kinds.join(", "), fixes.join("; "));
    } else if let Some((_, _, finding)) = latency().find(|(_, _, finding)| finding.severity() == Severity::Ok) {
        let _ = writeln!(text, "- Found, as fine: {}", code(&finding.found.read));
    }
    let mut reasons: Vec<&str> = Vec::new();
    for (_, _, finding) in of_check.iter().filter(|(_, _, finding)| finding.severity() == Severity::NotApplicable) {
        if let Some(reason) = finding.reason().filter(|reason| !reasons.contains(reason)) {
            reasons.push(reason);
        }
    }
    if !reasons.is_empty() {
        let reasons: Vec<String> = reasons.iter().map(|reason| plain(reason)).collect();
        let _ = writeln!(text, "- Not applicable where: {}", reasons.join("; "));
    }
    text
}

#[test]
fn the_page_says_what_the_checks_do() {
    let all = all_findings();
    let mut page = HEAD.to_owned();
    for area in Area::ALL {
        let _ = write!(page, "\n## {}\n", area.title());
        for check in checks::all().filter(|check| check.area == area) {
            let _ = write!(page, "\n{}", entry(check, &all));
        }
    }
    let path = here("../docs/doctor.md");
    if std::env::var_os("OUTCOMES_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(written, page)| written != page);
    assert!(written == page, "docs/doctor.md is not what the checks do, first here: {differs:?}");
}
