//! The group coordinator, routing and flow control of ringgate as pure values: no I/O, no clock,
//! no runtime.

pub mod error;
pub mod route;

pub use error::ErrorCode;
