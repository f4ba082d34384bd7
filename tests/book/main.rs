//! The book in `docs/` agrees with the code and with itself: what is generated is not stale, every page is in the
//! table of contents, every link leads somewhere, and every command line that it shows is one that `ringgate` takes.
//!
//! `BOOK_WRITE=1 cargo test --test book` writes the generated parts anew.

mod codes;
mod commands;
mod generated;
mod links;
mod pages;
mod sayings;
