//! The Iggy listener, through the real SDK.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod external_groups;
mod hostile;
mod lost_replies;
mod messages;
mod metadata;
mod proxy;
mod sign_in;
mod with_kafka;
