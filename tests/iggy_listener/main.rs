//! The Iggy listener, through the real SDK.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod proxy;
mod sign_in;
