//! Request frames: a 4-byte length, then a header and a body.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;

use crate::limits::MIN_FRAME_SIZE;

/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;

/// What is wrong with a frame; the connection cannot go on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The length is over the limit, which is also what other protocols' first bytes look like.
    #[error("a frame of {size} bytes is over max_frame_size = {most}{hint}")]
    TooLarge {
        /// As announced.
        size: u32,
        /// The limit.
        most: usize,
        /// What the bytes look like.
        hint: &'static str,
    },
    /// Too short for a header.
    #[error("a frame of {size} bytes is too short for a request header")]
    TooShort {
        /// As announced.
        size: i32,
    },
    /// The header's client id or tags do not fit the frame.
    #[error("request header of API {api_key} version {api_version}: {field} does not fit the frame")]
    Header {
        /// The API's number.
        api_key: i16,
        /// Its version.
        api_version: i16,
        /// Which part.
        field: &'static str,
    },
}

/// Cuts a stream of bytes into Kafka's frames: see [`Cutter`].
///
/// `push` what was read, then call `next` until it says `None`.
pub struct FrameReader {
    cutter: Cutter,
    most: usize,
}

impl FrameReader {
    /// A reader of frames of at most `most` bytes.
    pub fn new(most: usize) -> FrameReader {
        FrameReader { cutter: Cutter::default(), most }
    }

    /// Takes in what was read.
    pub fn push(&mut self, bytes: BytesMut) {
        self.cutter.push(bytes);
    }

    /// Whether bytes of a frame are here that is not complete.
    pub fn is_partial(&self) -> bool {
        self.cutter.held() > 0
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.cutter.held()
    }

    /// The next complete frame, without its length.
    ///
    /// # Errors
    /// The length is out of range. It stays so: the stream has no next frame.
    #[expect(clippy::should_implement_trait, reason = "more bytes may follow a None")]
    pub fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        let most = self.most;
        Ok(self.cutter.next(LENGTH_BYTES, |head| end_of(head, most))?.map(without_length))
    }
}

/// Where the frame that begins like this ends.
fn end_of(head: &[u8], most: usize) -> Result<usize, FrameError> {
    let Some(length) = head.first_chunk::<LENGTH_BYTES>() else {
        return Err(FrameError::TooShort { size: head.len() as i32 });
    };
    let size = i32::from_be_bytes(*length);
    let hint = hint(head);
    match usize::try_from(size) {
        Ok(bytes) if bytes < MIN_FRAME_SIZE => Err(FrameError::TooShort { size }),
        Ok(bytes) if bytes <= most => Ok(LENGTH_BYTES + bytes),
        Err(_) if hint.is_empty() => Err(FrameError::TooShort { size }),
        _ => Err(FrameError::TooLarge { size: size as u32, most, hint }),
    }
}

/// Cuts a stream of bytes into frames of whatever protocol. A frame that arrived in one piece is a slice of it.
/// One that goes on in the next piece is gathered in a buffer of its own, which grows with the bytes that arrive,
/// never by the announced length; so a frame that is slow to come does not keep the block that its first bytes
/// lie in.
#[derive(Default)]
pub struct Cutter {
    /// A frame that began in an earlier piece.
    partial: BytesMut,
    /// What is left of the last piece.
    piece: BytesMut,
}

impl Cutter {
    /// Takes in what was read.
    pub fn push(&mut self, bytes: BytesMut) {
        if self.piece.is_empty() {
            self.piece = bytes;
        } else {
            self.piece.extend_from_slice(&bytes);
        }
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.partial.len() + self.piece.len()
    }

    /// The next complete frame, whole. `end_of` says from its bytes, of which the first `head_bytes` are there at
    /// the least, how long the frame is, and never less than `head_bytes`.
    ///
    /// # Errors
    /// Those of `end_of`.
    pub fn next<E>(
        &mut self,
        head_bytes: usize,
        end_of: impl Fn(&[u8]) -> Result<usize, E>,
    ) -> Result<Option<BytesMut>, E> {
        if self.partial.is_empty() {
            if self.piece.len() >= head_bytes {
                let end = end_of(&self.piece)?;
                if end <= self.piece.len() {
                    let frame = self.piece.split_to(end);
                    if self.piece.is_empty() {
                        // Nothing is kept of the block.
                        self.piece = BytesMut::new();
                    }
                    return Ok(Some(frame));
                }
            }
            self.gather(usize::MAX);
            return Ok(None);
        }
        self.gather(head_bytes.saturating_sub(self.partial.len()));
        if self.partial.len() < head_bytes {
            return Ok(None);
        }
        let end = end_of(&self.partial)?;
        let missing = end.saturating_sub(self.partial.len());
        self.grow_by(missing.min(self.piece.len()), end);
        self.gather(missing);
        if self.partial.len() < end {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.partial)))
    }

    /// Makes room for so many more bytes of a frame that ends there: for twice as many as before, and for none behind
    /// its end.
    fn grow_by(&mut self, bytes: usize, end: usize) {
        let needed = self.partial.len() + bytes;
        if needed > self.partial.capacity() {
            let mut larger = BytesMut::with_capacity((2 * self.partial.capacity()).min(end).max(needed));
            larger.extend_from_slice(&self.partial);
            self.partial = larger;
        }
    }

    /// Moves up to `bytes` of the piece to the partial frame.
    fn gather(&mut self, bytes: usize) {
        let taken = self.piece.split_to(self.piece.len().min(bytes));
        if self.piece.is_empty() {
            self.piece = BytesMut::new();
        }
        self.partial.extend_from_slice(&taken);
    }
}

