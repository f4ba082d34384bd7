//! From flags to values that are checked once and then trusted.

mod common;
pub mod defaults;

pub use common::{Arrivals, Common, Load};
pub use ringgate_client::args::UsageError;
