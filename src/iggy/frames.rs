//! Frames of the Iggy protocol: a header of 256 bytes and a body, in both directions.

use bytemuck::checked::try_pod_read_unaligned;
use bytes::{BufMut, Bytes, BytesMut};
use iggy_binary_protocol::{
    Command, ConsensusHeader, EvictionHeader, EvictionReason, HEADER_SIZE, IGGY_PROTOCOL_VERSION,
    IGGY_PROTOCOL_VERSION_MIN, REJECTION_SECTION_LEN, ReplyHeader, RequestHeader, SIZE_FIELD_OFFSET,
    write_rejection_section,
};
use ringgate_shards::iggy_code::IggyCode;
use ringgate_wire::frame::Cutter;

/// What is wrong with a frame; the link cannot go on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The body is over the limit, which is also what other protocols' first bytes look like.
    #[error("a frame of {size} bytes is over max_frame_size = {most}")]
    TooLarge {
        /// As announced.
        size: u32,
        /// The limit of the body.
        most: usize,
    },
    /// It is smaller than a header.
    #[error("a frame of {size} bytes is smaller than its header")]
    TooShort {
        /// As announced.
        size: u32,
    },
    /// The header breaks a rule.
    #[error("the header of a frame is wrong: {0}")]
    Header(String),
}

/// Cuts what comes in into requests.
pub struct RequestReader {
    cutter: Cutter,
    most: usize,
}

/// A request as it was read.
#[derive(Debug, Clone)]
pub struct Request {
    /// Checked for form.
    pub header: RequestHeader,
    /// What follows.
    pub body: Bytes,
}

impl RequestReader {
    /// A reader of bodies of at most `most` bytes.
    pub fn new(most: usize) -> RequestReader {
        RequestReader { cutter: Cutter::default(), most }
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

    /// The next complete request.
    ///
    /// # Errors
    /// The stream has no next frame.
    #[expect(clippy::should_implement_trait, reason = "more bytes may follow a None")]
    pub fn next(&mut self) -> Result<Option<Request>, FrameError> {
        let most = self.most;
        let Some(frame) = self.cutter.next(HEADER_SIZE, |head| end_of(head, most))? else { return Ok(None) };
        let mut frame = frame.freeze();
        let head = frame.split_to(HEADER_SIZE);
        let header: RequestHeader =
            try_pod_read_unaligned(&head).map_err(|error| FrameError::Header(error.to_string()))?;
        header.validate().map_err(|error| FrameError::Header(error.to_string()))?;
        Ok(Some(Request { header, body: frame }))
    }
}

/// Where the frame that begins like this ends.
fn end_of(head: &[u8], most: usize) -> Result<usize, FrameError> {
    let size =
        head.get(SIZE_FIELD_OFFSET..).and_then(|bytes| bytes.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
    match usize::try_from(size) {
        Ok(bytes) if bytes < HEADER_SIZE => Err(FrameError::TooShort { size }),
        Ok(bytes) if bytes - HEADER_SIZE <= most => Ok(bytes),
        _ => Err(FrameError::TooLarge { size, most }),
    }
}

impl Request {
    /// The command's code where the header names no operation of its own.
    pub fn code(&self) -> u32 {
        u32::from_le_bytes(self.header.reserved)
    }
}

/// What a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What was asked for, in pieces that lie one behind the other.
    Read(Vec<Bytes>),
    /// It was carried out under this number; the body is as it goes out.
    Committed(u64, Bytes),
    /// It was refused before anything was done.
    Refused(IggyCode),
    /// The session does not exist, or cannot: the link ends.
    Evicted(Eviction),
    /// Nothing.
    Silent,
}

/// Why a link ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// There is no such session.
    NoSession,
    /// Name or password are wrong.
    InvalidCredentials,
    /// There is no such token: there are none.
    InvalidToken,
    /// The body of a sign-in cannot be read.
    MalformedLogin,
    /// The client speaks another version.
    IncompatibleProtocol,
}

impl Answer {
    /// A body in one piece.
    pub fn read(body: Bytes) -> Answer {
        Answer::Read(vec![body])
    }

    /// A change of metadata or an offset that was carried out.
    pub fn done(operation: u64, payload: &[u8]) -> Answer {
        Answer::Committed(operation, Answer::done_body(payload))
    }

    /// No error, then what the change came to.
    pub fn done_body(payload: &[u8]) -> Bytes {
        let mut body = BytesMut::with_capacity(4 + payload.len());
        body.put_u32_le(0);
        body.put_slice(payload);
        body.freeze()
    }

    /// Why a change of metadata or an offset was refused, for good.
    pub fn rejected_body(code: IggyCode) -> Bytes {
        let mut body = [0; REJECTION_SECTION_LEN];
        write_rejection_section(&mut body, code.0);
        Bytes::copy_from_slice(&body)
    }

    /// The frame that goes out; nothing where there is none.
    pub fn frame(self, request: &RequestHeader) -> Vec<Bytes> {
        let mut header = ReplyHeader {
            command: Command::Reply,
            request_checksum: request.request_checksum,
            client: request.client,
            request: request.request,
            operation: request.operation,
            partition_incarnation: request.partition_incarnation,
            ..ReplyHeader::default()
        };
        let body = match self {
            Answer::Silent => return Vec::new(),
            Answer::Evicted(why) => return vec![why.frame(request.client)],
            Answer::Refused(status) => {
                header.status = status.0;
                Vec::new()
            }
            Answer::Read(body) => body,
            Answer::Committed(operation, body) => {
                header.op = operation;
                header.commit = operation;
                header.reserved[0] = ReplyHeader::COMMITTED_RESULT;
                vec![body]
            }
        };
        let length: usize = body.iter().map(Bytes::len).sum();
        let Ok(size) = u32::try_from(HEADER_SIZE + length) else {
            // No reply is that large: what is read is bounded.
            header.status = IggyCode::TRANSIENT_NOT_ACCEPTED.0;
            header.size = HEADER_SIZE as u32;
            return vec![Bytes::copy_from_slice(bytemuck::bytes_of(&header))];
        };
        header.size = size;
        let mut frame = Vec::with_capacity(1 + body.len());
        frame.push(Bytes::copy_from_slice(bytemuck::bytes_of(&header)));
        frame.extend(body.into_iter().filter(|piece| !piece.is_empty()));
        frame
    }
}

