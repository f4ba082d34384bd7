//! Frames: requests as they are written, answers as they are read.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request};
use ringgate_wire::counts::check_response;
use ringgate_wire::frame::skip_tags;

use super::CallError;
use crate::limits::{RESPONSE_BYTES_MAX, RESPONSE_DECODED_BYTES_MAX};

/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;

/// Bytes of the number behind it that says which request is answered.
const CORRELATION_BYTES: usize = 4;

/// Length, API, version, correlation id, length of the client id, and a count of tags.
const HEAD_BYTES_MAX: usize = 4 + 2 + 2 + 4 + 2 + 1;

/// The two header versions that an API's version comes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// The request's header ends with tags.
    tagged_request: bool,
    /// The answer's header ends with tags.
    tagged_response: bool,
}

impl Shape {
    /// Of an API that the codec may not know, which is then taken for an old one.
    pub(super) fn of(api: i16, version: i16) -> Shape {
        let key = ApiKey::try_from(api).ok();
        Shape {
            tagged_request: key.is_some_and(|key| key.request_header_version(version) >= 2),
            tagged_response: key.is_some_and(|key| key.response_header_version(version) >= 1),
        }
    }
}

/// What the headers of a client's requests have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// Who the requests say they are from, and how long that is.
    client_id: &'static str,
    client_id_bytes: i16,
}

impl Heads {
    /// Of a client; one with an absurdly long id says it is nobody.
    pub(super) fn of(client_id: &'static str) -> Heads {
        match i16::try_from(client_id.len()) {
            Ok(client_id_bytes) => Heads { client_id, client_id_bytes },
            Err(_) => Heads { client_id: "", client_id_bytes: 0 },
        }
    }

    /// A request's length and header, in front of `body_bytes` of body; with room for them.
    pub(super) fn head(self, api: i16, version: i16, correlation: i32, body_bytes: usize, room: usize) -> BytesMut {
        let tagged = Shape::of(api, version).tagged_request;
        let head = HEAD_BYTES_MAX + self.client_id.len();
        let mut frame = BytesMut::with_capacity(head + room);
        let header = head - LENGTH_BYTES - usize::from(!tagged);
        frame.put_i32(i32::try_from(header + body_bytes).unwrap_or(i32::MAX));
        frame.put_i16(api);
        frame.put_i16(version);
        frame.put_i32(correlation);
        frame.put_i16(self.client_id_bytes);
        frame.put_slice(self.client_id.as_bytes());
        if tagged {
            frame.put_u8(0);
        }
        frame
    }

    /// A whole request in one piece.
    ///
    /// # Errors
    /// The request does not fit the version.
    pub(super) fn request<R: Request>(self, version: i16, correlation: i32, request: &R) -> Result<Bytes, CallError> {
        let wrong = |error: &dyn std::fmt::Display| {
            CallError::NoVersion(format!("API {} version {version} cannot be written: {error}", R::KEY))
        };
        let size = request.compute_size(version).map_err(|error| wrong(&error))?;
        let mut frame = self.head(R::KEY, version, correlation, size, size);
        request.encode(&mut frame, version).map_err(|error| wrong(&error))?;
        Ok(frame.freeze())
    }
}

/// The body of a request, for frames that are put together from segments.
///
/// # Errors
/// The request does not fit the version.
pub(super) fn body<R: Encodable>(version: i16, request: &R) -> Result<Bytes, CallError> {
    let mut body = BytesMut::new();
    let wrong = |error| CallError::NoVersion(format!("a request of version {version} cannot be written: {error}"));
    request.encode(&mut body, version).map_err(wrong)?;
    Ok(body.freeze())
}

/// Where the answer that begins like this ends. `request` is the one that is to be answered next, if that matters: what
/// answers another one is not read first, however long it is.
///
/// # Errors
/// The length cannot be, or it answers another request.
pub(super) fn end_of_answer(head: &[u8], request: Option<i32>) -> Result<usize, CallError> {
    let length = number_at(head, 0).unwrap_or(-1);
    let end = match usize::try_from(length) {
        Ok(bytes) if (CORRELATION_BYTES..=RESPONSE_BYTES_MAX).contains(&bytes) => LENGTH_BYTES + bytes,
        _ => {
            return Err(CallError::BadResponse(format!(
                "a frame of {length} bytes, allowed are {CORRELATION_BYTES} to {RESPONSE_BYTES_MAX}: is this a Kafka \
                 listener?"
            )));
        }
    };
    if let Some(next) = request {
        check_request(head, next)?;
    }
    Ok(end)
}

/// Bytes that must be there before [`end_of_answer`] can say anything: what speaks no Kafka may send no more.
pub(super) const ANSWER_HEAD_BYTES: usize = LENGTH_BYTES;

/// Whether this is the answer to that request, as far as it is there.
fn check_request(answer: &[u8], request: i32) -> Result<(), CallError> {
    match number_at(answer, LENGTH_BYTES) {
        Some(answers) if answers != request => {
            Err(CallError::BadResponse(format!("an answer to request {answers}, request {request} is next")))
        }
        _ => Ok(()),
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|number| i32::from_be_bytes(*number))
}

