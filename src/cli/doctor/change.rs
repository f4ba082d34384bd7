//! `ringgate doctor --apply`, `--revert`, `--dry-run`, `--persist`: changing the host, and changing it back.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, value_parser};
use ringgate_tuning::apply::persist::BootFile;
use ringgate_tuning::apply::{self, Outcome, Refused, Step, Wanted, journal, persist, revert, script};
use ringgate_tuning::{Finding, Host, Plan};
use serde_json::json;

use crate::cli::Exit;

/// The form of the JSON.
const VERSION: u32 = 1;

/// Which change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// To what the checks want, or back.
    pub direction: Direction,
    /// Print a script instead.
    pub dry_run: bool,
    /// Also write it down for the next boot, below a directory other than `/etc` where one is named.
    pub persist: Option<Option<PathBuf>>,
    /// Where the journal is, if not in its usual place.
    pub journal: Option<PathBuf>,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Change nothing in the running kernel.
    Stay,
    /// To what the checks want.
    Forth,
    /// To what was there before.
    Back {
        /// Over what somebody else changed since, too.
        force: bool,
    },
}

pub(super) fn arguments() -> Vec<Arg> {
    let switch =
        |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).value_parser(value_parser!(PathBuf)).help(help)
    };
    vec![
        switch("apply", "Give the running kernel the values that are wanted; a journal keeps what was there"),
        switch("revert", "Give it back what was there before the first --apply since the last boot"),
        switch("dry-run", "Change nothing; print a script that does what --apply, or --revert, would do")
            .conflicts_with_all(["json", "persist"]),
        path("persist", "DIR", "Write down for the next boots what is wanted or applied, below /etc or DIR")
            .num_args(0..=1)
            .require_equals(true)
            .conflicts_with("revert"),
        // What is required may be missing beside what excludes it, so that has to be excluded here, too.
        switch("force", "With --revert: also where somebody else changed a value since")
            .requires("revert")
            .conflicts_with_all(["apply", "list", "selftest"]),
        path("journal", "FILE", "The journal [default: /var/lib/ringgate-doctor/journal.json of the host]"),
    ]
}

/// What excludes each other.
pub(super) fn group() -> ArgGroup {
    ArgGroup::new("task").args(["apply", "revert", "list", "selftest"])
}

impl Change {
    /// From the command line; `None` when no change is asked for.
    pub(super) fn of(given: &ArgMatches) -> Option<Change> {
        let dry_run = given.get_flag("dry-run");
        let persist = (given.contains_id("persist")).then(|| given.get_one::<PathBuf>("persist").cloned());
        let direction = match (given.get_flag("apply") || dry_run, given.get_flag("revert")) {
            (_, true) => Direction::Back { force: given.get_flag("force") },
            (true, false) => Direction::Forth,
            (false, false) => Direction::Stay,
        };
        if direction == Direction::Stay && persist.is_none() {
            return None;
        }
        Some(Change { direction, dry_run, persist, journal: given.get_one("journal").cloned() })
    }

    /// Makes the change; what was found says which one. The text to print, and how it went.
    ///
    /// # Errors
    /// Nothing was changed: says why.
    pub(super) fn make(
        &self,
        host: &Host,
        plan: &Plan,
        findings: &[Finding],
        json: bool,
    ) -> Result<(String, Exit), Refused> {
        let wanted = Wanted::of(findings);
        let own_place = |path: &str| {
            ringgate_tuning::own_place(host, path.as_ref())
                .map_err(|error| Refused::File { path: path.into(), why: error.to_string() })
        };
        let journal = self.journal.clone().map_or_else(|| own_place(journal::DEFAULT_PATH), Ok)?;
        if self.dry_run {
            return Ok((self.script(host, plan, &wanted, &journal)?, Exit::Success));
        }
        let etc = match &self.persist {
            None => None,
            Some(Some(directory)) => Some(directory.clone()),
            Some(None) => {
                // A link may lead out on the last steps of the way, too.
                for file in [persist::SYSCTL, persist::TMPFILES] {
                    own_place(&format!("/etc/{file}"))?;
                }
                Some(own_place("/etc")?)
            }
        };
        // Whoever is refused has changed nothing, so what may be refused comes first.
        let (boot_files, left_out) = match etc {
            None => (Vec::new(), Vec::new()),
            Some(etc) => {
                let knobs = persist::knobs(host, &wanted.knobs, &journal)?;
                let left_out =
                    knobs.iter().filter(|knob| !persist::lasts(knob)).map(|knob| knob.path.clone()).collect();
                (persist::files(&etc, &knobs)?, left_out)
            }
        };
        let steps = match self.direction {
            Direction::Stay => Vec::new(),
            Direction::Forth => apply::apply(host, &wanted.knobs, &journal, now_ms())?,
            Direction::Back { force } => revert::revert(host, &journal, force)?,
        };
        let files = Files::write(boot_files, left_out);
        let left_is_failure = matches!(self.direction, Direction::Back { .. });
        let failed = steps.iter().any(|step| match &step.outcome {
            Outcome::Failed(_) => true,
            Outcome::Left(_) => left_is_failure && step.from.is_some(),
            Outcome::Due | Outcome::Changed | Outcome::Already => false,
        }) || !files.failed.is_empty();
        let others = if left_is_failure { &[][..] } else { &wanted.others };
        let text = if json { self.json(&steps, &files, others) } else { self.text(host, &steps, &files, others) };
        Ok((text, if failed { Exit::Failure } else { Exit::Success }))
    }

