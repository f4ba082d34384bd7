//! Bytes: Kafka's framing, checks before decoding, the record walker, the segmented Fetch response; Iggy's batches.
//!
//! Everything here is a value over bytes: no I/O. Nothing panics on any input, and nothing allocates by a
//! number that a peer sent: counts are checked against the bytes that are there before the message codec
//! sees them ([`counts`]), record batches are walked through a bounded buffer ([`records`]). Apache Iggy's
//! batches are read and written by [`iggy`].

pub mod counts;
mod decompress;
pub mod fetch;
pub mod frame;
pub mod iggy;
pub mod limits;
#[cfg(test)]
mod peak;
pub mod records;
pub mod versions;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Encodable;

/// A response cannot be encoded: a defect of the gateway, never of the client.
#[derive(Debug, thiserror::Error)]
#[error("response of API {api_key} version {api_version}: {reason}")]
pub struct EncodeError {
    api_key: i16,
    api_version: i16,
    reason: String,
}

/// The whole frame of a response: length, header (always version 0 for ApiVersions, KIP-511), body.
pub fn encode_response(
    api_key: i16,
    api_version: i16,
    correlation_id: i32,
    body: &impl Encodable,
) -> Result<Bytes, EncodeError> {
    let failed = |reason: String| EncodeError { api_key, api_version, reason };
    let key = ApiKey::try_from(api_key).map_err(|()| failed("unknown API".into()))?;
    let size = body.compute_size(api_version).map_err(|error| failed(error.to_string()))?;
    let mut frame = BytesMut::with_capacity(size + 9);
    frame.put_i32(0);
    frame.put_i32(correlation_id);
    if key.response_header_version(api_version) >= 1 {
        frame.put_u8(0);
    }
    body.encode(&mut frame, api_version).map_err(|error| failed(error.to_string()))?;
    let length = i32::try_from(frame.len() - 4).map_err(|_| failed("over 2 GiB".into()))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}
