//! Carrying out what the checks found, and giving back what was there.
//!
//! Only values of the running kernel are written: files of `/proc/sys`, `/proc/irq` and `/sys`. What they held goes
//! into a [journal] first, on disk before anything is changed, so that [`revert`](revert::revert) knows it
//! whatever happens in between. A change is a [`Step`]; one that fails is told with the kernel's reason and keeps no
//! other one from being made.

pub mod journal;
pub mod persist;
pub mod revert;
pub mod script;
mod value;

use std::path::{Component, Path, PathBuf};

use crate::check::Check;
use crate::fix::{Fix, Knob};
use crate::host::{Host, Reading};
use crate::report::Finding;

use journal::Journal;

/// What the findings ask for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// What can be done now, in the order of the checks, each file once.
    pub knobs: Vec<WantedKnob>,
    /// What is only printed: the check's id, and what it says.
    pub others: Vec<(&'static str, Fix)>,
}

/// A value that a check wants.
#[derive(Debug, Clone)]
pub struct WantedKnob {
    /// The check.
    pub check: &'static Check,
    /// The file and its value.
    pub knob: Knob,
}

impl Wanted {
    /// Of findings. Where two want something of one file, the first has its way.
    pub fn of(findings: &[Finding]) -> Wanted {
        let mut wanted = Wanted::default();
        for Finding { check, found } in findings {
            for fix in &found.fixes {
                match fix {
                    Fix::Knob(knob) if wanted.knobs.iter().any(|other| other.knob.path == knob.path) => {}
                    Fix::Knob(knob) => wanted.knobs.push(WantedKnob { check, knob: knob.clone() }),
                    other => wanted.others.push((check.id, other.clone())),
                }
            }
        }
        wanted
    }

    /// Which check wants a file changed, and its reason.
    pub fn why(&self, path: &Path) -> Option<String> {
        let wanted = self.knobs.iter().find(|wanted| wanted.knob.path == path)?;
        Some(format!("[{}] {}", wanted.check.id, wanted.check.why))
    }
}

/// One file and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Of the host.
    pub path: PathBuf,
    /// What it held, where that is known.
    pub from: Option<String>,
    /// What it was to hold.
    pub to: String,
    /// What happened.
    pub outcome: Outcome,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// To be written.
    Due,
    /// Written, and the kernel shows it.
    Changed,
    /// It held that already: nothing was written.
    Already,
    /// Left alone on purpose, and why.
    Left(String),
    /// Not as it was to be, and why.
    Failed(String),
}

/// Why nothing was done at all.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Two at once would each take the other's values for the host's own.
    #[error("another doctor is at work: {0} is locked")]
    Locked(PathBuf),
    /// Without a journal nothing could be given back.
    #[error("the journal {path} {why}")]
    Journal {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file to be written is not ours, or failed.
    #[error("{path}: {why}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What would be done: the steps are due, or need not or cannot be made.
pub fn plan(host: &Host, knobs: &[WantedKnob]) -> Vec<Step> {
    let step = |WantedKnob { knob, .. }: &WantedKnob| {
        let step = |from: Option<&str>, outcome| Step {
            path: knob.path.clone(),
            from: from.map(str::to_owned),
            to: knob.value.clone(),
            outcome,
        };
        if let Err(why) = may_be_written(&knob.path) {
            return step(None, Outcome::Failed(why));
        }
        match host.read(&knob.path) {
            Reading::Text(text) => {
                let from = value::in_force(&text);
                step(Some(from), if value::same(from, &knob.value) { Outcome::Already } else { Outcome::Due })
            }
            Reading::Absent => step(None, Outcome::Failed("there is no such file".into())),
            Reading::Unread(why) => {
                step(None, Outcome::Failed(format!("left alone, for it could not be given back: {why}")))
            }
        }
    };
    knobs.iter().map(step).collect()
}

/// Gives each file the value that is wanted. Doing it again changes nothing.
///
/// `now_ms`: since the epoch, for the journal.
///
/// # Errors
/// The journal is in use, cannot be read or cannot be written: nothing was changed.
pub fn apply(host: &Host, knobs: &[WantedKnob], journal: &Path, now_ms: u64) -> Result<Vec<Step>, Refused> {
    let boot_id = boot_id(host);
    let mut journal = Journal::open(journal)?;
    let mut steps = plan(host, knobs);
    if !steps.iter().any(|step| step.outcome == Outcome::Due) {
        return Ok(steps);
    }
    // What another boot's kernel held means nothing to this one.
    journal.changes.retain(|change| change.boot_id == boot_id);
    for step in steps.iter().filter(|step| step.outcome == Outcome::Due) {
        journal.note(step, &boot_id, now_ms);
    }
    journal.save()?;

    write_all(host, &mut steps);
    for step in &steps {
        journal.note_outcome(step, host.read(&step.path).text().map(value::in_force));
    }
    journal.save()?;
    Ok(steps)
}

/// Makes the steps that are due, and tries those that failed once more after the rest: some files refuse a value until
/// another one has its own (a governor and its preference).
fn write_all(host: &Host, steps: &mut [Step]) {
    let mut failed = Vec::new();
    for (at, step) in steps.iter_mut().enumerate().filter(|(_, step)| step.outcome == Outcome::Due) {
        step.outcome = write(host, &step.path, &step.to);
        if step.outcome != Outcome::Changed {
            failed.push(at);
        }
    }
    for at in failed {
        let step = &mut steps[at];
        step.outcome = write(host, &step.path, &step.to);
    }
}

fn write(host: &Host, path: &Path, to: &str) -> Outcome {
    if let Err(error) = value::put(host, path, to) {
        return Outcome::Failed(in_words(&error));
    }
    match host.read(path) {
        Reading::Text(text) if value::same(value::in_force(&text), to) => Outcome::Changed,
        Reading::Text(text) => Outcome::Failed(format!("the kernel made {:?} of it", value::in_force(&text))),
        Reading::Absent => Outcome::Failed("gone after it was written".into()),
        Reading::Unread(why) => Outcome::Failed(why),
    }
}

/// The kernel's reason, and what it mostly means for such a file.
fn in_words(error: &std::io::Error) -> String {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => " (run as root; in a container only its host may)",
        std::io::ErrorKind::ReadOnlyFilesystem => " (in a container only its host may)",
        std::io::ErrorKind::ResourceBusy => " (another setting holds it)",
        std::io::ErrorKind::InvalidInput => " (this kernel does not take the value)",
        _ => "",
    };
    format!("{error}{hint}")
}

/// Whether a file is one of the running kernel's: a journal is no way of writing any other.
fn may_be_written(path: &Path) -> Result<(), String> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if plain && ["/proc/sys", "/proc/irq", "/sys"].iter().any(|below| path.starts_with(below)) {
        return Ok(());
    }
    Err("no file of /proc/sys, /proc/irq or /sys, which alone are written".into())
}

/// Which start of the kernel this is.
fn boot_id(host: &Host) -> String {
    host.read("/proc/sys/kernel/random/boot_id").text().unwrap_or_default().to_owned()
}
