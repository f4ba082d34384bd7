//! What would be done, as a script that does it.

use std::fmt::Write;
use std::path::Path;

use super::{Outcome, Step};
use crate::fix::{Fix, quoted};

/// The steps that are due as a `sh` script, with what undoes them and what is only advised as comments.
///
/// `title` is what it is for; `why` says why a file is to be changed. With `ROOT=/some/tree` in its environment the
/// script works on that tree.
pub fn script(title: &str, steps: &[Step], why: impl Fn(&Path) -> Option<String>, others: &[(&str, Fix)]) -> String {
    let mut text = format!("#!/bin/sh\n# {}\n{HEAD}", one_line(title));
    let due: Vec<&Step> = steps.iter().filter(|step| step.outcome == Outcome::Due).collect();
    if due.is_empty() {
        text.push_str("\n# Nothing to change.\n");
    }
    for step in &due {
        text.push('\n');
        if let Some(why) = why(&step.path) {
            let _ = writeln!(text, "# {}", one_line(&why));
        }
        let _ = writeln!(text, "# it was: {}", one_line(step.from.as_deref().unwrap_or_default()));
        text.push_str(&put(&step.path, &step.to));
    }
    for step in steps {
        if let Outcome::Failed(reason) | Outcome::Left(reason) = &step.outcome {
            let _ = write!(text, "\n# not changed: {}: {}\n", step.path.display(), one_line(reason));
        }
    }
    if !due.is_empty() {
        text.push_str("\n# To undo it:\n");
        for step in due.iter().rev() {
            let _ = write!(text, "# {}", put(&step.path, step.from.as_deref().unwrap_or_default()));
        }
    }
    if !others.is_empty() {
        text.push_str("\n# For you to decide and do:\n");
        for (check, fix) in others {
            let _ = writeln!(text, "# [{check}] {}: {}", fix.kind_in_words(), one_line(&fix.text()));
        }
    }
    text.push_str("\nexit \"$failed\"\n");
    text
}

const HEAD: &str = r#"# Values of the running kernel; the next boot has its own again.
set -eu
ROOT=${ROOT-}
failed=0

if [ -z "$ROOT" ] && [ "$(id -u)" -ne 0 ]; then
    echo "$0: only root may change these" >&2
    exit 1
fi

# put FILE VALUE
put() {
    if printf '%s\n' "$2" >"$ROOT$1"; then
        echo "$1: $2"
    else
        echo "$1: could not be made $2" >&2
        failed=1
    fi
}
"#;

fn put(path: &Path, value: &str) -> String {
    format!("put {} {}\n", quoted(&path.to_string_lossy()), quoted(value))
}

/// As a part of a comment, which ends with its line.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}
