//! A client that writes frames by hand, for what no stock client would send, and to see codes and
//! versions exactly as they are on the wire. It blocks, one connection per value.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

use super::LIVENESS;

/// One connection.
pub struct Raw {
    stream: TcpStream,
    correlation_id: i32,
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect_timeout(&address, LIVENESS).expect("connect");
        stream.set_read_timeout(Some(LIVENESS)).expect("read timeout");
        stream.set_write_timeout(Some(LIVENESS)).expect("write timeout");
        stream.set_nodelay(true).expect("nodelay");
        Raw { stream, correlation_id: 100 }
    }

    /// This side's address, as the gateway logs it.
    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().expect("an address")
    }

    /// Sends one request and returns the correlation id of its response.
    pub fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        self.correlation_id += 1;
        let frame = frame(self.correlation_id, version, request);
        self.send_bytes(&frame);
        self.correlation_id
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("send");
    }

    /// As much of it as the gateway takes before it closes the connection.
    pub fn send_until_closed(&mut self, bytes: &[u8]) {
        // A failed write is what the caller expects; that it is closed shows in `assert_closed`.
        let _ = self.stream.write_all(bytes);
    }

    /// The next response, which must answer `correlation_id`.
    pub fn receive<R: Request>(&mut self, version: i16, correlation_id: i32) -> R::Response {
        let mut frame = self.receive_frame();
        assert_eq!(frame.get_i32(), correlation_id, "responses come in the order of their requests");
        if R::Response::header_version(version) >= 1 {
            assert_eq!(frame.get_u8(), 0, "no tagged fields in the response header");
        }
        let response = R::Response::decode(&mut frame, version).expect("decodable response");
        assert!(!frame.has_remaining(), "{} bytes behind the response", frame.remaining());
        response
    }

    /// Sends a request and waits for its response.
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let correlation_id = self.send(version, request);
        self.receive::<R>(version, correlation_id)
    }

    /// The next frame without its length.
    pub fn receive_frame(&mut self) -> Bytes {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("a response");
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
        self.stream.read_exact(&mut frame).expect("a whole response");
        frame.into()
    }

    /// Waits until something has arrived, which stays to be read.
    pub fn wait_for_bytes(&self) {
        assert!(self.stream.peek(&mut [0]).expect("a response") > 0, "the connection is closed");
    }

    /// Waits until the gateway closes the connection, which it must do without another word.
    pub fn assert_closed(&mut self) {
        match self.stream.read_exact(&mut [0]) {
            Ok(()) => panic!("an answer where the connection should close"),
            Err(error) => {
                let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                assert!(closed.contains(&error.kind()), "the connection stays open: {error}");
            }
        }
    }

    /// Whether a response is there or comes within a moment: for proving that something is parked.
    pub fn is_silent(&mut self, moment: Duration) -> bool {
        let end = Instant::now() + moment;
        // A test that was stopped for a while is interrupted when it goes on.
        let silent = loop {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left)).expect("read timeout");
            match self.stream.peek(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                Ok(_) => break false,
            }
        };
        self.stream.set_read_timeout(Some(LIVENESS)).expect("read timeout");
        silent
    }
}

/// A request frame, length included.
pub fn frame<R: Request>(correlation_id: i32, version: i16, request: &R) -> Bytes {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(string("raw")));
    let mut body = BytesMut::new();
    header.encode(&mut body, R::header_version(version)).expect("encodable header");
    request.encode(&mut body, version).expect("encodable request");
    let mut frame = BytesMut::with_capacity(body.len() + 4);
    frame.put_i32(body.len() as i32);
    frame.put_slice(&body);
    frame.freeze()
}

pub fn string(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub fn topic_name(text: &str) -> TopicName {
    TopicName(string(text))
}

/// Who writes a batch, for the checks of idempotent producers.
#[derive(Clone, Copy)]
pub struct Writer {
    pub producer_id: i64,
    pub epoch: i16,
    pub sequence: i32,
}

impl Writer {
    /// No idempotence.
    pub const NOBODY: Writer = Writer { producer_id: -1, epoch: -1, sequence: -1 };
}

/// One uncompressed batch of `values`, stamped `timestamp` and, each, one millisecond more.
pub fn batch(writer: Writer, timestamp: i64, values: &[&str]) -> Bytes {
    batch_with(Compression::None, writer, timestamp, values)
}

/// One batch of `values`, compressed by gzip.
pub fn compressed(values: &[&str]) -> Bytes {
    batch_with(Compression::Gzip, Writer::NOBODY, 1, values)
}

fn batch_with(compression: Compression, writer: Writer, timestamp: i64, values: &[&str]) -> Bytes {
    let records: Vec<Record> = (0..)
        .zip(values)
        .map(|(n, value)| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: writer.producer_id,
            producer_epoch: writer.epoch,
            timestamp_type: TimestampType::Creation,
            offset: n,
            // Also without idempotence: the encoder starts another batch where these do not count up.
            sequence: writer.sequence + n as i32,
            timestamp: timestamp + n,
            key: None,
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            headers: Default::default(),
        })
        .collect();
    let options = RecordEncodeOptions { version: 2, compression };
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, &records, &options).expect("encodable batch");
    bytes.freeze()
}
