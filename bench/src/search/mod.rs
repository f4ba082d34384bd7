//! The highest rate at which a target keeps bounds.
//!
//! Short probes, each a run of its own with a fresh warm-up and fresh topics: the rate doubles while the bounds are kept
//! (or halves until they are), then the gap between the highest rate that kept them and the lowest that did not is
//! bisected to the precision asked for ([`Steps`]). A run of full length at the rate found confirms it. What must stay
//! true: a probe whose generator was late ends the search, and is never taken for the target's limit; every probe is
//! in the result.

mod conduct;
mod steps;

use std::time::Duration;

pub use conduct::{SearchError, run};
pub use steps::Steps;

use crate::gate::Assertion;
use crate::plan::UsageError;

/// What to search for, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What every probe has to keep.
    pub bounds: Vec<Assertion>,
    /// The first rate, in slots per second.
    pub from: f64,
    /// The highest that is tried.
    pub to: f64,
    /// How far the highest kept and the lowest missed rate may be apart in the end: 0.05 is 5 %.
    pub precision: f64,
    /// A probe's measured window.
    pub window: Duration,
    /// A probe's warm-up.
    pub warmup: Duration,
}

impl Plan {
    /// Reads the bounds.
    ///
    /// # Errors
    /// One is none.
    pub fn bounds(texts: &[String]) -> Result<Vec<Assertion>, UsageError> {
        let parse = |text: &String| Assertion::parse(text).map_err(|wrong| UsageError { flag: "search", ..wrong });
        texts.iter().map(parse).collect()
    }
}
