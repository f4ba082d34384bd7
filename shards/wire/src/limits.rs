//! Bounds on what is read from a peer.

/// The largest request frame, by default (Kafka's `socket.request.max.bytes`).
pub const MAX_FRAME_SIZE: usize = 100 << 20;

/// What the counts of one request may decode to, by default.
pub const MAX_DECODED_BYTES: usize = 64 << 20;

/// What the record batches of one request may decompress to, by default.
pub const MAX_DECOMPRESSED_BYTES: usize = 256 << 20;

/// Decompressed bytes made at a time, where the format has no blocks.
pub const DECOMPRESS_CHUNK: usize = 16 << 10;

/// Compressed bytes that may be read until the next decompressed byte. A zstd block of 128 KiB or gzip's
/// header fields of 64 KiB come before any output; what needs more only costs time, such as gzip members that
/// hold nothing. (An LZ4 block counts when it yielded nothing.)
pub const DECOMPRESS_INPUT_MAX: usize = 256 << 10;

/// The largest zstd window, as a power of two: 128 MiB, which is what level 22 asks for and what consumers
/// accept. The decompressor reserves a window by the frame's claim, and touches it only as far as it writes.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How far back in its block a snappy copy may refer. Encoders cut their input into fragments of 64 KiB and
/// never go further.
pub const SNAPPY_WINDOW: usize = 256 << 10;

/// The shortest frame: API key, version, correlation id.
pub const MIN_FRAME_SIZE: usize = 8;

/// What an array's element is taken to hold once it is decoded: no struct of the codec's requests is larger
/// (a test measures them), so that the sum bounds what a decoded request holds.
pub const DECODED_ELEMENT_BYTES: usize = 128;

/// The same for responses.
pub const DECODED_RESPONSE_ELEMENT_BYTES: usize = 384;

/// The same for a string or bytes in an array: a slice of the frame.
pub const DECODED_TEXT_BYTES: usize = 32;

/// What a struct's first unknown tagged field costs: a node of the map that the codec keeps them in has room
/// for eleven.
pub const DECODED_TAGS_BYTES: usize = 512;

/// What each of them adds: nodes are at least half full.
pub const DECODED_TAG_BYTES: usize = 128;

const _: () = assert!(MAX_DECODED_BYTES <= MAX_FRAME_SIZE);
const _: () = assert!(MIN_FRAME_SIZE < MAX_FRAME_SIZE);
const _: () = assert!(DECOMPRESS_CHUNK <= SNAPPY_WINDOW && SNAPPY_WINDOW >= 64 << 10);
const _: () = assert!(DECOMPRESS_INPUT_MAX > 128 << 10, "a zstd block goes in before anything comes out");
