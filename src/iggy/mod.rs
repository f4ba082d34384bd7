//! The Iggy listener: Apache Iggy's binary protocol over TCP, for its SDK and command line on the topics of this
//! gateway.
//!
//! [`link`] is the life of a connection, [`frames`] what goes over it, [`commands`] a file for each group of
//! commands. [`sessions`] outlive links. Only this module names Iggy's wire crate; what is asked of shards are the
//! calls of `ringgate_shards::call`. What must stay true: a request that comes again after a lost link is not
//! carried out twice; requests of a link wait for nothing but what they ask for; nothing allocates by a number on the
//! wire.

pub mod commands;
pub mod frames;
mod gateway;
pub mod limits;
pub mod link;
pub mod password;
pub mod sessions;
pub mod sign_ins;

pub use gateway::{Front, Gateway, session_ended};
