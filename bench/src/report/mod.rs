//! `report.html`: one file that needs nothing else, for one run, for several on shared axes, or for a comparison.
//!
//! The page's text and tables are made here and are complete without scripts; the charts are drawn in the browser
//! (`page.js`) from the numbers of `charts.rs`, so that axes can be switched and values be read off. Everything that
//! came from outside is escaped (`markup.rs`), and a policy in the page keeps it from loading anything.

mod charts;
mod command;
mod compared;
mod figures;
mod labels;
mod markup;
pub(crate) mod metrics;
mod page;
mod tables;
mod words;

pub use command::{CommandError, merge, report};
pub use page::html;
pub use words::{Mood, verdict};

use crate::result::{Environment, RunResult};

/// A run and where it ran.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What it ended as.
    pub result: &'a RunResult,
    /// Where it ran, when that is known.
    pub environment: Option<&'a Environment>,
}

/// Runs that one page shows at most: more lines cannot be told apart.
pub const RUNS_MAX: usize = 64;

/// Points of a chart's line over time at most; more intervals are joined, and the page says so.
pub const POINTS_MAX: usize = 720;
