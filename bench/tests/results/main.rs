//! What a run leaves: its files, and what others make of them.

mod files;
mod reports;
mod sample;
