//! What a person, or a program that reads lines, sees of a run.

mod table;

pub use table::{Align, Table};
