//! Bounds on what is read from a peer.

/// The largest request frame, by default (Kafka's `socket.request.max.bytes`).
pub const MAX_FRAME_SIZE: usize = 100 << 20;

/// What the counts of one request may decode to, by default.
pub const MAX_DECODED_BYTES: usize = 64 << 20;

/// What the record batches of one request may decompress to, by default.
pub const MAX_DECOMPRESSED_BYTES: usize = 256 << 20;

/// Decompressed bytes held at a time.
pub const DECOMPRESS_CHUNK: usize = 16 << 10;

/// The shortest frame: API key, version, correlation id.
pub const MIN_FRAME_SIZE: usize = 8;

/// More than the codec's structs and their map entries take per element, so that a sum of it bounds what a
/// decoded request holds.
pub const DECODED_ELEMENT_BYTES: usize = 128;

const _: () = assert!(MAX_DECODED_BYTES <= MAX_FRAME_SIZE);