fn without_length(frame: BytesMut) -> Bytes {
    let mut frame = frame.freeze();
    frame.advance(LENGTH_BYTES);
    frame
}

fn hint(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x16, 0x03, ..] => " (a TLS ClientHello? this listener speaks plaintext)",
        [b'G', b'E', b'T', ..]
        | [b'P', b'O', b'S', b'T', ..]
        | [b'H', b'E', b'A', b'D', ..]
        | [b'P', b'U', b'T', ..] => " (an HTTP request? this port speaks Kafka's protocol)",
        [b'S', b'S', b'H', ..] => " (an SSH client? this port speaks Kafka's protocol)",
        _ => "",
    }
}

/// A request's header, and the body behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// Kafka's number of the API.
    pub api_key: i16,
    /// The version of the request.
    pub api_version: i16,
    /// Goes back with the response.
    pub correlation_id: i32,
    /// The client's name for itself. What is not UTF-8 is replaced.
    pub client_id: Option<String>,
    /// What follows.
    pub body: Bytes,
}

impl RequestHeader {
    /// Reads a frame's header. For an API or version that is not known the header is taken to be flexible
    /// only for ApiVersions from version 3, whose answer must not depend on the rest.
    pub fn decode(mut frame: Bytes) -> Result<RequestHeader, FrameError> {
        if frame.len() < MIN_FRAME_SIZE {
            return Err(FrameError::TooShort { size: frame.len() as i32 });
        }
        let api_key = frame.get_i16();
        let api_version = frame.get_i16();
        let correlation_id = frame.get_i32();
        let failed = |field| FrameError::Header { api_key, api_version, field };
        let client_id = match frame.try_get_i16() {
            Err(_) => return Err(failed("client_id")),
            Ok(-1) => None,
            Ok(length) => {
                let length = usize::try_from(length).map_err(|_| failed("client_id"))?;
                if length > frame.len() {
                    return Err(failed("client_id"));
                }
                Some(String::from_utf8_lossy(&frame.split_to(length)).into_owned())
            }
        };
        let flexible =
            ApiKey::try_from(api_key).is_ok_and(|key| api_version >= 0 && key.request_header_version(api_version) >= 2);
        if flexible {
            skip_tags(&mut frame).ok_or_else(|| failed("tagged fields"))?;
        }
        Ok(RequestHeader { api_key, api_version, correlation_id, client_id, body: frame })
    }
}

/// Skips the tagged fields at the end of a header; `None` when they go on behind its end.
pub fn skip_tags(bytes: &mut Bytes) -> Option<()> {
    for _ in 0..uvarint(bytes)? {
        uvarint(bytes)?;
        let size = uvarint(bytes)? as usize;
        if size > bytes.len() {
            return None;
        }
        bytes.advance(size);
    }
    Some(())
}

