//! `ringgate-bench`: a load generator for systems that speak Kafka's protocol.
//!
//! A run goes from flags to a checked plan ([`plan`]), from there to executors that each drive their share
//! of a scenario ([`scenario`]) on an open or closed loop, into recorders ([`measure`]) whose histograms are
//! merged, never averaged, and ends as one [`result::RunResult`], which everything that is shown or judged
//! is made of. What must stay true: a request's latency counts from the moment it was meant to be sent; a
//! late slot is kept; a run whose generator was late says so and is invalid.

pub mod batch;
pub mod check;
pub mod cli;
pub mod compare;
pub mod consumer;
pub mod engine;
pub mod gate;
pub mod host;
pub mod limits;
pub mod measure;
pub mod plan;
pub mod producer;
pub mod quantity;
pub mod random;
pub mod report;
pub mod result;
pub mod rlimits;
pub mod scenario;
pub mod scrape;
pub mod search;
pub mod signal;
pub mod stats;
pub mod stop;
pub mod terminal;
