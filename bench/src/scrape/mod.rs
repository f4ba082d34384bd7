//! What the server says of itself: a scrape of its metrics before, during and behind the measured window.
//!
//! Anything that serves Prometheus' text format by HTTP can be read. [`Scraper`] is a thread of its own, so that no executor
//! waits for a scrape; what it read becomes a [`crate::result::ServerMetrics`]. What must stay true: a scrape is bounded in
//! time and bytes; one that fails is counted with its reason and ends no run; counters are told as what was added in the
//! measured window, never as they are.

mod choice;
mod http;
mod reading;
mod scraper;
mod tally;
mod text;
mod url;

use std::time::Instant;

pub use choice::{Choice, Prefix};
pub use scraper::{Scraper, Scraping};
pub use url::Url;

/// A scrape was not made, or was no use. Few different texts, since they are counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

/// When a scrape was asked for, by what the server then answers.
type Asked = Instant;