/// Takes length and header off a whole answer and gives its body, if it answers that request.
///
/// # Errors
/// It answers another request, or its header cannot be read.
pub(super) fn body_of_answer(frame: BytesMut, request: i32, shape: Shape) -> Result<Bytes, CallError> {
    let mut frame = frame.freeze();
    let short = || CallError::BadResponse("an answer ends within its header".into());
    if frame.len() < LENGTH_BYTES + CORRELATION_BYTES {
        return Err(short());
    }
    // Where its first bytes came alone, this has not been looked at yet.
    check_request(&frame, request)?;
    frame.advance(LENGTH_BYTES + CORRELATION_BYTES);
    if shape.tagged_response {
        skip_tags(&mut frame).ok_or_else(short)?;
    }
    Ok(frame)
}

/// Reads the body of an answer to `R`; bytes in it stay slices of it. The codec allocates by the counts on the wire, so
/// these are checked first: one of a broken target would end the process.
///
/// # Errors
/// It cannot be read.
pub fn decode<R: Request>(mut body: Bytes, version: i16) -> Result<R::Response, CallError> {
    let wrong = |error: &dyn std::fmt::Display| {
        CallError::BadResponse(format!("an answer to API {} version {version}: {error}", R::KEY))
    };
    check_response(R::KEY, version, &body, RESPONSE_DECODED_BYTES_MAX).map_err(|error| wrong(&error))?;
    R::Response::decode(&mut body, version).map_err(|error| wrong(&error))
}

/// The header of `R`'s requests and answers, for [`body_of_answer`].
pub(super) fn shape_of<R: Request>(version: i16) -> Shape {
    Shape {
        tagged_request: R::header_version(version) >= 2,
        tagged_response: R::Response::header_version(version) >= 1,
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{HeartbeatRequest, MetadataRequest, OffsetCommitRequest, RequestHeader};
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    #[test]
    fn a_request_is_what_the_codec_reads() {
        for version in 0..=4 {
            let wanted =
                HeartbeatRequest::default().with_member_id(StrBytes::from_static_str("m")).with_generation_id(7);
            let mut frame = Heads::of("some-client").request(version, 9, &wanted).expect("a frame");
            assert_eq!(frame.get_i32() as usize, frame.len());
            let header =
                RequestHeader::decode(&mut frame, HeartbeatRequest::header_version(version)).expect("a header");
            assert_eq!((header.request_api_key, header.request_api_version, header.correlation_id), (12, version, 9));
            assert_eq!(header.client_id.as_deref(), Some("some-client"));
            assert_eq!(HeartbeatRequest::decode(&mut frame, version).expect("a request"), wanted);
            assert!(frame.is_empty());
            assert_eq!(shape_of::<HeartbeatRequest>(version), Shape::of(12, version));
        }
    }

    #[test]
    fn counts_that_a_body_has_no_room_for_are_errors() {
        // Two billion topics of OffsetCommit in version 3 and in version 8; three brokers of Metadata where there is none.
        for wrong in [&[0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff][..], &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x07, 0]] {
            let version = if wrong.len() == 8 { 3 } else { 8 };
            let came = decode::<OffsetCommitRequest>(Bytes::copy_from_slice(wrong), version);
            assert!(matches!(came, Err(CallError::BadResponse(_))), "{came:?}");
        }
        let came = decode::<MetadataRequest>(Bytes::from_static(&[0, 0, 0, 0, 4, 0, 0, 0, 0]), 9);
        assert!(matches!(came, Err(CallError::BadResponse(_))), "{came:?}");
    }

    #[test]
    fn an_answer_to_another_request_and_lengths_that_cannot_be_are_errors() {
        let answer = |bytes: &[u8]| body_of_answer(BytesMut::from(bytes), 5, Shape::of(12, 4));
        assert_eq!(answer(&[0, 0, 0, 7, 0, 0, 0, 5, 0, 42, 43]).expect("an answer"), &[42, 43][..]);
        assert_eq!(answer(&[0, 0, 0, 8, 0, 0, 0, 5, 1, 3, 1, 9, 42]).expect("an answer"), &[42][..]);
        for wrong in [&[0, 0, 0, 5, 0, 0, 0, 6, 0][..], &[0, 0, 0, 4, 0, 0, 0, 5], &[0, 0, 0, 6, 0, 0, 0, 5, 1, 3]] {
            assert!(matches!(answer(wrong), Err(CallError::BadResponse(_))), "{wrong:?}");
        }
        for wrong in [-1, 0, 3, RESPONSE_BYTES_MAX as i32 + 1] {
            assert!(end_of_answer(&wrong.to_be_bytes(), Some(5)).is_err(), "{wrong}");
        }
        let head = [6i32.to_be_bytes(), 5i32.to_be_bytes()].concat();
        assert_eq!((end_of_answer(&head, None), end_of_answer(&head, Some(5))), (Ok(10), Ok(10)));
        assert_eq!(end_of_answer(&head[..4], Some(6)), Ok(10), "whose answer it is has not come yet");
        let another = end_of_answer(&head, Some(6)).expect_err("it answers request 5");
        assert_eq!(another.to_string(), "bad response: an answer to request 5, request 6 is next");
    }
}