    fn script(&self, host: &Host, plan: &Plan, wanted: &Wanted, journal: &std::path::Path) -> Result<String, Refused> {
        if let Direction::Back { force } = self.direction {
            let steps = revert::plan(host, journal, force)?;
            return Ok(script::script("What `ringgate doctor --revert` would do on this host", &steps, |_| None, &[]));
        }
        let title = format!("What `ringgate doctor --apply --profile {}` would do on this host", plan.profile.name());
        let steps = apply::plan(host, &wanted.knobs);
        Ok(script::script(&title, &steps, |path| wanted.why(path), &wanted.others))
    }

    fn text(&self, host: &Host, steps: &[Step], files: &Files, others: &[(&str, ringgate_tuning::Fix)]) -> String {
        let mut text = String::new();
        for step in steps {
            let path = step.path.display();
            let from = step.from.as_deref().unwrap_or("?");
            let _ = match &step.outcome {
                Outcome::Already => continue,
                Outcome::Due | Outcome::Changed => writeln!(text, "changed  {path}: {from} -> {}", step.to),
                Outcome::Left(why) => writeln!(text, "left     {path}: {why}"),
                Outcome::Failed(why) => writeln!(text, "failed   {path}, to be {}: {why}", step.to),
            };
        }
        let count = |is: fn(&Outcome) -> bool| steps.iter().filter(|step| is(&step.outcome)).count();
        let changed = count(|outcome| *outcome == Outcome::Changed);
        if self.direction != Direction::Stay {
            let _ = writeln!(
                text,
                "{changed} changed, {} as they should be already, {} left, {} failed",
                count(|outcome| *outcome == Outcome::Already),
                count(|outcome| matches!(outcome, Outcome::Left(_))),
                count(|outcome| matches!(outcome, Outcome::Failed(_)))
            );
        }
        match self.direction {
            Direction::Forth if changed > 0 && self.persist.is_none() => {
                text.push_str("This holds until the next boot (--persist: after it, too); `ringgate doctor --revert` undoes it.\n");
            }
            Direction::Back { .. } => {
                for name in [persist::SYSCTL, persist::TMPFILES] {
                    let path = host.at("/etc").join(name);
                    if path.exists() {
                        let _ =
                            writeln!(text, "The next boot follows {}; remove it if it is not wanted.", path.display());
                    }
                }
            }
            _ => {}
        }
        for path in &files.written {
            let _ = writeln!(text, "written  {}", path.display());
        }
        for (path, why) in &files.failed {
            let _ = writeln!(text, "failed   {}: {why}", path.display());
        }
        if !files.left_out.is_empty() {
            let _ = writeln!(
                text,
                "Not written down: {} of interrupts and network cards, which the next boot may number otherwise. \
                 ringgate-doctor.service (`ringgate doctor files`) looks and applies them at each boot.",
                match files.left_out.len() {
                    1 => "one value".to_owned(),
                    count => format!("{count} values"),
                }
            );
        }
        if !others.is_empty() {
            text.push_str("\nFor you to decide and do:\n");
            for (check, fix) in others {
                let _ = writeln!(text, "  {check}: {} ({})", fix.text(), fix.kind_in_words());
            }
        }
        text
    }

    fn json(&self, steps: &[Step], files: &Files, others: &[(&str, ringgate_tuning::Fix)]) -> String {
        let step = |step: &Step| {
            let (outcome, reason) = match &step.outcome {
                Outcome::Due => ("due", None),
                Outcome::Changed => ("changed", None),
                Outcome::Already => ("already", None),
                Outcome::Left(why) => ("left", Some(why)),
                Outcome::Failed(why) => ("failed", Some(why)),
            };
            json!({
                "path": step.path.to_string_lossy(), "from": step.from, "to": step.to, "outcome": outcome, "reason": reason,
            })
        };
        let value = json!({
            "version": VERSION,
            "steps": steps.iter().map(step).collect::<Vec<_>>(),
            "files": files.written.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
            "files_failed": files
                .failed
                .iter()
                .map(|(path, why)| json!({"path": path.to_string_lossy(), "reason": why}))
                .collect::<Vec<_>>(),
            "not_persisted": files.left_out.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
            "others": others
                .iter()
                .map(|(check, fix)| json!({"check": check, "kind": fix.kind(), "text": fix.text()}))
                .collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }
}

/// What became of the files for the next boot.
struct Files {
    written: Vec<PathBuf>,
    /// Which ones are not there, and why.
    failed: Vec<(PathBuf, String)>,
    /// Files of the kernel whose values are in none of them.
    left_out: Vec<PathBuf>,
}

impl Files {
    fn write(files: Vec<BootFile>, left_out: Vec<PathBuf>) -> Files {
        let mut all = Files { written: Vec::new(), failed: Vec::new(), left_out };
        for file in files {
            match file.write() {
                Ok(()) => all.written.push(file.path),
                Err(error) => all.failed.push((file.path, error.to_string())),
            }
        }
        all
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
