//! What producers send: values, keys, stamps, and batches of them, compressed or not.
//!
//! Everything is decided by a seed: the same one makes the same values, keys and sizes. Values are made before the
//! run ([`Pool`]); a batch is a copy of some of them, so that driving load costs little. A [`Stamp`] at a value's
//! start says which record it is and when it was meant to be sent; [`crate::check`] reads it back.

mod compress;
mod keys;
mod payload;
mod stamp;

pub use compress::{Codec, Compressor};
pub use keys::{KeyChoice, Keys, key_bytes, partition_of};
pub use payload::{Pool, Sizes, bytes};
pub use stamp::{STAMP_BYTES, Stamp};