impl Eviction {
    /// For the log.
    pub fn reason(self) -> &'static str {
        match self {
            Eviction::NoSession => "a request of no session",
            Eviction::InvalidCredentials => "wrong name or password",
            Eviction::InvalidToken => "a personal access token, which there are none of",
            Eviction::MalformedLogin => "a sign-in that cannot be read",
            Eviction::IncompatibleProtocol => "a sign-in of another version of the protocol",
        }
    }

    fn frame(self, client: u128) -> Bytes {
        let reason = match self {
            Eviction::NoSession => EvictionReason::NoSession,
            Eviction::InvalidCredentials => EvictionReason::InvalidCredentials,
            Eviction::InvalidToken => EvictionReason::InvalidToken,
            Eviction::MalformedLogin => EvictionReason::MalformedLogin,
            Eviction::IncompatibleProtocol => {
                let (newest, oldest) = (IGGY_PROTOCOL_VERSION, IGGY_PROTOCOL_VERSION_MIN);
                let header = EvictionHeader::incompatible_protocol(0, 0, 0, client, newest, oldest);
                return Bytes::copy_from_slice(bytemuck::bytes_of(&header));
            }
        };
        Bytes::copy_from_slice(bytemuck::bytes_of(&EvictionHeader::new(0, 0, 0, client, reason)))
    }
}

#[cfg(test)]
mod tests {
    use iggy_binary_protocol::Operation;

    use super::*;

    fn request(body: &[u8]) -> Vec<u8> {
        let header = RequestHeader {
            size: (HEADER_SIZE + body.len()) as u32,
            command: Command::Request,
            client: 7,
            request: 3,
            session: 9,
            operation: Operation::SendMessages,
            partition_incarnation: 5,
            ..RequestHeader::default()
        };
        [bytemuck::bytes_of(&header), body].concat()
    }

    fn read(bytes: &[u8]) -> Result<Option<Request>, FrameError> {
        let mut reader = RequestReader::new(1_000);
        reader.push(BytesMut::from(bytes));
        reader.next()
    }

    #[test]
    fn requests_come_out_as_they_went_in_however_they_were_cut() {
        let stream = [request(b"first"), request(b""), request(&[1; 1_000])].concat();
        for cut in [1, 48, 255, 256, 300, stream.len()] {
            let mut reader = RequestReader::new(1_000);
            let mut bodies = Vec::new();
            for piece in stream.chunks(cut) {
                reader.push(BytesMut::from(piece));
                while let Some(request) = reader.next().unwrap() {
                    bodies.push(request.body.to_vec());
                }
            }
            assert_eq!(bodies, [b"first".to_vec(), Vec::new(), vec![1; 1_000]]);
            assert!(!reader.is_partial());
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused_before_anything_is_allocated() {
        let sized = |size: u32| {
            let mut bytes = request(b"");
            bytes[SIZE_FIELD_OFFSET..SIZE_FIELD_OFFSET + 4].copy_from_slice(&size.to_le_bytes());
            read(&bytes)
        };
        assert_eq!(sized(255).unwrap_err(), FrameError::TooShort { size: 255 });
        assert_eq!(sized(1_257).unwrap_err(), FrameError::TooLarge { size: 1_257, most: 1_000 });
        assert!(sized(u32::MAX).is_err() && sized(0).is_err());
        assert!(sized(1_256).unwrap().is_none());
    }

    #[test]
    fn a_header_that_breaks_a_rule_is_refused() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = request(b"");
            bytes[at] = byte;
            read(&bytes)
        };
        assert!(changed(0, 0).unwrap().is_some());
        // Command, operation, client.
        for (at, byte) in [(60, 8), (60, 200), (176, 0), (176, 99), (128, 0)] {
            assert!(matches!(changed(at, byte), Err(FrameError::Header(_))), "byte {at} = {byte}");
        }
    }

    #[test]
    fn an_answer_repeats_what_pairs_it_with_its_request() {
        let asked = read(&request(b"")).unwrap().unwrap().header;
        let frame = Answer::done(12, b"made").frame(&asked).concat();
        let reply: ReplyHeader = try_pod_read_unaligned(&frame[..HEADER_SIZE]).unwrap();
        assert_eq!((reply.client, reply.request, reply.partition_incarnation), (7, 3, 5));
        assert_eq!((reply.op, reply.commit, reply.status), (12, 12, 0));
        assert!(reply.has_committed_result());
        assert_eq!(&frame[HEADER_SIZE..], [&[0; 4], &b"made"[..]].concat());
        assert_eq!(reply.size as usize, frame.len());
        let refused = Answer::Refused(IggyCode::UNAUTHENTICATED).frame(&asked).concat();
        let reply: ReplyHeader = try_pod_read_unaligned(&refused).unwrap();
        assert_eq!((reply.status, reply.has_committed_result()), (40, false));
        assert_eq!(Answer::Silent.frame(&asked), Vec::<Bytes>::new());
    }
}
