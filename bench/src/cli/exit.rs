//! Exit codes.

use std::process::ExitCode;

use crate::limits::EXIT_INTERRUPTED;
use crate::result::RunResult;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Fine,
    /// 1: an assertion failed, or a regression was found.
    Failed,
    /// 2: wrong usage.
    Usage,
    /// 3: the target cannot be reached, or not be set up.
    Setup,
    /// 4: the run was aborted, or had too many errors.
    Aborted,
    /// 5: the numbers describe the generator.
    Invalid,
    /// 130: a signal ended it; what there was is written.
    Interrupted,
}

impl Exit {
    /// How a run ends the process, whatever is asserted of it.
    pub fn of(result: &RunResult) -> Exit {
        match &result.verdict {
            verdict if verdict.interrupted => Exit::Interrupted,
            verdict if verdict.aborted.is_some() => Exit::Aborted,
            verdict if !verdict.valid => Exit::Invalid,
            // The target kept the bounds at no rate.
            _ if result.search.as_ref().is_some_and(|search| search.confirmed_rate.is_none()) => Exit::Failed,
            _ => Exit::Fine,
        }
    }

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Setup => 3,
            Exit::Aborted => 4,
            Exit::Invalid => 5,
            Exit::Interrupted => EXIT_INTERRUPTED,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        exit.code().into()
    }
}
