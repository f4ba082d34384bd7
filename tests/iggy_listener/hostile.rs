//! What no SDK would send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use iggy_binary_protocol::codes::{BIND_SESSION_CODE, GET_ME_CODE};
use iggy_binary_protocol::dispatch::COMMAND_TABLE;
use iggy_binary_protocol::requests::users::LoginRegisterRequest;
use iggy_binary_protocol::requests::users::login_register::BindSecret;
use iggy_binary_protocol::{
    ClientVersionInfo, Command, HEADER_SIZE, IGGY_PROTOCOL_VERSION, Operation, ReplyHeader, RequestHeader, WireEncode,
    WireName,
};

use crate::common::LIVENESS;
use crate::common::gateway::{Gateway, IGGY_PASSWORD, Options};

/// A link whose frames are written by hand.
struct Raw {
    stream: TcpStream,
    session: u64,
    request: u64,
}

impl Raw {
    fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(LIVENESS)).expect("a timeout");
        Raw { stream, session: 0, request: 0 }
    }

    fn signed_in(address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address);
        let name = |text: &str| WireName::new(text).expect("a name");
        let version_info = ClientVersionInfo {
            protocol_version: IGGY_PROTOCOL_VERSION,
            sdk_name: name("tests"),
            sdk_version: name("1"),
        };
        let login = LoginRegisterRequest {
            version_info,
            bind_secret: BindSecret::new(Box::new([7; 32])),
            username: name("iggy"),
            password: IGGY_PASSWORD.to_string().into(),
            client_context: None,
        };
        let (reply, body) = raw.ask(Operation::Register, 0, &login.to_bytes()).expect("a reply");
        assert_eq!(reply.status, 0);
        raw.session = u64::from_le_bytes(body[8..16].try_into().expect("8 bytes"));
        raw.request = 1;
        raw
    }

    /// The reply, or `None` when the link was closed instead.
    fn ask(&mut self, operation: Operation, code: u32, body: &[u8]) -> Option<(ReplyHeader, Vec<u8>)> {
        let header = RequestHeader {
            size: (HEADER_SIZE + body.len()) as u32,
            command: Command::Request,
            client: 77,
            request: self.request,
            session: self.session,
            operation,
            reserved: code.to_le_bytes(),
            ..RequestHeader::default()
        };
        self.request += 1;
        self.write(&[bytemuck::bytes_of(&header), body].concat());
        let mut head = [0; HEADER_SIZE];
        self.stream.read_exact(&mut head).ok()?;
        let reply: ReplyHeader = bytemuck::checked::try_pod_read_unaligned(&head).expect("a reply");
        assert_eq!((reply.command, reply.request), (Command::Reply, header.request));
        let mut body = vec![0; reply.size as usize - HEADER_SIZE];
        self.stream.read_exact(&mut body).ok()?;
        Some((reply, body))
    }

    fn write(&mut self, bytes: &[u8]) {
        // It may have been closed already.
        let _ = self.stream.write_all(bytes);
    }

    /// Waits until the gateway closes the link.
    fn until_closed(&mut self) {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            // Closed over bytes that it has not read.
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the link is not closed");
        }
    }
}

#[tokio::test]
async fn bodies_that_make_no_sense_are_refused_and_the_link_goes_on() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let mut raw = Raw::signed_in(gateway.iggy());
    let bodies: [&[u8]; 6] = [&[], &[0], &[0xff; 7], &[0xff; 300], &[1, 4, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0], &[2; 90]];
    let (mut refused, mut asked) = (0, 0);
    for command in COMMAND_TABLE {
        let (operation, code) = match command.operation {
            // A sign-in that cannot be read, and a logout that can, end the session.
            Some(Operation::Register | Operation::Logout) => continue,
            Some(operation) => (operation, 0),
            // To bind a link for a client of another version ends it, and a cancel has no answer.
            None if command.code == BIND_SESSION_CODE => continue,
            None if ["user.login", "user.logout", "user.login_register"].contains(&command.name) => continue,
            None if command.name.contains("cancel") => continue,
            None => (Operation::NonReplicated, command.code),
        };
        for body in bodies {
            let (reply, _) = raw.ask(operation, code, body).unwrap_or_else(|| panic!("closed at {}", command.name));
            asked += 1;
            refused += usize::from(reply.status != 0);
        }
    }
    assert!(refused > asked / 2, "{refused} of {asked}");
    assert_eq!(raw.ask(Operation::NonReplicated, 987_654, &[]).expect("a reply").0.status, 3, "no such command");
    assert_eq!(raw.ask(Operation::NonReplicated, 1, &[]).expect("a reply").0.status, 0, "ping");
    assert!(!gateway.written().contains("panic"), "{}", gateway.written());
}

#[tokio::test]
async fn bytes_of_other_protocols_and_frames_out_of_bounds_close_the_link() {
    let mut gateway = Gateway::start(Options::new(2).iggy());
    let sized = |size: u32| {
        let header = RequestHeader { size, command: Command::Request, client: 7, ..RequestHeader::default() };
        bytemuck::bytes_of(&header).to_vec()
    };
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(9),
        vec![0x16; 300],
        vec![0; 256],
        sized(0),
        sized(255),
        sized(u32::MAX),
        sized((100 << 20) + 257),
    ] {
        let mut raw = Raw::connect(gateway.iggy());
        raw.write(&bytes);
        raw.until_closed();
    }
    assert!(gateway.is_alive());
    Raw::signed_in(gateway.iggy());
}

#[tokio::test]
async fn a_frame_that_does_not_come_whole_is_not_waited_for_for_ever() {
    let gateway = Gateway::start(Options::new(1).iggy().set("frame-timeout", "300ms"));
    let mut raw = Raw::connect(gateway.iggy());
    raw.write(&[1; 100]);
    raw.until_closed();
    gateway.until_logged(&["connection closed", "frame_timeout"]);
}

#[tokio::test]
async fn a_request_of_another_session_ends_the_link() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let mut raw = Raw::signed_in(gateway.iggy());
    raw.session += 1;
    let header = RequestHeader {
        size: HEADER_SIZE as u32,
        command: Command::Request,
        client: 77,
        request: 9,
        session: raw.session,
        operation: Operation::CreateStream,
        ..RequestHeader::default()
    };
    raw.write(bytemuck::bytes_of(&header));
    let mut evicted = [0; HEADER_SIZE];
    raw.stream.read_exact(&mut evicted).expect("an eviction");
    assert_eq!((evicted[60], evicted[255]), (Command::Eviction as u8, 1), "no such session");
    raw.until_closed();
}

#[tokio::test]
async fn a_session_that_one_link_has_ended_is_over_on_the_others() {
    let gateway = Gateway::start(Options::new(2).iggy());
    // It is the same attempt to sign in, and so the same session.
    let [mut one, mut other] = [0, 1].map(|_| Raw::signed_in(gateway.iggy()));
    assert_eq!(one.session, other.session);
    assert_eq!(one.ask(Operation::NonReplicated, GET_ME_CODE, &[]).expect("a reply").0.status, 0);
    assert_eq!(other.ask(Operation::Logout, 0, &[]).expect("a reply").0.status, 0);
    assert_eq!(one.ask(Operation::NonReplicated, GET_ME_CODE, &[]).expect("a reply").0.status, 40, "not signed in");
}