/// An unsigned varint of at most 5 bytes, as Kafka writes lengths and tags.
pub(crate) fn uvarint(bytes: &mut impl Buf) -> Option<u32> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = bytes.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn a_frame_in_one_piece_is_not_copied() {
        let mut reader = FrameReader::new(100);
        let bytes = BytesMut::from(&framed(b"12345678")[..]);
        let at = bytes.as_ptr() as usize;
        reader.push(bytes);
        let frame = reader.next().unwrap().unwrap();
        assert_eq!((&frame[..], frame.as_ptr() as usize), (&b"12345678"[..], at + 4));
        assert!(!reader.is_partial());
    }

    #[test]
    fn of_a_frame_that_was_cut_only_its_own_bytes_are_copied() {
        let stream = [framed(b"first frame"), framed(b"second frame")].concat();
        for cut in 1..15 {
            let mut reader = FrameReader::new(100);
            reader.push(BytesMut::from(&stream[..cut]));
            assert_eq!((reader.next(), reader.held()), (Ok(None), cut));
            let rest = BytesMut::from(&stream[cut..]);
            let at = rest.as_ptr() as usize;
            reader.push(rest);
            assert_eq!(reader.next().unwrap().unwrap(), &b"first frame"[..]);
            let second = reader.next().unwrap().unwrap();
            assert_eq!((&second[..], second.as_ptr() as usize), (&b"second frame"[..], at + 19 - cut));
            assert!(!reader.is_partial());
        }
    }

    #[test]
    fn memory_grows_with_the_bytes_that_arrive() {
        let ((), peak) = crate::peak::of(|| {
            let mut reader = FrameReader::new(100 << 20);
            reader.push(BytesMut::from(&(100i32 << 20).to_be_bytes()[..]));
            for _ in 0..100 {
                assert_eq!(reader.next(), Ok(None));
                reader.push(BytesMut::from(&[0; 1000][..]));
            }
            assert_eq!(reader.held(), 100_004);
        });
        assert!(peak < 400_000, "{peak}");
    }

    #[test]
    fn a_frame_that_comes_in_pieces_takes_no_room_behind_its_end() {
        const SIZE: usize = 3 << 20;
        let ((), peak) = crate::peak::of(|| {
            let mut reader = FrameReader::new(SIZE);
            reader.push(BytesMut::from(&(SIZE as i32).to_be_bytes()[..]));
            for _ in 0..SIZE / 1024 {
                assert_eq!(reader.next(), Ok(None));
                reader.push(BytesMut::from(&[7; 1024][..]));
            }
            assert_eq!(reader.next().unwrap().unwrap(), vec![7; SIZE]);
        });
        // While it moves to the last buffer it is there twice, the first time up to 2 MiB; then beside what it is
        // compared with.
        assert!(peak < 2 * SIZE + (SIZE >> 3), "{peak}");
    }

    #[test]
    fn lengths_out_of_range_are_refused_before_anything_is_allocated() {
        let refused = |bytes: &[u8]| {
            let mut reader = FrameReader::new(1000);
            reader.push(BytesMut::from(bytes));
            reader.next().unwrap_err()
        };
        assert_eq!(refused(&[0, 0, 0, 0]), FrameError::TooShort { size: 0 });
        assert_eq!(refused(&[0, 0, 0, 7]), FrameError::TooShort { size: 7 });
        assert_eq!(refused(&[0xff; 4]), FrameError::TooShort { size: -1 });
        assert!(matches!(refused(&[0, 0, 3, 0xe9]), FrameError::TooLarge { size: 1001, most: 1000, hint: "" }));
        assert!(refused(&[0x16, 3, 1, 2, 0]).to_string().contains("TLS"));
        assert!(refused(b"GET / HTTP/1.1").to_string().contains("HTTP"));
        assert!(refused(b"SSH-2.0").to_string().contains("SSH"));
    }

    #[test]
    fn a_header_that_does_not_fit_its_frame_is_refused() {
        let header = |bytes: &[u8]| RequestHeader::decode(Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(matches!(header(&[0; 7]), FrameError::TooShort { size: 7 }));
        for client_id in [&[0x7f, 0xff, b'a'][..], &[0xff, 0xfe], &[0]] {
            let bytes = [&[0, 3, 0, 1, 0, 0, 0, 9][..], client_id].concat();
            assert!(matches!(header(&bytes), FrameError::Header { field: "client_id", .. }));
        }
        let tags = [0, 3, 0, 9, 0, 0, 0, 9, 0xff, 0xff, 1, 200, 1, 4, 1];
        assert!(matches!(header(&tags), FrameError::Header { field: "tagged fields", .. }));
    }

    #[test]
    fn tags_of_a_flexible_header_are_skipped() {
        let bytes = [0, 3, 0, 9, 0, 0, 0, 9, 0, 1, b'c', 1, 200, 1, 3, 1, 2, 3, 42];
        let header = RequestHeader::decode(Bytes::copy_from_slice(&bytes)).unwrap();
        assert_eq!((header.api_key, header.api_version, header.correlation_id), (3, 9, 9));
        assert_eq!((header.client_id.as_deref(), &header.body[..]), (Some("c"), &[42][..]));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_were_cut(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 8..200), 1..10),
            cuts in prop::collection::vec(1usize..50, 1..200),
        ) {
            let stream: Vec<u8> = frames.iter().flat_map(|f| framed(f)).collect();
            let (mut reader, mut seen, mut at) = (FrameReader::new(1000), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(stream.len());
                reader.push(BytesMut::from(&stream[at..end]));
                at = end;
                while let Some(frame) = reader.next().unwrap() {
                    seen.push(frame.to_vec());
                }
                if at == stream.len() {
                    break;
                }
            }
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn no_header_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = RequestHeader::decode(Bytes::from(bytes));
        }
    }
}
