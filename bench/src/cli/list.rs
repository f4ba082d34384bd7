//! `list`.

use std::io::Write;

use clap::CommandFactory;

use super::{Cli, Exit};

/// Commands that drive no load.
pub(super) const TOOLS: [&str; 4] = ["list", "compare", "report", "merge"];

/// Prints the scenarios, each with what it is.
pub fn list() -> Exit {
    let command = Cli::command();
    let scenarios: Vec<_> = command.get_subcommands().filter(|sub| !TOOLS.contains(&sub.get_name())).collect();
    let width = scenarios.iter().map(|scenario| scenario.get_name().len()).max().unwrap_or(0);
    let mut out = std::io::stdout().lock();
    for scenario in scenarios {
        let about = scenario.get_about().map(ToString::to_string).unwrap_or_default();
        // A reader that has gone away wants no more.
        if writeln!(out, "{:width$}  {about}", scenario.get_name()).is_err() {
            break;
        }
    }
    Exit::Fine
}
