//! Flags for what a run shows.

use crate::terminal::{ColorChoice, Mode};

/// See the module.
#[derive(Debug, Clone, clap::Args)]
pub struct ShowArgs {
    /// Check the flags and end: exit code 0, or 2 with what is wrong
    #[arg(long, help_heading = "Output")]
    pub check: bool,
    /// Only the result
    #[arg(long, help_heading = "Output", conflicts_with = "json_lines")]
    pub quiet: bool,
    /// A JSON event per line on standard output, for programs
    #[arg(long, help_heading = "Output")]
    pub json_lines: bool,
    /// What the server's metrics came to, as tables, behind the result
    #[arg(long, requires = "server_metrics", help_heading = "Output")]
    pub show_server_metrics: bool,
    /// Colours: auto is on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", help_heading = "Output")]
    pub color: ColorChoice,
}

impl ShowArgs {
    /// How much is shown, and to whom.
    pub fn mode(&self) -> Mode {
        match (self.quiet, self.json_lines) {
            (_, true) => Mode::JsonLines,
            (true, _) => Mode::Quiet,
            _ => Mode::Full,
        }
    }
}
