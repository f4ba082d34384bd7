//! One Kafka record is one Iggy message, with the same offset in the same partition: this is how either is
//! written as the other. Mapping version 1 is the one that Iggy's own Kafka gateway writes, so each reads what
//! the other wrote.
//!
//! | Kafka | Iggy |
//! | --- | --- |
//! | (always) | user header `kafka.v`: one byte, 1 |
//! | value | payload; null or empty: payload one `0x00`, header `kafka.value` = `null` or `empty` |
//! | key of 1 to 255 bytes | header `kafka.key`, raw |
//! | header `n`, its name once in the record, its value 1 to 255 bytes | header `kafka.h.n`, raw |
//! | timestamp in ms (CreateTime) | origin timestamp in us; -1 is 0; exactly 0 ms: header `kafka.ts` = `epoch` |
//! | anything else | an envelope: header `kafka.envelope` = 1, the payload as `envelope.rs` has it |
//!
//! A message without `kafka.v` is a native one: null key, the payload as value, user headers under their own
//! names, the server's time when it has no origin time. What is not understood is never guessed.
//!
//! What must stay true: every record that Kafka allows is read back as it was written (but for the time of one
//! that had none), or was refused by one of the rules of [`Refusal`]; nothing panics on any message.

mod envelope;
mod to_iggy;
mod to_kafka;

#[cfg(test)]
mod tests;

pub use to_iggy::{Refusal, Stamps, to_answer, to_send};
pub use to_kafka::{KafkaBatches, OnUnknown, Unknown, to_kafka};

/// The mapping that is written.
const VERSION: u8 = 1;
/// The envelope that is written.
const ENVELOPE_VERSION: u8 = 1;

const HEADER_VERSION: &[u8] = b"kafka.v";
const HEADER_VALUE: &[u8] = b"kafka.value";
const HEADER_KEY: &[u8] = b"kafka.key";
const HEADER_TIMESTAMP: &[u8] = b"kafka.ts";
const HEADER_ENVELOPE: &[u8] = b"kafka.envelope";
const HEADER_PREFIX: &[u8] = b"kafka.h.";

const VALUE_NULL: &[u8] = b"null";
const VALUE_EMPTY: &[u8] = b"empty";
const TIMESTAMP_EPOCH: &[u8] = b"epoch";
/// Stands for a value without bytes: a payload has at least one.
const NO_PAYLOAD: &[u8] = &[0];
