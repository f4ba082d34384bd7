//! `--search` and what belongs to it.

use std::time::Duration;

use super::parse::{duration, share};
use crate::plan::{UsageError, defaults};
use crate::search::Plan;

/// See the module.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Find the highest rate at which this holds, and no request fails: 'rt.p99<5ms'; several must all hold
    #[arg(long, value_name = "BOUND", conflicts_with_all = ["rate", "closed"])]
    pub search: Vec<String>,
    /// The first rate [default: 1k]
    #[arg(long, value_name = "RATE")]
    pub search_from: Option<String>,
    /// The highest rate that is tried [default: 10M]
    #[arg(long, value_name = "RATE")]
    pub search_to: Option<String>,
    /// How far the highest rate that kept the bounds and the lowest that did not may be apart in the end [default: 5%]
    #[arg(long, value_parser = share, value_name = "SHARE")]
    pub search_precision: Option<f64>,
    /// A probe's measured window; what is found is confirmed over --duration [default: 10s]
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub search_window: Option<Duration>,
    /// A probe's warm-up [default: 3s]
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub search_warmup: Option<Duration>,
}

impl SearchArgs {
    /// Checks them; `None` without `--search`. `rate` reads a rate as the scenario writes them.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn plan(&self, rate: impl Fn(&str) -> Result<f64, UsageError>) -> Result<Option<Plan>, UsageError> {
        if self.search.is_empty() {
            return self.none_given().map(|()| None);
        }
        let bounds = Plan::bounds(&self.search)?;
        let from_text = self.search_from.as_deref().unwrap_or("1k");
        let to_text = self.search_to.as_deref().unwrap_or("10M");
        let from = rate(from_text).map_err(|wrong| UsageError { flag: "search-from", ..wrong })?;
        let to = rate(to_text).map_err(|wrong| UsageError { flag: "search-to", ..wrong })?;
        let precision = self.search_precision.unwrap_or(defaults::SEARCH_PRECISION);
        let window = self.search_window.unwrap_or(defaults::SEARCH_WINDOW);
        let warmup = self.search_warmup.unwrap_or(defaults::SEARCH_WARMUP);
        let refuse = |flag, value: String, allowed: &str| Err(UsageError { flag, value, allowed: allowed.into() });
        if to < from {
            return refuse("search-to", to_text.into(), "at least --search-from");
        }
        if precision < 0.001 {
            return refuse("search-precision", format!("{}%", precision * 100.0), "at least 0.1%");
        }
        if window.is_zero() {
            return refuse("search-window", "0s".into(), "more than 0");
        }
        Ok(Some(Plan { bounds, from, to, precision, window, warmup }))
    }

    /// That no flag of a search is there without one.
    fn none_given(&self) -> Result<(), UsageError> {
        let given = [
            ("search-from", self.search_from.is_some()),
            ("search-to", self.search_to.is_some()),
            ("search-precision", self.search_precision.is_some()),
            ("search-window", self.search_window.is_some()),
            ("search-warmup", self.search_warmup.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => {
                Err(UsageError { flag, value: String::new(), allowed: "only with --search and its bound".into() })
            }
        }
    }
}
