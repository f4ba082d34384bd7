//! From flags to values that are checked once and then trusted.

mod common;

pub use common::{Arrivals, Common, Load, Sasl, SaslMechanism, Security, Tls, UsageError};
