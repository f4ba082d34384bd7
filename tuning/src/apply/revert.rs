//! Giving back what was there before the first change.

use std::path::Path;

use super::journal::Journal;
use super::{Outcome, Refused, Step, boot_id, may_be_written, value, write_all};
use crate::host::{Host, Reading};

/// What giving back would do: see [`revert`], which does it.
///
/// # Errors
/// As [`revert`].
pub fn plan(host: &Host, journal: &Path, force: bool) -> Result<Vec<Step>, Refused> {
    Ok(steps(host, &Journal::open(journal)?, force))
}

/// Gives every file of the journal back what it held, the last one first.
///
/// What another start of the kernel held is forgotten, by the kernel and then by the journal. What somebody else
/// changed since is left, unless `force`. What could not be given back stays in the journal.
///
/// # Errors
/// The journal is in use, cannot be read or cannot be written.
pub fn revert(host: &Host, journal: &Path, force: bool) -> Result<Vec<Step>, Refused> {
    let mut journal = Journal::open(journal)?;
    let mut steps = steps(host, &journal, force);
    write_all(host, &mut steps);
    journal.changes.retain(|change| {
        let step = steps.iter().find(|step| step.path == change.path);
        step.is_some_and(|step| match &step.outcome {
            Outcome::Failed(_) | Outcome::Due => true,
            Outcome::Left(_) => change.boot_id == boot_id(host) && step.from.is_some(),
            Outcome::Changed | Outcome::Already => false,
        })
    });
    journal.save()?;
    Ok(steps)
}

fn steps(host: &Host, journal: &Journal, force: bool) -> Vec<Step> {
    let boot_id = boot_id(host);
    let step = |change: &super::journal::Change| {
        let step = |from: Option<&str>, outcome| Step {
            path: change.path.clone(),
            from: from.map(str::to_owned),
            to: change.old.clone(),
            outcome,
        };
        if let Err(why) = may_be_written(&change.path) {
            return step(None, Outcome::Failed(why));
        }
        if change.boot_id != boot_id {
            return step(None, Outcome::Left("changed before the last reboot, which the kernel has forgotten".into()));
        }
        match host.read(&change.path) {
            Reading::Text(text) => {
                let from = value::in_force(&text);
                step(
                    Some(from),
                    if value::same(from, &change.old) {
                        Outcome::Already
                    } else if force || change.knows(from) {
                        Outcome::Due
                    } else {
                        Outcome::Left(format!(
                            "somebody else made it {from:?} after a doctor had made it {:?}; --force gives it back",
                            change.new
                        ))
                    },
                )
            }
            Reading::Absent => step(None, Outcome::Left("it is gone, and what it held with it".into())),
            Reading::Unread(why) => step(None, Outcome::Failed(why)),
        }
    };
    journal.changes.iter().rev().map(step).collect()
}
