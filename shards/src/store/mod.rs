//! Where records, offsets and group metadata are kept.

pub mod embedded;
pub mod mapping;
pub mod stored;
