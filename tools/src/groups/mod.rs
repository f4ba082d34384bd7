//! `ringgate groups`.

mod delete;
mod delete_offsets;
mod describe;
mod list;
mod report;
mod reset;
mod reset_plan;

pub use delete::delete;
pub use delete_offsets::delete_offsets;
pub use describe::describe;
pub use list::list;
pub use reset::reset;
