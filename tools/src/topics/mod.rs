//! `ringgate topics`.

mod describe;
mod list;
mod readers;

pub use describe::describe;
pub use list::list;
