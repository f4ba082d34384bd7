//! `report` and `merge`: from what runs left.

use std::path::PathBuf;

use super::Exit;
use crate::quantity::show_ns;
use crate::report::{self, CommandError};
use crate::result::Latency;

/// Flags of `report`.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportArgs {
    /// Directories of runs, or their result.json: one page of all, on shared axes
    #[arg(value_name = "DIR", required = true)]
    pub runs: Vec<PathBuf>,
    /// The page; by default report.html in the run's directory, of several runs in this one
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Flags of `merge`.
#[derive(Debug, Clone, clap::Args)]
pub struct MergeArgs {
    /// Logs of HdrHistogram: latency.hlog of runs
    #[arg(value_name = "HLOG", required = true)]
    pub logs: Vec<PathBuf>,
    /// The merged log, a line for each series
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Draws the page and says where it is.
pub fn report(args: &ReportArgs) -> Exit {
    match report::report(&args.runs, args.out.as_deref()) {
        Ok(page) => {
            println!("{}", page.display());
            Exit::Fine
        }
        Err(error) => failed(&error),
    }
}

/// Merges and says what came of it.
pub fn merge(args: &MergeArgs) -> Exit {
    let merged = match report::merge(&args.logs, &args.out) {
        Ok(merged) => merged,
        Err(error) => return failed(&error),
    };
    for (series, latencies) in &merged {
        let latency = Latency::of(latencies);
        let at = |percentile| show_ns(latency.percentile_ns(percentile).unwrap_or(latency.max_ns));
        let series = if series.is_empty() { "(no tag)" } else { series };
        println!(
            "{series:24} {:>9} values  p50 {}  p99 {}  p99.9 {}  max {}",
            latency.count,
            at("50"),
            at("99"),
            at("99.9"),
            show_ns(latency.max_ns)
        );
    }
    println!("{}", args.out.display());
    Exit::Fine
}

fn failed(error: &CommandError) -> Exit {
    eprintln!("ringgate-bench: {error}");
    Exit::Usage
}
