//! What the doctor found, for people: area by area, the worst first, each with why and the fix; what is fine takes a line.

use std::fmt::Write as _;

use ringgate_tuning::{Area, Finding, Host, Look, Plan, Severity, checks, fix, report};

use super::Paper;

/// Where the names of checks begin, behind the severity.
const NAMES_AT: usize = 11;

/// Where texts begin, behind the names.
const TEXTS_AT: usize = 31;

/// Where the lines below a finding begin.
const BELOW_AT: usize = NAMES_AT + 2;

/// Everything that was found; what is fine in full only when it is asked for.
pub(super) fn report(host: &Host, plan: &Plan, findings: &[Finding], verbose: bool, paper: &Paper) -> String {
    let mut page = Page { text: String::new(), paper };
    let shards = Look { host, plan }.shards();
    let shards = if shards == 1 { "1 shard".into() } else { format!("{shards} shards") };
    let whose = plan.pid.map_or(String::new(), |pid| format!("; the gateway that runs as process {pid}"));
    page.line(&format!("Profile {}, {shards}, {} connections{whose}", plan.profile.name(), plan.connections));
    for area in Area::ALL {
        let of_area: Vec<&Finding> = findings.iter().filter(|finding| finding.check.area == area).collect();
        if !of_area.is_empty() {
            page.area(area, of_area, verbose);
        }
    }
    page.line("");
    if host.is_container() {
        page.wrapped("This is a container: settings of the kernel are its host's, and are changed there.", 0, 2);
    }
    page.wrapped(&summary(findings), 0, 2);
    page.text
}

/// Which checks there are.
pub(super) fn list() -> String {
    let mut page = Page { text: String::new(), paper: &super::paper() };
    for area in Area::ALL {
        page.line(area.title());
        for check in checks::all().filter(|check| check.area == area) {
            page.wrapped(&format!("  {:<20} {}", check.id, check.why), 0, 23);
        }
    }
    page.text
}

/// `1 blocker (memlock), 3 warnings, 2 pieces of advice; 20 are fine, 5 not applicable, 1 not read`.
fn summary(findings: &[Finding]) -> String {
    let ids = |severity| {
        let ids = findings.iter().filter(|finding| finding.severity() == severity).map(|finding| finding.check.id);
        ids.collect::<Vec<_>>().join(", ")
    };
    let counted = |severity, one: &str, many: &str| match report::count(findings, severity) {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let mut text = counted(Severity::Blocker, "blocker", "blockers");
    if report::count(findings, Severity::Blocker) > 0 {
        let _ = write!(text, " ({})", ids(Severity::Blocker));
    }
    let _ = write!(
        text,
        ", {}, {}; {} fine, {} not applicable, {} not read",
        counted(Severity::Warning, "warning", "warnings"),
        counted(Severity::Advice, "piece of advice", "pieces of advice"),
        report::count(findings, Severity::Ok),
        report::count(findings, Severity::NotApplicable),
        report::count(findings, Severity::Unread),
    );
    text
}

struct Page<'a> {
    text: String,
    paper: &'a Paper,
}

