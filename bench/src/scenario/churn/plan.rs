//! `churn`'s parameters.

use crate::plan::{Common, Load, UsageError};
use crate::result::Parameter;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// In order: this side keeps the port in TIME_WAIT for a minute.
    Fin,
    /// By a reset: no port is kept.
    Rst,
}

impl Close {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Close::Fin => "fin",
            Close::Rst => "rst",
        }
    }
}

/// How connections come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How they end.
    pub close: Close,
    /// Connections that begin at the same moment.
    pub burst: u32,
}

impl Plan {
    /// Checks them.
    ///
    /// # Errors
    /// A burst does not fit.
    pub fn new(common: &Common, close: Close, burst: u32) -> Result<Plan, UsageError> {
        let refuse = |allowed: String| Err(UsageError { flag: "burst", value: burst.to_string(), allowed });
        if burst == 0 {
            return refuse("at least 1 connection at a time".into());
        }
        if burst > 1 && matches!(common.load, Load::Closed) {
            return refuse(
                "bursts come by a schedule: give --rate, in connections per second, instead of --closed".into(),
            );
        }
        if burst as usize > common.max_outstanding {
            return refuse(format!("at most --max-outstanding {}", common.max_outstanding));
        }
        Ok(Plan { close, burst })
    }

    /// As a reader would write them.
    pub fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter { name: "close".into(), value: self.close.name().into(), default: self.close == Close::Fin },
            Parameter { name: "burst".into(), value: self.burst.to_string(), default: self.burst == 1 },
        ]
    }
}
