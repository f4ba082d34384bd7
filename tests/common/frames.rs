//! Request frames written byte by byte, so that any part of them can be wrong.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Request;

/// What the gateway sends back with the answer.
pub const CORRELATION_ID: i32 = 7;

/// No tagged fields.
pub const NO_TAGS: &[u8] = &[0];

/// One tagged field that nobody knows: tag 200, three bytes.
pub const UNKNOWN_TAG: &[u8] = &[1, 0xc8, 0x01, 3, 1, 2, 3];

/// A frame around `payload`, whatever that is.
pub fn framed(payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(payload.len() + 4);
    frame.put_i32(payload.len() as i32);
    frame.put_slice(payload);
    frame.freeze()
}

/// A request with the header that its API and version have, and this body.
pub fn request(api_key: i16, version: i16, body: &[u8]) -> Bytes {
    tagged_request(api_key, version, NO_TAGS, body)
}

/// The same with these tagged fields in the header, where it has any.
pub fn tagged_request(api_key: i16, version: i16, tags: &[u8], body: &[u8]) -> Bytes {
    let flexible = ApiKey::try_from(api_key).is_ok_and(|key| key.request_header_version(version) >= 2);
    let mut payload = BytesMut::new();
    payload.put_slice(&header(api_key, version, b"raw"));
    payload.put_slice(if flexible { tags } else { &[] });
    payload.put_slice(body);
    framed(&payload)
}

/// A header without tagged fields: what version 1 of it has, and how version 2 begins.
fn header(api_key: i16, version: i16, client_id: &[u8]) -> Bytes {
    let mut header = BytesMut::new();
    header.put_i16(api_key);
    header.put_i16(version);
    header.put_i32(CORRELATION_ID);
    header.put_i16(client_id.len() as i16);
    header.put_slice(client_id);
    header.freeze()
}

/// A request's body.
pub fn body<R: Request>(version: i16, request: &R) -> Bytes {
    let mut body = BytesMut::new();
    request.encode(&mut body, version).expect("encodable request");
    body.freeze()
}