impl Page<'_> {
    fn area(&mut self, area: Area, mut findings: Vec<&Finding>, verbose: bool) {
        self.line("");
        let heading = self.painted("1", area.title());
        self.line(&heading);
        // Stable: those of one severity stay in the order in which they are listed.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
        for finding in &findings {
            if verbose || finding.is_wrong() || finding.severity() == Severity::Unread {
                self.finding(finding);
            }
        }
        if !verbose {
            for severity in [Severity::Ok, Severity::NotApplicable] {
                let ids = findings.iter().filter(|finding| finding.severity() == severity);
                let ids: Vec<&str> = ids.map(|finding| finding.check.id).collect();
                if !ids.is_empty() {
                    let label = if severity == Severity::Ok { "fine" } else { severity.words() };
                    self.wrapped(&format!("  {label}: {}", ids.join(", ")), 0, 4);
                }
            }
        }
    }

    fn finding(&mut self, finding: &Finding) {
        let (check, found, severity) = (finding.check, &finding.found, finding.severity());
        let word = match severity {
            Severity::NotApplicable => "n/a",
            severity => severity.words(),
        };
        let text = match finding.reason() {
            Some(reason) => reason.to_owned(),
            None if finding.is_wrong() => format!("{}; wanted: {}", found.read, found.want),
            None => found.read.clone(),
        };
        let start = self.text.len();
        self.wrapped(&format!("  {word:<8} {:<19} {text}", check.id), 0, TEXTS_AT);
        if let Some(painted) = color_of(severity).map(|color| self.painted(color, word)) {
            let at = start + 2;
            self.text.replace_range(at..at + word.len(), &painted);
        }
        if !finding.is_wrong() {
            return;
        }
        self.wrapped(&format!("why: {}", check.why), BELOW_AT, BELOW_AT + 5);
        for text in fix::texts(&found.fixes) {
            // Not wrapped: it is to be copied.
            self.line(&format!("{:BELOW_AT$}fix: {text}", ""));
        }
    }

    fn painted(&self, color: &str, text: &str) -> String {
        if self.paper.color { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Words in lines of the paper's width, the first `first` columns from the left and the others `others`.
    fn wrapped(&mut self, text: &str, first: usize, others: usize) {
        let mut line = format!("{:first$}", "");
        // Spaces that a text starts with, or that fill a column, are kept where the line is not broken.
        for (nth, word) in text.split(' ').enumerate() {
            let space = usize::from(nth > 0);
            if line.chars().count() + space + word.chars().count() > self.paper.columns && !line.trim().is_empty() {
                self.line(line.trim_end());
                line = format!("{:others$}{word}", "");
            } else {
                line.push_str(&" ".repeat(space));
                line.push_str(word);
            }
        }
        self.line(line.trim_end());
    }
}

fn color_of(severity: Severity) -> Option<&'static str> {
    match severity {
        Severity::Blocker => Some("1;31"),
        Severity::Warning => Some("33"),
        Severity::Advice => Some("36"),
        Severity::Ok => Some("32"),
        Severity::NotApplicable | Severity::Unread => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringgate_tuning::{Check, Found, Knob, Verdict};

    const NOTHING: fn(Look<'_>) -> Found = |_| Found::not_applicable("");
    static SWAP: Check = Check { id: "swap", area: Area::Memory, why: "pages come back slowly", run: NOTHING };
    static KSM: Check = Check { id: "ksm", area: Area::Memory, why: "it scans", run: NOTHING };
    static KERNEL: Check = Check { id: "kernel", area: Area::Kernel, why: "io_uring", run: NOTHING };

    fn found() -> Vec<Finding> {
        let fix = vec![ringgate_tuning::Fix::Knob(Knob::sysctl("vm.swappiness", 1))];
        vec![
            Finding { check: &KERNEL, found: Found::unread("/proc may only be read by root", "5.8") },
            Finding { check: &KSM, found: Found::fine("off", "off") },
            Finding { check: &SWAP, found: Found::wrong(Verdict::Blocker, "vm.swappiness = 60", "<= 10", fix) },
        ]
    }

    fn page(verbose: bool, columns: usize, color: bool) -> String {
        let plan = Plan { shards: Some(1), ..Plan::default() };
        report(&Host::below("/nowhere"), &plan, &found(), verbose, &Paper { columns, color })
    }

    #[test]
    fn a_finding_has_what_was_read_what_is_wanted_why_and_the_fix() {
        let want = "\
Profile latency, 1 shard, 10000 connections

Kernel, io_uring, limits
  not read kernel              /proc may only be read by root

Memory
  blocker  swap                vm.swappiness = 60; wanted: <= 10
             why: pages come back slowly
             fix: sysctl -w vm.swappiness=1
  fine: ksm

1 blocker (swap), 0 warnings, 0 pieces of advice; 1 fine, 0 not applicable, 1 not read
";
        assert_eq!(page(false, 100, false), want);
    }

    #[test]
    fn a_verbose_page_shows_what_is_fine_as_well() {
        assert!(page(true, 100, false).contains("\n  ok       ksm                 off\n"));
    }

    #[test]
    fn lines_fit_the_terminal_and_are_painted_only_there() {
        let narrow = page(false, 60, false);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(!narrow.contains('\x1b'));
        assert!(page(false, 60, true).contains("  \x1b[1;31mblocker\x1b[0m  swap"));
    }
}
